#!/usr/bin/env python3
"""Group the errors and warnings of log files by normalised message."""

import argparse
import gzip
import json
import os
import re
import sys
import zlib
from collections import Counter
from datetime import datetime, timedelta, timezone

MAX_LINE = 16 << 10  # bytes of a line that are looked at
MAX_MESSAGE = 2000  # characters of a message that are normalised
MAX_SHOWN = 240  # characters of a message in the report
MAX_GROUPS = 5000
OTHER = "(other messages)"  # the group of everything beyond MAX_GROUPS
MAX_VALUES = 500  # distinct values remembered per placeholder of a group
MAX_TRACE = 12  # lines of a stack trace in the report
MAX_BUCKETS = 40  # lines of an automatic timeline
MAX_TIMELINE = 500  # lines of any timeline
BAR_WIDTH = 40

SEVERITIES = ["debug", "info", "warning", "error", "fatal"]
WORDS = {
    "fatal": "fatal", "critical": "fatal", "crit": "fatal", "panic": "fatal", "emerg": "fatal",
    "emergency": "fatal", "alert": "fatal",
    "error": "error", "err": "error", "severe": "error",
    "warning": "warning", "warn": "warning",
    "notice": "info", "info": "info", "information": "info",
    "debug": "debug", "trace": "debug", "verbose": "debug",
}  # fmt: skip
ANY_WORD = "|".join(sorted(WORDS, key=len, reverse=True))
LEVEL = re.compile(
    rf"\b(?:level|lvl|severity)=[\"']?(?P<pair>(?i:{ANY_WORD}))\b"
    rf"|\[\s*(?P<bracket>(?i:{ANY_WORD}))\s*\]"
    rf"|(?<![\w/-])(?P<capitals>{ANY_WORD.upper()})(?![\w/-])"
    rf"|\b(?P<lower>fatal|critical|panic|error|warning)(?=:)"
)

ISO = r"\d{4}[-/]\d{2}[-/]\d{2}[T ]\d{2}:\d{2}(?::\d{2})?(?:[.,]\d{1,9})? ?(?:Z\b|[+-]\d{2}:?\d{2}\b)?"
TIME = re.compile(
    rf"(?P<iso>{ISO})"
    r"|(?P<access>\d{2}/[A-Z][a-z]{2}/\d{4}:\d{2}:\d{2}:\d{2}(?: [+-]\d{4})?)"
    r"|(?P<syslog>\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d{2}:\d{2}:\d{2})"
)
ISO_PARTS = re.compile(
    r"(\d{4})[-/](\d{2})[-/](\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2}))?(?:[.,]\d+)?)? ?(Z|[+-]\d{2}:?\d{2})?\Z"
)
MONTHS = {m: i for i, m in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)}
ACCESS = re.compile(r'(\S+) \S+ \S+ \[([^\]]+)\] "([^"]*)" (\d{3})\b')
SYSLOG_HEAD = re.compile(r"\s*\S+ ([\w./-]{1,60})(?:\[\d+\])?: ")

COMPONENT_AFTER = [
    re.compile(r"\s*\d+ --- \[[^\]]*\] (?P<name>\S{1,80})\s*: "),
    re.compile(r"[\s:-]*\[(?P<name>[A-Za-z_][\w.\-/:$ ]{0,60})\]:?\s*(?:- )?"),
    re.compile(r"[\s:-]*(?P<name>[A-Za-z_][\w.\-$]{0,60})(?:\[\d+\])?(?::| -)\s+"),
]
COMPONENT_BEFORE = re.compile(r"[\[(]?\b([A-Za-z_][\w.\-/$]{1,60})\b")
PAIR_MESSAGE = re.compile(r'\b(?:msg|message)=(?:"((?:[^"\\]|\\.)*)"|(\S+))')
PAIR_COMPONENT = re.compile(r'\b(?:logger|component|service|module)="?([\w./-]+)')

NORMALISE = [
    ("url", re.compile(r"\b[a-z][a-z0-9+.-]{1,15}://[^\s\"'<>)\]]+", re.I)),
    ("email", re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+")),
    ("uuid", re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.I)),
    ("time", re.compile(ISO)),
    ("ip", re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?::\d{1,5})?(?![\d.]*\d)")),
    ("hex", re.compile(r"\b0x[0-9a-f]+\b|\b(?=\w*[a-f])(?=\w*\d)[0-9a-f]{8,}\b", re.I)),
    ("str", re.compile(r"(?<!\w)'[^'<]*'(?!\w)|\"[^\"<]*\"")),
    ("path", re.compile(r"(?<![\w/.<>])/[\w.+@%~-]+(?:/[\w.+@%~-]+)+/?")),
    ("n", re.compile(r"\d+(?:[.,]\d+)*")),
]
COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
CONTINUES = re.compile(r"\s|Traceback \(|Caused by\b|at |\.\.\.")
EXCEPTION = re.compile(r"(?:Caused by: )?[A-Za-z_][\w.$]*(?:: |(?:Error|Exception|Timeout)\b)")


