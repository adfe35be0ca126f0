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
