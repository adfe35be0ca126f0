#!/bin/sh
# Uses `PROGRAM serve` with clients that others wrote: clients.sh DIRECTORY PROGRAM [agui|openai|oidc|proxies|schemathesis]
# @ag-ui/client, openai for Node, oidc-provider and playwright-core are installed from npm into DIRECTORY, openai for Python and
# schemathesis from PyPI. Caddy, nginx and Chromium must be installed. The model is clients/model.py. The server and the model
# are on this machine, and end with this script. PROGRAM needs the feature `oidc`.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 2 ] || {
  echo "clients.sh DIRECTORY PROGRAM [agui|openai|oidc|proxies|schemathesis]" >&2
  exit 1
}
mkdir -p "$1"
directory=$(cd "$1" && pwd)
program=$2
part=${3:-all}
its_node=22.23.3
openai_python=3.49.0
schemathesis=4.32.5

fail() {
  echo "clients of the server: $1" >&2
  if [ -n "${base:-}" ] && [ -s "$base/server" ]; then
    echo "--- the server said:" >&2
    tail -20 "$base/server" >&2
  fi
  exit 1
}

case $program in
  /*) ;;
  *) program="$(pwd)/$program" ;;
esac
[ -x "$program" ] || fail "there is no program $program"

. "$here/../../../scripts/npm.sh"
find_platform
install_packages "node-$platform@$its_node" "@ag-ui/client@1.0.0" "@ag-ui/core@1.0.0" "openai@7.53.0" \
  "oidc-provider@9.13.3" "playwright-core@1.65.0"
modules="$directory/node_modules"
python="$directory/venv/bin/python"
wanted="assert (m.version('openai'), m.version('schemathesis')) == ('$openai_python', '$schemathesis')"
if ! "$python" -c "import importlib.metadata as m; $wanted" 2>/dev/null; then
  echo "installing openai $openai_python and schemathesis $schemathesis into $directory"
  rm -rf "$directory/venv"
  python3 -m venv "$directory/venv" || fail "python3 cannot make virtual environments: apt-get install python3-venv"
  timeout 600 "$directory/venv/bin/pip" install --quiet --disable-pip-version-check --no-compile \
    "openai==$openai_python" "schemathesis==$schemathesis" || fail "the packages could not be installed from PyPI"
fi

base=$(mktemp -d)
base=$(cd "$base" && pwd -P)
server='' with_issuer=''
end() {
  for process in $server $with_issuer; do
    kill "$process" 2>/dev/null || true
  done
  rm -rf "$base"
}
trap end EXIT
trap 'exit 1' INT TERM

# Waits until a file has a line that begins with these words, and prints what follows them: wait_for FILE WORDS
wait_for() {
  for _ in $(seq 200); do
    if grep -q "^$2" "$1" 2>/dev/null; then
      sed -n "s|^$2||p" "$1" | head -1
      return
    fi
    sleep 0.1
  done
  fail "$(basename "$1") never said: $2"
}

# The model lives until this script ends, which closes the pipe.
mkfifo "$base/life"
python3 "$here/clients/model.py" <"$base/life" >"$base/model" 2>"$base/model-errors" &
exec 9>"$base/life"
port=$(wait_for "$base/model" "")

mkdir -p "$base/home/.config/prowess" "$base/home/.prowess/skills/tides/scripts"
cat >"$base/home/.config/prowess/prowess.toml" <<END
[model]
name = "fake:m"
context_window = 100000
[provider.fake]
api = "openai"
base_url = "http://127.0.0.1:$port/v1"
END
cat >"$base/home/.prowess/skills/tides/SKILL.md" <<END
---
name: tides
description: Looks up tides. Use before boat trips.
---

Run scripts/tides.sh.
END
echo 'echo high' >"$base/home/.prowess/skills/tides/scripts/tides.sh"

clean() {
  env -i HOME="$base/home" TMPDIR="$base" LANG=C.UTF-8 NO_COLOR=1 PATH="$modules/node-$platform/bin:$PATH" "$@"
}

cd "$base/home"
# The subshell becomes the server, so that a signal reaches it.
(exec env -i HOME="$base/home" TMPDIR="$base" LANG=C.UTF-8 NO_COLOR=1 PATH="$PATH" "$program" serve --listen 127.0.0.1:0 \
  >"$base/server" 2>&1 9>&-) &
server=$!
address=$(wait_for "$base/server" "sign in as .admin., once, within 15 minutes: http://")
url="http://${address%%/*}"
token=$(clean "$program" serve token add admin 2>/dev/null)

run() {
  [ "$part" = all ] || [ "$part" = "$1" ]
}

if run agui; then
  clean timeout 120 node "$here/clients/agui.mjs" "$directory" "$url" "$token" || fail "@ag-ui/client failed"
fi
if run openai; then
  clean timeout 60 node "$here/clients/openai.mjs" "$directory" "$url" "$token" || fail "openai for Node failed"
  clean timeout 120 "$python" "$here/clients/openai_client.py" "$url" "$token" || fail "openai for Python failed"
fi
if run oidc; then
  # A server of its own, whose issuer has to know its port before.
  chromium=${PROWESS_CHROMIUM:-$(command -v chromium)} || fail "chromium is missing: apt-get install chromium"
  free=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  own="http://127.0.0.1:$free"
  secret=not-a-secret-outside-of-this-test
  mkfifo "$base/issuer-life"
  clean node "$here/clients/oidc-issuer.mjs" "$directory" "$own/oidc/callback" "$secret" \
    <"$base/issuer-life" >"$base/issuer" 2>"$base/issuer-errors" 9>&- &
  exec 8>"$base/issuer-life"
  issuer=$(wait_for "$base/issuer" "http:" | sed 's|^|http:|')
  (exec env -i HOME="$base/home" TMPDIR="$base" LANG=C.UTF-8 NO_COLOR=1 PATH="$PATH" AGENT_SECRET="$secret" \
    PROWESS_SERVE_OIDC_ISSUER="$issuer" PROWESS_SERVE_OIDC_CLIENT_ID=prowess PROWESS_SERVE_OIDC_PUBLIC_URL="$own" \
    PROWESS_SERVE_OIDC_CLIENT_SECRET_ENV=AGENT_SECRET PROWESS_SERVE_OIDC_LABEL=Example PROWESS_SERVE_OIDC_USERS=create \
    PROWESS_SERVE_OIDC_EMAIL_DOMAINS=example.com \
    "$program" serve --listen "127.0.0.1:$free" --data "$base/second" >"$base/second-server" 2>&1 8>&- 9>&-) &
  with_issuer=$!
  wait_for "$base/second-server" "sign in as .admin., once, within 15 minutes: " >/dev/null
  clean PROWESS_CHROMIUM="$chromium" PROWESS_PICTURES="${PROWESS_PICTURES:-}" \
    timeout 120 node "$here/clients/oidc.mjs" "$directory" "$own" "$issuer" || {
    tail -n 20 "$base/second-server" "$base/issuer-errors" >&2
    fail "signing in with oidc-provider failed"
  }
fi
if run proxies; then
  mkdir "$base/proxies"
  first=$(clean "$program" serve login admin --url "$url" 2>/dev/null)
  second=$(clean "$program" serve login admin --url "$url" 2>/dev/null)
  # nginx may be where only root looks for programs.
  PATH="$PATH:/usr/sbin" clean timeout 120 python3 "$here/clients/proxies.py" "$base/proxies" "$url" "$first" "$second" ||
    fail "a proxy of docs/serving.md failed"
fi
if run schemathesis; then
  # An administrator's token, and a thread that has something of everything. One operation deletes its thread, so that one
  # gets another.
  everything=$(clean "$program" serve token add admin --scope read --scope write --scope approve --scope admin 2>/dev/null)
  thread=$(clean "$python" "$here/clients/thread.py" "$url" "$everything") || fail "no thread could be made"
  cat >"$base/schemathesis.toml" <<END
[parameters]
"path.thread" = "$thread"
"path.agent" = "prowess"
"path.model" = "prowess"
[[operations]]
include-name = "DELETE /api/v1/threads/{thread}"
[operations.parameters]
"path.thread" = "none"
END
  clean timeout 280 "$directory/venv/bin/schemathesis" --config-file "$base/schemathesis.toml" run "$url/openapi.json" \
    --header "Authorization: Bearer $everything" \
    --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance \
    --max-examples 20 --seed 1 --request-timeout 10 --workers 2 --max-time 120 --generation-database none --no-color \
    --phases examples,coverage,fuzzing --mode all --exclude-path-regex '/events$' >"$base/schemathesis" 2>&1 || {
    tail -"${SCHEMATHESIS_LINES:-150}" "$base/schemathesis" >&2
    fail "schemathesis found a fault"
  }
  grep -A1 -E "^ *Test cases" "$base/schemathesis"
fi
