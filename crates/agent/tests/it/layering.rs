//! The core of an agent does not know its parts: whoever writes one has no less than those that come with the crate.

use std::path::{Path, PathBuf};

/// What puts parts together, and may name them.
const ABOVE: [&str; 3] = ["parts", "deep.rs", "lib.rs"];

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files(&path, found),
            false => found.push(path),
        }
    }
}

/// The lines of code that name the module of parts.
fn naming(code: &str) -> Vec<&str> {
    let lines = code.lines().map(str::trim_start).filter(|line| !line.starts_with("//"));
    lines
        .filter(|line| line.contains("parts::") || line.contains("crate::parts") || line.contains("crate::{"))
        .collect()
}

#[test]
fn the_core_names_no_part() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut core = Vec::new();
    for entry in std::fs::read_dir(&source).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if ABOVE.iter().any(|above| name == *above) {
            continue;
        }
        match entry.path().is_dir() {
            true => files(&entry.path(), &mut core),
            false => core.push(entry.path()),
        }
    }
    assert!(core.iter().any(|file| file.ends_with("agent/drive.rs")), "{core:?}");
    for file in core {
        let code = std::fs::read_to_string(&file).unwrap();
        assert_eq!(naming(&code), [""; 0], "{}", file.display());
    }
}

#[test]
fn a_name_of_a_part_is_found() {
    let code = "use crate::parts;\n/// See [`crate::middleware::Todos`].\nfn f() {\n    parts::todos();\n}\nfor part in parts {}";
    assert_eq!(naming(code), ["use crate::parts;", "parts::todos();"]);
}
