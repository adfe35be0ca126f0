//! Skills with files: a SKILL.md of about 6 KB, and ten resources.

use std::path::Path;
use std::{fs, io};

use crate::tree;

/// The length of a manifest.
const LENGTH: usize = 6_000;

/// The standard directories of each skill.
pub(crate) const DIRECTORIES: [&str; 3] = ["scripts", "references", "assets"];

/// The resources of each skill.
pub(crate) const RESOURCES: [&str; 10] = [
    "LICENSE.txt",
    "forms.md",
    "scripts/collect.py",
    "scripts/compare.py",
    "scripts/report.sh",
    "references/format.md",
    "references/glossary.md",
    "references/sources.md",
    "assets/letter.html",
    "assets/logo.svg",
];

/// Writes skills 0 to `count` to `root`, if they are missing, and waits until their times are reliable.
pub(crate) fn write(root: &Path, count: usize) -> io::Result<()> {
    tree::write_with(root, count, resources, |number| tree::manifest_of(number, LENGTH))
}

fn resources(directory: &Path) -> io::Result<()> {
    for name in DIRECTORIES {
        fs::create_dir_all(directory.join(name))?;
    }
    for path in RESOURCES {
        fs::write(directory.join(path), format!("Nobody reads {path}.\n"))?;
    }
    Ok(())
}
