#!/usr/bin/env python3
"""Profile a delimited text file and write a Markdown report."""

import argparse
import codecs
import csv
import io
import json
import math
import os
import re
import sys
import zlib
from array import array
from collections import Counter
from datetime import datetime, timezone

MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "-", "--", "?"}
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
MAX_DISTINCT = 50_000  # distinct values remembered per column
MAX_FIELD = 16 << 20  # characters in one field; more means an unclosed quote
MAX_COLUMNS = 500  # columns that get a place in the report
MAX_KEPT = 200  # characters of a value remembered
MAX_SHOWN = 80  # characters of a value in the report
MIN_FOR_MOSTLY = 20  # values needed before exceptions are tolerated
MOSTLY = 0.95
MIN_FOR_KEY = 10  # rows needed before "all different" says something
EXAMPLES = 3
SAMPLE_CHARS = 1 << 16

INTEGER = re.compile(r"[+-]?(?:0|[1-9][0-9]*)\Z")
NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z")
DATE = re.compile(r"[0-9]{4}([-/])[0-9]{2}\1[0-9]{2}\Z")
DATETIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,6})?)?)"
    r" ?(Z|[+-][0-9]{2}:?[0-9]{2})?\Z"
)
BOOLEANS = {"true", "false", "yes", "no", "y", "n", "t", "f"}

# A column's type and the classes of values that fit it, narrowest first.
FITS = {
    "integer": {"integer"},
    "number": {"integer", "number"},
    "boolean": {"boolean"},
    "date": {"date"},
    "datetime": {"date", "datetime"},
}


class InputError(Exception):
    """The file cannot be profiled at all."""


def parse_datetime(text):
    """Return a naive datetime (UTC if the text has an offset), or None."""
    match = DATETIME.match(text)
    if not match:
        return None
    day, clock, offset = match.groups()
    clock, _, fraction = clock.replace(",", ".").partition(".")
    try:
        value = datetime.fromisoformat(f"{day}T{clock}")
        if fraction:
            value = value.replace(microsecond=int(fraction.ljust(6, "0")))
        if offset and offset != "Z":
            zone = offset if ":" in offset else f"{offset[:3]}:{offset[3:]}"
            value = datetime.fromisoformat(value.isoformat() + zone)
            value = value.astimezone(timezone.utc).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None
    return value


def classify(text):
    """Return (class, comparable value) of one trimmed, non-missing value."""
    if len(text) <= 40:
        if INTEGER.match(text):
            return "integer", int(text)
        if NUMBER.match(text):
            value = float(text)
            if math.isfinite(value):
                return "number", value
        if text.lower() in BOOLEANS:
            return "boolean", None
        if DATE.match(text):
            try:
                return "date", datetime.fromisoformat(text.replace("/", "-"))
            except ValueError:
                return "text", None
        value = parse_datetime(text)
        if value is not None:
            return "datetime", value
    return "text", None


def shorten(text):
    """Bound a value for keeping; different long values stay different."""
    if len(text) <= MAX_KEPT:
        return text
    checksum = zlib.crc32(text.encode("utf-8", "surrogatepass"))
    return f"{text[:MAX_KEPT]}... [{len(text)} characters, crc {checksum:08x}]"


