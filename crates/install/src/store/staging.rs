//! Chooses the files of one skill, and copies them to an entry of the store.

use crate::merge::{Merged, MergedFrom};
use crate::snapshot::{
    Entry, EntryKind, MAX_FILE_BYTES, MAX_SKILL_BYTES, MAX_SKILL_FILES, Snapshot, check_path,
};
use crate::store::{Selection, StoreError};
use crate::tree::names::{Paths, has_trailing_dot_or_space};
use crate::tree::writer::TreeWriter;
use crate::tree::{MAX_DEPTH, ReadFiles};

/// A file that `skills` copies from no directory.
const LEFT_OUT_FILE: &str = "metadata.json";
/// The names that `skills` copies from no directory. `.git` counts in any case: on some systems it is the same directory.
const LEFT_OUT_NAMES: [&str; 3] = [".git", "__pycache__", "__pypackages__"];

/// The files of one skill in a snapshot.
pub(super) struct Selected {
    files: Vec<SelectedFile>,
    /// What is not part of the skill, by its path in the skill.
    pub(super) left_out: Vec<String>,
}

struct SelectedFile {
    /// The path in the snapshot.
    from: String,
    /// Where the path in the skill begins.
    start: usize,
    is_executable: bool,
}

impl SelectedFile {
    /// The path in the skill.
    fn path(&self) -> &str {
        &self.from[self.start..]
    }
}

/// The files of the skill in `directory`, if all of them may be installed.
pub(super) fn select(entries: &[Entry], directory: &str) -> Result<Selected, StoreError> {
    let prefix = prefix(directory);
    let mut selected = Selected { files: Vec::new(), left_out: Vec::new() };
    let mut paths = Paths::default();
    let mut bytes = 0_u64;
    for entry in below(entries, &prefix) {
        let path = &entry.path[prefix.len()..];
        if let Some(left_out) = left_out(path) {
            if selected.left_out.last().is_none_or(|last| last != left_out) {
                selected.left_out.push(left_out.to_owned());
            }
            continue;
        }
        let (size, is_executable) = match entry.kind {
            EntryKind::File { size, is_executable } => (size, is_executable),
            EntryKind::Link => return Err(StoreError::Link(path.to_owned())),
            EntryKind::Submodule => return Err(StoreError::Submodule(path.to_owned())),
            EntryKind::Other => return Err(StoreError::Unusable(path.to_owned())),
        };
        check(path, &mut paths)?;
        bytes = bytes.saturating_add(size);
        if bytes > MAX_SKILL_BYTES {
            return Err(StoreError::TooLarge);
        }
        if selected.files.len() >= MAX_SKILL_FILES {
            return Err(StoreError::TooManyFiles);
        }
        selected.files.push(SelectedFile { from: entry.path.clone(), start: prefix.len(), is_executable });
    }
    Ok(selected)
}

/// The files of the skill in `directory`, by their names and sizes.
pub(super) fn count(entries: &[Entry], directory: &str) -> Result<Selection, StoreError> {
    let selected = select(entries, directory)?;
    let prefix = prefix(directory);
    let (mut bytes, mut left_out_bytes) = (0_u64, 0_u64);
    for entry in below(entries, &prefix) {
        let EntryKind::File { size, .. } = entry.kind else { continue };
        let sum =
            if left_out(&entry.path[prefix.len()..]).is_some() { &mut left_out_bytes } else { &mut bytes };
        *sum = sum.saturating_add(size);
    }
    // More than this is not read, as `left_out_files` says.
    let read = if left_out_bytes > MAX_SKILL_BYTES { 0 } else { left_out_bytes };
    Ok(Selection { files: selected.files.len(), bytes, all_bytes: bytes.saturating_add(read) })
}

