//! The README shows what runs.

#[test]
fn the_example_of_the_readme_is_the_example() {
    let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(top.join("README.md")).unwrap();
    let example = std::fs::read_to_string(top.join("crates/agent/examples/agent.rs")).unwrap();
    let begin = example.find("use std::sync::Arc;").unwrap();
    assert!(readme.contains(&format!("```rust\n{}```\n", &example[begin..])));
    assert!(example[begin..].lines().filter(|line| !line.is_empty()).count() <= 25);
}

/// `cargo test` builds examples with the tests.
#[test]
fn the_example_of_the_readme_ends_well() {
    let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tests = std::env::current_exe().unwrap();
    let example = tests.parent().unwrap().parent().unwrap().join("examples/agent");
    let place = tempfile::tempdir().unwrap();
    // Commands of root run as nobody, who has to get in.
    std::fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let output =
        std::process::Command::new(example).current_dir(&top).env("TMPDIR", place.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("0\n1\n1\n2\n3\n5\n8\n13\n21\n34"), "{said}");
    assert!(!said.contains("no tool"), "{said}");
}
