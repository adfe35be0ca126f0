#!/usr/bin/env python3
"""Turn commit subjects into a Keep a Changelog section."""

import argparse
import os
import re
import sys
from datetime import date

CATEGORIES = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
TYPES = {
    "feat": "Added", "feature": "Added",
    "fix": "Fixed", "bugfix": "Fixed", "hotfix": "Fixed",
    "perf": "Changed", "change": "Changed", "update": "Changed", "improve": "Changed",
    "deprecate": "Deprecated", "deprecated": "Deprecated",
    "remove": "Removed", "removed": "Removed",
    "security": "Security", "sec": "Security",
}  # fmt: skip
INTERNAL = {"docs", "doc", "test", "tests", "ci", "build", "chore", "style", "refactor", "deps", "release"}
VERBS = {
    "Added": "add adds added introduce implement support allow create enable",
    "Fixed": "fix fixes fixed correct repair resolve prevent avoid handle",
    "Removed": "remove removes removed delete drop",
    "Deprecated": "deprecate deprecates deprecated",
    "Security": "secure harden sanitize sanitise",
    "Changed": "change changes changed update improve rename move replace make use switch speed reduce increase "
    "upgrade bump refactor simplify",
}
FIRST_WORDS = {word: category for category, words in VERBS.items() for word in words.split()}
# English words that look like an abbreviated hash.
NOT_A_HASH = {"acceded", "defaced", "effaced"}
# Leading list marks and an abbreviated hash, as in `git log --oneline`.
PREFIX = re.compile(r"^(?:[-*+]\s+)?(?:(?P<hash>[0-9a-f]{7,40})\s+)?(?P<subject>.*)$")
CONVENTIONAL = re.compile(r"^(?P<type>[A-Za-z]+)(?:\((?P<scope>[^()]{1,60})\))?(?P<bang>!)?:\s+(?P<text>\S.*)$")
BREAKING = re.compile(r"^BREAKING[ -]CHANGES?:\s*(?P<text>.*)$")
REVERT = re.compile(r'^Revert "(?P<subject>.+)"$')
NOISE = re.compile(r"^(?:Merge (?:branch|pull request|remote-tracking|tag|commit)\b|fixup!|squash!|amend!|wip\b)", re.I)
TRAILER = re.compile(r"^(?:[A-Z][A-Za-z]*(?:-[A-Za-z]+)+|Refs|Closes|Fixes|See): \S")
ISSUE = re.compile(r"\s*\((?P<refs>(?:#\d+)(?:[,\s]+#\d+)*)\)")
VERSION = re.compile(r"^v?(\d+)\.(\d+)\.(\d+)$")
HEADING = re.compile(r"^## \[?(?P<name>[^\]\s]+)\]?", re.M)
LINK_REFERENCE = re.compile(r"^\[[^\]]+\]:\s", re.M)
MAX_SUBJECT = 1000
MAX_NAMED = 20  # doubtful subjects named on standard error


class Entry:
    """One change."""

    def __init__(self, category, text, scope=None, commit=None, breaking=False, certain=True, original=""):
        self.category = category  # None: not for users
        self.text = text
        self.scope = scope
        self.breaking = breaking
        self.breaking_text = ""
        self.certain = certain
        self.original = original
        self.commits = [commit] if commit else []
        self.refs = []

    def key(self):
        return (self.category, self.scope, self.text.casefold())


def tidy(text):
    """Return (text without issue references, references)."""
    refs = []

    def collect(match):
        refs.extend(re.findall(r"#\d+", match["refs"]))
        return ""

    text = " ".join(ISSUE.sub(collect, text).split()).rstrip(".")
    first = text.split(" ", 1)[0]
    # Leave names alone: `code`, --flags, camelCase, file.ext.
    if first.isalpha() and first.islower():
        text = first[0].upper() + text[1:]
    return text, refs


def classify(subject):
    """Return the Entry of one subject, without hash and references."""
    match = CONVENTIONAL.match(subject)
    if match:
        kind, scope = match["type"].lower(), match["scope"]
        breaking = bool(match["bang"])
        if scope and scope.lower() == "security":
            return Entry("Security", match["text"], None, breaking=breaking)
        if kind in TYPES:
            return Entry(TYPES[kind], match["text"], scope, breaking=breaking)
        if kind in INTERNAL:
            return Entry(None, match["text"], scope, breaking=breaking)
        if kind == "revert":
            return Entry("Changed", f"revert: {match['text']}", scope, breaking=breaking)
        if kind in FIRST_WORDS:
            # "fixed: ..." and the like; the verb stays in the type.
            return Entry(FIRST_WORDS[kind], match["text"], scope, breaking=breaking)
    first = re.split(r"[\s:(]", subject, maxsplit=1)[0].lower()
    if first in FIRST_WORDS:
        return Entry(FIRST_WORDS[first], subject)
    return Entry("Changed", subject, certain=False)


