//! Behaviours of `ls` and `stat`.

use bytes::Bytes;

use super::Subject;
use super::subject::refused;
use crate::{Edit, EntryKind, ReadRange, VirtualPath};

/// The base and the root can be listed before any file exists.
pub async fn the_root_can_be_listed(subject: &Subject) {
    subject.backend().ls(&VirtualPath::root()).await.expect("the root is always there");
    assert!(subject.backend().ls(subject.base()).await.expect("so is the base").skipped.is_empty());
}

/// A listing sorts files and directories together, by name.
pub async fn ls_sorts_by_name(subject: &Subject) {
    for name in ["tree/b", "tree/a.txt", "tree/a/x", "tree/branch/x", "tree/a-b", "tree/B"] {
        subject.put(name, name.to_owned()).await;
    }
    assert_eq!(subject.names("tree").await, ["B", "a/", "a-b", "a.txt", "b", "branch/"]);
}

/// An entry has its kind and its size.
pub async fn ls_tells_kinds_and_sizes(subject: &Subject) {
    subject.put("tree/file", "12345").await;
    subject.put("tree/branch/x", "").await;
    let listing = subject.backend().ls(&subject.at("tree")).await.expect("it can be listed");
    let told: Vec<_> = listing.into_iter().map(|entry| (entry.path, entry.kind, entry.size)).collect();
    let expected =
        [(subject.at("tree/branch"), EntryKind::Directory, 0), (subject.at("tree/file"), EntryKind::File, 5)];
    assert_eq!(told, expected);
}

/// A listing shows a directory once, no matter how many files it has.
pub async fn ls_shows_a_directory_once(subject: &Subject) {
    for name in ["dir/sub/a", "dir/sub/b", "dir/sub/deep/c", "dir/z"] {
        subject.put(name, "x").await;
    }
    assert_eq!(subject.names("dir").await, ["sub/", "z"]);
}

/// A file cannot be listed.
pub async fn ls_of_a_file_is_refused(subject: &Subject) {
    subject.put("file", "x").await;
    refused(subject.backend().ls(&subject.at("file")).await, "not_a_directory");
}

/// Listing a missing directory fails, at the top and further down.
pub async fn ls_of_nothing_is_not_found(subject: &Subject) {
    refused(subject.backend().ls(&subject.at("nothing")).await, "not_found");
    refused(subject.backend().ls(&subject.at("nothing/at/all")).await, "not_found");
}

/// A path below a file does not exist.
pub async fn ls_below_a_file_is_not_found(subject: &Subject) {
    subject.put("file", "x").await;
    refused(subject.backend().ls(&subject.at("file/below")).await, "not_found");
}

/// A common beginning of two names does not put one inside the other: `ab/x` is not in `a`.
pub async fn names_with_a_common_beginning_are_not_inside_each_other(subject: &Subject) {
    subject.put("ab/x", "x").await;
    refused(subject.backend().ls(&subject.at("a")).await, "not_found");
    refused(subject.backend().stat(&subject.at("a")).await, "not_found");
    subject.put("a/y", "y").await;
    assert_eq!(subject.names("a").await, ["y"]);
    assert_eq!(subject.found("a/**").await, ["a/y"]);
}

/// Names keep their exact bytes, without normalisation.
pub async fn unicode_names_are_kept(subject: &Subject) {
    // The composed and the decomposed letter are two names.
    let names = ["e\u{301}.md", "\u{e9}.md", "技能.md", "🦀.md"];
    for name in names {
        subject.put(&format!("dir/{name}"), name).await;
    }
    assert_eq!(subject.names("dir").await, names);
    for name in names {
        assert_eq!(subject.text(&format!("dir/{name}")).await, name);
    }
}

/// Names with a leading dot are listed.
pub async fn hidden_names_are_listed(subject: &Subject) {
    subject.put("dir/.hidden", "x").await;
    subject.put("dir/.config/x", "x").await;
    assert_eq!(subject.names("dir").await, [".config/", ".hidden"]);
}

/// Characters with a meaning for shells, URLs or patterns have none in a name.
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

/// `stat` reports path, kind and size of a file.
pub async fn stat_describes_a_file(subject: &Subject) {
    subject.put("dir/file", "12345").await;
    let entry = subject.backend().stat(&subject.at("dir/file")).await.expect("it is there");
    assert_eq!((entry.path, entry.kind, entry.size), (subject.at("dir/file"), EntryKind::File, 5));
}

/// `stat` describes directories with files in them, and the base, which may be empty.
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

/// `stat` fails for a missing file, in a missing directory and below a file.
pub async fn stat_of_nothing_is_not_found(subject: &Subject) {
    subject.put("file", "x").await;
    for relative in ["nothing", "no/thing", "file/below"] {
        refused(subject.backend().stat(&subject.at(relative)).await, "not_found");
    }
}

/// All operations report the same stamp for one version of a file.
pub async fn stamps_agree_everywhere(subject: &Subject) {
    subject.put("dir/file", "x").await;
    let path = subject.at("dir/file");
    let stat = subject.backend().stat(&path).await.expect("it is there").stamp;
    let read = subject.backend().read(&path, ReadRange::first(10)).await.expect("it is there").stamp;
    let listed = subject.backend().ls(&subject.at("dir")).await.expect("it is there").entries.remove(0).stamp;
    assert!(stat.is_some() && stat == read && stat == listed, "{stat:?} {read:?} {listed:?}");
}

/// Every change of a file changes its stamp, and returns the new one.
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
