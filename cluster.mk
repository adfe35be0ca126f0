# Several processes of `prowess serve` on one PostgreSQL; docs/scaling.md says how they work together.

CLUSTER_TARGET := $(or $(CARGO_TARGET_DIR),target)
CLUSTER_PROGRAM := $(CLUSTER_TARGET)/release/prowess
# The newest commit without the last migration. `make cluster-rolling OLD_REF=…` takes another one.
LAST_MIGRATION = $(shell ls crates/store/src/migrations/*.sql | sort -V | tail -n 1)
OLD_REF ?= $(shell for commit in $$(git rev-list HEAD); do \
	  git cat-file -e "$$commit:$(LAST_MIGRATION)" 2>/dev/null || { echo "$$commit"; break; }; done)

.PHONY: cluster-build cluster-smoke cluster-chaos cluster-scaling cluster-simulation cluster-simulation-smoke cluster-rolling manifests pgbouncer

cluster-build:
	$(CARGO) build --release --locked -p prowess

# Kills, restarts and cut connections under load: half a minute of it, and five minutes.
cluster-smoke: components
	$(CARGO) build --locked -p prowess
	@$(VENVS)
	timeout 300 scripts/test-s3.sh python3 bench/cluster_chaos.py --prowess $(PROWESS) --seconds 20 --threads 30

cluster-chaos: cluster-build
	@$(VENVS)
	timeout 1800 scripts/test-s3.sh python3 bench/cluster_chaos.py --prowess $(CLUSTER_PROGRAM)

# Turns per second with 1, 2, 4 and 8 workers, and statements, round trips and bytes per step.
cluster-scaling: cluster-build
	timeout 900 python3 bench/cluster_scaling.py --prowess $(CLUSTER_PROGRAM) --most-round-trips 15 --least-linear 0.85
	timeout 900 python3 bench/cluster_scaling.py --prowess $(CLUSTER_PROGRAM) --steps 8 --pooled 0 --most-round-trips 8 --least-linear 0.9

# 100,000 open threads on one PostgreSQL with the settings of docs/scaling.md: the real server, with a model that pretends. It takes a
# quarter of an hour. The short one only shows that it works.
cluster-simulation:
	$(CARGO) build --release --locked -p prowess-bench
	@$(SIMULATION_DATABASE); timeout 1500 $(CLUSTER_TARGET)/release/prowess-bench queue-load --database "$$PROWESS_TEST_POSTGRES" \
	  --json $(CLUSTER_TARGET)/cluster-simulation.json

cluster-simulation-smoke:
	$(CARGO) build --locked -p prowess-bench
	@$(SIMULATION_DATABASE); timeout 120 $(CLUSTER_TARGET)/debug/prowess-bench queue-load --database "$$PROWESS_TEST_POSTGRES" \
	  --threads 3000 --users 50 --history 1 --warm-up 2 --seconds 6 --old 3 --slow 4 --delay 500 --turns 32 --backlog 800 --claims 30

SIMULATION_DATABASE = database=$$(scripts/test-postgres.sh start) || exit 1; trap 'scripts/test-postgres.sh stop' EXIT; eval "$$database"; \
	for setting in shared_buffers=2GB wal_compression=on max_wal_size=8GB autovacuum_naptime=10s; do \
	  psql -qX "$$PROWESS_TEST_POSTGRES" -c "ALTER SYSTEM SET $${setting%=*} = '$${setting\#*=}'" || exit 1; \
	done; \
	scripts/test-postgres.sh restart fast

# Replaces the processes of OLD_REF by the present ones, under load.
cluster-rolling: cluster-build
	@$(VENVS)
	git worktree remove --force $(CLUSTER_TARGET)/old-worktree 2>/dev/null || rm -rf $(CLUSTER_TARGET)/old-worktree
	git worktree prune
	git worktree add --detach $(CLUSTER_TARGET)/old-worktree "$(OLD_REF)"
	CARGO_TARGET_DIR=$(abspath $(CLUSTER_TARGET))/old $(CARGO) build --release --locked -p prowess \
	  --manifest-path $(CLUSTER_TARGET)/old-worktree/Cargo.toml; status=$$?; \
	  git worktree remove --force $(CLUSTER_TARGET)/old-worktree; exit $$status
	timeout 900 scripts/test-s3.sh python3 bench/cluster_rolling.py --old $(CLUSTER_TARGET)/old/release/prowess --new $(CLUSTER_PROGRAM)

# The suites of the store and of the queue through a transaction pooler: Debian's PgBouncer. Tests of what a pooler cannot do are
# left out: those that set startup parameters of a session, cut connections, or restore a database of an earlier version.
pgbouncer: components
	@database=$$(scripts/test-postgres.sh start) || exit 1; trap 'scripts/test-pgbouncer.sh stop; scripts/test-postgres.sh stop' EXIT; \
	eval "$$database"; pooler=$$(scripts/test-pgbouncer.sh start) || exit 1; eval "$$pooler"; \
	$(CARGO) nextest run -p prowess-store --all-features --locked --no-fail-fast \
	  -E 'test(/^(approvals|artifacts|kill|processes|queue|retention|serve|threads)::/)'

# The files of examples/cluster against the schemas of Compose and Kubernetes, and the proxy's configuration in the proxy itself.
# It takes 170 MB below target/.
manifests:
	@$(VENVS)
	@PATH="$$PATH:/usr/sbin"; $(call install,caddy)
	$(CARGO) build --locked -p prowess
	sh examples/cluster/check.sh $(CLUSTER_TARGET)/manifests $(PROWESS)

VENVS = python3 -c 'import ensurepip, venv' 2>/dev/null || { test "$$(id -u)" = 0 && apt-get update -q && apt-get install -qy python3-venv; } || { echo "python3 cannot make virtual environments: apt-get install python3-venv" >&2; exit 1; }
