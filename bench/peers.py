"""Loads the same skills with deepagents and with prowess, in one run, and compares the CPU time.

deepagents' own `SkillsMiddleware.before_agent` loads them through its own `FilesystemBackend`: what
its agents run before their first turn. Nothing else of it runs, and no model. Both of the backend's
documented path modes are measured, and the faster one counts.

What is in deepagents' favour: its imports are not counted, and it stays in one warmed-up process,
while every measurement of prowess is made in a fresh one. Both read from a warm page cache.

Then their agents have the same turn: `peer_agents.py`.
"""

import argparse
import gc
import importlib.metadata
import json
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from deepagents.backends.filesystem import FilesystemBackend
from deepagents.middleware.skills import SkillsMiddleware

import peer_agents

# How many skills, and how often they are loaded in each mode; the least counts.
SIZES = {100: 15, 1_000: 7, 10_000: 3}
# prowess has to take at least so many times less at these sizes.
BAR = 50
BAR_SIZES = {1_000, 10_000}
# prowess is quick enough to be measured this often between two loads of deepagents.
PROWESS_PER_LOAD = 3


def virtual_paths(root: Path) -> SkillsMiddleware:
    """The default: paths are relative to the backend's root, which is checked for each."""
    return SkillsMiddleware(backend=FilesystemBackend(root_dir=root, virtual_mode=True), sources=["/"])


def real_paths(root: Path) -> SkillsMiddleware:
    """Paths are taken as they are."""
    return SkillsMiddleware(backend=FilesystemBackend(root_dir=root, virtual_mode=False), sources=[str(root)])


def load_with_deepagents(middleware: SkillsMiddleware) -> tuple[float, list[dict]]:
    """One load: its CPU time in milliseconds, of all threads, and the skills."""
    gc.collect()
    before = time.process_time()
    update = middleware.before_agent({}, None, {})
    spent = time.process_time() - before
    if update["skills_load_errors"]:
        sys.exit(f"deepagents could not load them: {update['skills_load_errors']}")
    return spent * 1_000, update["skills_metadata"]


def discover_with_prowess(program: Path, root: Path) -> dict:
    """One discovery in a fresh process: its CPU time, and what was found."""
    run = subprocess.run([program, "task", "discover", root], check=True, capture_output=True)
    return json.loads(run.stdout)


def compare(program: Path, root: Path, count: int, repetitions: int) -> tuple[float, dict[str, float]]:
    """The least CPU time of prowess, and of deepagents in each mode."""
    subprocess.run([program, "make", root, str(count)], check=True)
    modes = {make.__name__: make(root) for make in (virtual_paths, real_paths)}
    ours, theirs = [], {mode: [] for mode in modes}
    # The first round fills the page cache and does not count, unless it would take long; then
    # prowess alone fills it, and deepagents is warm from the smaller sizes.
    discover_with_prowess(program, root)
    if count <= 1_000:
        for middleware in modes.values():
            load_with_deepagents(middleware)
    for _ in range(repetitions):
        for mode, middleware in modes.items():
            spent, skills = load_with_deepagents(middleware)
            theirs[mode].append(spent)
            for _ in range(PROWESS_PER_LOAD):
                sample = discover_with_prowess(program, root)
                ours.append(sample["ms"])
            read = (len(skills), sum(len(skill["description"]) for skill in skills))
            if read != (sample["skills"], sample["description_chars"]) or read[0] != count:
                sys.exit(f"they did not read the same: {read} and {sample}")
            del skills
    return min(ours), {mode: min(spent) for mode, spent in theirs.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prowess-bench", type=lambda path: Path(path).absolute(), required=True)
    program = parser.parse_args().prowess_bench
    if not program.exists():
        sys.exit(f"there is no {program}; build it: cargo build --release -p prowess-bench")

    versions = {name: importlib.metadata.version(name) for name in ("deepagents", "langgraph", "PyYAML")}
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    print(f"{named}, {platform.python_implementation()} {platform.python_version()}\n")
    print("| skills | prowess | deepagents, virtual paths | deepagents, real paths | factor | bar | |")
    print("|-------:|--------:|--------------------------:|-----------------------:|-------:|----:|-|")
    missed = False
    for count, repetitions in SIZES.items():
        with tempfile.TemporaryDirectory() as directory:
            ours, theirs = compare(program, Path(directory), count, repetitions)
        factor = min(theirs.values()) / ours
        bar, verdict = "", ""
        if count in BAR_SIZES:
            bar, verdict = f"≥ {BAR}×", "ok" if factor >= BAR else "MISSED"
            missed |= factor < BAR
        loads = " | ".join(f"{spent:,.1f} ms" for spent in theirs.values())
        print(f"| {count:,} | {ours:.2f} ms | {loads} | {factor:.0f}× | {bar} | {verdict} |", flush=True)
    print()
    missed |= not peer_agents.compare(program)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
