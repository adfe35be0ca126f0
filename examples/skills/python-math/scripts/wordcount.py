#!/usr/bin/env python3
"""Count lines, words, characters and bytes of text files, and list the frequent words."""

import argparse
import codecs
import os
import re
import sys
from collections import Counter

# Letters and digits of any script; apostrophes and hyphens may join two parts.
WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")
CHUNK = 1 << 20
MAX_WORD = 100  # longer words are counted, but listed cut off


class TextCount:
    """The counts of one file."""

    def __init__(self, name):
        self.name = name
        self.lines = self.words = self.characters = self.bytes = self.invalid = 0
        self.frequency = Counter()

    def read(self, stream, min_length):
        """Count a binary stream, in pieces of bounded size."""

        def replace_and_count(error):
            self.invalid += error.end - error.start
            return "\ufffd", error.end

        codecs.register_error("count-invalid", replace_and_count)
        decoder = codecs.getincrementaldecoder("utf-8-sig")("count-invalid")
        carry, last = "", ""
        while True:
            chunk = stream.read(CHUNK)
            text = decoder.decode(chunk, final=not chunk)
            self.bytes += len(chunk)
            self.characters += len(text)
            self.lines += text.count("\n")
            last = text[-1:] or last
            text = carry + text
            carry = ""
            if chunk and len(text) < 4 * CHUNK:
                # Keep a word that may go on in the next piece.
                blank = max(text.rfind(" "), text.rfind("\n"), text.rfind("\t"))
                text, carry = text[: blank + 1], text[blank + 1 :]
            for match in WORD.finditer(text):
                word = match.group()
                self.words += 1
                if len(word) >= min_length:
                    self.frequency[word[:MAX_WORD].casefold()] += 1
            if not chunk:
                break
        if last and last != "\n":
            self.lines += 1

    def as_dict(self):
        return {
            "file": self.name,
            "lines": self.lines,
            "words": self.words,
            "characters": self.characters,
            "bytes": self.bytes,
            "invalid_bytes": self.invalid,
        }


def main():
    parser = argparse.ArgumentParser(
        description="Count lines, words, characters and bytes, and list the most frequent words. "
        "Without FILE, or with -, read standard input.",
    )
    parser.add_argument("files", metavar="FILE", nargs="*", help="text file, or -")
    parser.add_argument("--top", metavar="N", type=int, default=10, help="frequent words to list (default 10)")
    parser.add_argument("--min-length", metavar="N", type=int, default=1, help="list only words this long")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    args = parser.parse_args()
    if args.top < 0 or args.min_length < 1:
        parser.error("--top must be at least 0 and --min-length at least 1")

    counts = []
    for name in args.files or ["-"]:
        count = TextCount(name)
        try:
            if name == "-":
                if sys.stdin is None or sys.stdin.isatty():
                    parser.error("no file named and nothing on standard input")
                count.read(sys.stdin.buffer, args.min_length)
            else:
                with open(name, "rb") as stream:
                    count.read(stream, args.min_length)
        except OSError as error:
            parser.error(f"cannot read {name}: {error.strerror}")
        if count.invalid:
            print(f"wordcount.py: {name}: replaced {count.invalid} byte(s) that are not UTF-8", file=sys.stderr)
        counts.append(count)

    frequency = Counter()
    for count in counts:
        frequency.update(count.frequency)
    # Ties are broken by the alphabet, so that the same text gives the same list.
    top = sorted(frequency.items(), key=lambda item: (-item[1], item[0]))[: args.top]

    if args.json:
        import json

        words = [{"word": word, "count": n} for word, n in top]
        print(json.dumps({"files": [c.as_dict() for c in counts], "top_words": words}, indent=2, ensure_ascii=False))
        return 0

    rows = [(c.lines, c.words, c.characters, c.bytes, c.name) for c in counts]
    if len(rows) > 1:
        rows.append((*(sum(row[i] for row in rows) for i in range(4)), "total"))
    header = ("lines", "words", "chars", "bytes", "file")
    widths = [max(len(str(row[i])) for row in [header, *rows]) for i in range(4)]
    for row in [header, *rows]:
        print("  ".join(str(row[i]).rjust(widths[i]) for i in range(4)) + f"  {row[4]}")
    if top:
        print("\nmost frequent words")
        width = len(str(top[0][1]))
        for word, n in top:
            print(f"{n:>{width}}  {word}")
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
