#!/usr/bin/env python3
"""Runs every bash example of every example skill in a copy of the skill, and checks that it succeeds.

The first example of each skill must also leave something in out/.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BLOCK = re.compile(r"^( *)```bash\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
SKILLS = Path(__file__).parent / "skills"


def run(skill: Path) -> int:
    """Runs the examples of one skill; returns how many failed."""
    failed = 0
    blocks = BLOCK.findall((skill / "SKILL.md").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / skill.name
        shutil.copytree(skill, copy)
        for name in ("out", "work", "inputs"):
            (copy / name).mkdir()
        environment = dict(os.environ, OUTPUT_DIR=str(copy / "out"), WORK_DIR=str(copy / "work"), WORKSPACE_DIR=scratch, SKILL_NAME=skill.name)
        for number, (_, commands) in enumerate(blocks, start=1):
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=copy, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
            wrote = any((copy / "out").rglob("*"))
            if done.returncode != 0 or (number == 1 and not wrote):
                failed += 1
                reason = f"exit {done.returncode}" if done.returncode else "nothing in out/"
                print(f"{skill.name}: example {number} failed ({reason})\n{commands}{done.stderr.decode(errors='replace')}", file=sys.stderr)
    if not blocks:
        failed += 1
        print(f"{skill.name}: no bash example", file=sys.stderr)
    print(f"{skill.name}: {len(blocks)} examples")
    return failed


def main() -> int:
    skills = sorted(path.parent for path in SKILLS.glob("*/SKILL.md"))
    failed = sum(run(skill) for skill in skills)
    print(f"{len(skills)} skills, {failed} failures")
    return 1 if failed or len(skills) < 6 else 0


if __name__ == "__main__":
    sys.exit(main())
