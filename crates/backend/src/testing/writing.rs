//! Behaviours of `write`, `append` and `delete`.

use bytes::Bytes;

use super::Subject;
use super::subject::refused;
use crate::{Edit, EntryKind, ReadRange, WriteMode};

async fn write(subject: &Subject, relative: &str, mode: WriteMode) -> crate::Result<crate::Entry> {
    subject.backend().write(&subject.at(relative), Bytes::from_static(b"new"), mode).await
}

/// A write replaces the whole file, even a longer one.
pub async fn replacing_is_whole(subject: &Subject) {
    subject.put("file", "a long text that was there before").await;
    subject.put("file", "short").await;
    assert_eq!(subject.text("file").await, "short");
    assert_eq!(subject.found("**").await, ["file"], "nothing else is left behind");
}

/// `CreateNew` creates a file.
pub async fn create_new_creates(subject: &Subject) {
    write(subject, "dir/file", WriteMode::CreateNew).await.expect("nothing is there");
    assert_eq!(subject.text("dir/file").await, "new");
    assert_eq!(subject.found("**").await, ["dir/file"], "nothing else is left behind");
}

/// `CreateNew` fails for an existing file and does not change it.
pub async fn create_new_refuses_what_exists(subject: &Subject) {
    subject.put("file", "old").await;
    refused(write(subject, "file", WriteMode::CreateNew).await, "already_exists");
    assert_eq!(subject.text("file").await, "old");
    assert_eq!(subject.found("**").await, ["file"], "nothing else is left behind");
}

/// A write creates all missing directories.
pub async fn missing_directories_are_created(subject: &Subject) {
    subject.put("a/b/c/d/e", "x").await;
    assert_eq!(subject.text("a/b/c/d/e").await, "x");
    assert_eq!(subject.names("a/b/c").await, ["d/"]);
}

/// A write to the path of a directory fails in either mode.
pub async fn over_a_directory_is_refused(subject: &Subject) {
    subject.put("dir/file", "x").await;
    refused(write(subject, "dir", WriteMode::Replace).await, "is_directory");
    refused(write(subject, "dir", WriteMode::CreateNew).await, "is_directory");
    assert_eq!(subject.text("dir/file").await, "x");
}

/// Every operation on files fails for the root.
pub async fn over_the_root_is_refused(subject: &Subject) {
    let (backend, base) = (subject.backend(), subject.base());
    refused(backend.write(base, Bytes::new(), WriteMode::Replace).await, "is_directory");
    refused(backend.append(base, Bytes::new()).await, "is_directory");
    refused(backend.edit(base, &Edit::unique("a", "b")).await, "is_directory");
    refused(backend.delete(base).await, "is_directory");
}

/// A write below a file fails, and the error names that file.
pub async fn below_a_file_is_refused(subject: &Subject) {
    subject.put("dir/file", "x").await;
    for relative in ["dir/file/below", "dir/file/far/below"] {
        let error = refused(write(subject, relative, WriteMode::Replace).await, "not_a_directory");
        assert_eq!(error.path(), Some(&subject.at("dir/file")));
    }
    assert_eq!(subject.text("dir/file").await, "x");
}

/// An empty file exists like any other.
pub async fn an_empty_file_exists(subject: &Subject) {
    subject.put("dir/file", "").await;
    assert_eq!(subject.names("dir").await, ["file"]);
    refused(write(subject, "dir/file", WriteMode::CreateNew).await, "already_exists");
}

/// The answer to a write has path, kind, size and the new stamp.
pub async fn answers_describe_what_was_written(subject: &Subject) {
    let written = write(subject, "dir/file", WriteMode::Replace).await.expect("it can be written");
    assert_eq!((&written.path, written.kind, written.size), (&subject.at("dir/file"), EntryKind::File, 3));
    let stat = subject.backend().stat(&written.path).await.expect("it is there");
    assert_eq!((stat.size, stat.stamp), (written.size, written.stamp));
}

