#!/usr/bin/env bash
# Compare two versions of a text: checks the arguments, takes checksums, runs diff_report.py on
# the pair and prints the head of the summary.
set -euo pipefail

readonly max_bytes=$((5 * 1024 * 1024))
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<'TEXT'
usage: review.sh [options] OLD NEW

Compare two versions of a text. Writes summary.md, diff.html and changes.patch.

options:
  -o DIR      output directory (default $OUTPUT_DIR/review, or out/review)
  -c N        unchanged lines shown around a change (default 3)
  -s          compare sentences instead of lines
  -w          ignore differences in blanks
  -t TITLE    title of the page and the summary
  --check     exit 1 if the texts differ
  -h, --help  show this help

exit codes: 0 compared, 1 the texts differ (--check), 2 wrong usage or unreadable file
TEXT
}

fail() {
  printf 'review.sh: error: %s\n' "$1" >&2
  exit 2
}

# The value of an option that needs one.
value_of() {
  [[ $# -ge 2 ]] || fail "$1 needs a value"
  printf '%s' "$2"
}

out="${OUTPUT_DIR:-out}/review"
context=3
title=
check=0
flags=()
files=()
while [[ $# -gt 0 ]]; do
  case $1 in
    -o) out=$(value_of "$@"); shift 2 ;;
    -c) context=$(value_of "$@"); shift 2 ;;
    -t) title=$(value_of "$@"); shift 2 ;;
    -s) flags+=(--sentences); shift ;;
    -w) flags+=(--ignore-blanks); shift ;;
    --check) check=1; shift ;;
    -h | --help) usage; exit 0 ;;
    --) shift; files+=("$@"); break ;;
    -?*) usage >&2; fail "unknown option $1" ;;
    *) files+=("$1"); shift ;;
  esac
done

[[ ${#files[@]} -eq 2 ]] || { usage >&2; fail "expected OLD and NEW, got ${#files[@]} file(s)"; }
[[ $context =~ ^[0-9]{1,4}$ ]] || fail "-c takes a number from 0 to 9999, not '$context'"
[[ -n $out ]] || fail "-o needs a directory"
for file in "${files[@]}"; do
  [[ -e $file ]] || fail "no such file: $file"
  [[ -f $file ]] || fail "not a regular file: $file"
  [[ -r $file ]] || fail "cannot read: $file"
  size=$(stat -Lc %s -- "$file")
  ((size <= max_bytes)) || fail "$file has $size bytes; the limit is $max_bytes, split it first"
done
command -v python3 > /dev/null || fail "python3 is not installed"
mkdir -p -- "$out" 2> /dev/null || fail "cannot create the directory $out"

checksum() {
  local line
  line=$(sha256sum < "$1")
  printf '%s' "${line%% *}"
}
old_sum=$(checksum "${files[0]}")
new_sum=$(checksum "${files[1]}")

[[ -z $title ]] || flags+=("--title=$title")
status=0
python3 "$here/diff_report.py" --dir="$out" --context="$context" \
  --checksums "$old_sum" "$new_sum" ${flags[@]+"${flags[@]}"} -- "${files[0]}" "${files[1]}" || status=$?
# 0: same text, 1: different, anything else is an error that has been explained.
((status <= 1)) || exit 2

# The summary up to the list of changes; the rest is in the file.
while IFS= read -r line; do
  [[ $line != '## Changes by section' && $line != '## Every change' ]] || break
  printf '%s\n' "$line"
done < "$out/summary.md"
printf 'Written: %s/summary.md, %s/diff.html, %s/changes.patch\n' "$out" "$out" "$out"

if ((check)); then exit "$status"; fi
