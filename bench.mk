# Benchmarks; docs/benchmarks.md says what they measure.

CARGO ?= cargo
BENCH_TARGET := $(or $(CARGO_TARGET_DIR),target)
BENCH_PROGRAM := $(BENCH_TARGET)/release/prowess-bench
BENCH_VENV := $(BENCH_TARGET)/peers-venv
BENCH_SERVE_VENV := $(BENCH_TARGET)/serve-peers-venv
BENCH_AEGRA_VENV := $(BENCH_TARGET)/aegra-venv
# Aegra needs Python 3.12.
PYTHON312 ?= python3.12
BENCH_BASELINE := bench/baseline.json

.PHONY: bench bench-http bench-install bench-serve bench-serve-peers bench-peers bench-baseline bench-build overview-table

# The table with its bars, then the parts one by one.
bench: bench-build
	$(BENCH_PROGRAM) --compare $(BENCH_BASELINE)
	$(CARGO) bench --locked -p prowess-catalog --bench catalog

# Many clients of one server over HTTP, for a minute.
bench-http: bench-build
	$(BENCH_PROGRAM) http-load

# Installing and verifying a thousand skills, beside git, cp and sha256sum.
bench-install: bench-build
	python3 bench/install_table.py --prowess $(BENCH_TARGET)/release/prowess

# Many event streams and turns of `prowess serve`, on SQLite and on PostgreSQL, and under kills. It takes a quarter of an hour.
bench-serve: bench-build
	python3 bench/serve_load.py --prowess $(BENCH_TARGET)/release/prowess
	database=$$(scripts/test-postgres.sh start) || exit 1; trap 'scripts/test-postgres.sh stop' EXIT; eval "$$database"; \
	python3 bench/serve_load.py --prowess $(BENCH_TARGET)/release/prowess --database "$$PROWESS_TEST_POSTGRES"
	python3 bench/serve_load.py --prowess $(BENCH_TARGET)/release/prowess --kills 100 --turns 20 --streams 60

# The CPU time of a turn, beside LangGraph's server and Aegra, each with an agent of deepagents.
bench-serve-peers: bench-build $(BENCH_SERVE_VENV)/installed $(BENCH_AEGRA_VENV)/installed
	$(BENCH_SERVE_VENV)/bin/python bench/serve_peers.py --prowess $(BENCH_TARGET)/release/prowess \
		--langgraph $(BENCH_SERVE_VENV)/bin/langgraph --aegra $(BENCH_AEGRA_VENV)/bin/aegra \
		--postgres scripts/test-postgres.sh

# Records what later runs are compared with.
bench-baseline: bench-build
	$(BENCH_PROGRAM) --json $(BENCH_BASELINE)

# The same skills loaded by deepagents, from its registry, in the same run.
bench-peers: bench-build $(BENCH_VENV)/installed
	$(BENCH_VENV)/bin/python bench/peers.py --prowess-bench $(BENCH_PROGRAM)

# The tokens of skills in a request, by number of skills and window, with deepagents beside it. SKILLS=DIR has real skills.
overview-table: bench-build $(BENCH_VENV)/installed
	$(BENCH_VENV)/bin/python bench/overview_table.py --prowess $(BENCH_TARGET)/release/prowess \
		--prowess-bench $(BENCH_PROGRAM) $(if $(SKILLS),--skills $(SKILLS))

# Built together, so that the library has the same features in both.
bench-build:
	$(CARGO) build --release --locked -p prowess -p prowess-bench

$(BENCH_VENV)/installed: bench/peers-requirements.txt
$(BENCH_SERVE_VENV)/installed: bench/serve-peers-requirements.txt
$(BENCH_AEGRA_VENV)/installed: bench/aegra-requirements.txt
$(BENCH_AEGRA_VENV)/installed: BENCH_PYTHON = $(PYTHON312)
$(BENCH_VENV)/installed $(BENCH_SERVE_VENV)/installed $(BENCH_AEGRA_VENV)/installed:
	$(or $(BENCH_PYTHON),python3) -m venv $(@D) || { echo "python's venv is missing: apt-get install python3-venv" >&2; exit 1; }
	$(@D)/bin/pip install --quiet --disable-pip-version-check -r $<
	touch $@
