#!/usr/bin/env python3
"""Compare two texts and write summary.md, diff.html and changes.patch.

review.sh is the usual way to run it. Exit codes: 0 same text, 1 different, 2 error.
"""

import argparse
import bisect
import codecs
import difflib
import html
import os
import re
import sys
from collections import Counter

MAX_UNITS = 20_000
EXACT_UNITS = 3_000  # above this difflib may ignore very common lines
MAX_PAIRED = 40  # block size up to which lines are paired by likeness
MAX_WORDS = 800  # words per line up to which changed words are marked
MAX_LINE = 3_000  # characters of a line on the page
MAX_QUOTED = 200  # characters of a line in the summary
MAX_LISTED = 100  # changes and flags in the summary
MIN_LIKENESS = 0.4
MIN_MOVED = 30  # characters a passage needs before "moved" says something

WORD = re.compile(r"\w+|\s+|[^\w\s]")
COUNTED = re.compile(r"\w+(?:['\u2019-]\w+)*")
SENTENCE = re.compile(r".+?(?:[.!?\u2026][\"')\]\u201d\u2019]*(?=\s|$)|$)")
STANDALONE = re.compile(r"\s*(?:#{1,6}\s|\||>|```|~~~)")
ITEM = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s")
FENCE = re.compile(r"\s*(?:```|~~~)")
HEADING = re.compile(r"#{1,6}\s+(?P<title>.*?)\s*#*\s*$")
MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
LINK = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s<>\"')\]]+|\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+", re.I)
DATE = re.compile(
    rf"\b\d{{1,2}}(?:\.|st|nd|rd|th)? (?:{MONTHS})\b(?: \d{{4}}\b)?"
    rf"|\b(?:{MONTHS}) \d{{1,2}}\b(?:, ?\d{{4}}\b)?|\b(?:{MONTHS}) \d{{4}}\b"
    r"|\b\d{4}-\d{2}-\d{2}\b"
)
NUMBER = re.compile(r"[$\u20ac\u00a3]? ?\d+(?:[.,]\d+)*(?: ?%)?")
DUTY = re.compile(
    r"\b(?:must|shall|should|may|might|can|will|required?|requires|mandatory|optional|only|at least|at most|"
    r"always|never|guarantees?|solely|sole|exclusive(?:ly)?)\b",
    re.I,
)
NEGATION = re.compile(r"\b(?:not|no|never|none|neither|nor|without|except|unless|cannot)\b|n['\u2019]t\b", re.I)
# Each kind is searched in what the kinds before it have left over.
FLAGS = [("link", LINK), ("date", DATE), ("number", NUMBER), ("duty", DUTY), ("negation", NEGATION)]


class InputError(Exception):
    """A file that cannot be compared."""


class Text:
    """One version of the document."""

    def __init__(self, path):
        self.name = os.path.basename(path)
        try:
            with open(path, "rb") as stream:
                data = stream.read()
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from None
        encoding = "utf-8-sig"
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            encoding = "utf-16"
        elif b"\0" in data:
            raise InputError(f"{path} holds NUL bytes and does not look like text")
        self.text = data.decode(encoding, "replace")
        self.replaced = self.text.count("\ufffd")
        self.windows_ends = self.text.count("\r\n")
        self.raw_lines = self.text.split("\n")
        if self.raw_lines[-1] == "":
            self.raw_lines.pop()
            self.ends_with_newline = True
        else:
            self.ends_with_newline = not self.raw_lines
        if len(self.raw_lines) > MAX_UNITS:
            raise InputError(f"{path} has {len(self.raw_lines)} lines; the limit is {MAX_UNITS}, split it first")
        self.units = []  # what is compared: (line number, text)
        self.sections = []  # heading above each unit
        self.words = len(COUNTED.findall(self.text))

    def divide(self, by_sentence):
        numbered = [(n, line.removesuffix("\r") if by_sentence else line) for n, line in enumerate(self.raw_lines, 1)]
        self.units = list(sentences(numbered)) if by_sentence else numbered
        title, fenced = "", False
        for _, text in self.units:
            if FENCE.match(text):
                fenced = not fenced
            heading = None if fenced else HEADING.match(text)
            title = heading["title"] if heading else title
            self.sections.append(title)