class Column:
    """What has been seen of one column."""

    def __init__(self, name):
        self.name = name
        self.missing = 0
        self.padded = 0
        self.classes = Counter()
        self.examples = {}  # class -> [(line, value)]
        self.values = Counter()
        self.distinct_is_exact = True
        self.numbers = array("d")
        self.low = {}  # class -> (comparable, text)
        self.high = {}
        self.lengths = None  # (shortest, longest)

    def add(self, raw, line, missing_words):
        text = raw.strip()
        if text.lower() in missing_words:
            self.missing += 1
            return
        if text != raw:
            self.padded += 1
        kind, value = classify(text)
        self.classes[kind] += 1
        kept = shorten(text)
        seen = self.examples.setdefault(kind, [])
        if len(seen) < EXAMPLES:
            seen.append((line, kept))
        if kept in self.values or len(self.values) < MAX_DISTINCT:
            self.values[kept] += 1
        else:
            self.distinct_is_exact = False
        if kind in ("integer", "number"):
            try:
                self.numbers.append(value)
            except OverflowError:
                self.numbers.append(math.copysign(sys.float_info.max, value))
        if value is not None:
            if kind not in self.low or value < self.low[kind][0]:
                self.low[kind] = (value, text)
            if kind not in self.high or value > self.high[kind][0]:
                self.high[kind] = (value, text)
        shortest, longest = self.lengths or (len(text), len(text))
        self.lengths = (min(shortest, len(text)), max(longest, len(text)))

    @property
    def count(self):
        return sum(self.classes.values())

    def type(self):
        """Return (type, number of values that do not fit it)."""
        total = self.count
        if not total:
            return "empty", 0
        best, fitting = "text", 0
        for name, classes in FITS.items():
            n = sum(self.classes[c] for c in classes)
            if n > fitting:
                best, fitting = name, n
        if fitting == total or (total >= MIN_FOR_MOSTLY and fitting / total >= MOSTLY):
            return best, total - fitting
        return "text", 0

    def misfits(self, column_type):
        """Return examples of the values that do not fit."""
        found = [e for kind, es in self.examples.items() if kind not in FITS[column_type] for e in es]
        return sorted(found)[:EXAMPLES]

    def summary(self, top):
        """Return everything the report says about this column."""
        column_type, misfit_count = self.type()
        result = {
            "name": self.name,
            "type": column_type,
            "values": self.count,
            "missing": self.missing,
            "distinct": len(self.values),
            "distinct_is_exact": self.distinct_is_exact,
            "misfits": misfit_count,
        }
        fits = FITS.get(column_type, set())
        lows = [self.low[c] for c in fits if c in self.low]
        if lows:
            highs = [self.high[c] for c in fits if c in self.high]
            result["min"] = min(lows, key=lambda pair: pair[0])[1]
            result["max"] = max(highs, key=lambda pair: pair[0])[1]
        if column_type in ("integer", "number"):
            result.update(describe_numbers(self.numbers))
        if column_type == "text":
            result["shortest"], result["longest"] = self.lengths
        ranked = sorted(self.values.items(), key=lambda item: (-item[1], item[0]))
        result["top"] = [{"value": value, "count": n} for value, n in ranked[:top]]
        return result


def describe_numbers(numbers):
    """Return mean, median, quartiles and sample standard deviation."""
    ordered = sorted(numbers)
    n = len(ordered)

    def quantile(fraction):
        position = (n - 1) * fraction
        low = math.floor(position)
        share = position - low
        return ordered[low] * (1 - share) + ordered[min(low + 1, n - 1)] * share

    try:
        mean = math.fsum(ordered) / n
        stdev = math.sqrt(math.fsum((v - mean) ** 2 for v in ordered) / (n - 1)) if n > 1 else None
    except OverflowError:
        mean = stdev = None
    return {"mean": mean, "median": quantile(0.5), "q1": quantile(0.25), "q3": quantile(0.75), "stdev": stdev}


class Table:
    """A whole file: its columns and what is wrong with its rows."""

    def __init__(self):
        self.columns = []
        self.rows = 0
        self.blank_lines = 0
        self.ragged = []  # (line, fields)
        self.ragged_count = 0
        self.repeated = []  # (line, line of the first)
        self.repeated_count = 0
        self.header_looks_like_data = False
        self.unnamed = []
        self.duplicate_names = []

    def set_header(self, names):
        taken = Counter()
        for position, name in enumerate(names, 1):
            name = " ".join(name.split())
            if not name:
                self.unnamed.append(position)
                name = f"column_{position}"
            taken[name] += 1
            if taken[name] == 2:
                self.duplicate_names.append(name)
            self.columns.append(Column(name if taken[name] == 1 else f"{name} ({taken[name]})"))
        filled = [n.strip() for n in names if n.strip()]
        self.header_looks_like_data = bool(filled) and any(
            classify(n)[0] in ("integer", "number", "date", "datetime") for n in filled
        )

    def read(self, rows, header, missing_words):
        """Consume (line, fields) pairs."""
        seen = {}
        for line, fields in rows:
            if not fields:
                self.blank_lines += 1
                continue
            if not self.columns:
                if header:
                    self.set_header(fields)
                    continue
                self.columns = [Column(f"column_{i}") for i in range(1, len(fields) + 1)]
            self.rows += 1
            if len(fields) != len(self.columns):
                self.ragged_count += 1
                if len(self.ragged) < EXAMPLES:
                    self.ragged.append((line, len(fields)))
            fingerprint = hash(tuple(fields))
            if fingerprint in seen:
                self.repeated_count += 1
                if len(self.repeated) < EXAMPLES:
                    self.repeated.append((line, seen[fingerprint]))
            else:
                seen[fingerprint] = line
            for column, raw in zip(self.columns, fields):
                column.add(raw, line, missing_words)
            for column in self.columns[len(fields) :]:
                column.missing += 1


