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
    // Beside the tests, where cargo puts examples; it is built by whoever builds all targets.
    let tests = std::env::current_exe().unwrap();
    let example = tests.parent().unwrap().parent().unwrap().join("examples/agent");
    if !example.exists() {
        let words =
            ["build", "--quiet", "--offline", "--locked", "-p", "prowess-agent", "--example", "agent"];
        let built = std::process::Command::new(env!("CARGO")).args(words).current_dir(&top).status().unwrap();
        assert!(built.success());
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