def sentences(numbered):
    """Yield (line number, sentence); headings, tables, quotes and code stay line by line."""
    paragraph, fenced = [], False

    def flush():
        joined, starts = "", []
        for number, line in paragraph:
            starts.append((len(joined), number))
            joined += line.strip() + " "
        for match in SENTENCE.finditer(joined):
            if match.group().strip():
                first = match.start() + len(match.group()) - len(match.group().lstrip())
                yield max((s for s in starts if s[0] <= first))[1], match.group().strip()
        paragraph.clear()

    for number, line in numbered:
        if fenced or STANDALONE.match(line) or not line.strip():
            yield from flush()
            if FENCE.match(line):
                fenced = not fenced
            yield number, line
            continue
        if ITEM.match(line):
            yield from flush()
        paragraph.append((number, line))
    yield from flush()


class Change:
    """One difference: units old[a1:a2] became new[b1:b2]."""

    def __init__(self, old, new, a1, a2, b1, b2):
        self.old = old.units[a1:a2]
        self.new = new.units[b1:b2]
        self.bounds = (a1, a2, b1, b2)
        sections = new.sections[b1 : b1 + 1] or new.sections[b1 - 1 : b1] if b2 > b1 else old.sections[a1 : a1 + 1]
        self.section = sections[0] if sections else ""
        self.old_place = place(old, a1, a2)
        self.new_place = place(new, b1, b2)
        self.moved = ""
        self.words_out, self.words_in = self.count_words()

    def count_words(self):
        """Return how many words went out and came in."""
        before = COUNTED.findall(" ".join(text for _, text in self.old))
        after = COUNTED.findall(" ".join(text for _, text in self.new))
        if before and after and max(len(before), len(after)) <= 2 * MAX_WORDS:
            blocks = difflib.SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
            same = sum(block.size for block in blocks)
            return len(before) - same, len(after) - same
        return len(before), len(after)

    @property
    def kind(self):
        return "changed" if self.old and self.new else "removed" if self.old else "added"

    def flags(self):
        """Return [(kind, text)] for the telling words that came or went."""
        before = telling(" ".join(text for _, text in self.old))
        after = telling(" ".join(text for _, text in self.new))
        found = []
        for kind, _ in FLAGS:
            gone = list((before[kind] - after[kind]).elements())
            come = list((after[kind] - before[kind]).elements())
            if gone and come:
                found.append((kind, f"{listed(gone)} became {listed(come)}"))
            elif gone or come:
                found.append((kind, f"{listed(gone)} removed" if gone else f"{listed(come)} added"))
        old_titles = [m["title"] for _, text in self.old if (m := HEADING.match(text))]
        new_titles = [m["title"] for _, text in self.new if (m := HEADING.match(text))]
        if old_titles != new_titles:
            found.append(("heading", f"{listed(old_titles) or 'none'} became {listed(new_titles) or 'none'}"))
        return found


def telling(text):
    """Return the telling words of a text by kind."""
    found = {}
    for kind, pattern in FLAGS:
        words = [" ".join(m.group().split()).rstrip(".,;:") for m in pattern.finditer(text)]
        found[kind] = Counter(w.lower() if kind in ("duty", "negation") else w for w in words)
        if kind in ("link", "date"):
            text = pattern.sub(" ", text)
    return found


def listed(words):
    shown = ", ".join(code(word) for word in words[:6])
    return shown + (", ..." if len(words) > 6 else "")


