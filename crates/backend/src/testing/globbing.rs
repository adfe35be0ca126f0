//! Behaviours of `glob`.

use super::Subject;
use super::subject::refused;
use crate::GlobQuery;
use crate::cap::Cap;
use crate::glob::MAX_PATTERN_BYTES;

/// A tree with files at three depths.
async fn plant(subject: &Subject) {
    for relative in
        ["top.md", "tree/a.md", "tree/b.txt", "tree/branch/c.md", "tree/branch/deep/d.md", "tree/.h.md"]
    {
        subject.put(relative, relative.to_owned()).await;
    }
}

fn query(pattern: &str) -> GlobQuery {
    GlobQuery::new(pattern).expect("the suite's patterns are valid")
}

/// `**` matches no directory, one or many.
pub async fn two_stars_span_directories(subject: &Subject) {
    plant(subject).await;
    let markdown = ["top.md", "tree/.h.md", "tree/a.md", "tree/branch/c.md", "tree/branch/deep/d.md"];
    assert_eq!(subject.found("**/*.md").await, markdown);
    assert_eq!(subject.found("tree/branch/**").await, ["tree/branch/c.md", "tree/branch/deep/d.md"]);
    assert_eq!(subject.found("tree/**/d.md").await, ["tree/branch/deep/d.md"]);
    assert_eq!(subject.found("**").await.len(), 6);
}

/// `*` never crosses a slash.
pub async fn one_star_stays_within_a_name(subject: &Subject) {
    plant(subject).await;
    assert_eq!(subject.found("*.md").await, ["top.md"]);
    assert_eq!(subject.found("*").await, ["top.md"]);
    assert_eq!(subject.found("tree/*.md").await, ["tree/.h.md", "tree/a.md"]);
    assert_eq!(subject.found("*/*/*.md").await, ["tree/branch/c.md"]);
}

/// `?` and `[…]` match one character and never a slash.
pub async fn classes_and_question_marks(subject: &Subject) {
    plant(subject).await;
    assert_eq!(subject.found("tree/?.*").await, ["tree/a.md", "tree/b.txt"]);
    assert_eq!(subject.found("tree/[b-z].*").await, ["tree/b.txt"]);
    assert_eq!(subject.found("tree/[!b].md").await, ["tree/a.md"]);
    assert_eq!(subject.found("tree?a.md").await, [""; 0]);
}

/// `{a,b}` matches either alternative, also with a slash in it.
pub async fn braces_are_alternatives(subject: &Subject) {
    plant(subject).await;
    assert_eq!(subject.found("tree/*.{md,txt}").await, ["tree/.h.md", "tree/a.md", "tree/b.txt"]);
    assert_eq!(subject.found("{top,tree/branch/c}.md").await, ["top.md", "tree/branch/c.md"]);
}

/// Names with a leading dot match like others. The caller decides what a search leaves out.
pub async fn hidden_names_match(subject: &Subject) {
    subject.put(".a/.b/c", "x").await;
    assert_eq!(subject.found("**/c").await, [".a/.b/c"]);
    assert_eq!(subject.found(".a/*/c").await, [".a/.b/c"]);
    assert_eq!(subject.found("*/.b/*").await, [".a/.b/c"]);
}

/// A search finds only files, not a directory with a matching name.
pub async fn only_files_are_found(subject: &Subject) {
    subject.put("dir.md/file.txt", "x").await;
    assert_eq!(subject.found("**/*.md").await, [""; 0]);
    assert_eq!(subject.found("**/*").await, ["dir.md/file.txt"]);
}

/// Results are in the order of a sorted walk: the files in a directory come before the next name.
pub async fn results_are_in_order(subject: &Subject) {
    for relative in ["tree/b", "tree/a.x", "tree/a/z", "tree/a-b", "tree/branch/x", "tree/a/b/c", "zz"] {
        subject.put(relative, "x").await;
    }
    let order = ["tree/a/b/c", "tree/a/z", "tree/a-b", "tree/a.x", "tree/b", "tree/branch/x", "zz"];
    assert_eq!(subject.found("**").await, order);
}

/// Patterns are relative to the base, but results are whole paths.
pub async fn patterns_are_relative_to_the_base(subject: &Subject) {
    plant(subject).await;
    let report =
        subject.backend().glob(&subject.at("tree/branch"), &query("*.md")).await.expect("it is there");
    assert_eq!(subject.relative(&report), ["tree/branch/c.md"]);
    let report = subject.backend().glob(&subject.at("tree"), &query("tree/*.md")).await.expect("it is there");
    assert!(report.entries.is_empty());
}

/// A search with exactly as many files as the cap is complete. One more file reaches the cap, and the first results
/// stay.
pub async fn the_result_cap_is_exact_and_reported(subject: &Subject) {
    plant(subject).await;
    let exact =
        subject.backend().glob(subject.base(), &query("**").max_results(6)).await.expect("it is there");
    assert_eq!((exact.entries.len(), exact.stopped), (6, None));
    let cut = subject.backend().glob(subject.base(), &query("**").max_results(2)).await.expect("it is there");
    assert_eq!(subject.relative(&cut), ["top.md", "tree/.h.md"]);
    assert_eq!(cut.stopped, Some(Cap::Results(2)));
}

/// The report names the cap on visited entries, also if nothing was found.
pub async fn the_visit_cap_is_reported(subject: &Subject) {
    plant(subject).await;
    let query = query("**/nothing").max_visited(3);
    let cut = subject.backend().glob(subject.base(), &query).await.expect("it is there");
    assert_eq!((cut.entries.len(), cut.stopped), (0, Some(Cap::Visited(3))));
}

/// A missing base is an error, not an empty result.
pub async fn a_missing_base_is_not_found(subject: &Subject) {
    refused(subject.backend().glob(&subject.at("no/thing"), &query("**")).await, "not_found");
}

/// A file as the base is an error, because nothing is below it.
pub async fn a_file_as_base_is_refused(subject: &Subject) {
    subject.put("file", "x").await;
    refused(subject.backend().glob(&subject.at("file"), &query("**")).await, "not_a_directory");
}

/// A search that finds nothing succeeds, also in an empty base.
pub async fn an_empty_answer_is_no_error(subject: &Subject) {
    assert_eq!(subject.found("**").await, [""; 0]);
    plant(subject).await;
    assert_eq!(subject.found("**/nothing").await, [""; 0]);
}

/// Entries have the size and stamp that `stat` reports, so a caller notices changes without reading.
pub async fn entries_are_as_stat_says(subject: &Subject) {
    plant(subject).await;
    let report = subject.backend().glob(subject.base(), &query("**/*.md")).await.expect("it is there");
    assert_eq!(report.entries.len(), 5);
    for entry in report.entries {
        assert_eq!(subject.backend().stat(&entry.path).await.expect("it is there"), entry);
    }
}

/// Hostile patterns fail before the search starts.
pub async fn hostile_patterns_are_refused(subject: &Subject) {
    let (bomb, long) = ("{a,b}".repeat(50), "*".repeat(MAX_PATTERN_BYTES + 1));
    for pattern in ["", "/etc/*", "../**", "a/../../b", "a/./b", "{..,a}/b", "[a", "{a", &bomb, &long] {
        refused(GlobQuery::new(pattern), "invalid_pattern");
    }
    plant(subject).await;
    // Many stars are valid and could cause much backtracking.
    assert_eq!(subject.found(&format!("{}x", "*a".repeat(400))).await, [""; 0]);
}
