//! Reads what `git ls-tree -r -t -z -l` prints.

use std::collections::HashMap;
use std::fmt;

use prowess_base::hex;
use prowess_base::text::escaped_start;

use super::GitError;
use crate::snapshot::EntryKind;
use crate::snapshot::entries::{Collected, Collector};

/// The SHA-1 that names an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ObjectId([u8; 20]);

impl ObjectId {
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        hex::decode(std::str::from_utf8(text).ok()?).map(Self)
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(f, &self.0)
    }
}

/// The entries of a commit, and its trees by path.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) collected: Collected<Option<ObjectId>>,
    pub(super) trees: HashMap<String, ObjectId>,
}

/// Reads a listing with at most `most` entries and trees.
pub(super) fn parse(printed: &[u8], most: usize) -> Result<Listing, GitError> {
    let garbled = || GitError::Garbled { command: "ls-tree" };
    let mut collector = Collector::default();
    let mut trees = HashMap::new();
    for record in printed.split(|byte| *byte == 0).filter(|record| !record.is_empty()) {
        if collector.len() + trees.len() >= most {
            return Err(GitError::TooMany { most });
        }
        let tab = record.iter().position(|byte| *byte == b'\t').ok_or_else(garbled)?;
        let (fields, path) = (&record[..tab], &record[tab + 1..]);
        let mut fields = fields.split(|byte| *byte == b' ').filter(|field| !field.is_empty());
        let (Some(mode), Some(kind), Some(id), Some(size)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(garbled());
        };
        let id = ObjectId::parse(id).ok_or_else(garbled)?;
        match (kind, mode) {
            (b"tree", _) => {
                // A tree whose path cannot be used cannot be asked for. Its entries say so.
                if let Ok(path) = std::str::from_utf8(path) {
                    trees.insert(path.to_owned(), id);
                }
            }
            (b"blob", b"120000") => collector.add(path, EntryKind::Link, None),
            (b"blob", mode) => {
                let size = std::str::from_utf8(size).ok().and_then(|size| size.parse().ok());
                let size = size.ok_or_else(garbled)?;
                let kind = EntryKind::File { size, is_executable: mode == b"100755" };
                collector.add(path, kind, Some(id));
            }
            (b"commit", _) => {
                let shown = escaped_start(&String::from_utf8_lossy(path));
                collector.notice(format!("{shown}: a submodule; prowess does not fetch it"));
                collector.add(path, EntryKind::Submodule, None);
            }
            _ => collector.add(path, EntryKind::Other, None),
        }
    }
    Ok(Listing { collected: collector.finish(), trees })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn all_kinds_of_entries_are_read() {
        let printed = format!(
            "040000 tree {ID}       -\ta\0100644 blob {ID}      12\ta/f g\0100755 blob {ID}       0\ta/x\0\
             120000 blob {ID}       4\tl\0160000 commit {ID}       -\ts\0100644 blob {ID} 1\ta/\tt\0"
        );
        let listing = parse(printed.as_bytes(), 10).unwrap();
        let entries: Vec<_> =
            listing.collected.entries.iter().map(|entry| (entry.path.as_str(), entry.kind)).collect();
        assert_eq!(
            entries,
            [
                ("a/f g", EntryKind::File { size: 12, is_executable: false }),
                ("a/x", EntryKind::File { size: 0, is_executable: true }),
                ("a/\u{fffd}t", EntryKind::Other),
                ("l", EntryKind::Link),
                ("s", EntryKind::Submodule),
            ]
        );
        assert_eq!(listing.trees["a"].to_string(), ID);
        assert!(matches!(parse(printed.as_bytes(), 5), Err(GitError::TooMany { most: 5 })));
    }

    #[test]
    fn anything_else_is_an_error() {
        for printed in ["x", "100644 blob\tf", "100644 blob 12 1\tf", "\t", &format!("100644 blob {ID} -\tf")]
        {
            assert!(matches!(parse(printed.as_bytes(), 9), Err(GitError::Garbled { .. })), "{printed}");
        }
    }
}
