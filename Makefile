# make test         everything that must hold, on a fresh machine
# make demo         the product at work: no key, no network, in under a minute
# make bench        the table of benchmarks, with ratios
# make demo-svg     docs/demo.svg, recorded again
# make test-clients whole conversations in Codex and opencode, which take a gigabyte
# make page         the page of `prowess serve` in Chromium, in every view
# make test-skills  one project with prowess and the installer `skills`, from npm, in turn
# make serve-clients  the server with clients of AG-UI and OpenAI, an OpenID Connect issuer, and requests that schemathesis makes up
# make workflows    whole work flows with skills of strangers, in WILD_SKILLS=DIRECTORY
# make cluster-chaos  many processes of the server while everything fails that can fail; cluster-smoke is short
# make cluster-simulation  a server with 100,000 open threads, measured on one PostgreSQL; cluster-simulation-smoke is short
# make cluster-rolling  an old version replaced by this one, under load
# make manifests    the files of examples/cluster, checked
# make pgbouncer    the store and the queue through a transaction pooler
# make small-window a conversation with thousands of skills, in SKILLS=DIRECTORY, in a window of 16,000 tokens

CARGO ?= cargo
PROWESS = $(or $(CARGO_TARGET_DIR),target)/debug/prowess

.PHONY: test demo demo-svg components linker fmt clippy unit doc fuzz shuttle dependencies examples install-check mcp models s3 serve-clients skills-smoke test-clients test-skills workflows small-window page page-check page-smoke page-tools

test: components fmt clippy unit models mcp skills-smoke page-check page-smoke manifests doc fuzz shuttle dependencies examples install-check demo
	@echo "make test: all passed"

# What the checks run on. What is missing is installed where that is possible, else it is an error.
components: linker
	@$(CARGO) --version
	@$(CARGO) fmt --version >/dev/null 2>&1 || rustup component add rustfmt || { echo "rustfmt is missing: rustup component add rustfmt, or apt-get install rustfmt" >&2; exit 1; }
	@$(CARGO) clippy --version >/dev/null 2>&1 || rustup component add clippy || { echo "clippy is missing: rustup component add clippy, or apt-get install rust-clippy" >&2; exit 1; }
	@$(call install,python3)
	@$(call install,bash)
	@$(call install,git)
	@$(call install,bwrap,bubblewrap)
	@$(call install,setpriv,util-linux)
	@$(call install,socat)
	@$(call install,zsh)
	@$(call install,fish)
	@$(call install,systemd-analyze,systemd)
	@$(call install,curl)
	@$(call install,jq)

linker:
	@command -v $(CARGO) >/dev/null || { echo "a Rust toolchain is missing: 1.95 or later" >&2; exit 1; }
	@command -v cc >/dev/null || $(call install,gcc)

# Installs the Debian package of a command, as root, named after it or by the second word; else says what to
# install.
install = command -v $(1) >/dev/null || $(call fetch,$(or $(2),$(1))) || { echo "$(1) is missing: apt-get install $(or $(2),$(1))" >&2; exit 1; }

# Installs a Debian package, as root.
fetch = { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -q && apt-get install -qy $(1); }

fmt:
	$(CARGO) fmt --all --check

clippy:
	$(CARGO) clippy --workspace --all-targets --all-features --locked -- -D warnings
	$(CARGO) clippy -p prowess-base -p prowess-catalog -p prowess-backend -p prowess-permission -p prowess-skills -p prowess-workspace -p prowess-agent -p prowess-mcp -p prowess-models -p prowess-store -p prowess-install -p prowess-serve --locked -- -D warnings

# The modules whose every test needs a container engine. Other tests leave out what they have of it by themselves.
CONTAINER_TESTS = $(addprefix container::,hostile:: refusals:: runtime:: skills:: suite::)

# A container engine and a PostgreSQL run while the tests do, and stop whatever became of them.
unit:
	@engine=$$(scripts/test-engine.sh start) || exit 1; trap 'scripts/test-engine.sh stop; scripts/test-postgres.sh stop' EXIT; \
	database=$$(scripts/test-postgres.sh start) || exit 1; eval "$$engine"; eval "$$database"; \
	waived=; if [ "$$PROWESS_WAIVE_CONTAINERS" = 1 ]; then \
	  echo "without the tests of containers: $(CONTAINER_TESTS)" >&2; \
	  waived="-- $(CONTAINER_TESTS:%=--skip %)"; fi; \
	if $(CARGO) nextest --version >/dev/null 2>&1; then \
	  $(CARGO) nextest run --workspace --all-features --locked --no-fail-fast $$waived; \
	else \
	  $(CARGO) test --workspace --all-features --locked --lib --bins --tests --no-fail-fast $$waived; \
	fi
	$(CARGO) test --workspace --all-features --locked --doc