/// An append creates the file and its directories.
pub async fn append_creates(subject: &Subject) {
    let path = subject.at("dir/log");
    let entry = subject.backend().append(&path, Bytes::from_static(b"one\n")).await.expect("it is created");
    assert_eq!((entry.path, entry.size), (path, 4));
    assert_eq!(subject.text("dir/log").await, "one\n");
}

/// Each append adds to the end.
pub async fn append_adds_to_the_end(subject: &Subject) {
    subject.put("log", "one\n").await;
    for line in ["two\n", "three\n"] {
        let added = subject.backend().append(&subject.at("log"), line.into()).await.expect("it is there");
        assert_eq!(added.size, subject.text("log").await.len() as u64);
    }
    assert_eq!(subject.text("log").await, "one\ntwo\nthree\n");
}

/// An append of nothing changes nothing, but it creates the file.
pub async fn append_of_nothing_changes_nothing(subject: &Subject) {
    subject.put("log", "one\n").await;
    for relative in ["log", "new"] {
        subject.backend().append(&subject.at(relative), Bytes::new()).await.expect("nothing is in the way");
    }
    assert_eq!((subject.text("log").await.as_str(), subject.text("new").await.as_str()), ("one\n", ""));
}

/// An append to a directory fails.
pub async fn append_to_a_directory_is_refused(subject: &Subject) {
    subject.put("dir/file", "x").await;
    refused(subject.backend().append(&subject.at("dir"), Bytes::new()).await, "is_directory");
}

/// An append below a file fails.
pub async fn append_below_a_file_is_refused(subject: &Subject) {
    subject.put("file", "x").await;
    let error =
        refused(subject.backend().append(&subject.at("file/below"), Bytes::new()).await, "not_a_directory");
    assert_eq!(error.path(), Some(&subject.at("file")));
}

/// A deletion removes one file and no other.
pub async fn delete_removes_one_file(subject: &Subject) {
    subject.put("dir/a", "a").await;
    subject.put("dir/b", "b").await;
    subject.backend().delete(&subject.at("dir/a")).await.expect("it is there");
    assert_eq!(subject.names("dir").await, ["b"]);
    refused(subject.backend().stat(&subject.at("dir/a")).await, "not_found");
}

/// A deletion fails for a missing file, a deleted one, in a missing directory and below a file.
pub async fn delete_of_nothing_is_not_found(subject: &Subject) {
    subject.put("dir/a", "a").await;
    subject.put("dir/b", "b").await;
    subject.backend().delete(&subject.at("dir/a")).await.expect("it is there");
    for relative in ["nothing", "dir/a", "no/thing", "dir/b/below"] {
        refused(subject.backend().delete(&subject.at(relative)).await, "not_found");
    }
}

/// A directory cannot be deleted, and keeps its files.
pub async fn delete_of_a_directory_is_refused(subject: &Subject) {
    subject.put("dir/sub/file", "x").await;
    refused(subject.backend().delete(&subject.at("dir")).await, "is_directory");
    assert_eq!(subject.text("dir/sub/file").await, "x");
}

/// A deleted file can be created again.
pub async fn a_deleted_file_can_be_created_again(subject: &Subject) {
    subject.put("dir/file", "old").await;
    subject.backend().delete(&subject.at("dir/file")).await.expect("it is there");
    write(subject, "dir/file", WriteMode::CreateNew).await.expect("nothing is there");
    assert_eq!(subject.text("dir/file").await, "new");
}

/// Errors have the path that the caller used, not that of a mount, a prefix or the disk.
pub async fn errors_carry_the_callers_path(subject: &Subject) {
    let (backend, path) = (subject.backend(), subject.at("no/thing"));
    let errors = [
        refused(backend.ls(&path).await, "not_found"),
        refused(backend.stat(&path).await, "not_found"),
        refused(backend.read(&path, ReadRange::first(1)).await, "not_found"),
        refused(backend.edit(&path, &Edit::unique("a", "b")).await, "not_found"),
        refused(backend.delete(&path).await, "not_found"),
        refused(backend.read_many(std::slice::from_ref(&path), 1).await.remove(0), "not_found"),
    ];
    for error in errors {
        assert_eq!(error.path(), Some(&path));
        assert!(error.to_string().contains(path.as_str()), "{error}");
    }
}
