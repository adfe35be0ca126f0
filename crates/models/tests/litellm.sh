#!/bin/sh
# Runs the tests of prowess-models against the LiteLLM proxy, which it installs into DIRECTORY and starts on this
# machine: litellm.sh DIRECTORY COMMAND…
set -eu
here=$(dirname "$0")
directory=$1
shift
version=1.106.2

if ! "$directory/bin/python" -c "import importlib.metadata as m; assert m.version('litellm') == '$version'" 2>/dev/null; then
  echo "installing litellm $version into $directory"
  rm -rf "$directory"
  python3 -m venv "$directory"
  timeout 600 "$directory/bin/pip" install --quiet --disable-pip-version-check --no-compile "litellm[proxy]==$version"
fi

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
port=$(free_port)
export PROWESS_TEST_LITELLM="http://127.0.0.1:$port"
export PROWESS_TEST_LITELLM_BASE="$PROWESS_TEST_LITELLM/v1"
export PROWESS_TEST_LITELLM_UPSTREAM="127.0.0.1:$(free_port)"
export PROWESS_TEST_LITELLM_UPSTREAM_BASE="http://$PROWESS_TEST_LITELLM_UPSTREAM/v1"

# It asks nobody: not for prices of models, and not through a proxy for this machine.
LITELLM_LOCAL_MODEL_COST_MAP=True NO_PROXY=127.0.0.1 timeout 900 "$directory/bin/litellm" \
  --config "$here/litellm.yaml" --host 127.0.0.1 --port "$port" >"$directory/proxy.log" 2>&1 &
proxy=$!
trap 'kill $proxy 2>/dev/null || true' EXIT INT TERM

waited=0
until python3 -c "import urllib.request as r; r.build_opener(r.ProxyHandler({})).open('$PROWESS_TEST_LITELLM/health/liveliness', timeout=2)" 2>/dev/null; do
  waited=$((waited + 1))
  if [ "$waited" -ge 120 ] || ! kill -0 $proxy 2>/dev/null; then
    echo "the LiteLLM proxy did not start; the end of its log:" >&2
    tail -20 "$directory/proxy.log" >&2
    exit 1
  fi
  sleep 1
done
"$@"
