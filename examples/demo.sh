#!/bin/sh
# Shows prowess at work on the example skills. Needs no key and no network.
set -eu
prowess=${1:-prowess}
case $prowess in
  /*) ;;
  */*) prowess=$PWD/$prowess ;;
esac
cd "$(dirname "$0")"

bold='' faint='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
  bold=$(printf '\033[1m') faint=$(printf '\033[2m') plain=$(printf '\033[0m')
fi

title() {
  printf '\n%s== %s%s\n%s$ prowess %s%s\n' "$bold" "$1" "$plain" "$faint" "$2" "$plain"
}

step() {
  title "$1" "$2"
  # shellcheck disable=SC2086 # the words of the command are meant to be split
  "$prowess" $2
}

step "Find the skills" "list --only --root skills --resources"
step "Check them against the open specification" "check skills"
step "Know one of them" "info python-math --only --root skills"
step "Find one by words" "search errors in a log --only --root skills"
step "See what a model is told" "prompt --only --root skills --form list"

title "Load one as a model does, and unload it" "session --only --root skills -c 'load meeting-notes' -c loaded -c 'unload meeting-notes'"
"$prowess" session --only --root skills --show answer -c 'load meeting-notes' -c loaded -c 'unload meeting-notes' |
  awk '/^> /{shown = 0} shown < 9 {print} shown == 9 {print "…"} {shown++}'

scratch=$(mktemp -d)
trap 'chmod -R u+w "$scratch" && rm -rf "$scratch"' EXIT # a staged skill is read-only
chmod 711 "$scratch"
if "$prowess" doctor --workspace "$scratch/kept" >/dev/null 2>&1; then
  step "Run one, isolated" "run csv-report --only --root skills --workspace $scratch/kept --save -- python3 scripts/csv_profile.py assets/orders.csv -o out/report.md"
  step "Keep what it made" "artifacts list --workspace $scratch/kept"
else
  title "See why none can run here" "doctor"
  "$prowess" doctor --workspace "$scratch/kept" || true
fi
step "Make a skill of your own" "new tide-tables --in $scratch"
step "Which is valid from the start" "check $scratch/tide-tables"
printf -- '---\nname: Tide_Tables\ndescription: Looks up tides. Use when: a boat leaves.\nallowed-tools: Read, Bash(git:*)\n---\nLook it up.\n' >"$scratch/tide-tables/SKILL.md"
title "Break it, and be told how" "check $scratch/tide-tables"
"$prowess" check "$scratch/tide-tables" || true
title "Have it mended" "check --fix $scratch/tide-tables"
"$prowess" check --fix "$scratch/tide-tables"
