#!/usr/bin/env python3
"""Checks that every public item of the library crates has an example that `cargo test --doc` runs.

    scripts/check-examples.py

An item is a struct, enum, trait or function that `lib.rs` or a public module re-exports or defines. Its example is in its
own documentation or in that of one of its methods. Those that need none are in scripts/examples-exempt.txt, which must
not name others. `lib.rs` itself begins with an example.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CRATES = ["base", "catalog", "backend", "permission", "skills", "workspace", "agent", "mcp", "models", "store"]
USE = re.compile(r"^\s*pub use (?:self::|crate::)?(\w+)(?:::\w+)*::(?:\{([^}]*)\}|(\w+));", re.M)
MODULE = re.compile(r"^pub mod (\w+);", re.M)
ITEM = re.compile(r"^pub (?:async )?(?:struct|enum|trait|fn) (\w+)", re.M)
IMPL = re.compile(r"^impl(?:<.*?>)? (\w+)(?:<.*>)? \{")


def examples(path, found):
    """Adds the names of the items in a file whose documentation, or that of a method, has an example."""
    owner, fenced, has = None, False, False  # whose methods these are; in a block of code; there was an example
    for line in path.read_text().splitlines():
        text = line.strip()
        if match := IMPL.match(line):
            owner = match[1]
        elif line == "}":
            owner = None
        if text.startswith("/// ```"):
            has |= not fenced and text[7:] in ("", "rust", "no_run")
            fenced = not fenced
        elif item := re.match(r"pub (?:async )?(?:struct|enum|trait|fn) (\w+)", text):
            if has:
                found.add(owner or item[1])
            has = False
        elif not text.startswith("//") and text.endswith(("}", ";", "{")):
            has = False


def public(source, front):
    """The items that a module and its public modules re-export, and what they are called where they are."""
    text = front.read_text()
    for match in USE.finditer(text):
        files = [source / f"{match[1]}.rs", *(source / match[1]).rglob("*.rs")]
        code = "\n".join(file.read_text() for file in files if file.exists())
        for name in re.findall(r"\w+", match[2] or match[3]):
            renamed = re.search(rf"\b(\w+) as {name}\b", code)
            item = renamed[1] if renamed else name
            if re.search(rf"^\s*pub (async )?(struct|enum|trait|fn) {item}\b", code, re.M):
                yield name, item
    for name in MODULE.findall(text):
        own, inner = source / f"{name}.rs", source / name / "mod.rs"
        module = own if own.exists() else inner
        if name == "testing" or not module.exists():
            continue  # suites for implementations; modules that are written in this file
        for item in ITEM.findall(module.read_text()):
            yield item, item
        yield from public(source / name, module)


def main():
    exempt, problems = {}, []
    for line in (ROOT / "scripts/examples-exempt.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            crate, names = line.split(":", 1)
            exempt.setdefault(crate, set()).update(names.split())
    for crate in CRATES:
        source, found = ROOT / "crates" / crate / "src", set()
        for path in source.rglob("*.rs"):
            examples(path, found)
        items = dict(public(source, source / "lib.rs"))
        free = exempt.get(crate, set())
        shown = {name for name, item in items.items() if item in found}
        problems += [f"prowess-{crate}: `{name}` has no example" for name in sorted(items.keys() - shown - free)]
        problems += [f"prowess-{crate}: `{name}` need not be exempt" for name in sorted(free & shown | free - items.keys())]
        if not re.search(r"^//! ```$", (source / "lib.rs").read_text(), re.M):
            problems.append(f"prowess-{crate}: its front page has no example")
        print(f"prowess-{crate}: {len(items)} items, {len(shown)} with an example, {len(free)} need none")
    sys.exit("\n".join(problems) or 0)


main()
