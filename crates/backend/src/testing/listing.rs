//! Behaviours of `ls` and `stat`.

use bytes::Bytes;

use super::Subject;
use super::subject::refused;
use crate::{Edit, EntryKind, ReadRange, VirtualPath};

/// The base can be listed before there is anything in it, and so can the root.
pub async fn the_root_can_be_listed(subject: &Subject) {
    subject.backend().ls(&VirtualPath::root()).await.expect("the root is always there");
    assert!(subject.backend().ls(subject.base()).await.expect("so is the base").skipped.is_empty());
}

/// Files and directories are in one order, that of their names.
pub async fn ls_sorts_by_name(subject: &Subject) {
    for name in ["tree/b", "tree/a.txt", "tree/a/x", "tree/branch/x", "tree/a-b", "tree/B"] {
        subject.put(name, name.to_owned()).await;
    }
    assert_eq!(subject.names("tree").await, ["B", "a/", "a-b", "a.txt", "b", "branch/"]);
}

/// An entry says what it is and how large.
pub async fn ls_tells_kinds_and_sizes(subject: &Subject) {
    subject.put("tree/file", "12345").await;
    subject.put("tree/branch/x", "").await;
    let listing = subject.backend().ls(&subject.at("tree")).await.expect("it can be listed");
    let told: Vec<_> = listing.into_iter().map(|entry| (entry.path, entry.kind, entry.size)).collect();
    let expected =
        [(subject.at("tree/branch"), EntryKind::Directory, 0), (subject.at("tree/file"), EntryKind::File, 5)];
    assert_eq!(told, expected);
}

/// However much a directory holds.
pub async fn ls_shows_a_directory_once(subject: &Subject) {
    for name in ["dir/sub/a", "dir/sub/b", "dir/sub/deep/c", "dir/z"] {
        subject.put(name, "x").await;
    }
    assert_eq!(subject.names("dir").await, ["sub/", "z"]);
}

/// A file holds nothing.
pub async fn ls_of_a_file_is_refused(subject: &Subject) {
    subject.put("file", "x").await;
    refused(subject.backend().ls(&subject.at("file")).await, "not_a_directory");
}

/// Neither at the top nor further down.
pub async fn ls_of_nothing_is_not_found(subject: &Subject) {
    refused(subject.backend().ls(&subject.at("nothing")).await, "not_found");
    refused(subject.backend().ls(&subject.at("nothing/at/all")).await, "not_found");
}

/// Nothing lies below a file.
pub async fn ls_below_a_file_is_not_found(subject: &Subject) {
    subject.put("file", "x").await;
    refused(subject.backend().ls(&subject.at("file/below")).await, "not_found");
}

/// `ab/x` is not in `a`.
pub async fn names_with_a_common_beginning_are_not_inside_each_other(subject: &Subject) {
    subject.put("ab/x", "x").await;
    refused(subject.backend().ls(&subject.at("a")).await, "not_found");
    refused(subject.backend().stat(&subject.at("a")).await, "not_found");
    subject.put("a/y", "y").await;
    assert_eq!(subject.names("a").await, ["y"]);
    assert_eq!(subject.found("a/**").await, ["a/y"]);
}

/// Byte for byte, without normalisation.
pub async fn unicode_names_are_kept(subject: &Subject) {
    // The same letter composed and decomposed are two names.
    let names = ["e\u{301}.md", "\u{e9}.md", "技能.md", "🦀.md"];
    for name in names {
        subject.put(&format!("dir/{name}"), name).await;
    }
    assert_eq!(subject.names("dir").await, names);
    for name in names {
        assert_eq!(subject.text(&format!("dir/{name}")).await, name);
    }
}

/// A dot in front hides nothing.
pub async fn hidden_names_are_listed(subject: &Subject) {
    subject.put("dir/.hidden", "x").await;
    subject.put("dir/.config/x", "x").await;
    assert_eq!(subject.names("dir").await, [".config/", ".hidden"]);
}

/// What means something to a shell, an address or a pattern means itself in a name.
pub async fn odd_names_are_kept(subject: &Subject) {
    let names = [" ", "#1", "%2e%2e", "*", "...", "?a=b&c", "[x]", "a b", "it's \"it\"", "{a,b}", "~"];
    let mut sorted = names;
    sorted.sort_unstable();
    for name in names {
        subject.put(&format!("dir/{name}"), name).await;
    }
    assert_eq!(subject.names("dir").await, sorted);
    for name in names {
        assert_eq!(subject.text(&format!("dir/{name}")).await, name);
    }
}

/// Path, kind and size.
pub async fn stat_describes_a_file(subject: &Subject) {
    subject.put("dir/file", "12345").await;
    let entry = subject.backend().stat(&subject.at("dir/file")).await.expect("it is there");
    assert_eq!((entry.path, entry.kind, entry.size), (subject.at("dir/file"), EntryKind::File, 5));
}

/// Those that hold something, and the base, which may not.
pub async fn stat_describes_directories(subject: &Subject) {
    subject.put("dir/sub/file", "x").await;
    for path in [subject.base().clone(), subject.at("dir"), subject.at("dir/sub")] {
        let entry = subject.backend().stat(&path).await.expect("it is there");
        assert_eq!(
            (&entry.path, entry.kind, entry.size, entry.stamp),
            (&path, EntryKind::Directory, 0, None)
        );
    }
}

/// Missing, in a missing directory, below a file.
pub async fn stat_of_nothing_is_not_found(subject: &Subject) {
    subject.put("file", "x").await;
    for relative in ["nothing", "no/thing", "file/below"] {
        refused(subject.backend().stat(&subject.at(relative)).await, "not_found");
    }
}

/// One version of a file has one stamp, whoever tells it.
pub async fn stamps_agree_everywhere(subject: &Subject) {
    subject.put("dir/file", "x").await;
    let path = subject.at("dir/file");
    let stat = subject.backend().stat(&path).await.expect("it is there").stamp;
    let read = subject.backend().read(&path, ReadRange::first(10)).await.expect("it is there").stamp;
    let listed = subject.backend().ls(&subject.at("dir")).await.expect("it is there").entries.remove(0).stamp;
    assert!(stat.is_some() && stat == read && stat == listed, "{stat:?} {read:?} {listed:?}");
}

/// Every way of changing a file gives it another stamp, and says which.
pub async fn stamps_change_with_the_contents(subject: &Subject) {
    let (backend, path) = (subject.backend(), subject.at("file"));
    subject.put("file", "one").await;
    let mut stamps = vec![backend.stat(&path).await.expect("it is there").stamp];
    subject.put("file", "two").await;
    stamps.push(backend.stat(&path).await.expect("it is there").stamp);
    let appended = backend.append(&path, Bytes::from_static(b" three")).await.expect("it can be appended to");
    stamps.push(appended.stamp);
    let edited = backend.edit(&path, &Edit::unique("two", "six")).await.expect("it can be edited");
    stamps.push(edited.entry.stamp);
    assert_eq!(stamps.last(), Some(&backend.stat(&path).await.expect("it is there").stamp));
    let distinct: std::collections::HashSet<_> = stamps.iter().collect();
    assert_eq!(distinct.len(), stamps.len(), "{stamps:?}");
}
