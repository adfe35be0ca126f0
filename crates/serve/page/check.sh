#!/bin/sh
# Checks that the built files in crates/serve/assets are those of the sources, byte for byte: check.sh TARGETDIR
# Builds the page in two directories of different names and lengths, and runs the unit tests. Node.js 22 and the packages are
# installed below TARGETDIR.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
fail() {
  echo "page: $1" >&2
  exit 1
}
[ $# -eq 1 ] || fail "name a directory for Node.js and the packages: check.sh TARGETDIR"
mkdir -p "$1"
target=$(cd "$1" && pwd)

. "$here/install.sh"
for place in "$target/check/one" "$target/check/another directory/two"; do
  copy_sources "$place/page"
  mkdir -p "$place/assets"
  in_page "$place/page" build --outDir "$place/assets" --logLevel warn
  diff -r "$place/assets" "$here/../assets" >&2 ||
    fail "crates/serve/assets differs from its sources: run crates/serve/page/build.sh TARGETDIR, and commit the result"
done
in_page "$target/check/one/page" test --reporter=dot
echo "page: the built files are those of the sources, and the unit tests passed"