def parse(lines, include_all):
    """Return (entries, number dropped, subjects cancelled by a revert)."""
    entries, reverts, dropped = [], [], 0
    with_hashes = None  # decided by the first subject
    for line in lines:
        line = "".join(ch if ch.isprintable() else " " for ch in line[:MAX_SUBJECT]).strip()
        if not line or line.startswith("# ") or TRAILER.match(line):
            continue
        note = BREAKING.match(line)
        if note:
            # Belongs to the subject above it.
            if entries:
                entries[-1].breaking = True
                entries[-1].breaking_text = note["text"].strip()
            continue
        match = PREFIX.match(line)
        commit, subject = match["hash"], match["subject"].strip()
        if commit in NOT_A_HASH:
            commit, subject = None, f"{commit} {subject}"
        if with_hashes is None:
            with_hashes = commit is not None
        if with_hashes and commit is None:
            continue  # the body of the commit above
        if not subject or NOISE.match(subject):
            dropped += 1
            continue
        revert = REVERT.match(subject)
        if revert:
            reverts.append((revert["subject"], commit))
            continue
        entry = classify(subject)
        entry.original = subject
        entry.text, entry.refs = tidy(entry.text)
        if not entry.text:
            dropped += 1
            continue
        if commit:
            entry.commits = [commit]
        entries.append(entry)

    cancelled = 0
    for subject, commit in reverts:
        target = next((e for e in entries if e.original == subject), None)
        if target:
            entries.remove(target)
            cancelled += 1
        else:
            text, refs = tidy(CONVENTIONAL.sub(lambda m: m["text"], subject))
            entry = Entry("Changed", f"Revert: {text}", commit=commit, original=subject)
            entry.refs = refs
            entries.append(entry)

    kept = {}
    for entry in entries:
        if entry.breaking and entry.category in (None, "Added"):
            # What breaks users is a change to them, whatever it adds.
            entry.category = "Changed"
        if entry.category is None:
            if not include_all:
                dropped += 1
                continue
            entry.category = "Changed"
        if entry.key() in kept:
            same = kept[entry.key()]
            same.commits += [c for c in entry.commits if c not in same.commits]
            same.refs += [r for r in entry.refs if r not in same.refs]
            same.breaking = same.breaking or entry.breaking
        else:
            kept[entry.key()] = entry
    return list(kept.values()), dropped, cancelled


def next_version(previous, entries):
    """Return the version that follows from the changes."""
    major, minor, patch = map(int, VERSION.match(previous).groups())
    if any(e.breaking for e in entries):
        return f"{major + 1}.0.0" if major else f"0.{minor + 1}.0"
    if major and any(e.category in ("Added", "Deprecated", "Removed") for e in entries):
        return f"{major}.{minor + 1}.0"
    return f"{major}.{minor}.{patch + 1}"


def render_entry(entry, repo_url):
    text = entry.text
    if entry.breaking:
        text = f"**Breaking{f' ({entry.scope})' if entry.scope else ''}:** {text}"
        if entry.breaking_text:
            text += f". {entry.breaking_text[0].upper()}{entry.breaking_text[1:].rstrip('.')}"
    elif entry.scope:
        text = f"**{entry.scope}:** {text}"
    links = []
    for ref in entry.refs:
        links.append(f"[{ref}]({repo_url}/issues/{ref[1:]})" if repo_url else ref)
    if repo_url:
        links += [f"[`{c[:7]}`]({repo_url}/commit/{c})" for c in entry.commits]
    return f"- {text} ({', '.join(links)})" if links else f"- {text}"


def render(version, day, entries, repo_url):
    """Return the section as text."""
    heading = f"## [{version}]" + (f" - {day}" if day else "")
    lines = [heading]
    for category in CATEGORIES:
        chosen = [e for e in entries if e.category == category]
        if chosen:
            # Breaking first, otherwise in the order of the input.
            chosen.sort(key=lambda e: not e.breaking)
            lines += ["", f"### {category}", "", *(render_entry(e, repo_url) for e in chosen)]
    if not entries:
        lines += ["", "No user-visible changes."]
    return "\n".join(lines) + "\n"


