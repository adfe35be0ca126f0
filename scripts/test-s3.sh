#!/bin/sh
# Runs a command while a server on loopback speaks S3's protocol (moto, from PyPI), and stops it after.
#
#   scripts/test-s3.sh COMMAND...
set -eu

venv=${CARGO_TARGET_DIR:-target}/s3-venv
port=${PROWESS_TEST_S3_PORT:-19750}
if [ ! -e "$venv/installed" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check 'moto[server]' boto3
  touch "$venv/installed"
fi
"$venv/bin/moto_server" -H 127.0.0.1 -p "$port" >"$venv/server.log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
make_bucket="import boto3; boto3.client('s3', endpoint_url='http://127.0.0.1:$port', aws_access_key_id='test', aws_secret_access_key='test', region_name='us-east-1').create_bucket(Bucket='prowess')"
tries=0
until "$venv/bin/python" -c "$make_bucket" 2>/dev/null; do
  tries=$((tries + 1))
  if [ "$tries" -ge 30 ]; then
    echo "the server does not answer; its words are in $venv/server.log" >&2
    exit 1
  fi
  sleep 1
done
PROWESS_TEST_S3=http://127.0.0.1:$port "$@"
