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

#[test]
fn the_example_of_the_readme_ends_well() {
    let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // Where cargo puts examples. Whoever tests the whole crate has built it; whoever tests less gets it now.
    let tests = std::env::current_exe().unwrap();
    let example = tests.parent().unwrap().parent().unwrap().join("examples/agent");
    let changed = |path: &std::path::Path| path.metadata().and_then(|found| found.modified()).ok();
    if changed(&example) < changed(&top.join("crates/agent/examples/agent.rs")) {
        let words = "build --quiet --offline --locked --all-features -p prowess-agent --example agent";
        let mut cargo = std::process::Command::new(env!("CARGO"));
        assert!(cargo.args(words.split(' ')).current_dir(&top).status().unwrap().success());
    }
    let place = tempfile::tempdir().unwrap();
    // Commands of root run as nobody, who has to get in.
    std::fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let output =
        std::process::Command::new(example).current_dir(&top).env("TMPDIR", place.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("0 1 1 2 3 5 8 13 21 34"), "{said}");
    assert!(!said.contains("no tool"), "{said}");
}
