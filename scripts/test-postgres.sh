#!/usr/bin/env bash
# A PostgreSQL for the tests: Debian's, with a cluster of its own in a temporary directory, at a Unix socket, and at a
# port of this machine with TLS.
#
#   scripts/test-postgres.sh start    installs what is missing, starts it, and prints the variables for the tests
#   scripts/test-postgres.sh stop     stops it, and removes what it stored
#   scripts/test-postgres.sh restart fast|immediate
#                                     restarts it: after a shutdown in order, or as after a crash
#
# It runs as the user `postgres` when root starts it, else as who does. What it stores is flushed to the disk, as in
# production.
set -euo pipefail

# Each checkout has a server of its own.
checkout=$(cd "$(dirname "$0")/.." && pwd | cksum | cut -d ' ' -f 1)
at=${TMPDIR:-/tmp}/prowess-test-postgres-$checkout-$(id -u)
database=prowess

install_server() {
  bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
  [ -x "$bin/initdb" ] && return
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "PostgreSQL is missing: apt-get install postgresql" >&2
    exit 1
  fi
  apt-get update -q >&2
  # Without the cluster that the package would start.
  mkdir -p /etc/postgresql-common/createcluster.d
  echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.d/prowess-test.conf
  DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends postgresql >&2
  bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
}

# As nobody important: PostgreSQL refuses to run as root.
as_owner() {
  if [ "$(id -u)" = 0 ]; then
    (cd "$at" && setpriv --reuid=postgres --regid=postgres --clear-groups env -u LD_LIBRARY_PATH LC_ALL=C "$@")
  else
    (cd "$at" && env LC_ALL=C "$@")
  fi
}

stop() {
  [ -d "$at" ] || return 0
  bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
  if [ -f "$at/data/postmaster.pid" ]; then
    as_owner "$bin/pg_ctl" --pgdata="$at/data" --mode=immediate --timeout=30 stop >&2 || true
  fi
  rm -rf "$at"
}

start() {
  install_server
  stop
  mkdir -m 700 "$at"
  [ "$(id -u)" != 0 ] || chown postgres:postgres "$at"
  if ! as_owner timeout 120 "$bin/initdb" --pgdata="$at/data" --username=prowess --auth=trust --encoding=UTF8 \
    --locale=C >"$at/made" 2>&1; then
    cat "$at/made" >&2
    exit 1
  fi
  as_owner timeout 30 openssl req -x509 -newkey rsa:2048 -nodes -days 7 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE \
    -keyout "$at/server.key" -out "$at/server.crt" 2>>"$at/made" || {
    cat "$at/made" >&2
    exit 1
  }
  # Another port where somebody has this one.
  for try in 1 2 3 4 5; do
    port=$((20000 + (checkout + try * 7919) % 12000))
    if as_owner "$bin/pg_ctl" --pgdata="$at/data" --log="$at/log" --timeout=60 --wait start \
      -o "-c port=$port -c listen_addresses=127.0.0.1 -c unix_socket_directories='$at' -c max_connections=200" \
      -o "-c fsync=on -c ssl=on -c ssl_cert_file='$at/server.crt' -c ssl_key_file='$at/server.key'" >&2; then
      as_owner timeout 30 "$bin/createdb" --host="$at" --port="$port" --username=prowess "$database" >&2
      echo "export PROWESS_TEST_POSTGRES='postgres://prowess@/$database?host=$at&port=$port'"
      echo "export PROWESS_TEST_POSTGRES_TLS='postgres://prowess@localhost:$port/$database?sslmode=require'"
      echo "export PROWESS_TEST_POSTGRES_CERTIFICATE='$at/server.crt'"
      return
    fi
  done
  cat "$at/log" >&2
  stop
  exit 1
}

restart() {
  case ${1:-} in fast | immediate) ;; *) usage ;; esac
  [ -f "$at/data/postmaster.pid" ] || { echo "no server runs: $0 start" >&2; exit 1; }
  bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
  # With the options of the start.
  as_owner "$bin/pg_ctl" --pgdata="$at/data" --log="$at/log" --mode="$1" --timeout=120 --wait restart >&2
}

usage() {
  echo "usage: $0 start|stop|restart fast|immediate" >&2
  exit 2
}

case ${1:-} in
  start) start ;;
  stop) stop ;;
  restart) restart "${2:-}" ;;
  *) usage ;;
esac
