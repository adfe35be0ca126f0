use proptest::prelude::*;
use prowess_catalog::Digest;

use super::*;

/// A version of a skill in memory: bytes and mode by path.
type Files = BTreeMap<String, (Vec<u8>, bool)>;

struct Memory {
    files: Files,
    tree: SkillTree,
}

impl Memory {
    fn new(files: Files) -> Self {
        let tree = files.iter().map(|(path, (bytes, is_executable))| {
            let (size, is_executable) = (bytes.len() as u64, *is_executable);
            (path.clone(), TreeFile { digest: Digest::of(bytes), size, is_executable })
        });
        Self { tree: SkillTree { files: tree.collect() }, files }
    }

    fn version(&self) -> Version<'_> {
        Version { tree: &self.tree, files: self }
    }
}

impl ReadFiles for Memory {
    fn read_file(&self, path: &str, _: u64) -> Result<Vec<u8>, TreeError> {
        self.files.get(path).map(|file| file.0.clone()).ok_or_else(|| TreeError::Absent(path.to_owned()))
    }

    fn read_start(&self, path: &str, most: usize) -> Result<Vec<u8>, TreeError> {
        let mut bytes = self.read_file(path, u64::MAX)?;
        bytes.truncate(most);
        Ok(bytes)
    }
}

fn files(files: &[(&str, &str, bool)]) -> Files {
    files.iter().map(|(path, text, mode)| ((*path).to_owned(), (text.as_bytes().to_vec(), *mode))).collect()
}

fn run(base: &Files, local: &Files, new: &Files) -> (Files, Merged) {
    let [base, local, new] = [base, local, new].map(|files| Memory::new(files.clone()));
    let merged = merge(base.version(), local.version(), new.version()).unwrap();
    let result = merged.files.iter().map(|(path, file)| {
        let bytes = match &file.from {
            MergedFrom::Local => local.files[path].0.clone(),
            MergedFrom::New => new.files[path].0.clone(),
            MergedFrom::Both(bytes) => bytes.clone(),
        };
        (path.clone(), (bytes, file.is_executable))
    });
    (result.collect(), merged)
}

#[test]
fn each_side_keeps_its_changes() {
    let base = files(&[
        ("SKILL.md", "one\ntwo\nthree\n", false),
        ("gone-here", "", false),
        ("gone-there", "", false),
        ("run.sh", "x", false),
        ("same", "1", false),
        ("theirs", "1", false),
    ]);
    let local = files(&[
        ("SKILL.md", "one!\ntwo\nthree\n", false),
        ("gone-there", "", false),
        ("mine", "1", false),
        ("run.sh", "x", true),
        ("same", "2", false),
        ("theirs", "1", false),
    ]);
    let new = files(&[
        ("SKILL.md", "one\ntwo\nthree!\n", false),
        ("added", "1", false),
        ("gone-here", "", false),
        ("run.sh", "y", false),
        ("same", "2", false),
        ("theirs", "2", false),
    ]);
    let (result, merged) = run(&base, &local, &new);
    assert_eq!(merged.conflicts, []);
    assert_eq!(merged.kept_local, ["SKILL.md", "gone-here", "mine", "run.sh"]);
    let expected = files(&[
        ("SKILL.md", "one!\ntwo\nthree!\n", false),
        ("added", "1", false),
        ("mine", "1", false),
        ("run.sh", "y", true),
        ("same", "2", false),
        ("theirs", "2", false),
    ]);
    assert_eq!(result, expected);
}

#[test]
fn conflicts_are_named() {
    let base = files(&[("binary", "\0", false), ("d", "1", false), ("lines", "1", false), ("u", "1", false)]);
    let local = files(&[
        ("Added", "1", false),
        ("binary", "\0l", false),
        ("lines", "l", false),
        ("mode", "1", true),
        ("twin", "1", false),
        ("u", "2", false),
    ]);
    let new = files(&[
        ("Added", "2", false),
        ("binary", "\0n", false),
        ("d", "2", false),
        ("lines", "n", false),
        ("mode", "1", false),
        ("twin/in", "1", false),
    ]);
    let (_, merged) = run(&base, &local, &new);
    let conflicts: Vec<_> =
        merged.conflicts.iter().map(|conflict| (&*conflict.path, conflict.kind)).collect();
    let expected = [
        ("Added", ConflictKind::AddedTwice),
        ("binary", ConflictKind::Binary),
        ("d", ConflictKind::DeletedLocally),
        ("lines", ConflictKind::Lines),
        ("mode", ConflictKind::AddedTwice),
        ("twin/in", ConflictKind::Twin),
        ("u", ConflictKind::DeletedUpstream),
    ];
    assert_eq!(conflicts, expected);
}

#[test]
fn a_file_that_is_too_large_is_not_merged() {
    let large = |end: &str| files(&[("a", &("x\n".repeat(600_000) + end), false)]);
    let (_, merged) = run(&large(""), &large("l"), &large("n"));
    assert_eq!(merged.conflicts[0].kind, ConflictKind::Binary);
}

fn any_files() -> impl Strategy<Value = Files> {
    let text =
        prop::collection::vec(prop::sample::select(vec!["a\n", "b\n", "c\n", "d\n", "\0", "é", ""]), 0..8)
            .prop_map(|lines| lines.concat().into_bytes());
    let path = prop::sample::select(vec!["a", "b", "c/d", "c/e", "A", "c"]);
    prop::collection::btree_map(path.prop_map(str::to_owned), (text, any::<bool>()), 0..5)
}

/// Files that one directory can have on every system.
fn tree_files() -> impl Strategy<Value = Files> {
    any_files().prop_map(|mut files| {
        let mut paths = Paths::default();
        files.retain(|path, _| paths.add(path).is_ok());
        files
    })
}

proptest! {
    #[test]
    fn without_local_changes_the_result_is_the_new_version(base in tree_files(), new in tree_files()) {
        let (result, merged) = run(&base, &base, &new);
        prop_assert_eq!(&merged.conflicts, &[]);
        prop_assert_eq!(&merged.kept_local, &Vec::<String>::new());
        prop_assert_eq!(result, new);
    }

    #[test]
    fn without_upstream_changes_the_result_is_the_local_version(base in tree_files(), local in tree_files()) {
        let (result, merged) = run(&base, &local, &base);
        prop_assert_eq!(&merged.conflicts, &[]);
        prop_assert_eq!(result, local);
    }

    #[test]
    fn the_sides_can_be_exchanged(base in any_files(), local in any_files(), new in any_files()) {
        let (one, merged) = run(&base, &local, &new);
        let (other, exchanged) = run(&base, &new, &local);
        let paths = |merged: &Merged| merged.conflicts.iter().map(|found| found.path.clone()).collect::<Vec<_>>();
        prop_assert_eq!(paths(&merged), paths(&exchanged));
        prop_assert_eq!(one, other);
    }

    #[test]
    fn equal_changes_never_conflict(base in tree_files(), new in tree_files()) {
        let (result, merged) = run(&base, &new, &new);
        prop_assert_eq!(&merged.conflicts, &[]);
        prop_assert_eq!(result, new);
    }

    #[test]
    fn any_bytes_are_merged_without_a_crash(
        base in prop::collection::vec(any::<u8>(), 0..40),
        local in prop::collection::vec(any::<u8>(), 0..40),
        new in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let _ = lines::merge(&base, &local, &new, &mut Effort::default());
    }
}
