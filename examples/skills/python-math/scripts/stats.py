#!/usr/bin/env python3
"""Describe the numbers in text files: count, sum, mean, median, quartiles, spread."""

import argparse
import math
import os
import re
import sys

SEPARATORS = re.compile(r"[\s,;]+")
MAX_TOKEN = 400  # a longer word is not a number anybody wrote down
CHUNK = 1 << 20
SHOWN_WORDS = 5


def tokens(stream):
    """Yield the words of a text stream; `#` hides the rest of its line.

    Reads in pieces, so that one enormous line does not have to fit in memory twice.
    """
    carry = ""
    in_comment = False
    while True:
        chunk = stream.read(CHUNK)
        text = carry + chunk
        if chunk:
            # Keep an unfinished word for the next piece.
            cut = len(text)
            while cut > 0 and len(text) - cut < MAX_TOKEN and not SEPARATORS.match(text[cut - 1]):
                cut -= 1
            if len(text) - cut >= MAX_TOKEN:
                cut = len(text)
            text, carry = text[:cut], text[cut:]
        else:
            carry = ""
        for line in text.splitlines(keepends=True):
            if in_comment:
                in_comment = not line.endswith(("\n", "\r"))
                continue
            before, mark, _ = line.partition("#")
            in_comment = bool(mark) and not line.endswith(("\n", "\r"))
            yield from filter(None, SEPARATORS.split(before))
        if not chunk:
            return


def parse(word):
    """Return the word as a finite float, or None."""
    if len(word) > MAX_TOKEN or "_" in word:
        return None
    try:
        value = float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def quantile(ordered, fraction):
    """Linear interpolation between the closest ranks (inclusive method)."""
    position = (len(ordered) - 1) * fraction
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    share = position - low
    return ordered[low] * (1 - share) + ordered[high] * share


def describe(values):
    """Return the statistics as an ordered mapping; absent ones are None."""
    n = len(values)
    if n == 0:
        keys = ("sum", "min", "max", "mean", "median", "q1", "q3", "stdev")
        return {"count": 0, **{key: None for key in keys}}
    ordered = sorted(values)
    total = math.fsum(ordered)
    mean = total / n
    stdev = None
    if n > 1:
        stdev = math.sqrt(math.fsum((v - mean) ** 2 for v in ordered) / (n - 1))
    return {
        "count": n,
        "sum": total,
        "min": ordered[0],
        "max": ordered[-1],
        "mean": mean,
        "median": quantile(ordered, 0.5),
        "q1": quantile(ordered, 0.25),
        "q3": quantile(ordered, 0.75),
        "stdev": stdev,
    }


def tidy(value):
    """Drop the float noise beyond 12 digits; whole numbers become integers."""
    if value is None or isinstance(value, int):
        return value
    value = float(f"{value:.12g}")
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def main():
    parser = argparse.ArgumentParser(
        description="Describe the numbers in text files. Numbers are separated by blanks, commas "
        "or semicolons; text after # is ignored. Without FILE, or with -, read standard input.",
        epilog="exit codes: 0 done, 1 not only numbers (--strict) or numbers too large, 2 usage",
    )
    parser.add_argument("files", metavar="FILE", nargs="*", default=["-"], help="text file, or -")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--strict", action="store_true", help="fail if a word is not a number")
    args = parser.parse_args()

    values, rejected, examples = [], 0, []
    for name in args.files or ["-"]:
        try:
            if name == "-":
                if sys.stdin is None or sys.stdin.isatty():
                    parser.error("no file named and nothing on standard input")
                stream = open(sys.stdin.fileno(), encoding="utf-8-sig", errors="replace", closefd=False)
            else:
                stream = open(name, encoding="utf-8-sig", errors="replace")
            with stream:
                for word in tokens(stream):
                    value = parse(word)
                    if value is None:
                        rejected += 1
                        if len(examples) < SHOWN_WORDS:
                            examples.append(word if len(word) <= 40 else word[:40] + "...")
                    else:
                        values.append(value)
        except OSError as error:
            parser.error(f"cannot read {name}: {error.strerror}")

    if rejected:
        shown = ", ".join(repr(word) for word in examples)
        more = ", ..." if rejected > len(examples) else ""
        print(f"stats.py: skipped {rejected} word(s) that are not numbers: {shown}{more}", file=sys.stderr)
        if args.strict:
            return 1

    try:
        result = {key: tidy(value) for key, value in describe(values).items()}
    except OverflowError:
        print("stats.py: error: the numbers are too large to add up", file=sys.stderr)
        return 1
    if args.json:
        import json

        print(json.dumps({**result, "skipped": rejected}, indent=2))
    else:
        for key, value in result.items():
            print(f"{key:<7} {'-' if value is None else value}")
    return 0


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