def place(text, start, end):
    """Name the lines of units[start:end], or where they would be."""
    if start == end:
        return f"after line {text.units[start - 1][0]}" if start else "at the start"
    first, last = text.units[start][0], text.units[end - 1][0]
    return f"line {first}" if first == last else f"lines {first}-{last}"


def comparison_key(text, ignore_blanks):
    return "".join(text.split()) if ignore_blanks else text


def compare(old, new, ignore_blanks):
    """Return the differences of the units as opcodes in difflib's manner."""
    a = [comparison_key(text, ignore_blanks) for _, text in old.units]
    b = [comparison_key(text, ignore_blanks) for _, text in new.units]
    opcodes = refine(align(a, b), old.units, new.units)
    if ignore_blanks:
        # A blank line that comes or goes is a difference in blanks, too.
        opcodes = [
            ("blank", i1, i2, j1, j2) if op != "equal" and not any(a[i1:i2]) and not any(b[j1:j2]) else (op, i1, i2, j1, j2)
            for op, i1, i2, j1, j2 in opcodes
        ]
    return opcodes


def align(a, b):
    """Patience diff: lines that occur once in both texts are the fixed points.

    difflib alone prefers the longest run of equal lines, which a moved paragraph between two
    blank lines can win against a whole section.
    """
    matches = []  # (i, j) of equal lines, in order
    todo = [(0, len(a), 0, len(b))]
    while todo:
        i1, i2, j1, j2 = todo.pop()
        while i1 < i2 and j1 < j2 and a[i1] == b[j1]:
            matches.append((i1, j1))
            i1, j1 = i1 + 1, j1 + 1
        while i1 < i2 and j1 < j2 and a[i2 - 1] == b[j2 - 1]:
            i2, j2 = i2 - 1, j2 - 1
            matches.append((i2, j2))
        if i1 == i2 or j1 == j2:
            continue
        anchors = fixed_points(a, b, i1, i2, j1, j2)
        if anchors:
            matches += anchors
            edges = [(i1 - 1, j1 - 1), *anchors, (i2, j2)]
            todo += [(p + 1, i, q + 1, j) for (p, q), (i, j) in zip(edges, edges[1:])]
        else:
            matcher = difflib.SequenceMatcher(None, a[i1:i2], b[j1:j2], autojunk=max(i2 - i1, j2 - j1) > EXACT_UNITS)
            for i, j, size in matcher.get_matching_blocks():
                matches += [(i1 + i + k, j1 + j + k) for k in range(size)]
    opcodes, i, j = [], 0, 0
    for p, q in [*sorted(matches), (len(a), len(b))]:
        if p > i or q > j:
            opcodes.append(("replace" if p > i and q > j else "delete" if p > i else "insert", i, p, j, q))
        if p < len(a):
            if opcodes and opcodes[-1][0] == "equal" and opcodes[-1][2] == p and opcodes[-1][4] == q:
                opcodes[-1] = ("equal", opcodes[-1][1], p + 1, opcodes[-1][3], q + 1)
            else:
                opcodes.append(("equal", p, p + 1, q, q + 1))
        i, j = p + 1, q + 1
    return opcodes


def fixed_points(a, b, i1, i2, j1, j2):
    """Return the longest rising sequence of (i, j) where a line is unique in both ranges."""
    in_a, in_b = Counter(a[i1:i2]), Counter(b[j1:j2])
    at_b = {b[j]: j for j in range(j1, j2)}
    pairs = [(i, at_b[a[i]]) for i in range(i1, i2) if a[i].strip() and in_a[a[i]] == 1 and in_b[a[i]] == 1]
    tops, piles, before = [], [], {}
    for i, j in pairs:
        pile = bisect.bisect_left(tops, j)
        before[(i, j)] = piles[pile - 1] if pile else None
        tops[pile : pile + 1] = [j]
        piles[pile : pile + 1] = [(i, j)]
    chain, current = [], piles[-1] if piles else None
    while current:
        chain.append(current)
        current = before[current]
    return chain[::-1]


