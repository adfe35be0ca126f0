#!/bin/sh
# Runs the tests of the page in Chromium against a server: e2e.sh TARGETDIR [NAME…]
# e2e/run.js says which environment variables it needs. Node.js 22 and the packages are installed below TARGETDIR.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
fail() {
  echo "page: $1" >&2
  exit 1
}
[ $# -ge 1 ] || fail "name a directory for Node.js and the packages: e2e.sh TARGETDIR [NAME…]"
mkdir -p "$1"
target=$(cd "$1" && pwd)
shift

. "$here/install.sh"
copy_sources "$target/e2e"
cd "$target/e2e"
exec "$its_bin/node" e2e/run.js "$@"
