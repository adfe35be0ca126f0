"""Prints how long `prowess add` and `prowess verify` take for many skills, beside the programs that do the least possible.

A repository with so many skills is made. `prowess add` fetches it, copies the skills to the cache and into a project, and records
digests. The floor for it is `git clone --depth 1`, `cp -r` and `sha256sum` of the same files. The floor for `prowess verify` is
`sha256sum` of the installed files. Each is measured several times in turn, and the lowest time counts.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ADD_BAR, VERIFY_BAR = 1.3, 1.2


def make_repository(at: Path, skills: int) -> None:
    """A repository with so many skills of five files each."""
    for number in range(skills):
        skill = at / "skills" / f"skill-{number:04}"
        (skill / "scripts").mkdir(parents=True)
        (skill / "references").mkdir()
        text = f"---\nname: skill-{number:04}\ndescription: Counts to {number}. Use to count.\n---\n"
        (skill / "SKILL.md").write_text(text + f"Count to {number}.\n" * 150)
        (skill / "scripts" / "count.py").write_text(f"for at in range({number}):\n    print(at)\n" * 40)
        (skill / "scripts" / "count.sh").write_text(f"seq {number}\n" * 60)
        for name in ["numbers", "words"]:
            (skill / "references" / f"{name}.md").write_text(f"About {name} up to {number}.\n" * 120)
    git = ["git", "-C", str(at), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run([*git[:3], "init", "--quiet", "--initial-branch=main"], check=True)
    subprocess.run([*git, "add", "--all"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message", "Skills"], check=True)


def clock(run) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prowess", type=Path, required=True)
    parser.add_argument("--skills", type=int, default=1_000)
    parser.add_argument("--repetitions", type=int, default=5)
    given = parser.parse_args()
    program = given.prowess.resolve()
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        repository, project = place / "repository", place / "project"
        repository.mkdir()
        make_repository(repository, given.skills)
        source = f"file://{repository}"
        environment = {**os.environ, "HOME": str(place / "home"), "XDG_CACHE_HOME": str(place / "cache")}

        def quiet(command: list[str], at: Path) -> None:
            subprocess.run(command, cwd=at, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def fresh() -> None:
            for path in [project, place / "home", place / "cache", place / "clone", place / "copy"]:
                shutil.rmtree(path, ignore_errors=True)
            for path in [project, place / "home"]:
                path.mkdir()
            subprocess.run(["git", "init", "--quiet", str(project)], check=True)

        def floor() -> None:
            quiet(["git", "clone", "--quiet", "--depth", "1", source, str(place / "clone")], place)
            quiet(["cp", "-r", str(place / "clone" / "skills"), str(place / "copy")], place)
            quiet(["sh", "-c", "find copy -type f -print0 | xargs -0 sha256sum"], place)

        adds, floors, verifies, sums = [], [], [], []
        for _ in range(given.repetitions):
            fresh()
            floors.append(clock(floor))
            adds.append(clock(lambda: quiet([str(program), "add", source, "--yes", "--json"], project)))
            sums.append(clock(lambda: quiet(["sh", "-c", "find .agents -type f -print0 | xargs -0 sha256sum"], project)))
            verifies.append(clock(lambda: quiet([str(program), "verify"], project)))
        print(f"| {given.skills} skills | prowess | floor | ratio | bar | |\n|---|---:|---:|---:|---:|---|")
        missed = False
        for what, own, least, bar in [("add", adds, floors, ADD_BAR), ("verify", verifies, sums, VERIFY_BAR)]:
            ratio = min(own) / min(least)
            missed |= ratio > bar
            word = "ok" if ratio <= bar else "MISSED"
            print(f"| `prowess {what}` | {min(own) * 1000:.0f} ms | {min(least) * 1000:.0f} ms | {ratio:.2f}× | ≤ {bar}× | {word} |")
        sys.exit(missed)


if __name__ == "__main__":
    main()
