#!/usr/bin/env bash
# A transaction pooler for the tests: Debian's PgBouncer in front of the PostgreSQL of scripts/test-postgres.sh.
#
#   eval "$(scripts/test-postgres.sh start)"
#   scripts/test-pgbouncer.sh start    installs what is missing, starts it, and prints the variable for the tests
#   scripts/test-pgbouncer.sh stop     stops it
#
# It refuses startup parameters as it does by default: nothing is in `ignore_startup_parameters`. It asks PostgreSQL for roles
# that it does not know, so tests can make their own. It runs as the user `postgres` when root starts it, else as who does.
set -euo pipefail

# Each checkout has a pooler of its own.
checkout=$(cd "$(dirname "$0")/.." && pwd | cksum | cut -d ' ' -f 1)
at=${TMPDIR:-/tmp}/prowess-test-pgbouncer-$checkout-$(id -u)
PATH=$PATH:/usr/sbin

install_pooler() {
  command -v pgbouncer >/dev/null && return
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "PgBouncer is missing: apt-get install pgbouncer" >&2
    exit 1
  fi
  apt-get update -q >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends pgbouncer >&2
}

# As nobody important: PgBouncer refuses to run as root.
as_owner() {
  if [ "$(id -u)" = 0 ]; then
    (cd "$at" && setpriv --reuid=postgres --regid=postgres --clear-groups env -u LD_LIBRARY_PATH LC_ALL=C "$@")
  else
    (cd "$at" && env LC_ALL=C "$@")
  fi
}

stop() {
  [ -d "$at" ] || return 0
  local process
  process=$(cat "$at/pid" 2>/dev/null) || process=
  if [ -n "$process" ] && grep -qs pgbouncer "/proc/$process/cmdline"; then
    kill -INT "$process" 2>/dev/null || true
    for _ in $(seq 100); do
      [ -e "/proc/$process" ] || break
      sleep 0.1
    done
    kill -KILL "$process" 2>/dev/null || true
  fi
  rm -rf "$at"
}

start() {
  local url=${PROWESS_TEST_POSTGRES:?start a server first: eval "\$(scripts/test-postgres.sh start)"}
  local server server_port database
  server=$(sed -n 's/.*[?&]host=\([^&]*\).*/\1/p' <<<"$url")
  server_port=$(sed -n 's/.*[?&]port=\([0-9]*\).*/\1/p' <<<"$url")
  database=$(sed -n 's|^postgres://[^/]*/\([^?]*\).*|\1|p' <<<"$url")
  [ -n "$server" ] && [ -n "$server_port" ] || {
    echo "PROWESS_TEST_POSTGRES names no socket: it must be the address that scripts/test-postgres.sh prints" >&2
    exit 1
  }
  install_pooler
  stop
  mkdir -m 711 "$at"
  [ "$(id -u)" != 0 ] || chown postgres "$at"
  echo '"prowess" ""' >"$at/users"
  # Another port where somebody has this one.
  for try in 1 2 3 4 5; do
    port=$((32000 + (checkout + try * 7919) % 12000))
    # Each test has roles of its own, and each role has a pool: their connections must not use up those of the server.
    cat >"$at/pgbouncer.ini" <<END
[databases]
* = host=$server port=$server_port auth_user=prowess
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir = $at
unix_socket_mode = 0777
auth_type = trust
auth_file = $at/users
admin_users = prowess
pool_mode = transaction
max_client_conn = 2000
default_pool_size = ${PROWESS_TEST_PGBOUNCER_POOL:-20}
max_db_connections = 150
server_idle_timeout = 5
logfile = $at/log
pidfile = $at/pid
END
    as_owner pgbouncer --quiet --daemon "$at/pgbouncer.ini" >>"$at/started" 2>&1 || continue
    for _ in $(seq 100); do
      if as_owner timeout 10 psql --no-psqlrc --quiet --host="$at" --port="$port" --username=prowess --dbname="$database" \
        --command='SELECT 1' >/dev/null 2>&1; then
        echo "export PROWESS_TEST_PGBOUNCER='postgres://prowess@/$database?host=$at&port=$port'"
        return
      fi
      sleep 0.1
    done
    kill "$(cat "$at/pid")" 2>/dev/null || true
  done
  cat "$at/started" "$at/log" >&2 2>/dev/null || true
  stop
  exit 1
}

case ${1:-} in
  start) start ;;
  stop) stop ;;
  *)
    echo "usage: $0 start|stop" >&2
    exit 2
    ;;
esac
