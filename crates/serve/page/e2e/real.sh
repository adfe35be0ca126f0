#!/bin/sh
# Runs the tests of the page against `prowess serve`: real.sh TARGETDIR PROWESS-BINARY [NAME…]
# Starts a server with a scripted model, both on ports of their own and with a home of their own, and stops them afterwards.
# A NAME selects the tests that contain it. Node.js 22 and the packages are installed below TARGETDIR. After a failure there
# is a picture of each page in TARGETDIR/pictures. PROWESS_ASSETS is a directory with a built page to test in place of the
# program's.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
fail() {
  for log in "${base:-}"/model.log "${base:-}"/server.log; do
    if [ -s "$log" ]; then
      echo "--- $(basename "$log"):" >&2
      tail -20 "$log" >&2
      echo "---" >&2
    fi
  done
  echo "page: $1" >&2
  exit 1
}
[ $# -ge 2 ] || fail "name a directory and the program: real.sh TARGETDIR PROWESS-BINARY [NAME…]"
mkdir -p "$1"
target=$(cd "$1" && pwd)
case $2 in
  /*) program=$2 ;;
  *) program="$(pwd)/$2" ;;
esac
[ -x "$program" ] || fail "there is no program $program"
shift 2
PROWESS_CHROMIUM=${PROWESS_CHROMIUM:-$(command -v chromium)} || fail "chromium is missing: apt-get install chromium"

. "$here/install.sh"
copy_sources "$target/e2e"

base=$(mktemp -d)
base=$(cd "$base" && pwd -P)
model='' server=''
stop() {
  trap - EXIT
  for process in $server $model; do
    kill "$process" 2>/dev/null || true
    wait "$process" 2>/dev/null || true
  done
  rm -rf "$base"
}
trap stop EXIT
trap 'exit 1' INT TERM
home="$base/home"
mkdir -p "$home/.config/prowess" "$base/tmp" "$target/pictures"
rm -f "$target/pictures"/*

# A program without the environment of this process: settings of a person would change what the server does.
clean() {
  env -i HOME="$home" TMPDIR="$base/tmp" LANG=C.UTF-8 PATH="$PATH" XDG_CONFIG_HOME="$home/.config" \
    XDG_STATE_HOME="$home/.local/state" XDG_DATA_HOME="$home/.local/share" XDG_CACHE_HOME="$home/.cache" "$@"
}

# Waits for a line, and prints what follows its beginning: awaited FILE BEGINNING PROCESS
awaited() {
  for _ in $(seq 300); do
    found=$(sed -n "s|^$2||p" "$1" 2>/dev/null | head -1)
    if [ -n "$found" ]; then
      echo "$found"
      return
    fi
    kill -0 "$3" 2>/dev/null || return 1
    sleep 0.1
  done
  return 1
}

timeout 900 "$its_bin/node" "$target/e2e/e2e/model.js" >"$base/model.log" 2>&1 &
model=$!
address=$(awaited "$base/model.log" "" "$model") || fail "the scripted model did not start"

cat >"$home/.config/prowess/prowess.toml" <<CONFIG
[model]
name = "fake:scripted"
context_window = 32000
[provider.fake]
api = "openai"
base_url = "$address"
[price."fake:scripted"]
input = 3
output = 15
cache_read = 0.3
CONFIG
"$its_bin/node" "$target/e2e/e2e/skills.js" "$home/.prowess/skills" || fail "the skills of the tests cannot be written"

(cd "$base" && exec timeout 900 env -i HOME="$home" TMPDIR="$base/tmp" LANG=C.UTF-8 PATH="$PATH" \
  "$program" serve --listen 127.0.0.1:0 >"$base/server.log" 2>&1) &
server=$!
PROWESS_LOGIN=$(awaited "$base/server.log" 'sign in as `admin`, once, within 15 minutes: ' "$server") ||
  fail "the server did not start"
PROWESS_URL=${PROWESS_LOGIN%/login/*}
PROWESS_TOKEN=$(clean "$program" serve token add admin --scope read --scope write --scope approve --scope admin \
  2>>"$base/server.log") ||
  fail "the server gave no token"
PROWESS_PICTURES="$target/pictures"
PROWESS_DATA="$home/.local/state/prowess/serve"
export PROWESS_DATA PROWESS_LOGIN PROWESS_URL PROWESS_TOKEN PROWESS_PICTURES PROWESS_CHROMIUM

cd "$target/e2e"
timeout 840 "$its_bin/node" e2e/"${PROWESS_PAGE_SCRIPT:-run.js}" "$@" || fail "tests of the page failed; the pictures are in $target/pictures"
