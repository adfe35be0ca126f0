#!/bin/sh
# Uses PROGRAM and `skills`, the installer that others wrote, on the same projects: skills.sh DIRECTORY PROGRAM [smoke]
# Each tool lists, updates and removes what the other installed, and both locks stay right. With `smoke`, only the shortest
# part runs. `skills` is installed from npm into DIRECTORY, with the Node.js that it wants. All sources are Git repositories
# on this machine.
set -eu
here=$(dirname "$0")
mkdir -p "$1"
directory=$(cd "$1" && pwd)
program=$2
part=${3:-all}
version=1.7.4
its_node=22.23.3

fail() {
  if [ -n "${output:-}" ] && [ -s "$output" ]; then
    echo "--- the output of the last command:" >&2
    tail -40 "$output" >&2
    echo "---" >&2
  fi
  echo "skills $version: $1" >&2
  exit 1
}

case $program in
  /*) ;;
  *) program="$(pwd)/$program" ;;
esac
[ -x "$program" ] || fail "there is no program $program"
case $part in
  all | smoke) ;;
  *) fail "the third argument is \`smoke\` or nothing, not \`$part\`" ;;
esac

. "$here/../../../scripts/npm.sh"
find_platform
# The package `node` would install that of the platform by a script of its own; this is that.
install_packages "node-$platform@$its_node" "skills@$version"
modules="$directory/node_modules"

base=$(mktemp -d)
base=$(cd "$base" && pwd -P)
trap 'rm -rf "$base"' EXIT
trap 'exit 1' INT TERM
output="$base/output"
home="$base/home"
mkdir "$home" "$base/tmp"

# Runs a command without the environment of this process: settings of a person or an agent would change what both tools do.
clean() {
  env -i HOME="$home" TMPDIR="$base/tmp" LANG=C.UTF-8 NO_COLOR=1 DISABLE_TELEMETRY=1 DO_NOT_TRACK=1 \
    PATH="$modules/node-$platform/bin:$PATH" GIT_CONFIG_NOSYSTEM=1 timeout 120 "$@" </dev/null
}

# Runs prowess, and fails unless it ends with this code: prowess CODE ARGUMENT…
prowess() {
  code=$1
  shift
  found=0
  clean "$program" "$@" >"$output" 2>&1 || found=$?
  [ "$found" = "$code" ] || fail "\`prowess $*\` in $(basename "$PWD") ended with $found, not $code"
}

# The same for skills.
skills() {
  code=$1
  shift
  found=0
  clean "$modules/node-$platform/bin/node" "$modules/skills/bin/cli.mjs" "$@" >"$output" 2>&1 || found=$?
  [ "$found" = "$code" ] || fail "\`skills $*\` in $(basename "$PWD") ended with $found, not $code"
}

says() {
  grep -qF -- "$1" "$output" || fail "the last command should say: $1"
}

says_not() {
  ! grep -qF -- "$1" "$output" || fail "the last command should not say: $1"
}

# Evaluates Python on the JSON of a file, which is `it`: json FILE CONDITION MESSAGE
json() {
  python3 -c 'import json, sys
it = json.load(open(sys.argv[1]))
sys.exit(0 if eval(sys.argv[2]) else 1)' "$1" "$2" || {
    cat "$1" >&2
    fail "$3 (not true of $(basename "$1"): $2)"
  }
}

# Changes the JSON of a file by a Python statement.
edit() {
  python3 -c 'import json, sys
it = json.load(open(sys.argv[1]))
exec(sys.argv[2])
json.dump(it, open(sys.argv[1], "w"), indent=2)' "$1" "$2"
}

# Fails unless `skills list` has a skill with this source, for Claude Code: skills_lists NAME SOURCE [-g]
skills_lists() {
  name=$1
  source=$2
  shift 2
  skills 0 list --json "$@"
  json "$output" "[s for s in it if s['name'] == '$name' and s['source'] == '$source' and 'Claude Code' in s['agents']]" \
    "skills does not list $name with its source and its link"
}

# Fails unless the link of Claude Code to a skill is the one that both tools make: linked PLACE NAME
linked() {
  [ "$(readlink "$1/.claude/skills/$2")" = "../../.agents/skills/$2" ] || fail "$1/.claude/skills/$2 is not the link of $2"
  [ -f "$1/.claude/skills/$2/SKILL.md" ] || fail "the link of $2 leads to no skill"
}

# Fails if a place has anything of a skill: gone PLACE NAME
gone() {
  for path in "$1/.agents/skills/$2" "$1/.claude/skills/$2" "$1/agent/skills/$2"; do
    if [ -e "$path" ] || [ -L "$path" ]; then fail "$path should be gone"; fi
  done
}

# Fails unless disk and locks agree for both tools: agreed [-g]
agreed() {
  prowess 0 verify "$@"
  says "as in the lock"
  skills 0 check "$@"
  says "up to date"
}

project() {
  mkdir "$base/$1"
  cd "$base/$1"
  clean git init -q
}

manifest() {
  printf -- '---\nname: %s\ndescription: Use it to test the tool %s.\n---\n# %s\n' "$1" "$1" "$1"
}

commit() {
  clean git -C "$repository" add -A
  clean git -C "$repository" commit -qm "$1"
}

change() {
  echo "$1" >>"$repository/skills/$2/SKILL.md"
  commit "$1"
}

clean git config --global user.name test
clean git config --global user.email test@example.test
clean git config --global init.defaultBranch main
# `skills` records a global skill of a repository only if its URL has an owner. Git gets this one from here.
clean git config --global "url.file://$base/.insteadOf" https://git.example.test/team/

# `skills update` fails with other file: URLs than those that end in .git.
repository="$base/kit.git"
url="file://$repository"
clean git init -q "$repository"
mkdir -p "$repository/skills/alpha/scripts/nested" "$repository/skills/alpha/references" "$repository/skills/beta"
manifest alpha >"$repository/skills/alpha/SKILL.md"
manifest beta >"$repository/skills/beta/SKILL.md"
(
  cd "$repository/skills/alpha"
  for name in a-b.md a.md B.md README.md _x Zebra.txt z.txt 10.txt 9.txt é.md references/Data.CSV references/a_b references/a-c; do
    echo "$name" >"$name"
  done
  printf '#!/bin/sh\necho hello\n' >scripts/run.sh
  chmod 755 scripts/run.sh
  printf 'print(1)\n' >scripts/nested/Do.py
  # Neither tool installs these, but `skills` hashes them.
  echo '{"a": 1}' >metadata.json
  echo '{"b": 1}' >references/metadata.json
)
commit "The first version"

smoke() {
  project smoke
  prowess 0 add "$url" -s alpha -a claude-code -y
  skills_lists alpha "$url"
  linked . alpha
  skills 0 add "$url" -s beta -a claude-code codex -y
  linked . beta
  prowess 0 list
  says beta
  prowess 1 verify
  says "beta: another tool added it"
  prowess 0 add "$url" -s beta -a claude-code -y
  agreed
  skills 0 remove alpha -y
  gone . alpha
  prowess 1 verify
  says "alpha: another tool removed it"
  says "alpha: is missing"
  prowess 0 remove alpha beta -y
  gone . alpha
  gone . beta
  json skills-lock.json "it['skills'] == {}" "a removed skill is in the lock"
  json prowess-lock.json "it['skills'] == {}" "a removed skill is in the lock"
}

# Both tools write the same files, links and locks for the same skills.
same_files() {
  project by-prowess
  prowess 0 add "$url" -s alpha beta -a claude-code codex -y
  project by-skills
  skills 0 add "$url" -s alpha beta -a claude-code codex -y
  cmp skills-lock.json ../by-prowess/skills-lock.json || {
    diff skills-lock.json ../by-prowess/skills-lock.json >"$output" || true
    fail "the tools write different skills-lock.json"
  }
  for place in by-prowess by-skills; do
    # The names, modes and digests of all files and links. `skills` also makes empty directories.
    (cd "$base/$place" && find .agents .claude \( -type f -o -type l \) | LC_ALL=C sort | while read -r path; do
      if [ -L "$path" ]; then echo "$path -> $(readlink "$path")"; else echo "$(stat -c %a "$path") $(sha256sum "$path")"; fi
    done) >"$base/$place.files"
  done
  diff "$base/by-prowess.files" "$base/by-skills.files" >"$output" || fail "the tools install different files"
  grep -q '^755 .*scripts/run.sh' "$base/by-prowess.files" || fail "scripts/run.sh is not executable"
  # The lock of a tool is enough for the other to see that there is nothing to do.
  cd "$base/by-prowess"
  agreed
  skills 0 add "$url" -s alpha beta -a claude-code codex -y
  agreed
  json prowess-lock.json "len(it['skills']['alpha']['commit']) == 40" "prowess records no commit"
}

# What prowess added, `skills` lists, updates and removes.
prowess_first() {
  project prowess-first
  prowess 0 add "$url" -s alpha beta -a claude-code -y
  skills_lists alpha "$url"
  skills_lists beta "$url"
  agreed
  change "A change that skills fetches" alpha
  skills 0 update -y
  says "Updated alpha"
  linked . alpha
  grep -q "that skills fetches" .agents/skills/alpha/SKILL.md || fail "skills update changed nothing"
  prowess 1 verify
  says "alpha: another tool changed its files"
  says_not beta
  prowess 1 install --frozen
  prowess 0 update -y
  agreed
  # `check` of skills installs, too. Only a file that neither tool installs changed here.
  echo '{"a": 2}' >"$repository/skills/alpha/metadata.json"
  commit "Other metadata"
  skills 0 check
  says "Updated alpha"
  prowess 1 verify
  says "alpha: another tool changed its files"
  prowess 0 update -y
  agreed
  # `add` brings the locks in line, too.
  change "Another change" alpha
  skills 0 update alpha -y
  prowess 1 verify
  prowess 0 add "$url" -s alpha -y
  agreed
  # An update by prowess leaves nothing to do for skills.
  change "A change that prowess fetches" alpha
  prowess 1 outdated
  says alpha
  prowess 0 update -y
  agreed
  # Each tool restores from the lock of prowess what somebody deleted.
  rm -r .agents/skills/alpha
  skills 0 experimental_install
  agreed
  rm -r .agents/skills/alpha
  prowess 0 install --frozen
  agreed
  skills 0 remove alpha -y
  gone . alpha
  prowess 1 verify
  says "alpha: is missing"
  says "alpha: another tool removed it from skills-lock.json"
  says_not beta
  prowess 0 add "$url" -s alpha -a claude-code -y
  agreed
  linked . alpha
  skills 0 remove alpha beta -y
  gone . beta
  prowess 0 remove alpha beta -y
  prowess 0 verify
}

# What `skills` added, prowess lists, adopts, updates and removes.
skills_first() {
  project skills-first
  skills 0 add "$url" -s alpha beta -a claude-code codex -y
  linked . alpha
  prowess 0 list --json
  json "$output" "sorted(s['name'] for s in (it['skills'] if isinstance(it, dict) else it)) == ['alpha', 'beta']" \
    "prowess does not list each skill once"
  prowess 1 verify
  says "alpha: another tool added it"
  says "beta: another tool added it"
  prowess 0 add "$url" -s alpha -y
  prowess 1 verify
  says_not "alpha: "
  prowess 0 add "$url" -s beta -a claude-code -y
  agreed
  linked . alpha
  change "A change that prowess fetches" beta
  prowess 0 update -y
  agreed
  skills_lists beta "$url"
  prowess 0 remove alpha -y
  gone . alpha
  linked . beta
  json skills-lock.json "list(it['skills']) == ['beta']" "the lock of skills is wrong"
  skills 0 list --json
  says_not alpha
  agreed
  prowess 0 remove beta -y
  gone . beta
  json skills-lock.json "it['skills'] == {}" "the lock of skills is wrong"
}

# For one agent, `skills` makes a copy in the directory of the agent and nothing in .agents.
copies() {
  project copies
  skills 0 add "$url" -s alpha -a claude-code -y
  [ -d .claude/skills/alpha ] && [ ! -L .claude/skills/alpha ] && [ ! -e .agents/skills/alpha ] ||
    fail "skills no longer makes a copy for one agent"
  prowess 0 list
  says alpha
  prowess 1 verify
  says "alpha: another tool added it"
  prowess 0 add "$url" -s alpha -y
  agreed
  change "A change for copies" alpha
  prowess 0 update -y
  grep -q "for copies" .claude/skills/alpha/SKILL.md || fail "prowess update left an old copy of alpha to Claude Code"
  agreed
  prowess 0 add "$url" -s alpha -a claude-code -y
  linked . alpha
  prowess 0 remove alpha -y
  gone . alpha
  # The same without an update in between.
  skills 0 add "$url" -s beta -a claude-code -y
  prowess 0 add "$url" -s beta -a claude-code -y
  linked . beta
  agreed
  prowess 0 remove beta -y
  gone . beta
}

# Keys that a later version of skills may write. skills itself drops them when it writes an entry.
unknown_keys() {
  project unknown-keys
  prowess 0 add "$url" -s alpha -a claude-code -y
  edit skills-lock.json "it['later'] = {'a': [1]}; it['skills']['alpha']['future'] = {'b': 2.5}; it['skills']['other'] = {'x': 1}"
  prowess 0 add "$url" -s beta -y
  change "A change beside unknown keys" alpha
  prowess 0 update -y
  keys="it['later'] == {'a': [1]} and it['skills']['other'] == {'x': 1}"
  json skills-lock.json "$keys and it['skills']['alpha']['future'] == {'b': 2.5}" "prowess update lost a key"
  prowess 0 add "$url" -s alpha -y
  json skills-lock.json "$keys and it['skills']['alpha']['future'] == {'b': 2.5}" "prowess add lost a key"
  skills_lists alpha "$url"
  prowess 0 remove alpha beta -y
  json skills-lock.json "$keys and list(it['skills']) == ['other']" "prowess remove lost a key"
}

# The skills of a user, and their lock.
global() {
  lock="$home/.agents/.skill-lock.json"
  named=https://git.example.test/team/kit.git
  project global
  skills 0 add "$named" -s alpha -a claude-code codex -g -y
  linked "$home" alpha
  cp "$lock" "$base/global.json"
  prowess 0 list
  says alpha
  prowess 1 verify -g
  says "alpha: another tool added it"
  edit "$lock" "it['later'] = [1]; it['lastSelectedAgents'] = ['codex']; it['skills']['alpha']['pinnedRef'] = 'v1'"
  prowess 0 add "$named" -s alpha -a claude-code -g -y
  linked "$home" alpha
  agreed -g
  json "$lock" "it['later'] == [1] and it['lastSelectedAgents'] == ['codex'] and it['version'] == 3" "prowess lost a key"
  json "$lock" "it['skills']['alpha'].pop('pinnedRef') == 'v1' and [it['skills']['alpha'].pop('updatedAt')] and \
    it['skills']['alpha'] == {k: v for k, v in json.load(open('$base/global.json'))['skills']['alpha'].items() if k != 'updatedAt'}" \
    "prowess writes another entry than skills"
  prowess 0 add "$named" -s beta -a claude-code -g -y
  skills_lists beta "$named" -g
  change "A change for a user" beta
  skills 0 update -g -y
  says "Updated beta"
  prowess 1 verify -g
  says "beta: another tool changed its files"
  says_not "alpha: "
  prowess 0 update -g -y
  agreed -g
  change "Another change for a user" alpha
  prowess 0 update -g -y
  agreed -g
  skills 0 remove beta -g -y
  gone "$home" beta
  prowess 1 verify -g
  says "beta: another tool removed it from .skill-lock.json"
  prowess 0 remove alpha beta -g -y
  gone "$home" alpha
  json "$lock" "it['skills'] == {} and it['later'] == [1]" "prowess remove left an entry or lost a key"
  prowess 0 verify -g
  skills 0 list -g --json
  json "$output" "it == []" "skills lists what prowess removed"
  # A directory is no repository: skills must not try to clone it.
  prowess 0 add "$repository/skills/beta" -g -y
  skills 0 check -g
  says_not "Failed"
  prowess 0 remove beta -g -y
}

smoke
if [ "$part" = all ]; then
  for scenario in same_files prowess_first skills_first copies unknown_keys global; do
    "$scenario"
    echo "skills $version: $scenario: ok"
  done
fi
echo "skills $version and prowess agree"
