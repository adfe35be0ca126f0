//! The table of promises names tests that there are.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The names of all tests of the workspace: functions under a line that makes them one.
fn tests() -> BTreeSet<String> {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut files);
    let mut names = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(file).unwrap();
        let mut is_test = false;
        for line in text.lines().map(str::trim) {
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                is_test = true;
            } else if let Some(rest) = line.trim_start_matches("async ").strip_prefix("fn ")
                && std::mem::take(&mut is_test)
            {
                names.extend(rest.split('(').next().map(str::to_owned));
            }
        }
    }
    names
}

#[test]
fn every_promise_has_its_test() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/contributing/tests.md");
    let page = std::fs::read_to_string(page).unwrap();
    // The tests of the design notes have a table of another form, which the tests of `prowess-skills` check.
    let (table, _) = page.split_once("\n## Tests that the design notes name\n").unwrap();
    let tests = tests();
    let rows = table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| promise"));
    let mut missing = Vec::new();
    let mut count = 0;
    for row in rows {
        let shown = row.trim_end_matches('|').rsplit('|').next().unwrap();
        count += 1;
        let names: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test is named: {row}");
        let is_suite = |name: &&str| name.starts_with("prowess-") || *name == "third_party";
        missing.extend(
            names.into_iter().filter(|name| !is_suite(name) && !tests.contains(*name)).map(str::to_owned),
        );
    }
    assert!(count > 60, "the table has {count} rows");
    assert_eq!(missing, Vec::<String>::new());
}
