use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;
use crate::snapshot::{Entry, EntryKind, MAX_SKILL_BYTES, MAX_SKILL_FILES, SnapshotError};

/// A source in memory.
#[derive(Default)]
struct Source {
    entries: Vec<Entry>,
    bytes: BTreeMap<String, Vec<u8>>,
}

impl Source {
    fn of(files: &[(&str, &str)]) -> Self {
        let mut source = Self::default();
        for (path, text) in files {
            source
                .add(path, EntryKind::File { size: text.len() as u64, is_executable: path.ends_with(".sh") });
            source.bytes.insert((*path).to_owned(), text.as_bytes().to_vec());
        }
        source
    }

    fn add(&mut self, path: &str, kind: EntryKind) {
        self.entries.push(Entry { path: path.to_owned(), kind });
        self.entries.sort_by(|a, b| a.path.cmp(&b.path));
    }
}

impl Snapshot for Source {
    fn entries(&self) -> &[Entry] {
        &self.entries
    }
    fn read(&mut self, path: &str) -> Result<Vec<u8>, SnapshotError> {
        self.bytes.get(path).cloned().ok_or_else(|| SnapshotError::NotAFile { path: path.to_owned() })
    }
    fn commit(&self) -> Option<&str> {
        None
    }
    fn folder_sha1(&self, _: &str) -> Option<String> {
        None
    }
    fn notices(&self) -> &[String] {
        &[]
    }
}

fn store() -> (tempfile::TempDir, Store) {
    let scratch = tempfile::tempdir().unwrap();
    let store = Store::open(&scratch.path().join("cache/skills")).unwrap();
    (scratch, store)
}

fn count(store: &Store) -> usize {
    std::fs::read_dir(&store.path).unwrap().count()
}

#[test]
fn a_skill_is_staged_under_its_digest() {
    let (_scratch, store) = store();
    let mut source = Source::of(&[
        ("skills/tide/SKILL.md", "tide"),
        ("skills/tide/docs/metadata.json", "{}"),
        ("skills/tide/metadata.json", "{}"),
        ("skills/tide/scripts/__pycache__/a.pyc", "x"),
        ("skills/tide/scripts/__pycache__/b.pyc", "x"),
        ("skills/tide/scripts/run.sh", "ls"),
        ("skills/tide-2/SKILL.md", "another"),
    ]);
    source.add("skills/tide/.GIT/hooks/link", EntryKind::Link);
    let stored = store.stage(&mut source, "skills/tide").unwrap();
    let paths: Vec<_> = stored.tree.files.keys().map(String::as_str).collect();
    assert_eq!(paths, ["SKILL.md", "scripts/run.sh"]);
    assert_eq!(stored.left_out, [".GIT", "docs/metadata.json", "metadata.json", "scripts/__pycache__"]);
    let left_out = Store::left_out_files(&mut source, "skills/tide").unwrap();
    let left_out: Vec<_> = left_out.iter().map(|(path, _)| path.as_str()).collect();
    let caches = ["scripts/__pycache__/a.pyc", "scripts/__pycache__/b.pyc"];
    assert_eq!(left_out, [["docs/metadata.json", "metadata.json"], caches].concat());
    assert_eq!(stored.path.file_name().unwrap().to_str(), Some(&stored.digest.to_string()[7..]));
    assert_eq!(SkillTree::read(&stored.path).unwrap(), stored.tree);
    let mode = |path: &str| stored.path.join(path).metadata().unwrap().permissions().mode() & 0o700;
    assert_eq!((mode("SKILL.md"), mode("scripts/run.sh")), (0o600, 0o700));
    assert_eq!(stored.path.parent().unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o700);

    assert_eq!(store.get(&stored.digest).unwrap().tree, stored.tree);
    assert_eq!(store.stage(&mut source, "skills/tide").unwrap().digest, stored.digest);
    assert_eq!(count(&store), 1, "the second copy is gone");
    assert!(matches!(store.stage(&mut source, "skills/none"), Err(StoreError::Empty)));
    source.add("out", EntryKind::Link);
    assert!(store.stage(&mut source, "").is_err() && count(&store) == 1);
}

#[test]
fn a_damaged_entry_counts_as_missing_and_is_replaced() {
    let (_scratch, store) = store();
    let mut source = Source::of(&[("SKILL.md", "tide")]);
    let stored = store.stage(&mut source, "").unwrap();
    std::fs::write(stored.path.join("SKILL.md"), "EVIL").unwrap();
    assert_eq!(store.stage(&mut source, "").unwrap().digest, stored.digest);
    assert_eq!(std::fs::read(stored.path.join("SKILL.md")).unwrap(), b"tide");
    std::fs::write(stored.path.join("more"), "").unwrap();
    assert!(store.get(&stored.digest).is_none() && count(&store) == 0);

    std::os::unix::fs::symlink("/etc", &stored.path).unwrap();
    assert!(store.get(&stored.digest).is_none(), "a link is no entry");
}