/// The files in `directory` that [`select`] leaves out, by their paths in the skill. None if they are larger than a skill may
/// be: they only matter for a hash that protects nobody.
pub(super) fn left_out_files(
    snapshot: &mut dyn Snapshot,
    directory: &str,
) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
    let prefix = prefix(directory);
    let (mut paths, mut bytes) = (Vec::new(), 0_u64);
    for entry in below(snapshot.entries(), &prefix) {
        let EntryKind::File { size, .. } = entry.kind else { continue };
        if left_out(&entry.path[prefix.len()..]).is_some() {
            bytes = bytes.saturating_add(size);
            paths.push(entry.path.clone());
        }
    }
    if bytes > MAX_SKILL_BYTES || paths.len() > MAX_SKILL_FILES {
        return Ok(Vec::new());
    }
    paths.into_iter().map(|path| Ok((path[prefix.len()..].to_owned(), snapshot.read(&path)?))).collect()
}

/// The start of all paths in a directory.
fn prefix(directory: &str) -> String {
    if directory.is_empty() { String::new() } else { format!("{directory}/") }
}

/// The entries whose paths start with a prefix. Entries are sorted, so they are neighbours.
fn below<'a>(entries: &'a [Entry], prefix: &str) -> impl Iterator<Item = &'a Entry> {
    let first = entries.partition_point(|entry| *entry.path < *prefix);
    let count = entries[first..].iter().take_while(|entry| entry.path.starts_with(prefix)).count();
    entries[first..first + count].iter()
}

/// The part of a path that ends with a name that no skill has.
fn left_out(path: &str) -> Option<&str> {
    let mut end = 0;
    for name in path.split('/') {
        end += name.len();
        let is_left_out = LEFT_OUT_NAMES.iter().any(|left_out| name.eq_ignore_ascii_case(left_out));
        if is_left_out || name == LEFT_OUT_FILE {
            return Some(&path[..end]);
        }
        end += 1;
    }
    None
}

/// Checks a path of a skill. A snapshot checks its paths too, but this is the last look before they are written.
fn check(path: &str, paths: &mut Paths) -> Result<(), StoreError> {
    check_path(path).map_err(|source| StoreError::Path { path: path.to_owned(), source })?;
    if has_trailing_dot_or_space(path) {
        return Err(StoreError::TrailingDotOrSpace(path.to_owned()));
    }
    if path.split('/').count() > MAX_DEPTH {
        return Err(StoreError::TooDeep(path.to_owned()));
    }
    paths.add(path).map_err(|twin| StoreError::Twins { path: path.to_owned(), twin })
}

/// Copies the files from a snapshot.
pub(super) fn copy(
    snapshot: &mut dyn Snapshot,
    selected: &Selected,
    writer: &mut TreeWriter,
) -> Result<(), StoreError> {
    let mut left = MAX_SKILL_BYTES;
    for file in &selected.files {
        let bytes = snapshot.read(&file.from)?;
        left = left.checked_sub(bytes.len() as u64).ok_or(StoreError::TooLarge)?;
        add(writer, file.path(), file.is_executable, &bytes)?;
    }
    Ok(())
}

/// Copies the files of a merge.
pub(super) fn copy_merged(
    merged: &Merged,
    local: &dyn ReadFiles,
    new: &dyn ReadFiles,
    writer: &mut TreeWriter,
) -> Result<(), StoreError> {
    if let Some(conflict) = merged.conflicts.first() {
        return Err(StoreError::Conflict(conflict.path.clone()));
    }
    if merged.files.len() > MAX_SKILL_FILES {
        return Err(StoreError::TooManyFiles);
    }
    let mut left = MAX_SKILL_BYTES;
    for (path, file) in &merged.files {
        let read = |from: &dyn ReadFiles| from.read_file(path, MAX_FILE_BYTES).map_err(StoreError::Tree);
        let bytes = match &file.from {
            MergedFrom::Local => &read(local)?,
            MergedFrom::New => &read(new)?,
            MergedFrom::Both(bytes) => bytes,
        };
        left = left.checked_sub(bytes.len() as u64).ok_or(StoreError::TooLarge)?;
        add(writer, path, file.is_executable, bytes)?;
    }
    Ok(())
}

fn add(writer: &mut TreeWriter, path: &str, is_executable: bool, bytes: &[u8]) -> Result<(), StoreError> {
    writer.add(path, is_executable, bytes).map_err(|source| StoreError::Io {
        action: "write a file to",
        path: path.into(),
        source,
    })
}