def refine(opcodes, old, new):
    """Split a replaced block into its pairs of similar lines and what lies between them."""
    result = []
    for op, i1, i2, j1, j2 in opcodes:
        if op != "replace" or max(i2 - i1, j2 - j1) > MAX_PAIRED:
            result.append((op, i1, i2, j1, j2))
            continue
        i, j, p, q = i1, j1, i1, j1
        for left, right in [*pair(old[i1:i2], new[j1:j2]), (None, None)]:
            if left and right or not (left or right):
                if p > i or q > j:
                    result.append(("replace" if p > i and q > j else "delete" if p > i else "insert", i, p, j, q))
                if left and right:
                    result.append(("replace", p, p + 1, q, q + 1))
                i, j = p + 1, q + 1
                p, q = i, j
            else:
                p, q = p + (left is not None), q + (right is not None)
    return result


def pair(old, new):
    """Match the lines of a changed block: yield (old or None, new or None) in order."""
    if len(old) > MAX_PAIRED or len(new) > MAX_PAIRED:
        for i in range(max(len(old), len(new))):
            yield (old[i] if i < len(old) else None), (new[i] if i < len(new) else None)
        return
    words_old = [WORD.findall(text[:MAX_LINE]) for _, text in old]
    words_new = [WORD.findall(text[:MAX_LINE]) for _, text in new]
    alike = [
        [difflib.SequenceMatcher(None, x[:MAX_WORDS], y[:MAX_WORDS]).ratio() for y in words_new] for x in words_old
    ]
    # The heaviest common subsequence, weighing a pair by its likeness.
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i in range(len(old) - 1, -1, -1):
        for j in range(len(new) - 1, -1, -1):
            together = alike[i][j] + best[i + 1][j + 1] if alike[i][j] >= MIN_LIKENESS else -1
            best[i][j] = max(together, best[i + 1][j], best[i][j + 1])
    i = j = 0
    while i < len(old) or j < len(new):
        if i < len(old) and j < len(new) and alike[i][j] >= MIN_LIKENESS and best[i][j] == alike[i][j] + best[i + 1][j + 1]:
            yield old[i], new[j]
            i, j = i + 1, j + 1
        elif i < len(old) and best[i][j] == best[i + 1][j]:
            yield old[i], None
            i += 1
        else:
            yield None, new[j]
            j += 1


def find_moves(changes):
    """Mark passages that were taken out in one place and put in, unchanged, in another."""

    def passage(units):
        return "\n".join(text.strip() for _, text in units if text.strip())

    removed = {}
    for change in changes:
        if change.kind == "removed" and len(passage(change.old)) >= MIN_MOVED:
            removed.setdefault(passage(change.old), change)
    moves = []
    for change in changes:
        source = removed.pop(passage(change.new), None) if change.kind == "added" else None
        if source:
            source.moved, change.moved = f"moved to {change.new_place}", f"moved from {source.old_place}"
            moves.append((source, change))
    return moves


def code(text):
    text = "".join(ch if ch.isprintable() else " " for ch in text.strip()).replace("`", "'")
    return f"`{text if len(text) <= MAX_QUOTED else text[: MAX_QUOTED - 3] + '...'}`"


