# make test    everything that must hold, on a fresh machine
# make demo    the product at work, with what is on the machine
# make bench   the table of benchmarks, with ratios

CARGO ?= cargo
PROWESS = target/debug/prowess
# The fuzz test runs a million inputs; set PROWESS_FUZZ_INPUTS for fewer or more.

.PHONY: test demo components fmt clippy unit doc fuzz dependencies examples

test: components fmt clippy unit doc fuzz dependencies examples
	@echo "make test: all passed"

# What the checks run on. A toolchain without them gets them where rustup can; else it is an error.
components:
	@$(CARGO) --version
	@$(CARGO) fmt --version >/dev/null 2>&1 || rustup component add rustfmt
	@$(CARGO) clippy --version >/dev/null 2>&1 || rustup component add clippy
	@command -v cc >/dev/null || { echo "a C linker is missing: apt-get install gcc" >&2; exit 1; }
	@command -v python3 >/dev/null || { apt-get update -q && apt-get install -qy python3; }
	@command -v bash >/dev/null || { echo "bash is missing: apt-get install bash" >&2; exit 1; }

fmt:
	$(CARGO) fmt --all --check

clippy:
	$(CARGO) clippy --workspace --all-targets --all-features --locked -- -D warnings
	$(CARGO) clippy -p prowess-catalog -p prowess-backend --locked -- -D warnings

unit:
	@if $(CARGO) nextest --version >/dev/null 2>&1; then \
	  $(CARGO) nextest run --workspace --all-features --locked --no-fail-fast; \
	else \
	  $(CARGO) test --workspace --all-features --locked --lib --bins --tests --no-fail-fast; \
	fi
	$(CARGO) test --workspace --all-features --locked --doc

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --all-features --no-deps --locked

# A million inputs need an optimised build, of one crate.
fuzz:
	$(CARGO) test --release --locked -p prowess-catalog --test fuzz -- --nocapture

# prowess-catalog is for embedding everywhere: it stays small.
dependencies:
	@count=$$($(CARGO) tree --locked -p prowess-catalog -e normal --prefix none | sed 's/ .*//' | sort -u | wc -l); \
	echo "prowess-catalog: $$count crates without features, 20 allowed"; test "$$count" -le 20

# The examples keep their promises: every command in them runs.
examples:
	python3 examples/run_examples.py

demo:
	$(CARGO) build --locked -p prowess
	@sh examples/demo.sh $(PROWESS)

-include bench.mk