#[test]
fn case_128_bad_entries_are_refused_by_name() {
    let (_scratch, store) = store();
    let refused = |extra: &[(&str, EntryKind)]| {
        let mut source = Source::of(&[("s/SKILL.md", "tide")]);
        for (path, kind) in extra {
            source.add(path, *kind);
            source.bytes.insert((*path).to_owned(), Vec::new());
        }
        let error = store.stage(&mut source, "s").unwrap_err().to_string();
        assert_eq!(count(&store), 0, "nothing is left of {error}");
        error
    };
    let file = EntryKind::File { size: 0, is_executable: false };
    assert_eq!(refused(&[("s/a", EntryKind::Link)]), "\"a\" is a link; a skill may have only regular files");
    assert!(refused(&[("s/a", EntryKind::Submodule)]).starts_with("\"a\" is a Git submodule"));
    assert!(refused(&[("s/null", EntryKind::Other)]).starts_with("\"null\" is a device"));
    for (path, twin) in [("s/skill.md", "SKILL.md"), ("s/SKILL.md/x", "SKILL.md")] {
        assert!(refused(&[(path, file)]).contains(twin), "{path}");
    }
    let accents = refused(&[("s/caf\u{e9}", file), ("s/cafe\u{301}", file)]);
    assert!(accents.contains("are one file on some systems"), "{accents}");
    assert!(refused(&[("s/D/a", file), ("s/d/b", file)]).starts_with("\"d/b\" and \"D\" are one file"));
    for path in ["s/a.", "s/a /b", "s/..."] {
        assert!(refused(&[(path, file)]).contains("ends with a dot or a space"), "{path}");
    }
    let long = format!("s/{}", "x".repeat(256));
    for path in ["s/../x", "s//etc/passwd", "s/a\\b", "s/a\nb", "s/\0", &long] {
        assert!(refused(&[(path, file)]).starts_with("cannot store"), "{path}");
    }
}

#[test]
fn case_129_too_much_is_refused_before_it_is_read() {
    let (_scratch, store) = store();
    let refused = |entries: Vec<(String, u64)>| {
        let mut source = Source::default();
        for (path, size) in entries {
            source.entries.push(Entry { path, kind: EntryKind::File { size, is_executable: false } });
        }
        source.entries.sort_by(|a, b| a.path.cmp(&b.path));
        let error = store.stage(&mut source, "").unwrap_err();
        assert_eq!(count(&store), 0);
        error
    };
    let many = (0..=MAX_SKILL_FILES).map(|number| (number.to_string(), 0)).collect();
    assert!(matches!(refused(many), StoreError::TooManyFiles));
    let large = vec![("a".to_owned(), MAX_SKILL_BYTES), ("b".to_owned(), 1)];
    assert!(matches!(refused(large), StoreError::TooLarge));
    assert!(matches!(refused(vec![("a/".repeat(40) + "b", 0)]), StoreError::TooDeep(_)));
}

#[test]
fn only_this_user_can_plant_files() {
    let (scratch, store) = store();
    std::fs::set_permissions(&store.path, PermissionsExt::from_mode(0o755)).unwrap();
    let again = Store::open(&store.path).unwrap();
    assert_eq!(again.path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    std::fs::set_permissions(&store.path, PermissionsExt::from_mode(0o777)).unwrap();
    assert!(matches!(Store::open(&store.path), Err(StoreError::NotPrivate(_))));
    symlink(&store.path, scratch.path().join("link")).unwrap();
    assert!(Store::open(&scratch.path().join("link")).is_err());
}

#[test]
fn pruning_removes_the_entries_that_were_unused_for_longest() {
    let (_scratch, store) = store();
    let stage = |text: &str, age: u64| {
        let stored = store.stage(&mut Source::of(&[("SKILL.md", text)]), "").unwrap();
        let used = SystemTime::now() - Duration::from_secs(age);
        std::fs::File::open(&stored.path).unwrap().set_modified(used).unwrap();
        stored
    };
    let (a, b, c) = (stage("aaaa", 300), stage("bbbb", 200), stage("cccc", 100));
    assert!(store.get(&a.digest).is_some(), "it is used now");
    std::fs::create_dir(store.path.join("unfinished-1")).unwrap();
    std::fs::create_dir(store.path.join("unfinished-2")).unwrap();
    let old = SystemTime::now() - 2 * ABANDONED;
    std::fs::File::open(store.path.join("unfinished-2")).unwrap().set_modified(old).unwrap();
    assert_eq!(store.prune(8).unwrap(), 1);
    assert!(store.get(&b.digest).is_none() && store.get(&c.digest).is_some());
    assert!(store.path.join("unfinished-1").exists() && !store.path.join("unfinished-2").exists());
    assert_eq!(store.prune(0).unwrap(), 2);
}

#[test]
fn a_directory_and_a_merge_can_be_staged() {
    use crate::merge::{Version, merge};
    let (_scratch, store) = store();
    let stage = |text: &str| store.stage(&mut Source::of(&[("SKILL.md", text), ("x", "x")]), "").unwrap();
    let (base, new) = (stage("a\nb\nc\n"), stage("a\nb\nC\n"));
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("SKILL.md"), "A\nb\nc\n").unwrap();
    std::fs::write(directory.path().join("mine"), "1").unwrap();
    let local = TreeDirectory::open(directory.path()).unwrap();
    let (tree, old_files, new_files) = (local.tree().unwrap(), base.open().unwrap(), new.open().unwrap());
    assert_eq!(store.stage_directory(&local).unwrap().tree, tree);
    let merged = merge(
        Version { tree: &base.tree, files: &old_files },
        Version { tree: &tree, files: &local },
        Version { tree: &new.tree, files: &new_files },
    )
    .unwrap();
    let stored = store.stage_merged(&merged, &local, &new_files).unwrap();
    assert_eq!(std::fs::read(stored.path.join("SKILL.md")).unwrap(), b"A\nb\nC\n");
    let paths: Vec<_> = stored.tree.files.keys().map(String::as_str).collect();
    assert_eq!(paths, ["SKILL.md", "mine"], "x was deleted locally");
}