def render_summary(title, old, new, changes, moves, notes, checksums):
    out = [f"# {title}", ""]
    if not changes:
        out += ["The texts are the same.", ""]
    kinds = Counter(change.kind for change in changes)
    out += ["| | Old | New |", "|---|---|---|", f"| File | {code(old.name)} | {code(new.name)} |"]
    out.append(f"| Lines | {len(old.raw_lines)} | {len(new.raw_lines)} |")
    out.append(f"| Words | {old.words} | {new.words} |")
    if checksums:
        out.append(f"| SHA-256 | `{checksums[0][:16]}` | `{checksums[1][:16]}` |")
    out.append("")
    if changes:
        out.append(
            f"{len(changes)} place(s) differ: {kinds['changed']} changed, {kinds['added']} added, {kinds['removed']} removed; "
            f"{sum(c.words_out for c in changes)} words went out and {sum(c.words_in for c in changes)} came in."
        )
        out.append("")
    out += [f"Note: {note}." for note in notes]
    if notes:
        out.append("")

    flagged = [(c, kind, text) for c in changes if not c.moved for kind, text in c.flags()]
    if changes:
        out += ["## Flags", ""]
        for change, kind, text in flagged[:MAX_LISTED]:
            where = change.new_place if change.new else f"old {change.old_place}"
            section = f", {code(change.section)}" if change.section else ""
            out.append(f"- **{kind}** (C{changes.index(change) + 1}, {where}{section}): {text}")
        if len(flagged) > MAX_LISTED:
            out.append(f"- {len(flagged) - MAX_LISTED} more flags are not listed")
        out += ["" if flagged else "No telling word changed.\n"]
    if moves:
        out += ["## Moved", ""]
        for source, target in moves[:MAX_LISTED]:
            first = next(text for _, text in target.new if text.strip())
            out.append(f"- old {source.old_place} to new {target.new_place}: {code(first)}")
        out.append("")
    sections = Counter(change.section for change in changes)
    if len(sections) > 1:
        out += ["## Changes by section", "", "| Section | Places |", "|---|---:|"]
        out += [f"| {code(name).replace('|', chr(92) + '|') if name else '(no heading)'} | {n} |" for name, n in sections.items()]
        out.append("")
    if changes:
        out += ["## Every change", ""]
        for number, change in enumerate(changes[:MAX_LISTED], 1):
            head = f"{change.kind}, old {change.old_place}, new {change.new_place}"
            out += [f"### C{number}: {head}", ""]
            if change.moved:
                out += [f"{change.moved[0].upper()}{change.moved[1:]}, the same text.", ""]
            out += [*quoted(change.old, "-"), *quoted(change.new, "+"), ""]
        if len(changes) > MAX_LISTED:
            out += [f"{len(changes) - MAX_LISTED} more changes are in the patch and on the page.", ""]
    return "\n".join(out).rstrip("\n") + "\n"


def quoted(units, mark):
    lines = [text for _, text in units if text.strip()]
    shown = [f"    {mark} {text.strip()[:MAX_QUOTED]}{'...' if len(text.strip()) > MAX_QUOTED else ''}" for text in lines[:8]]
    if len(lines) > 8:
        shown.append(f"    {mark} ... {len(lines) - 8} more")
    if units and not lines:
        shown.append(f"    {mark} ({len(units)} blank line{'s' if len(units) > 1 else ''})")
    return ["".join(ch if ch.isprintable() else " " for ch in line) for line in shown]


STYLE = """
:root { color-scheme: light dark; --line: #d0d7de; --soft: #57606a; --bg: #fff; --fg: #1f2328;
  --del: #ffebe9; --del-strong: #ffb3ad; --ins: #dafbe1; --ins-strong: #8ee6a4; }
@media (prefers-color-scheme: dark) { :root { --line: #30363d; --soft: #9198a1; --bg: #0d1117; --fg: #e6edf3;
  --del: #3c1618; --del-strong: #8c2f2d; --ins: #12321d; --ins-strong: #26703c; } }
body { margin: 2rem auto; max-width: 84rem; padding: 0 1rem; background: var(--bg); color: var(--fg);
  font: 15px/1.5 system-ui, sans-serif; }
table { width: 100%; border-collapse: collapse; table-layout: fixed; }
th { text-align: left; border-bottom: 2px solid var(--line); padding: .3rem .5rem; }
td { vertical-align: top; padding: .1rem .5rem; white-space: pre-wrap; overflow-wrap: anywhere; }
td.n { color: var(--soft); text-align: right; font-variant-numeric: tabular-nums; user-select: none; }
col.n { width: 3.5rem; }
tr.skip td { color: var(--soft); text-align: center; border-block: 1px solid var(--line); padding: .3rem; }
td.del { background: var(--del); } td.ins { background: var(--ins); }
del { background: var(--del-strong); text-decoration: none; border-radius: 2px; }
ins { background: var(--ins-strong); text-decoration: none; border-radius: 2px; }
""".strip()


