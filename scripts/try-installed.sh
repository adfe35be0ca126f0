#!/bin/sh
# Tries what was installed into a directory as somebody who has nothing but it and the example skills.
set -eu
bin=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."

there=$(ls "$bin")
test "$there" = prowess || { echo "one binary was to be installed, and there are: $there" >&2; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/home"
prowess() {
  env -i HOME="$scratch/home" PATH=/usr/bin:/bin "$bin/prowess" "$@"
}
fail() {
  echo "the installed binary: $1" >&2
  exit 1
}

version=$(prowess --version)
echo "$version"
if [ -z "${PROWESS_COMMIT+said}" ] && git ls-files --error-unmatch crates/cli/build.rs >/dev/null 2>&1; then
  commit=$(git rev-parse --short=7 HEAD)
  case $version in *"($commit, "*) ;; *) fail "its version does not name the commit $commit" ;; esac
fi
prowess list --only --root examples/skills >"$scratch/list"
test "$(wc -l <"$scratch/list")" -eq "$(ls examples/skills | wc -l)" || fail "list shows not every example"
prowess man >"$scratch/prowess.1"
prowess man "$scratch/man1"
cmp "$scratch/prowess.1" "$scratch/man1/prowess.1" || fail "man prints another page than it writes"
prowess completions bash >"$scratch/completions"
bash -n "$scratch/completions" || fail "bash does not understand its completions"
test -z "$(ls -A "$scratch/home")" || fail "it leaves files in the home"

# What needs another build says so.
mkdir -p "$scratch/home/.config/prowess"
cat >"$scratch/home/.config/prowess/prowess.toml" <<END
[serve.oidc]
issuer = "https://login.example.com"
client_id = "prowess"
public_url = "https://agent.example.com"
END
! prowess serve --listen 127.0.0.1:0 >"$scratch/serve" 2>&1 || fail "it serves without OpenID Connect, which is configured"
grep -q -- "--features oidc" "$scratch/serve" || fail "it does not say how to get OpenID Connect: $(cat "$scratch/serve")"