def insert(changelog, section, version):
    """Return the changelog with the section above the newest version, or None if it is there already."""
    headings = list(HEADING.finditer(changelog))
    if any(h["name"].lower().removeprefix("v") == version.lower() for h in headings):
        return None
    position = next((h.start() for h in headings if h["name"].lower() != "unreleased"), None)
    if position is None:
        # No version yet: before the link references, or at the end.
        start = headings[-1].end() if headings else 0
        link = LINK_REFERENCE.search(changelog, start)
        position = link.start() if link else len(changelog)
    before, after = changelog[:position].rstrip("\n"), changelog[position:].lstrip("\n")
    result = f"{before}\n\n{section}" if before else section
    return f"{result}\n{after}" if after else result


def read_text(path, parser):
    try:
        if path == "-":
            if sys.stdin is None or sys.stdin.isatty():
                parser.error("nothing on standard input")
            data = sys.stdin.buffer.read()
        else:
            with open(path, "rb") as stream:
                data = stream.read()
    except OSError as error:
        parser.error(f"cannot read {path}: {error.strerror}")
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\0", "")


def write_text(path, text):
    """Write a file whole or not at all; `-` is standard output."""
    if path == "-":
        sys.stdout.write(text)
        return
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(None, "not a regular file", path)
    temporary = f"{path}.tmp"
    with open(temporary, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as stream:
        stream.write(text)
    os.replace(temporary, path)


def main():
    parser = argparse.ArgumentParser(
        description="Turn commit subjects into a Keep a Changelog section.",
        epilog="exit codes: 0 written, 1 unsorted subjects (--strict) or version already there, "
        "2 wrong usage or unreadable file",
    )
    default = os.path.join(os.environ.get("OUTPUT_DIR") or "out", "section.md")
    parser.add_argument("file", metavar="FILE", nargs="?", default="-", help="commit subjects, one per line, or - for standard input")
    parser.add_argument("-o", "--output", metavar="FILE", default=default, help="result file (default out/section.md), - prints")
    parser.add_argument("--version", metavar="V", help="version of the release, or auto (default: Unreleased)")
    parser.add_argument("--previous", metavar="V", help="the version before, such as 1.3.2")
    parser.add_argument("--date", metavar="D", help="release date, YYYY-MM-DD")
    parser.add_argument("--into", metavar="FILE", help="put the section into a copy of this changelog")
    parser.add_argument("--repo-url", metavar="URL", help="link issues and commits below this address")
    parser.add_argument("--all", action="store_true", help="also list docs, tests, refactoring and chores")
    parser.add_argument("--strict", action="store_true", help="exit 1 if a subject could not be sorted for certain")
    args = parser.parse_args()

    if args.previous and not VERSION.match(args.previous):
        parser.error("--previous must look like 1.3.2")
    if args.version == "auto" and not args.previous:
        parser.error("--version auto needs --previous")
    if args.version and (len(args.version) > 64 or re.search(r"[\s\[\]]", args.version)):
        parser.error("--version must be a short word without blanks or brackets")
    if args.into and not args.version:
        parser.error("--into needs --version")
    if args.date:
        try:
            if date.fromisoformat(args.date).isoformat() != args.date:
                raise ValueError
        except ValueError:
            parser.error("--date must be a day such as 2024-06-03")
    if args.repo_url and not re.fullmatch(r"https?://[^\s()<>]+", args.repo_url):
        parser.error("--repo-url must start with http:// or https://")

    entries, dropped, cancelled = parse(read_text(args.file, parser).split("\n"), args.all)
    version = args.version or "Unreleased"
    if args.previous:
        suggested = next_version(args.previous, entries)
        if version == "auto":
            version = suggested
    version = version.removeprefix("v") if VERSION.match(version) else version
    section = render(version, args.date, entries, (args.repo_url or "").rstrip("/"))
    if args.into:
        result = insert(read_text(args.into, parser), section, version)
        if result is None:
            print(f"changelog.py: error: {args.into} already has a section for {version}", file=sys.stderr)
            return 1
    else:
        result = section
    try:
        write_text(args.output, result)
    except OSError as error:
        parser.error(f"cannot write {error.filename or args.output}: {error.strerror}")

    unsorted = [e for e in entries if not e.certain]
    print(
        f"changelog.py: {len(entries)} entries for {version}, {dropped} left out, {cancelled} cancelled by reverts"
        + ("" if args.output == "-" else f"; written to {args.output}"),
        file=sys.stderr,
    )
    if args.previous:
        print(f"changelog.py: after {args.previous} these changes make {suggested}", file=sys.stderr)
    for entry in unsorted[:MAX_NAMED]:
        print(f"changelog.py: not sure where this belongs, put under Changed: {entry.original[:120]}", file=sys.stderr)
    if len(unsorted) > MAX_NAMED:
        print(f"changelog.py: and {len(unsorted) - MAX_NAMED} more like these", file=sys.stderr)
    return 1 if args.strict and unsorted else 0


if __name__ == "__main__":
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (head, less) has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 0
    sys.exit(code)
