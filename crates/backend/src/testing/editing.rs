//! Behaviours of `edit` and `swap`.

use super::Subject;
use super::subject::refused;
use crate::write::MAX_EDIT_BYTES;
use crate::{BackendError, Edit, Edited, Result};

async fn edit(subject: &Subject, relative: &str, edit: Edit) -> Result<Edited> {
    subject.backend().edit(&subject.at(relative), &edit).await
}

/// An edit replaces the only occurrence and reports it.
pub async fn replaces_the_only_occurrence(subject: &Subject) {
    subject.put("dir/file", "one two three").await;
    let edited = edit(subject, "dir/file", Edit::unique("two", "2")).await.expect("it occurs once");
    assert_eq!(edited.replacements, 1);
    assert_eq!((edited.entry.path, edited.entry.size), (subject.at("dir/file"), 11));
    assert_eq!(subject.text("dir/file").await, "one 2 three");
    assert_eq!(subject.found("**").await, ["dir/file"], "nothing else is left behind");
}

/// An edit of a text that occurs several times fails, counts the occurrences and changes nothing.
pub async fn refuses_several_and_counts_them(subject: &Subject) {
    subject.put("file", "a b a b a").await;
    match edit(subject, "file", Edit::unique("a", "x")).await {
        Err(BackendError::TextNotUnique { path, count: 3 }) => assert_eq!(path, subject.at("file")),
        other => panic!("{other:?}"),
    }
    assert_eq!(subject.text("file").await, "a b a b a");
}

/// `Edit::all` replaces every occurrence, also if there is only one.
pub async fn replaces_all_occurrences(subject: &Subject) {
    subject.put("file", "a b a b a").await;
    assert_eq!(edit(subject, "file", Edit::all("a", "aa")).await.expect("it occurs").replacements, 3);
    assert_eq!(subject.text("file").await, "aa b aa b aa");
    subject.put("file", "b").await;
    assert_eq!(edit(subject, "file", Edit::all("b", "c")).await.expect("it occurs").replacements, 1);
}

/// An edit of a missing text fails in either scope.
pub async fn refuses_absent_text(subject: &Subject) {
    subject.put("file", "abc").await;
    refused(edit(subject, "file", Edit::unique("ABC", "x")).await, "text_not_found");
    refused(edit(subject, "file", Edit::all("abcd", "x")).await, "text_not_found");
    assert_eq!(subject.text("file").await, "abc");
}

/// An edit of an empty text fails, because it occurs everywhere.
pub async fn refuses_empty_text(subject: &Subject) {
    subject.put("file", "abc").await;
    refused(edit(subject, "file", Edit::unique("", "x")).await, "invalid_edit");
    refused(edit(subject, "file", Edit::all("", "x")).await, "invalid_edit");
    assert_eq!(subject.text("file").await, "abc");
}

/// An empty replacement deletes the text, down to an empty file.
pub async fn an_empty_replacement_deletes(subject: &Subject) {
    subject.put("file", "abc").await;
    edit(subject, "file", Edit::unique("b", "")).await.expect("it occurs once");
    assert_eq!(subject.text("file").await, "ac");
    edit(subject, "file", Edit::unique("ac", "")).await.expect("it occurs once");
    assert_eq!(subject.text("file").await, "");
}

/// An edit compares line ends and letters exactly.
pub async fn lines_and_unicode_are_exact(subject: &Subject) {
    subject.put("file", "één\r\ntwee\ndrie 🦀\n").await;
    refused(edit(subject, "file", Edit::unique("één\ntwee", "x")).await, "text_not_found");
    refused(edit(subject, "file", Edit::unique("e\u{301}en", "x")).await, "text_not_found");
    edit(subject, "file", Edit::unique("twee\ndrie 🦀", "2\n3 $1 \\n")).await.expect("it occurs once");
    assert_eq!(subject.text("file").await, "één\r\n2\n3 $1 \\n\n");
}

/// Overlapping occurrences count once: `aa` occurs twice in `aaaa`.
pub async fn overlapping_occurrences_count_once(subject: &Subject) {
    subject.put("file", "aaaa").await;
    match edit(subject, "file", Edit::unique("aa", "b")).await {
        Err(BackendError::TextNotUnique { count: 2, .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(edit(subject, "file", Edit::all("aa", "b")).await.expect("it occurs").replacements, 2);
    assert_eq!(subject.text("file").await, "bb");
}

/// An edit of a missing file fails and does not create it.
pub async fn a_missing_file_is_not_found(subject: &Subject) {
    subject.put("file", "x").await;
    for relative in ["nothing", "no/thing", "file/below"] {
        refused(edit(subject, relative, Edit::unique("a", "b")).await, "not_found");
    }
    assert_eq!(subject.found("**").await, ["file"]);
}

/// An edit of a directory fails.
pub async fn a_directory_is_refused(subject: &Subject) {
    subject.put("dir/file", "x").await;
    refused(edit(subject, "dir", Edit::unique("a", "b")).await, "is_directory");
}

/// An edit of a file that is not UTF-8 fails.
pub async fn binary_is_refused(subject: &Subject) {
    subject.put("file", vec![b'a', 0xff]).await;
    refused(edit(subject, "file", Edit::unique("a", "b")).await, "not_text");
}

/// The size limit of edits is exact to the byte.
pub async fn the_largest_file_is_edited_and_a_larger_one_refused(subject: &Subject) {
    let size = usize::try_from(MAX_EDIT_BYTES).expect("memory holds it");
    let mut text = vec![b'.'; size];
    text[size - 1] = b'!';
    subject.put("file", text.clone()).await;
    edit(subject, "file", Edit::unique("!", "?")).await.expect("it is not too large");
    text.push(b'.');
    subject.put("file", text).await;
    refused(edit(subject, "file", Edit::unique("!", "?")).await, "too_large");
}

/// A swap replaces exactly the contents that the caller knows.
pub async fn swap_replaces_what_the_caller_knows(subject: &Subject) {
    subject.put("dir/file", vec![0xff, 0, 1]).await;
    let (backend, path) = (subject.backend(), subject.at("dir/file"));
    let entry = backend.swap(&path, vec![0xff, 0, 1].into(), "after".into()).await;
    let entry = entry.expect("nobody changed it");
    assert_eq!((&entry.path, entry.size), (&path, 5));
    assert_eq!(subject.text("dir/file").await, "after");
    for other in ["afte", "after!", "AFTER", ""] {
        refused(backend.swap(&path, other.into(), "x".into()).await, "changed");
    }
    assert_eq!(subject.text("dir/file").await, "after");
    assert_eq!(subject.found("**").await, ["dir/file"], "nothing else is left behind");
}

/// A swap creates nothing, and replaces no directory.
pub async fn swap_needs_a_file(subject: &Subject) {
    subject.put("dir/file", "a").await;
    for (relative, code) in [("none", "not_found"), ("dir", "is_directory"), ("dir/file/x", "not_found")] {
        refused(subject.backend().swap(&subject.at(relative), "".into(), "x".into()).await, code);
    }
    assert_eq!(subject.found("**").await, ["dir/file"]);
}

/// Of concurrent swaps that know the same contents, one happens.
pub async fn one_swap_wins(subject: &Subject) {
    subject.put("file", "before").await;
    let backend = subject.backend();
    let swaps = (0..8).map(|number| {
        let after = format!("after {number}");
        let path = subject.at("file");
        async move { backend.swap(&path, "before".into(), after.into()).await }
    });
    let won = futures_util::future::join_all(swaps).await.into_iter().filter(Result::is_ok).count();
    assert_eq!(won, 1);
}
