//! Names that not every file system can keep apart or store.

use std::borrow::Cow;
use std::collections::BTreeMap;

use unicode_normalization::UnicodeNormalization as _;

/// The paths of a tree, so that no two of them become one file on another file system.
#[derive(Default)]
pub(crate) struct Paths {
    /// What each file and directory is called, by its folded path.
    seen: BTreeMap<String, (String, Kind)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Directory,
}

impl Paths {
    /// Adds the path of a file. Returns the earlier path with which it collides: it differs only in case or in Unicode
    /// normalisation, or one of the two is a directory of the other.
    pub(crate) fn add(&mut self, path: &str) -> Result<(), String> {
        let ends = path.match_indices('/').map(|(at, _)| (at, Kind::Directory));
        for (end, kind) in ends.chain([(path.len(), Kind::File)]) {
            let part = &path[..end];
            let folded = fold(part);
            match self.seen.get(&*folded) {
                Some((earlier, Kind::Directory)) if kind == Kind::Directory && earlier == part => {}
                Some((earlier, _)) => return Err(earlier.clone()),
                None => {
                    self.seen.insert(folded.into_owned(), (part.to_owned(), kind));
                }
            }
        }
        Ok(())
    }
}

/// Whether other systems drop the end of a name in `path`: a dot or a space.
pub(crate) fn has_trailing_dot_or_space(path: &str) -> bool {
    path.split('/').any(|name| name.ends_with(['.', ' ']))
}

/// The text that two paths share if a file system may take them for one.
fn fold(path: &str) -> Cow<'_, str> {
    if path.is_ascii() {
        if path.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Cow::Owned(path.to_ascii_lowercase());
        }
        return Cow::Borrowed(path);
    }
    // Upper case and then lower case also joins letters such as `ß` and `ss`, or `ſ` and `s`.
    let upper: String = path.nfd().flat_map(char::to_uppercase).collect();
    Cow::Owned(upper.chars().flat_map(char::to_lowercase).nfd().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twins_are_found_at_every_level() {
        for (one, other, collides) in [
            ("a/b", "a/c", None),
            ("Read.md", "READ.md", Some("Read.md")),
            ("A/x", "a/y", Some("A")),
            ("a", "a/b", Some("a")),
            ("a/b", "a", Some("a")),
            ("a", "a", Some("a")),
            ("caf\u{e9}", "cafe\u{301}", Some("caf\u{e9}")),
            ("STRASSE", "straße", Some("STRASSE")),
            ("\u{3a3}", "\u{3c2}", Some("\u{3a3}")),
            ("K", "\u{212a}", Some("K")),
        ] {
            let mut paths = Paths::default();
            paths.add(one).unwrap();
            assert_eq!(paths.add(other).err().as_deref(), collides, "{one} {other}");
        }
    }

    #[test]
    fn trailing_dots_and_spaces_are_found() {
        assert!(has_trailing_dot_or_space("a./b") && has_trailing_dot_or_space("a/b "));
        assert!(!has_trailing_dot_or_space("a.b/.c d"));
    }
}
