#!/bin/sh
# Holds a conversation in each of two MCP clients that other people wrote, and that use PROGRAM:
# clients.sh DIRECTORY PROGRAM
# npm installs the clients into DIRECTORY. They have no network except loopback, and their child processes end with them.
set -eu
here=$(dirname "$0")
mkdir -p "$1"
directory=$(cd "$1" && pwd)
codex_version=0.166.0
opencode_version=1.18.33

fail() {
  echo "clients: $1" >&2
  exit 1
}

. "$here/../../../../scripts/npm.sh"
find_platform
install_packages "@openai/codex@$codex_version" "opencode-ai@$opencode_version"

user=
[ "$(id -u)" = 0 ] || user=--map-root-user
alone() {
  timeout 300 unshare $user --pid --fork --kill-child --mount-proc bwrap --dev-bind / / --unshare-net "$@"
}
alone true || fail "cannot run a program without network; allow user namespaces (sysctl user.max_user_namespaces)"

# Holds a conversation in the client with this name and this binary.
converse() {
  [ -x "$2" ] || fail "npm did not install $2"
  # Its network contains nothing else, so any port is free.
  for address in "" 127.0.0.1:8931; do
    alone python3 "$here/converse.py" "$1" "$2" "$program" "$directory/home" $address ||
      fail "the conversation in $1 failed"
  done
  rm -rf "$directory/home"
}

program=$2
modules="$directory/node_modules"
converse codex "$(echo "$modules/@openai/codex-$platform"/vendor/*/bin/codex)"
converse opencode "$modules/opencode-$platform/bin/opencode"