def marked(old, new):
    """Return both texts as HTML with the changed words marked."""
    a, b = WORD.findall(old), WORD.findall(new)
    if len(a) > MAX_WORDS or len(b) > MAX_WORDS:
        return html.escape(old), html.escape(new)
    left, right = [], []
    for op, i1, i2, j1, j2 in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        before, after = html.escape("".join(a[i1:i2])), html.escape("".join(b[j1:j2]))
        left.append(before if op == "equal" or not before else f"<del>{before}</del>")
        right.append(after if op == "equal" or not after else f"<ins>{after}</ins>")
    return "".join(left), "".join(right)


def visible(text):
    text = "".join(ch if ch.isprintable() or ch == "\t" else "\u2424" if ch == "\r" else "\ufffd" for ch in text)
    return text if len(text) <= MAX_LINE else f"{text[:MAX_LINE]} ... ({len(text)} characters)"


def render_page(title, old, new, opcodes, changes, context):
    rows = []
    number_of = {change.bounds: i for i, change in enumerate(changes, 1)}

    def row(left, right, left_class="", right_class="", anchor=""):
        cells = []
        for cell, css in ((left, left_class), (right, right_class)):
            number, text = cell or ("", "")
            cells.append(f'<td class="n">{number}</td><td{f" class={chr(34)}{css}{chr(34)}" if css else ""}>{text}</td>')
        rows.append(f"<tr{anchor}>{''.join(cells)}</tr>")

    def plain(unit):
        return (unit[0], html.escape(visible(unit[1])))

    for position, (op, a1, a2, b1, b2) in enumerate(opcodes):
        if op in ("equal", "blank"):
            size = min(a2 - a1, b2 - b1) if op == "equal" else 0
            head = 0 if position == 0 else context
            tail = 0 if position == len(opcodes) - 1 else context
            shown = range(size) if size <= head + tail + 1 else [*range(head), None, *range(size - tail, size)]
            for k in shown:
                if k is None:
                    rows.append(f'<tr class="skip"><td colspan="4">{size - head - tail} unchanged</td></tr>')
                else:
                    row(plain(old.units[a1 + k]), plain(new.units[b1 + k]))
            continue
        anchor = f' id="c{number_of[(a1, a2, b1, b2)]}"'
        for left, right in pair(old.units[a1:a2], new.units[b1:b2]):
            if left and right:
                before, after = marked(visible(left[1]), visible(right[1]))
                row((left[0], before), (right[0], after), "del", "ins", anchor)
            elif left:
                row(plain(left), None, "del", "", anchor)
            else:
                row(None, plain(right), "", "ins", anchor)
            anchor = ""
    safe_title = html.escape(title.replace("`", ""))
    verdict = f"{len(changes)} place(s) differ" if changes else "The texts are the same"
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{safe_title}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>",
            f"<h1>{safe_title}</h1>\n<p>{verdict}</p>",
            '<table>\n<colgroup><col class="n"><col><col class="n"><col></colgroup>',
            f'<thead><tr><th colspan="2">{html.escape(old.name)}</th><th colspan="2">{html.escape(new.name)}</th></tr></thead>',
            "<tbody>",
            *rows,
            "</tbody>\n</table>\n</body>\n</html>\n",
        ]
    )


