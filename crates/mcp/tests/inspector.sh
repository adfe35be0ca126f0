#!/bin/sh
# Runs the command lines of the MCP Inspector, which others wrote, against PROGRAM: inspector.sh DIRECTORY PROGRAM
# The Inspector is installed from npm into DIRECTORY, with the Node.js that it wants.
set -eu
here=$(dirname "$0")
mkdir -p "$1"
directory=$(cd "$1" && pwd)
version=2.12.0
its_node=22.23.3

fail() {
  echo "the MCP Inspector: $1" >&2
  exit 1
}

. "$here/../../../scripts/npm.sh"
find_platform
# The package `node` would install that of the platform by a script of its own; this is that.
install_packages "node-$platform@$its_node" "@modelcontextprotocol/inspector@$version"
modules="$directory/node_modules"
for revision in 2025-11-25 2026-07-28; do
  timeout 180 python3 "$here/inspector.py" "$modules/node-$platform/bin/node" \
    "$modules/@modelcontextprotocol/inspector" "$2" "$revision" || fail "it failed with revision $revision"
done
