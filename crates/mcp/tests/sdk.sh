#!/bin/sh
# Runs a client on the official Python SDK, which others wrote, against PROGRAM: sdk.sh DIRECTORY PROGRAM
# The SDK is installed from PyPI into DIRECTORY.
set -eu
here=$(dirname "$0")
mkdir -p "$1"
directory=$(cd "$1" && pwd)
version=2.3.0
yaml_version=6.0.3

fail() {
  echo "the Python SDK: $1" >&2
  exit 1
}

python="$directory/venv/bin/python"
if ! "$python" -c "import importlib.metadata as m; assert (m.version('mcp'), m.version('pyyaml')) == ('$version', '$yaml_version')" 2>/dev/null; then
  echo "installing mcp $version into $directory"
  rm -rf "$directory/venv"
  python3 -m venv "$directory/venv" || fail "python3 cannot make virtual environments: apt-get install python3-venv"
  timeout 600 "$directory/venv/bin/pip" install --quiet --disable-pip-version-check --no-compile "mcp==$version" "pyyaml==$yaml_version" ||
    fail "it could not be installed from PyPI"
fi

for revision in 2025-06-18 2025-11-25 2026-07-28; do
  for transport in stdio http; do
    timeout 120 "$python" "$here/sdk.py" "$2" "$revision" "$transport" ||
      fail "its client failed with revision $revision over $transport"
  done
done