# The providers against a server that others wrote: aimock, from npm, started on this machine. It takes 12 MB below
# target/; where there is no Node.js of 20.15 or later, that comes from PyPI with another 200 MB.
models: components
	@python3 -c 'import ensurepip, venv' 2>/dev/null || { test "$$(id -u)" = 0 && apt-get update -q && apt-get install -qy python3-venv; } || { echo "python3 cannot make virtual environments: apt-get install python3-venv" >&2; exit 1; }
	$(CARGO) test --locked -p prowess-models --all-features --test it --no-run
	sh crates/models/tests/aimock.sh $(or $(CARGO_TARGET_DIR),target)/aimock \
	  timeout 300 $(CARGO) test --locked -p prowess-models --all-features --test it -- --ignored third_party

# Tests the server with clients of other people: one on the official Python SDK, in each revision of the protocol, and the
# command line of the MCP Inspector. Tests the client with a server on that SDK that lies. They take 75 MB and 300 MB below
# target/.
mcp: components
	@python3 -c 'import ensurepip, venv' 2>/dev/null || { test "$$(id -u)" = 0 && apt-get update -q && apt-get install -qy python3-venv; } || { echo "python3 cannot make virtual environments: apt-get install python3-venv" >&2; exit 1; }
	$(CARGO) build --locked -p prowess
	sh crates/mcp/tests/sdk.sh $(or $(CARGO_TARGET_DIR),target)/python-sdk $(abspath $(PROWESS))
	sh crates/mcp/tests/inspector.sh $(or $(CARGO_TARGET_DIR),target)/inspector $(abspath $(PROWESS))
	$(CARGO) test --locked -p prowess-mcp --all-features --test client --no-run
	PROWESS_MCP_PYTHON=$(abspath $(or $(CARGO_TARGET_DIR),target))/python-sdk/venv/bin/python \
	  timeout 600 $(CARGO) test --locked -p prowess-mcp --all-features --test client -- --ignored

# Installs skills with prowess and with `skills`, the installer that most people use, in turn on one project. It takes 190 MB
# below target/, for Node.js 22 and `skills` from npm. `make test` does the shortest part.
test-skills: components
	$(CARGO) build --locked -p prowess
	sh crates/install/tests/skills.sh $(or $(CARGO_TARGET_DIR),target)/skills $(abspath $(PROWESS))

skills-smoke: components
	$(CARGO) build --locked -p prowess
	sh crates/install/tests/skills.sh $(or $(CARGO_TARGET_DIR),target)/skills $(abspath $(PROWESS)) smoke

# Checks that the built page is that of its sources, byte for byte, and runs its unit tests. It takes 280 MB below target/,
# for Node.js 22 and the packages from npm.
page-check: components
	sh crates/serve/page/check.sh $(or $(CARGO_TARGET_DIR),target)/page

# The page of `prowess serve` in Chromium, with a scripted model on this machine: every view, and hostile texts. `make test`
# has one conversation only.
page: page-tools
	sh crates/serve/page/e2e/real.sh $(or $(CARGO_TARGET_DIR),target)/page $(abspath $(PROWESS))

page-smoke: page-tools
	sh crates/serve/page/e2e/real.sh $(or $(CARGO_TARGET_DIR),target)/page $(abspath $(PROWESS)) "a conversation from beginning to end"

page-tools: components
	@$(call install,chromium)
	$(CARGO) build --locked -p prowess

# Tests the server in two MCP clients that people use, each with a scripted model on this machine. `make test` leaves it
# out because it takes 800 MB below target/.
test-clients: components
	$(CARGO) build --locked -p prowess
	sh crates/mcp/tests/clients/clients.sh $(or $(CARGO_TARGET_DIR),target)/clients $(abspath $(PROWESS))

# Tests `prowess serve` with programs that other people wrote: @ag-ui/client, openai for Node and for Python, the proxies Caddy
# and nginx, the OpenID Connect issuer oidc-provider in Chromium, and schemathesis on /openapi.json. It takes 300 MB below
# target/, and three minutes, two of them for schemathesis.
serve-clients: components
	@PATH="$$PATH:/usr/sbin"; $(call install,caddy); $(call install,nginx,nginx-light); $(call install,openssl)
	@python3 -c 'import ensurepip, venv' 2>/dev/null || { test "$$(id -u)" = 0 && apt-get update -q && apt-get install -qy python3-venv; } || { echo "python3 cannot make virtual environments: apt-get install python3-venv" >&2; exit 1; }
	@$(call install,chromium)
	$(CARGO) build --locked -p prowess --features oidc
	sh crates/serve/tests/clients.sh $(or $(CARGO_TARGET_DIR),target)/serve-clients $(abspath $(PROWESS))