def render_patch(old, new, context):
    """Return a unified diff of the lines."""

    def lines(text):
        ended = [line + "\n" for line in text.raw_lines]
        if ended and not text.ends_with_newline:
            ended[-1] += "\\ No newline at end of file\n"
        return ended

    class Aligned(difflib.SequenceMatcher):
        """Groups the opcodes of align() into hunks."""

        def get_opcodes(self):
            return self.aligned

    def extent(start, end):
        size = end - start
        return f"{start + (size > 0)},{size}" if size != 1 else str(start + 1)

    a, b = lines(old), lines(new)
    matcher = Aligned()
    matcher.aligned = align(a, b)
    out = []
    for group in matcher.get_grouped_opcodes(context):
        out.append(f"@@ -{extent(group[0][1], group[-1][2])} +{extent(group[0][3], group[-1][4])} @@\n")
        for op, i1, i2, j1, j2 in group:
            if op == "equal":
                out += [" " + line for line in a[i1:i2]]
            else:
                out += ["-" + line for line in a[i1:i2]] + ["+" + line for line in b[j1:j2]]
    if any(line.startswith("@@") for line in out):
        out = [f"--- a/{old.name}\n", f"+++ b/{new.name}\n", *out]
    return "".join(out)


def write_text(path, text):
    """Write a file whole or not at all."""
    temporary = f"{path}.tmp"
    with open(temporary, "w", encoding="utf-8", errors="backslashreplace", newline="") as stream:
        stream.write(text)
    os.replace(temporary, path)


def main():
    parser = argparse.ArgumentParser(
        description="Compare two texts and write summary.md, diff.html and changes.patch.",
        epilog="exit codes: 0 same text, 1 different, 2 wrong usage or unreadable file",
    )
    parser.add_argument("old", metavar="OLD")
    parser.add_argument("new", metavar="NEW")
    parser.add_argument("--dir", default=os.path.join(os.environ.get("OUTPUT_DIR") or "out", "review"), help="output directory")
    parser.add_argument("--context", metavar="N", type=int, default=3, help="unchanged lines around a change (default 3)")
    parser.add_argument("--sentences", action="store_true", help="compare sentences instead of lines")
    parser.add_argument("--ignore-blanks", action="store_true", help="ignore differences in blanks")
    parser.add_argument("--title", help="title of the page and the summary")
    parser.add_argument("--checksums", nargs=2, metavar=("OLD", "NEW"), help="checksums to show in the summary")
    args = parser.parse_args()
    if args.context < 0:
        parser.error("--context must be at least 0")

    try:
        old, new = Text(args.old), Text(args.new)
    except InputError as error:
        print(f"diff_report.py: error: {error}", file=sys.stderr)
        return 2
    old.divide(args.sentences)
    new.divide(args.sentences)
    opcodes = compare(old, new, args.ignore_blanks)
    changes = [Change(old, new, *bounds) for op, *bounds in opcodes if op not in ("equal", "blank")]
    moves = find_moves(changes)

    notes = []
    if bool(old.windows_ends) != bool(new.windows_ends):
        which = "old" if old.windows_ends else "new"
        notes.append(f"the {which} text has Windows line ends (CRLF), the other has not; `-w` ignores that")
    for text in (old, new):
        if text.replaced:
            notes.append(f"{code(text.name)} has {text.replaced} character(s) that are not valid UTF-8")
    if not changes and old.text != new.text:
        notes.append("the files differ only in what was ignored (blanks, line breaks or the end of the file)")
    title = " ".join((args.title or f"Changes from {code(old.name)} to {code(new.name)}").split())
    try:
        os.makedirs(args.dir, exist_ok=True)
        summary = render_summary(title, old, new, changes, moves, notes, args.checksums)
        write_text(os.path.join(args.dir, "summary.md"), summary)
        write_text(os.path.join(args.dir, "diff.html"), render_page(title, old, new, opcodes, changes, args.context))
        write_text(os.path.join(args.dir, "changes.patch"), render_patch(old, new, args.context))
    except OSError as error:
        parser.error(f"cannot write {error.filename or args.dir}: {error.strerror}")
    return 1 if changes else 0


if __name__ == "__main__":
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.exit(main())
