#!/usr/bin/env python3
"""Print Fibonacci numbers, exactly, one per line."""

import argparse
import os
import sys

MAX_LISTED = 10_000
MAX_NTH = 100_000


def fibonacci():
    """Yield F(0), F(1), F(2), ... without end."""
    a, b = 0, 1
    while True:
        yield a
        a, b = b, a + b


def nth(n):
    """Return F(n) by fast doubling."""
    a, b = 0, 1
    for bit in bin(n)[2:]:
        a, b = a * (2 * b - a), a * a + b * b
        if bit == "1":
            a, b = b, a + b
    return a


def main():
    parser = argparse.ArgumentParser(
        description="Print the first N Fibonacci numbers (0, 1, 1, 2, ...), one per line.",
        epilog="example: fib.py 10 > out/fib.txt",
    )
    parser.add_argument("n", metavar="N", type=int, help="how many numbers, or with --nth which one")
    parser.add_argument("--nth", action="store_true", help="print only F(N), where F(0) is 0")
    args = parser.parse_args()

    limit = MAX_NTH if args.nth else MAX_LISTED
    if not 0 <= args.n <= limit:
        parser.error(f"N must be between 0 and {limit}, not {args.n}")

    # F(100000) has more digits than Python converts to text by default.
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)

    if args.nth:
        print(nth(args.n))
    else:
        for _, number in zip(range(args.n), fibonacci()):
            print(number)
    return 0


if __name__ == "__main__":
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (head, less) has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 0
    sys.exit(code)
