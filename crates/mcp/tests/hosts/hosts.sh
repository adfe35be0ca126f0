#!/bin/sh
# Drives a conversation in each of two hosts, which others wrote, that use PROGRAM: hosts.sh DIRECTORY PROGRAM
# The hosts are installed from npm into DIRECTORY. They run without any network but loopback, and what they start ends
# with them.
set -eu
here=$(dirname "$0")
mkdir -p "$1"
directory=$(cd "$1" && pwd)
codex_version=0.166.0
opencode_version=1.18.33

fail() {
  echo "hosts: $1" >&2
  exit 1
}

case "$(uname -sm)" in
  "Linux x86_64") platform=linux-x64 ;;
  "Linux aarch64") platform=linux-arm64 ;;
  *) fail "they are not known to run on $(uname -sm): run this on Linux on x86_64 or aarch64" ;;
esac

. "$here/../../../../scripts/npm.sh"
install_packages "@openai/codex@$codex_version" "opencode-ai@$opencode_version"

user=
[ "$(id -u)" = 0 ] || user=--map-root-user
alone() {
  timeout 300 unshare $user --pid --fork --kill-child --mount-proc bwrap --dev-bind / / --unshare-net "$@"
}
alone true || fail "nothing can be run without a network here: allow user namespaces (sysctl user.max_user_namespaces)"

# The host of this name, whose binary is the one at this place.
converse() {
  [ -x "$2" ] || fail "npm did not install $2"
  # Nothing else is in its network, so that any port is free.
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