# Whole work flows in a chat with skills that strangers wrote. They are not part of this project:
# make workflows WILD_SKILLS=DIRECTORY
workflows: components
	@test -d "$(WILD_SKILLS)" || { echo "name a directory of skills: make workflows WILD_SKILLS=DIRECTORY" >&2; exit 1; }
	@/usr/bin/python3 -c 'import yaml' 2>/dev/null || $(call fetch,python3-yaml) || { echo "PyYAML is missing: apt-get install python3-yaml" >&2; exit 1; }
	@$(call install,chromium-headless-shell)
	@engine=$$(scripts/test-engine.sh start) || exit 1; trap 'scripts/test-engine.sh stop' EXIT; eval "$$engine"; \
	PROWESS_WILD_SKILLS=$(abspath $(WILD_SKILLS)) \
	  $(CARGO) nextest run -p prowess --all-features --locked --no-fail-fast --run-ignored all -E 'test(chat::workflows)'

# The figures of a conversation with the skills of a directory: make small-window SKILLS=DIRECTORY
small-window: components
	@test -d "$(SKILLS)" || { echo "name a directory of skills: make small-window SKILLS=DIRECTORY" >&2; exit 1; }
	PROWESS_MANY_SKILLS=$(abspath $(SKILLS)) \
	  $(CARGO) nextest run -p prowess --all-features --locked --run-ignored only --no-capture -E 'test(chat::small_window)'

doc:
	python3 scripts/check-examples.py
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --all-features --no-deps --locked

# A million inputs need an optimised build, of one crate. PROWESS_FUZZ_INPUTS sets another number.
fuzz:
	$(CARGO) test --release --locked -p prowess-catalog --test fuzz -- --nocapture

# Another lock needs another build of the session and all beneath it.
shuttle:
	RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR=$(or $(CARGO_TARGET_DIR),target)/shuttle $(CARGO) test --locked -p prowess-skills --test shuttle

# What is for embedding stays small.
dependencies:
	@for budget in prowess-base:1 prowess-catalog:20 prowess-permission:40 prowess-skills:60 prowess-workspace:60 prowess-agent:80 prowess-mcp:110 prowess-models:150 prowess-store:100 prowess-install:160 prowess-serve:160 prowess:380; do \
	  crate=$${budget%:*}; most=$${budget#*:}; \
	  count=$$($(CARGO) tree --locked -p $$crate -e normal --prefix none | sed 's/ .*//' | sort -u | wc -l); \
	  echo "$$crate: $$count crates without features, $$most allowed"; test "$$count" -le "$$most" || exit 1; \
	done
	@! $(CARGO) tree --locked -p prowess -e normal --prefix none | grep -E '^prowess-(bench|record) ' || { echo "tools for development are no part of the program" >&2; exit 1; }

# The examples keep their promises: every command in them runs.
examples:
	python3 examples/run_examples.py
	$(CARGO) nextest run -p prowess-agent --all-features --locked -E 'test(/^(lines|readme)::/)'

# The program as a person installs it: one binary, which is all that it needs.
install-check: components
	$(CARGO) install --locked --path crates/cli --debug --force --root $(or $(CARGO_TARGET_DIR),target)/installed
	sh scripts/try-installed.sh $(or $(CARGO_TARGET_DIR),target)/installed/bin

# Artifacts and files of threads in a bucket, of a server that is too large to be part of every test.
s3:
	scripts/test-s3.sh sh -c '$(CARGO) test --locked -p prowess-workspace --all-features --test it -- --ignored a_bucket_passes_the_suite && \
	  $(CARGO) test --locked -p prowess --test it -- --ignored files_follow_a_thread_through'

# What the demo needs is installed before the build where that is possible. Where bubblewrap cannot be had, the demo is
# told to play with less around its commands, and says so.
demo: linker
	@$(call install,python3)
	@$(HAS_BWRAP) || $(call fetch,bubblewrap) || true
	@$(HAS_BWRAP) || echo "bubblewrap is missing or does not work here: the demo will play with --sandbox landlock" >&2
	$(CARGO) build --locked -p prowess
	@if $(HAS_BWRAP); then $(PROWESS) demo; else \
	  echo "$(PROWESS) demo --sandbox landlock"; $(PROWESS) demo --sandbox landlock; \
	fi

# The picture of the demo in the README, made again. Look at it before you commit it.
demo-svg: components
	$(CARGO) build --locked -p prowess -p prowess-record
	$(dir $(PROWESS))prowess-record --title 'prowess demo' docs/demo.svg $(PROWESS) demo

# Whether bubblewrap makes a sandbox here, as the demo wants it.
HAS_BWRAP = bwrap --unshare-all --ro-bind / / --proc /proc true 2>/dev/null

include bench.mk
include cluster.mk
