#!/bin/sh
# Checks the files beside it: check.sh DIRECTORY PROGRAM
# compose.yaml against the schema of Compose, kubernetes/ against those of Kubernetes, the options in both against PROGRAM, and the
# Caddyfile in Caddy itself, between a client and two servers on this machine. The programs that know the schemas are installed
# from PyPI into DIRECTORY.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# = 2 ] || {
  echo "check.sh DIRECTORY PROGRAM" >&2
  exit 2
}
mkdir -p "$1"
directory=$(cd "$1" && pwd)
packages="check-jsonschema==0.39.0 kubernetes-validate==1.37.0"
if [ "$(cat "$directory/installed" 2>/dev/null)" != "$packages" ]; then
  echo "installing $packages into $directory"
  rm -rf "$directory/venv" "$directory/installed"
  python3 -m venv "$directory/venv"
  # Two words, two packages.
  # shellcheck disable=SC2086
  timeout 600 "$directory/venv/bin/pip" install --quiet --disable-pip-version-check --no-compile $packages
  echo "$packages" >"$directory/installed"
fi
"$directory/venv/bin/check-jsonschema" --quiet --builtin-schema vendor.compose-spec "$here/compose.yaml"
for version in 1.31.0 1.37.0; do
  "$directory/venv/bin/kubernetes-validate" --quiet --strict --kubernetes-version "$version" "$here"/kubernetes/*.yaml
done
echo "compose.yaml and kubernetes/ follow their schemas"
timeout 120 "$directory/venv/bin/python" "$here/check.py" "$directory" "$2"
