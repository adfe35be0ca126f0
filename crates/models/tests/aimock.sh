#!/bin/sh
# Runs the tests of prowess-models against aimock, a server from npm that others wrote and that speaks both wire
# formats. It is installed into DIRECTORY and started on this machine: aimock.sh DIRECTORY COMMAND…
set -eu
here=$(dirname "$0")
mkdir -p "$1"
directory=$(cd "$1" && pwd)
shift
version=1.43.0

fail() {
  echo "the third-party server: $1" >&2
  exit 1
}

. "$here/../../../scripts/npm.sh"
install_packages "@copilotkit/aimock@$version"
package="$directory/node_modules/@copilotkit/aimock"

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export PROWESS_TEST_AIMOCK="http://127.0.0.1:$port"
export PROWESS_TEST_AIMOCK_KEY=sk-prowess-test
AIMOCK_API_KEYS=$PROWESS_TEST_AIMOCK_KEY timeout 900 "$node" "$package/dist/cli.js" --port "$port" --strict \
  --validate-on-load --chunk-size 3 --fixtures "$here/aimock.json" >"$directory/server.log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT INT TERM

# The text at a path of the server, without any proxy.
ask() {
  python3 -c "import sys, urllib.request as r; print(r.build_opener(r.ProxyHandler({})).open(r.Request(sys.argv[1], headers={'authorization': 'Bearer ' + sys.argv[2]}), timeout=5).read().decode())" \
    "$PROWESS_TEST_AIMOCK$1" "$PROWESS_TEST_AIMOCK_KEY"
}

waited=0
until ask /health >/dev/null 2>&1; do
  waited=$((waited + 1))
  if [ "$waited" -ge 300 ] || ! kill -0 $server 2>/dev/null; then
    tail -20 "$directory/server.log" >&2
    fail "it did not start; the end of its log is above"
  fi
  sleep 0.2
done

"$@"

# Tests that were left out would pass, too.
for path in /v1/chat/completions /v1/messages; do
  ask /__aimock/journal | grep -q "\"path\":\"$path\"" || fail "no test asked it at $path"
done