def choose_encoding(data, requested):
    """Return (encoding, note or None)."""
    if requested:
        return requested, None
    for bom, name in ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")):
        if data.startswith(bom):
            return name, None
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(data), 1 << 20):
            decoder.decode(data[start : start + (1 << 20)])
        decoder.decode(b"", final=True)
        return "utf-8", None
    except UnicodeDecodeError:
        return "cp1252", "the file is not UTF-8; it was read as Windows-1252 (`--encoding` overrides)"


def choose_delimiter(sample):
    """Return the candidate that splits the sample's rows most evenly."""
    best, best_score = ",", (0.0, 0)
    for candidate in DELIMITERS:
        try:
            counts = Counter(len(r) for r in csv.reader(io.StringIO(sample, newline=""), delimiter=candidate) if r)
        except csv.Error:
            continue
        if not counts:
            continue
        width, rows = max(counts.items(), key=lambda item: (item[1], item[0]))
        score = (rows / sum(counts.values()), width)
        if width > 1 and score > best_score:
            best, best_score = candidate, score
    return best


def records(text, delimiter, strict):
    """Yield (first line, fields) of each record."""
    reader = csv.reader((line.replace("\0", "\ufffd") for line in text), delimiter=delimiter, strict=strict)
    line = 1
    try:
        for fields in reader:
            yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        hint = "; is a quote left open?" if "field limit" in str(error) else ""
        raise InputError(f"line {line}: {error}{hint}") from error


def profile(data, args):
    """Return (table, facts, findings) for the bytes of a file."""
    notes, warnings = [], []
    encoding, note = choose_encoding(data, args.encoding)
    if note:
        notes.append(note)

    def open_text():
        return io.TextIOWrapper(io.BytesIO(data), encoding=encoding, errors="replace", newline="")

    # Cut the sample at a line's end; a single long line is taken as it is.
    sample = open_text().read(SAMPLE_CHARS)
    if len(sample) == SAMPLE_CHARS and "\n" in sample:
        sample = sample[: sample.rindex("\n") + 1]
    delimiter = args.delimiter or choose_delimiter(sample)
    missing_words = MISSING | {word.strip().lower() for word in args.missing}
    missing_words -= {word.strip().lower() for word in args.keep}

    table = Table()
    try:
        table.read(records(open_text(), delimiter, strict=True), not args.no_header, missing_words)
    except InputError as error:
        # Malformed quotes: say where, then read it the forgiving way.
        warnings.append(f"malformed quotes, {error}; the rows around it may be wrong")
        table = Table()
        table.read(records(open_text(), delimiter, strict=False), not args.no_header, missing_words)

    replaced = sum(chunk.count("\ufffd") for chunk in iter(lambda t=open_text(): t.read(1 << 20), ""))
    if replaced:
        warnings.append(f"{replaced} character(s) do not fit the encoding {encoding}")
    facts = {
        "bytes": len(data),
        "encoding": encoding,
        "delimiter": DELIMITERS.get(delimiter, repr(delimiter)),
        "rows": table.rows,
        "columns": len(table.columns),
        "blank_lines": table.blank_lines,
    }
    return table, facts, find_problems(table, warnings, notes)


