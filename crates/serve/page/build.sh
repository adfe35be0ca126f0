#!/bin/sh
# Builds the page: build.sh TARGETDIR [OUTPUT]
# Node.js 22 and the packages of package-lock.json are installed below TARGETDIR, which also has a copy of the sources. The
# built files replace those in OUTPUT, which is crates/serve/assets unless you name another directory.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
fail() {
  echo "page: $1" >&2
  exit 1
}
[ $# -ge 1 ] || fail "name a directory for Node.js and the packages: build.sh TARGETDIR [OUTPUT]"
mkdir -p "$1"
target=$(cd "$1" && pwd)
output=${2:-$here/../assets}
mkdir -p "$output"
output=$(cd "$output" && pwd)

. "$here/install.sh"
copy_sources "$target/page"
in_page "$target/page" build --outDir "$output" --logLevel warn
