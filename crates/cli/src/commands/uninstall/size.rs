//! The size of a file or directory.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::terminal::size;

/// How many entries are counted.
const MAX_ENTRIES: usize = 1_000_000;

/// The size of a file, or of all files in a directory. Links are not followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    bytes: u64,
    is_link: bool,
    /// Whether something was not counted.
    is_more: bool,
}

impl Size {
    pub(crate) fn of(path: &Path) -> Self {
        let mut found = Self::default();
        let mut entries = 0;
        let mut pending: Vec<PathBuf> = vec![path.to_owned()];
        while let Some(next) = pending.pop() {
            entries += 1;
            let Ok(stat) = next.symlink_metadata() else {
                found.is_more = true;
                continue;
            };
            if stat.is_symlink() {
                found.is_link |= next == path;
            } else if stat.is_file() {
                found.bytes = found.bytes.saturating_add(stat.len());
            } else if stat.is_dir() {
                match std::fs::read_dir(&next) {
                    Ok(below) if entries + pending.len() < MAX_ENTRIES => {
                        pending.extend(below.flatten().map(|entry| entry.path()).take(MAX_ENTRIES));
                    }
                    _ => found.is_more = true,
                }
            }
        }
        found
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_link {
            return f.write_str("a link");
        }
        let more = if self.is_more { "over " } else { "" };
        write!(f, "{more}{}", size(self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_not_followed() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(place.path().join("a/b")).unwrap();
        std::fs::write(place.path().join("a/b/file"), [0; 2048]).unwrap();
        std::os::unix::fs::symlink("/", place.path().join("a/root")).unwrap();
        assert_eq!(Size::of(&place.path().join("a")).to_string(), "2.0 KiB");
        assert_eq!(Size::of(&place.path().join("a/root")).to_string(), "a link");
    }
}