def find_problems(table, warnings, notes):
    """Return [(severity, text)], warnings first."""
    if not table.columns:
        warnings.append("the file is empty")
    elif not table.rows:
        warnings.append("there is a header but no data row")
    if table.ragged_count:
        where = ", ".join(f"line {line} has {n}" for line, n in table.ragged)
        warnings.append(
            f"{table.ragged_count} row(s) do not have {len(table.columns)} fields: {where}"
            + (", ..." if table.ragged_count > len(table.ragged) else "")
        )
    if table.repeated_count and len(table.columns) > 1:
        where = ", ".join(f"line {line} repeats line {first}" for line, first in table.repeated)
        warnings.append(
            f"{table.repeated_count} repeated row(s): {where}"
            + (", ..." if table.repeated_count > len(table.repeated) else "")
        )
    if table.unnamed:
        warnings.append(f"{len(table.unnamed)} column(s) without a name: {', '.join(map(str, table.unnamed[:10]))}")
    for name in table.duplicate_names[:10]:
        warnings.append(f"the column name {quote(name)} is used more than once")
    if table.header_looks_like_data:
        notes.append("the header row looks like data; if so, run again with `--no-header`")
    for column in table.columns:
        column_type, misfit_count = column.type()
        if column_type == "empty":
            if table.rows:
                warnings.append(f"column {quote(column.name)} has no value at all")
            continue
        if misfit_count:
            shown = ", ".join(f"{quote(value)} (line {line})" for line, value in column.misfits(column_type))
            more = ", ..." if misfit_count > EXAMPLES else ""
            warnings.append(
                f"column {quote(column.name)}: {misfit_count} of {column.count} values do not fit the type {column_type}: {shown}{more}"
            )
        if column.padded:
            notes.append(f"column {quote(column.name)}: {column.padded} value(s) have blanks around them")
        if table.rows > 1 and not column.missing and column.distinct_is_exact:
            if len(column.values) == 1:
                notes.append(f"column {quote(column.name)} always has the same value")
            elif len(column.values) == table.rows >= MIN_FOR_KEY and column_type in ("integer", "text"):
                notes.append(f"column {quote(column.name)} could be a key: no gaps, all values different")
    return [("warning", text) for text in warnings] + [("note", text) for text in notes]


def quote(text, in_table=False):
    """Show a value from the file as code, so that none of it acts as markup."""
    text = "".join(ch if ch.isprintable() else " " for ch in str(text)).replace("`", "'")
    if len(text) > MAX_SHOWN:
        text = text[: MAX_SHOWN - 3] + "..."
    if in_table:
        text = text.replace("|", "\\|")
    return f"`{text}`" if text else ""


def show(value):
    """Format a calculated number."""
    return "" if value is None else f"{value:.6g}"


