#!/usr/bin/env python3
"""List prime numbers, or write a number as a product of primes."""

import argparse
import math
import os
import sys

MAX_LIMIT = 10_000_000
MAX_FIRST = 664_579  # the number of primes up to MAX_LIMIT
MAX_FACTOR = 10**14


def primes_up_to(limit):
    """Return all primes <= limit (sieve of Eratosthenes)."""
    if limit < 2:
        return []
    is_prime = bytearray([1]) * (limit + 1)
    is_prime[0] = is_prime[1] = 0
    for p in range(2, math.isqrt(limit) + 1):
        if is_prime[p]:
            is_prime[p * p :: p] = bytes(len(range(p * p, limit + 1, p)))
    return [n for n, flag in enumerate(is_prime) if flag]


def first_primes(count):
    """Return the first `count` primes."""
    if count < 1:
        return []
    # For n >= 6 the n-th prime is below n (ln n + ln ln n).
    bound = 15 if count < 6 else int(count * (math.log(count) + math.log(math.log(count)))) + 1
    return primes_up_to(bound)[:count]


def factorise(n):
    """Return [(prime, exponent), ...] of n >= 2, by trial division."""
    factors = []
    divisor = 2
    while divisor * divisor <= n:
        exponent = 0
        while n % divisor == 0:
            n //= divisor
            exponent += 1
        if exponent:
            factors.append((divisor, exponent))
        divisor += 1 if divisor == 2 else 2
    if n > 1:
        factors.append((n, 1))
    return factors


def describe(n):
    """Return `n = p * q^k`, or say that n is prime."""
    factors = factorise(n)
    if factors == [(n, 1)]:
        return f"{n} is prime"
    product = " * ".join(str(p) if k == 1 else f"{p}^{k}" for p, k in factors)
    return f"{n} = {product}"


def main():
    parser = argparse.ArgumentParser(
        description="List primes, one per line, or factorise a number.",
        epilog="examples: primes.py 100   primes.py --first 20   primes.py --factor 360",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("limit", metavar="LIMIT", type=int, nargs="?", help="list the primes up to LIMIT")
    what.add_argument("--first", metavar="N", type=int, help="list the first N primes")
    what.add_argument("--factor", metavar="N", type=int, help="write N as a product of primes")
    args = parser.parse_args()

    if args.factor is not None:
        if not 2 <= args.factor <= MAX_FACTOR:
            parser.error(f"--factor takes a number between 2 and {MAX_FACTOR}")
        print(describe(args.factor))
        return 0

    if args.first is not None:
        if not 0 <= args.first <= MAX_FIRST:
            parser.error(f"--first takes a number between 0 and {MAX_FIRST}")
        found = first_primes(args.first)
    else:
        if not 0 <= args.limit <= MAX_LIMIT:
            parser.error(f"LIMIT must be between 0 and {MAX_LIMIT}")
        found = primes_up_to(args.limit)
    for prime in found:
        print(prime)
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