def normalise(message):
    """Return (message with placeholders, [(placeholder, replaced text)])."""
    message = " ".join(message[:MAX_MESSAGE].split())
    replaced = []
    for name, pattern in NORMALISE:

        def substitute(match, name=name):
            replaced.append((name, match.group()))
            return f"<{name}>"

        message = pattern.sub(substitute, message)
    return message, replaced


def parse_iso(text):
    """Return (datetime, has offset), or None."""
    match = ISO_PARTS.match(text.strip())
    if not match:
        return None
    year, month, day, hour, minute, second, zone = match.groups()
    try:
        value = datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), min(int(second or 0), 59))
        return shift(value, zone), zone is not None
    except (ValueError, OverflowError):
        return None


def shift(value, zone):
    """Apply an offset such as +02:00, giving UTC."""
    if not zone or zone == "Z":
        return value
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return value - timedelta(minutes=minutes if zone[0] == "+" else -minutes)


class Event:
    """One log line, understood as far as possible."""

    def __init__(self, severity=None, time=None, has_offset=None, component="-", message=""):
        self.severity = severity
        self.time = time
        self.has_offset = has_offset
        self.component = component
        self.message = message


class Reader:
    """Turns lines into events."""

    def __init__(self, year):
        self.year = year
        self.seen_year = None  # of the latest time that has one
        self.yearless = False

    def time(self, match):
        """Return (datetime, has offset) of a TIME match, or (None, None)."""
        text = match.group()
        try:
            if match["iso"]:
                parsed = parse_iso(text)
                self.seen_year = parsed[0].year if parsed else self.seen_year
                return parsed or (None, None)
            if match["access"]:
                day, month, year = text[:11].split("/")
                clock = datetime.strptime(text[12:20], "%H:%M:%S")
                self.seen_year = int(year)
                value = datetime(int(year), MONTHS[month], int(day), clock.hour, clock.minute, clock.second)
                return shift(value, text[21:] or None), len(text) > 20
            clock = datetime.strptime(text[7:], "%H:%M:%S")
            year = self.year or self.seen_year
            self.yearless = self.yearless or year is None
            # Without any hint a leap year, so that 29 February exists.
            value = datetime(year or 2000, MONTHS[text[:3]], int(text[4:6]), clock.hour, clock.minute, clock.second)
            return value, False
        except (ValueError, KeyError, OverflowError):
            return None, None

    def parse(self, line):
        """Return the event of one line."""
        if line.startswith("{"):
            event = self.parse_json(line)
            if event:
                return event
        access = ACCESS.match(line)
        if access:
            status = int(access[4])
            severity = "error" if status >= 500 else "warning" if status >= 400 else "info"
            found = TIME.search(access[2])
            time, has_offset = self.time(found) if found else (None, None)
            request = access[3].partition("?")[0].removesuffix(" HTTP/1.1")
            return Event(severity, time, has_offset, f"HTTP {status}", f"{request} from {access[1]}")
        return self.parse_text(line)

    def parse_json(self, line):
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if not isinstance(fields, dict):
            return None

        def first(*names):
            return next((fields[n] for n in names if fields.get(n) not in (None, "")), None)

        level = first("level", "severity", "lvl", "log.level", "levelname")
        stamp = first("time", "timestamp", "ts", "@timestamp", "date")
        component = first("logger", "service", "component", "module", "name")
        message = first("msg", "message", "error", "event")
        time = has_offset = None
        if isinstance(stamp, (int, float)) and not isinstance(stamp, bool):
            try:
                seconds = stamp / 1000 if stamp > 1e11 else stamp
                time = datetime.fromtimestamp(seconds, timezone.utc).replace(tzinfo=None, microsecond=0)
                has_offset = True
            except (ValueError, OverflowError, OSError):
                pass
        elif isinstance(stamp, str):
            time, has_offset = parse_iso(stamp) or (None, None)
        if isinstance(level, (int, float)) and not isinstance(level, bool):
            # The numbers of pino and bunyan: 10 trace ... 60 fatal.
            severity = SEVERITIES[max(0, min(4, int(level) // 10 - 2))]
        else:
            severity = WORDS.get(str(level).lower())
        if not isinstance(message, str):
            message = json.dumps(message if message is not None else fields, sort_keys=True)
        component = component if isinstance(component, str) else "-"
        return Event(severity, time, has_offset, component[:80], message)

    def parse_text(self, line):
        event = Event()
        rest, before = line, ""
        stamp = TIME.search(line[:120])
        is_syslog = False
        if stamp:
            event.time, event.has_offset = self.time(stamp)
            rest = line[stamp.end() :].lstrip("]")
            is_syslog = stamp["syslog"] is not None
        if is_syslog:
            head = SYSLOG_HEAD.match(rest)
            if head:
                event.component = head[1]
                rest = rest[head.end() :]
        level = LEVEL.search(rest[:160])
        if level:
            word = next(group for group in level.groups() if group)
            event.severity = WORDS[word.lower()]
            before, rest = rest[: level.start()], rest[level.end() :]
        elif stamp:
            # The level may stand in front of the time.
            level = LEVEL.search(line[: stamp.start()])
            if level:
                word = next(group for group in level.groups() if group)
                event.severity = WORDS[word.lower()]
        pair = PAIR_MESSAGE.search(line)
        if pair:
            named = PAIR_COMPONENT.search(line)
            event.component = named[1] if named else event.component
            event.message = pair[1] if pair[1] is not None else pair[2]
            return event
        if event.component == "-" and level:
            for pattern in COMPONENT_AFTER:
                match = pattern.match(rest)
                if match and not match["name"].endswith(("Error", "Exception")):
                    event.component = match["name"].strip()
                    rest = rest[match.end() :]
                    break
            else:
                match = COMPONENT_BEFORE.search(before)
                if match:
                    event.component = match[1]
        event.message = rest.strip(" \t:-") or before.strip(" \t:-") or line.strip()
        return event


class Group:
    """All events with the same normalised message."""

    def __init__(self, severity, component, message):
        self.severity = severity
        self.component = component
        self.message = message
        self.count = 0
        self.example = ""
        self.first = self.last = None  # (time or None, "file:line")
        self.values = {}
        self.exceptions = Counter()
        self.trace = []
        self.trace_owner = None

    def add(self, event, where, replaced):
        self.count += 1
        place = (event.time, where)
        if self.first is None:
            self.first = place
            self.example = " ".join(event.message[:MAX_MESSAGE].split())
        self.last = place
        for name, text in replaced:
            if name == "ip":
                text = text.partition(":")[0]  # ports change with every connection
            seen = self.values.setdefault(name, Counter())
            if text in seen or len(seen) < MAX_VALUES:
                seen[text] += 1

    def add_continuation(self, line, owner):
        """Keep the first trace, and count the exceptions of all."""
        if self.trace_owner in (None, owner):
            self.trace_owner = owner
            if len(self.trace) < MAX_TRACE:
                self.trace.append(line[:MAX_SHOWN].rstrip())
        if EXCEPTION.match(line) and len(self.exceptions) < MAX_VALUES:
            self.exceptions[shorten(normalise(line)[0])] += 1


class Triage:
    """The state of one analysis."""

    def __init__(self, args):
        self.args = args
        self.reader = Reader(args.year)
        self.groups = {}
        self.levels = Counter()
        self.components = {}
        self.minutes = {}  # minute -> Counter of severities
        self.lines = self.cut = self.events = self.timed = self.unrecognised = self.nuls = 0
        self.offsets = set()
        self.earliest = self.latest = None
        self.lowest = SEVERITIES.index(args.level)

    def read(self, name, stream):
        """Consume one log as a binary stream."""
        current, owner, seen_time = None, None, False
        for number, (raw, was_cut) in enumerate(bounded_lines(stream), 1):
            self.lines += 1
            self.cut += was_cut
            self.nuls += b"\0" in raw
            line = raw.decode("utf-8", "replace").replace("\0", "").lstrip("\ufeff").rstrip("\r\n")
            line = COLOUR.sub("", line)
            if not line.strip():
                continue
            event = None if CONTINUES.match(line) and owner else self.reader.parse(line)
            if event is None or (seen_time and owner and event.time is None and event.severity is None):
                if current:
                    current.add_continuation(line, owner)
                continue
            seen_time = seen_time or event.time is not None
            owner = f"{name}:{number}"
            current = self.add(event, owner)

    def add(self, event, where):
        """Count one event; return its group if it has one."""
        if self.args.since or self.args.until:
            if event.time is None:
                return None
            if self.args.since and event.time < self.args.since:
                return None
            if self.args.until and event.time >= self.args.until:
                return None
        self.events += 1
        if event.time is not None:
            self.timed += 1
            self.offsets.add(event.has_offset)
            self.earliest = min(self.earliest or event.time, event.time)
            self.latest = max(self.latest or event.time, event.time)
        if event.severity is None:
            self.unrecognised += 1
            return None
        self.levels[event.severity] += 1
        if SEVERITIES.index(event.severity) < self.lowest:
            return None
        if event.time is not None:
            minute = event.time.replace(second=0, microsecond=0)
            self.minutes.setdefault(minute, Counter())[event.severity] += 1
        if event.component in self.components or len(self.components) < MAX_GROUPS:
            self.components.setdefault(event.component, Counter())[event.severity] += 1
        message, replaced = normalise(event.message)
        key = (event.severity, event.component, message)
        if key not in self.groups and len(self.groups) >= MAX_GROUPS:
            key, replaced = (event.severity, "-", OTHER), []
        group = self.groups.setdefault(key, Group(*key))
        group.add(event, where, replaced)
        return group

    def ranked(self):
        """Return the groups, most severe and most frequent first."""
        # sorted() is stable: ties stay in the order of first appearance.
        return sorted(
            self.groups.values(),
            key=lambda g: (g.message == OTHER, -SEVERITIES.index(g.severity), -g.count),
        )

    def timeline(self):
        """Return (seconds per bucket, [(start, Counter)])."""
        if not self.minutes:
            return 0, []
        first, last = min(self.minutes), max(self.minutes)
        span = (last - first).total_seconds() + 60
        size = self.args.bucket
        if size is None:
            choices = [60, 300, 900, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400]
            size = next((c for c in choices if span / c <= MAX_BUCKETS), 365 * 86400)
        origin = datetime(1970, 1, 1)

        def start(time):
            return int((time - origin).total_seconds() // size)

        buckets = {}
        for minute, counts in self.minutes.items():
            buckets.setdefault(start(minute), Counter()).update(counts)
        low, high = start(first), start(last)
        keys = range(low, high + 1) if high - low < MAX_TIMELINE else sorted(buckets)[:MAX_TIMELINE]
        return size, [(origin + timedelta(seconds=k * size), buckets.get(k, Counter())) for k in keys]

    def show_time(self, time):
        if time is None:
            return "-"
        return time.strftime("%m-%d %H:%M:%S" if self.reader.yearless else "%Y-%m-%d %H:%M:%S")

    def notes(self):
        found = []
        if not self.lines:
            found.append("the log is empty")
        elif not self.events and (self.args.since or self.args.until):
            found.append("no event with a time lies in the period asked for")
        elif not self.levels:
            found.append("no line has a level that is recognised; look at the log itself before concluding anything")
        if self.unrecognised:
            found.append(f"{self.unrecognised} of {self.events} events have no level")
        if len(self.offsets) > 1:
            found.append("some times have an offset and some do not; the timeline may be shifted")
        if self.reader.yearless:
            found.append("the times carry no year; use `--year` if the order over new year matters")
        if self.cut:
            found.append(f"{self.cut} line(s) were longer than {MAX_LINE} bytes and were cut")
        if self.nuls:
            found.append(f"{self.nuls} line(s) hold NUL bytes; if the file is UTF-16, convert it to UTF-8 first")
        return found


def bounded_lines(stream):
    """Yield (line, was cut), never holding more than MAX_LINE bytes of one."""
    while True:
        raw = stream.readline(MAX_LINE)
        if not raw:
            return
        was_cut = False
        if len(raw) == MAX_LINE and not raw.endswith(b"\n"):
            while True:
                more = stream.readline(1 << 20)
                was_cut = was_cut or bool(more.strip(b"\r\n"))
                if not more or more.endswith(b"\n"):
                    break
        yield raw, was_cut


def shorten(text):
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def code(text, in_table=False):
    """Show text from the log as code, so that none of it acts as markup."""
    text = "".join(ch if ch.isprintable() else " " for ch in shorten(text)).replace("`", "'")
    return f"`{text.replace('|', chr(92) + '|') if in_table else text}`"


def fenced(lines):
    """Return the lines as a code block that none of them can end."""
    longest = max((len(run) for line in lines for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *lines, fence]


def most_frequent(counter, n):
    """Like Counter.most_common, with ties in the order of the alphabet."""
    return sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:n]


def show_values(seen):
    """List what stood behind a placeholder, if some of it repeats."""
    best = most_frequent(seen, 5)
    if len(seen) > 1 and best[0][1] == 1:
        return f"{len(seen)}{'+' if len(seen) == MAX_VALUES else ''} different values, such as {code(best[0][0])}"
    more = f", and {len(seen) - 5} more" if len(seen) > 5 else ""
    return ", ".join(f"{code(text)} ({n})" for text, n in best) + more


def span_name(seconds):
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds % size == 0:
            n = seconds // size
            return f"{n} {unit}{'s' if n > 1 else ''}"
    return f"{seconds} seconds"


def render(triage, names, top):
    """Return the Markdown report."""
    groups = triage.ranked()
    size, timeline = triage.timeline()
    out = ["# Log triage", "", "## Summary", ""]
    out.append(f"- files: {', '.join(code(n) for n in names)}; {triage.lines} lines, {triage.events} events")
    if triage.earliest:
        out.append(f"- period: {triage.show_time(triage.earliest)} to {triage.show_time(triage.latest)}")
    levels = ", ".join(f"{triage.levels[s]} {s}" for s in reversed(SEVERITIES) if triage.levels[s])
    out.append(f"- levels: {levels or 'none recognised'}")
    out.append(f"- {len(groups)} distinct messages at level {triage.args.level} or above")
    if timeline:
        start, counts = max(timeline, key=lambda item: (bad(item[1]), item[1].total()))
        out.append(f"- peak: {bad(counts)} error(s) among {counts.total()} event(s) within {span_name(size)} from {triage.show_time(start)}")
    out += [f"- note: {text}" for text in triage.notes()]

    if groups:
        out += ["", "## Groups", "", "| Group | Count | Severity | Component | Message | First seen | Last seen |"]
        out.append("|---|---:|---|---|---|---|---|")
        for i, g in enumerate(groups[:top], 1):
            out.append(
                f"| G{i} | {g.count} | {g.severity} | {code(g.component, True)} | {code(g.message, True)} "
                f"| {triage.show_time(g.first[0])} | {triage.show_time(g.last[0])} |"
            )
        if len(groups) > top:
            rest = groups[top:]
            out += ["", f"{len(rest)} more groups with {sum(g.count for g in rest)} events; `--top` shows more."]
        for i, g in enumerate(groups[:top], 1):
            out += ["", f"### G{i}: {g.severity}, {'once' if g.count == 1 else f'{g.count} times'}", "", f"- example: {code(g.example)}"]
            out.append(f"- first at {code(g.first[1])}, last at {code(g.last[1])}")
            if g.count > 1:
                for name, seen in g.values.items():
                    out.append(f"- {code(f'<{name}>')}: {show_values(seen)}")
            for text, n in most_frequent(g.exceptions, 3):
                out.append(f"- exception: {code(text)} ({n})")
            if g.trace:
                out += ["", *fenced(g.trace + ["..."] * (len(g.trace) == MAX_TRACE))]

    if triage.components:
        out += ["", "## Components", "", "| Component | Errors | Warnings | Total |", "|---|---:|---:|---:|"]
        ranked = sorted(triage.components.items(), key=lambda item: (-bad(item[1]), -item[1].total(), item[0]))
        for name, counts in ranked[:top]:
            out.append(f"| {code(name, True)} | {bad(counts)} | {counts['warning']} | {counts.total()} |")

    if timeline:
        out += ["", "## Timeline", "", f"Step: {span_name(size)}. Columns: start, errors, others. `#` is errors, `.` others.", ""]
        highest = max(counts.total() for _, counts in timeline)
        scale = min(1.0, BAR_WIDTH / highest)
        rows, quiet = [], 0
        for start, counts in timeline:
            if not counts:
                quiet += 1
                continue
            if quiet:
                rows.append(f"{quiet} quiet step{'s' if quiet > 1 else ''}".rjust(len(triage.show_time(start)[:-3])))
                quiet = 0
            errors, other = bad(counts), counts.total() - bad(counts)
            bar = "#" * max(round(errors * scale), errors > 0) + "." * max(round(other * scale), other > 0)
            label = triage.show_time(start)[:-3]
            rows.append(f"{label}  {errors:>5} {other:>5}  {bar}")
        out += fenced(rows)
    return "\n".join(out) + "\n"


def bad(counts):
    return counts["error"] + counts["fatal"]


def as_data(triage, names):
    """Return the result as plain data."""
    size, timeline = triage.timeline()
    return {
        "files": names,
        "lines": triage.lines,
        "events": triage.events,
        "levels": {s: triage.levels[s] for s in reversed(SEVERITIES)},
        "notes": triage.notes(),
        "groups": [
            {
                "id": f"G{i}",
                "count": g.count,
                "severity": g.severity,
                "component": g.component,
                "message": g.message,
                "example": g.example,
                "first": {"time": g.first[0] and g.first[0].isoformat(), "at": g.first[1]},
                "last": {"time": g.last[0] and g.last[0].isoformat(), "at": g.last[1]},
                "values": {name: dict(most_frequent(seen, 10)) for name, seen in g.values.items()},
                "exceptions": dict(most_frequent(g.exceptions, 10)),
                "trace": g.trace,
            }
            for i, g in enumerate(triage.ranked(), 1)
        ],
        "timeline": {
            "bucket_seconds": size,
            "buckets": [{"start": t.isoformat(), "errors": bad(c), "total": c.total()} for t, c in timeline],
        },
    }


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


def moment(text):
    parsed = parse_iso(text)
    if not parsed:
        raise argparse.ArgumentTypeError(f"'{text}' is not a time such as 2024-05-14 or '2024-05-14 09:55'")
    return parsed[0]


def bucket(text):
    if text == "auto":
        return None
    match = re.fullmatch(r"([1-9]\d{0,3})([mhd])", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}' is not auto or a number with m, h or d, such as 15m")
    return int(match[1]) * {"m": 60, "h": 3600, "d": 86400}[match[2]]


def main():
    parser = argparse.ArgumentParser(
        description="Group the errors and warnings of log files by normalised message.",
        epilog="exit codes: 0 report written, 1 errors found (--check), 2 wrong usage or unreadable file",
    )
    default = os.path.join(os.environ.get("OUTPUT_DIR") or "out", "triage.md")
    parser.add_argument("files", metavar="FILE", nargs="+", help="log file, .gz, or - for standard input")
    parser.add_argument("-o", "--output", metavar="FILE", default=default, help="report file (default out/triage.md), - prints")
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON as well, - prints")
    parser.add_argument("--level", choices=SEVERITIES, default="warning", help="lowest level to group (default warning)")
    parser.add_argument("--top", metavar="N", type=int, default=15, help="groups in the report (default 15)")
    parser.add_argument("--bucket", metavar="SIZE", type=bucket, help="timeline step: auto, 5m, 1h, 1d")
    parser.add_argument("--since", metavar="TIME", type=moment, help="ignore events before TIME")
    parser.add_argument("--until", metavar="TIME", type=moment, help="ignore events at TIME and later")
    parser.add_argument("--year", metavar="YYYY", type=int, help="year of times that carry none")
    parser.add_argument("--check", action="store_true", help="exit 1 if there is an error")
    args = parser.parse_args()
    if args.top < 1:
        parser.error("--top must be at least 1")
    if args.year is not None and not 1970 <= args.year <= 9998:
        parser.error("--year must be between 1970 and 9998")

    triage = Triage(args)
    names = []
    for path in args.files:
        name = "stdin" if path == "-" else os.path.basename(path)
        names.append(name)
        try:
            if path == "-":
                if sys.stdin is None or sys.stdin.isatty():
                    parser.error("nothing on standard input")
                triage.read(name, sys.stdin.buffer)
            else:
                with gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb") as stream:
                    triage.read(name, stream)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            parser.error(f"cannot unpack {path}: {error}")
        except OSError as error:
            parser.error(f"cannot read {path}: {error.strerror}")

    try:
        write_text(args.output, render(triage, names, args.top))
        if args.json:
            write_text(args.json, json.dumps(as_data(triage, names), indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        parser.error(f"cannot write {error.filename or args.output}: {error.strerror}")

    errors = bad(triage.levels)
    print(
        f"{triage.lines} lines, {errors} errors, {triage.levels['warning']} warnings, {len(triage.groups)} groups"
        + ("" if args.output == "-" else f"; report in {args.output}"),
        file=sys.stderr if "-" in (args.output, args.json) else sys.stdout,
    )
    return 1 if args.check and errors else 0


if __name__ == "__main__":
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        exit_code = main()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (head, less) has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        exit_code = 0
    sys.exit(exit_code)