def render(title, facts, findings, columns, omitted):
    """Return the Markdown report."""
    lines = [f"# {title}", "", "## Overview", "", "| Fact | Value |", "|---|---|"]
    labels = {
        "rows": "Data rows", "columns": "Columns", "delimiter": "Delimiter",
        "encoding": "Encoding", "bytes": "Bytes", "blank_lines": "Blank lines",
    }
    lines += [f"| {label} | {facts[key]} |" for key, label in labels.items()]
    lines += ["", "## Findings", ""]
    lines += [f"- **{severity}**: {text}" for severity, text in findings] or ["- nothing to report"]
    if columns:
        lines += [
            "", "## Columns", "",
            "| # | Column | Type | Missing | Distinct | Min | Max | Mean |",
            "|---:|---|---|---:|---:|---|---|---:|",
        ]
        for i, c in enumerate(columns, 1):
            share = f"{c['missing']} ({100 * c['missing'] / facts['rows']:.1f} %)" if c["missing"] else "0"
            distinct = f"{c['distinct']}{'' if c['distinct_is_exact'] else '+'}"
            lines.append(
                f"| {i} | {quote(c['name'], True)} | {c['type']} | {share} | {distinct} "
                f"| {quote(c.get('min', ''), True)} | {quote(c.get('max', ''), True)} | {show(c.get('mean'))} |"
            )
        if omitted:
            lines += ["", f"{omitted} more column(s) are not shown."]
        lines += ["", "## Details"]
        for c in columns:
            lines += ["", f"### {quote(c['name'])}", ""]
            lines.append(f"- type: {c['type']}, {c['values']} value(s), {c['missing']} missing")
            if "median" in c:
                lines.append(
                    f"- median {show(c['median'])}, quartiles {show(c['q1'])} to {show(c['q3'])}, "
                    f"standard deviation {show(c['stdev']) or 'n/a'}"
                )
            if "shortest" in c:
                lines.append(f"- length {c['shortest']} to {c['longest']} characters")
            if c["top"]:
                if c["top"][0]["count"] == 1:
                    lines.append("- all different, for example " + ", ".join(quote(t["value"]) for t in c["top"]))
                else:
                    lines.append("- frequent: " + ", ".join(f"{quote(t['value'])} ({t['count']})" for t in c["top"]))
    return "\n".join(lines) + "\n"


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
        description="Profile a CSV or TSV file and write a Markdown report.",
        epilog="exit codes: 0 report written, 1 warnings found (--check), 2 wrong usage or unreadable file",
    )
    default = os.path.join(os.environ.get("OUTPUT_DIR") or "out", "report.md")
    parser.add_argument("file", metavar="FILE", help="the table, or - for standard input")
    parser.add_argument("-o", "--output", metavar="FILE", default=default, help="report file (default out/report.md), - prints")
    parser.add_argument("--json", metavar="FILE", help="write the profile as JSON as well, - prints")
    parser.add_argument("--title", help="heading of the report")
    parser.add_argument("--delimiter", metavar="C", help="one character, or tab (default: detected)")
    parser.add_argument("--encoding", metavar="NAME", help="text encoding (default: detected)")
    parser.add_argument("--no-header", action="store_true", help="the first row is data")
    parser.add_argument("--missing", metavar="TEXT", action="append", default=[], help="also treat TEXT as missing")
    parser.add_argument("--keep", metavar="TEXT", action="append", default=[], help="never treat TEXT as missing")
    parser.add_argument("--top", metavar="N", type=int, default=5, help="frequent values per column (default 5)")
    parser.add_argument("--check", action="store_true", help="exit 1 if there are warnings")
    args = parser.parse_args()
    if args.delimiter:
        args.delimiter = {"tab": "\t", "\\t": "\t"}.get(args.delimiter, args.delimiter)
        if len(args.delimiter) != 1 or args.delimiter in '\r\n"':
            parser.error("--delimiter takes one character, or tab")
    if args.top < 0:
        parser.error("--top must be at least 0")
    if args.encoding:
        try:
            if not getattr(codecs.lookup(args.encoding), "_is_text_encoding", True):
                raise LookupError
        except (LookupError, ValueError):
            parser.error(f"unknown encoding {args.encoding}")

    csv.field_size_limit(MAX_FIELD)
    try:
        if args.file == "-":
            if sys.stdin is None or sys.stdin.isatty():
                parser.error("nothing on standard input")
            data = sys.stdin.buffer.read()
        else:
            with open(args.file, "rb") as stream:
                data = stream.read()
    except OSError as error:
        parser.error(f"cannot read {args.file}: {error.strerror}")

    name = "standard input" if args.file == "-" else os.path.basename(args.file)
    try:
        table, facts, findings = profile(data, args)
    except (InputError, UnicodeError) as error:
        print(f"csv_profile.py: error: {name}: {error}", file=sys.stderr)
        return 2
    shown = [column.summary(args.top) for column in table.columns[:MAX_COLUMNS]]
    omitted = max(0, len(table.columns) - MAX_COLUMNS)
    try:
        report = render(args.title or f"Profile of {quote(name)}", facts, findings, shown, omitted)
        write_text(args.output, report)
        if args.json:
            problems = [{"severity": severity, "text": text} for severity, text in findings]
            document = {"file": name, **facts, "findings": problems, "column_profiles": shown}
            write_text(args.json, json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        parser.error(f"cannot write {error.filename or args.output}: {error.strerror}")

    warnings = sum(severity == "warning" for severity, _ in findings)
    print(
        f"{name}: {facts['rows']} rows, {facts['columns']} columns, {warnings} warning(s)"
        + ("" if args.output == "-" else f"; report in {args.output}"),
        file=sys.stderr if "-" in (args.output, args.json) else sys.stdout,
    )
    return 1 if args.check and warnings else 0


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
