//! Behaviours of `grep`.

use super::Subject;
use super::subject::refused;
use crate::cap::Cap;
use crate::grep::{MAX_LINE_BYTES, MAX_SEARCH_BYTES, PartialReason};
use crate::{GlobQuery, GrepQuery, GrepReport};

async fn grep(subject: &Subject, query: GrepQuery) -> GrepReport {
    let report = subject.backend().grep(subject.base(), &query).await.expect("the base can be searched");
    assert!(report.skipped.is_empty(), "{report:?}");
    report
}

/// A match as `path:line:text`, below the base.
fn lines(subject: &Subject, report: &GrepReport) -> Vec<String> {
    let line = |found: &crate::GrepMatch| {
        let path = found.path.strip_prefix(subject.base()).expect("answers lie below the base");
        format!("{path}:{}:{}", found.line, found.text)
    };
    report.matches.iter().map(line).collect()
}

fn regex(pattern: &str) -> GrepQuery {
    GrepQuery::regex(pattern).expect("the suite's expressions are valid")
}

/// Lines count from 1. The last line counts even without a line end.
pub async fn finds_lines_with_their_numbers(subject: &Subject) {
    subject.put("a", "fn one\n\nlet two\nfn three").await;
    subject.put("tree/branch/b", "fn four\n").await;
    let report = grep(subject, regex(r"^fn \w+")).await;
    assert_eq!(lines(subject, &report), ["a:1:fn one", "a:4:fn three", "tree/branch/b:1:fn four"]);
    assert!(report.stopped.is_none() && report.partial.is_empty() && report.binary == 0, "{report:?}");
}

/// A literal matches dots and brackets exactly.
pub async fn a_literal_means_itself(subject: &Subject) {
    subject.put("a", "a.b(c)\naxb(c)\n").await;
    let query = GrepQuery::literal(".b(").expect("a literal is valid");
    assert_eq!(lines(subject, &grep(subject, query).await), ["a:1:a.b(c)"]);
}

/// A search reads only the files that match the pattern of paths.
pub async fn searches_only_the_files_asked_for(subject: &Subject) {
    for relative in ["a.md", "tree/b.md", "tree/branch/c.md", "tree/branch/d.txt"] {
        subject.put(relative, "needle\n").await;
    }
    let markdown = GlobQuery::new("tree/**/*.md").expect("the pattern is valid");
    let report = grep(subject, regex("needle").files(markdown)).await;
    assert_eq!(lines(subject, &report), ["tree/b.md:1:needle", "tree/branch/c.md:1:needle"]);
}

/// The cap per file is reported, and the search continues with other files.
pub async fn the_cap_per_file_is_reported(subject: &Subject) {
    subject.put("a", "x\nx\nx\n").await;
    subject.put("b", "x\nx\n").await;
    let report = grep(subject, regex("x").max_per_file(2)).await;
    assert_eq!(lines(subject, &report), ["a:1:x", "a:2:x", "b:1:x", "b:2:x"]);
    assert_eq!(report.partial, [(subject.at("a"), PartialReason::Matches)]);
    assert_eq!(report.stopped, None);
}

/// A search with exactly as many lines as the cap is complete. One more line reaches the cap.
pub async fn the_cap_in_all_is_exact_and_reported(subject: &Subject) {
    subject.put("a", "x\nx\n").await;
    subject.put("b", "x\n").await;
    let exact = grep(subject, regex("x").max_matches(3)).await;
    assert_eq!((exact.matches.len(), exact.stopped), (3, None));
    let cut = grep(subject, regex("x").max_matches(2)).await;
    assert_eq!((cut.matches.len(), cut.stopped), (2, Some(Cap::Results(2))));
}

/// A search skips and counts binary files.
pub async fn binary_files_are_counted(subject: &Subject) {
    subject.put("a.bin", b"needle\0needle\n".to_vec()).await;
    subject.put("b.txt", "needle\n").await;
    let report = grep(subject, regex("needle")).await;
    assert_eq!(lines(subject, &report), ["b.txt:1:needle"]);
    assert_eq!(report.binary, 1);
}

/// A search reads only the first part of a large file and reports that.
pub async fn a_large_file_is_searched_in_part(subject: &Subject) {
    subject.put("a", "needle\n..............needle\n").await;
    let report = grep(subject, regex("needle").max_file_bytes(10)).await;
    assert_eq!(lines(subject, &report), ["a:1:needle"]);
    assert_eq!(report.partial, [(subject.at("a"), PartialReason::Size)]);
}

/// Lines do not include their line end, `\n` or `\r\n`.
pub async fn line_ends_are_not_part_of_lines(subject: &Subject) {
    subject.put("a", "one\r\ntwo\nthree\r\n").await;
    assert_eq!(
        lines(subject, &grep(subject, regex("^(one|two|three)$")).await),
        ["a:1:one", "a:2:two", "a:3:three"]
    );
}

/// A long line is cut and marked as cut.
pub async fn long_lines_are_cut(subject: &Subject) {
    subject.put("a", format!("{}needle\nneedle\n", ".".repeat(MAX_LINE_BYTES))).await;
    let report = grep(subject, regex("needle")).await;
    let told: Vec<_> = report.matches.iter().map(|found| (found.text.len(), found.cut)).collect();
    assert_eq!(told, [(MAX_LINE_BYTES, true), (6, false)]);
}

/// The base can be a single file.
pub async fn one_file_can_be_searched(subject: &Subject) {
    subject.put("dir/a", "needle\n").await;
    subject.put("dir/b", "needle\n").await;
    let report = subject.backend().grep(&subject.at("dir/b"), &regex("needle")).await.expect("it is there");
    assert_eq!(lines(subject, &report), ["dir/b:1:needle"]);
}

/// A missing base is an error, not an empty result.
pub async fn a_missing_base_is_not_found(subject: &Subject) {
    refused(subject.backend().grep(&subject.at("no/thing"), &regex("x")).await, "not_found");
}

/// A search reads files that are not UTF-8 and replaces the invalid bytes.
pub async fn foreign_encodings_are_searched(subject: &Subject) {
    subject.put("latin1", b"caf\xe9 needle\n".to_vec()).await;
    assert_eq!(lines(subject, &grep(subject, regex("needle")).await), ["latin1:1:caf\u{fffd} needle"]);
}

/// Hostile patterns fail before the search starts.
pub async fn hostile_patterns_are_refused(subject: &Subject) {
    let long = "a".repeat(MAX_SEARCH_BYTES + 1);
    for pattern in ["", "(", "[z-a]", "(((a{1000}){1000}){1000})", &long] {
        refused(GrepQuery::regex(pattern), "invalid_pattern");
    }
    refused(GrepQuery::literal(""), "invalid_pattern");
    // This expression would take exponential time in other engines.
    subject.put("a", format!("{}\n", "a".repeat(10_000))).await;
    assert!(grep(subject, regex("^(a+)+$b")).await.matches.is_empty());
}

/// Results are sorted by path, then by line, even if files are read concurrently.
pub async fn results_are_in_order(subject: &Subject) {
    for number in 0..60 {
        subject.put(&format!("dir/{number:02}"), "x\nx\n").await;
    }
    let report = grep(subject, regex("x")).await;
    let keys: Vec<_> = report.matches.iter().map(|found| (found.path.clone(), found.line)).collect();
    assert!(keys.len() == 120 && keys.is_sorted(), "{keys:?}");
}
