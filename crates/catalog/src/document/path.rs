//! Checks whether a path can be the path of a document, by its text alone and before anything is opened.

use std::fmt;

use super::DOCUMENT_DEPTH;
use crate::skill::MANIFEST;
use crate::untrusted::is_unprintable;

/// The most bytes of a name in common file systems.
pub(crate) const MAX_PART_BYTES: usize = 255;

/// Why a path cannot be the path of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathRefusal {
    /// The path is empty.
    Empty,
    /// The path begins with `/`.
    Absolute,
    /// The path has two slashes in a row, or ends with one.
    EmptyPart,
    /// A part of the path is `.` or `..`.
    DotPart,
    /// The path has a backslash, which some systems take for a separator.
    Backslash,
    /// The path has a NUL or another character that [`is_unprintable`].
    Unprintable(char),
    /// The path has a percent-encoded dot, slash or backslash, which others may decode.
    Encoded,
    /// A part of the path is longer than a file name can be.
    TooLong,
    /// A part of the path begins with a dot.
    Hidden,
    /// The path is deeper than documents may be.
    TooDeep,
    /// The file is a SKILL.md, in any letter case.
    Manifest,
    /// The file name ends neither in `.md` nor in `.txt`.
    NotADocument,
    /// The file is in the directory of another skill, inside this one.
    OtherSkill,
}

impl PathRefusal {
    /// What to do instead.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Self::Empty | Self::TooLong => "name one of the skill's documents",
            Self::Absolute => "give the path from the skill's directory",
            Self::EmptyPart => "write single slashes",
            Self::DotPart => "name the document itself",
            Self::Backslash => "write `/` between its parts",
            Self::Unprintable(_) => "give the file a name that can be seen",
            Self::Encoded => "write the name as in the skill's list of documents",
            Self::Hidden => "give the file a name without a leading dot",
            Self::TooDeep => "move the file to a higher directory",
            Self::Manifest => "load the skill to read it",
            Self::NotADocument => "read other files with a tool for files, or use them in a run",
            Self::OtherSkill => "read it from that skill",
        }
    }
}

impl fmt::Display for PathRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty"),
            Self::Absolute => f.write_str("it begins with `/`"),
            Self::EmptyPart => f.write_str("it has an empty part"),
            Self::DotPart => f.write_str("it has a `.` or `..` part"),
            Self::Backslash => f.write_str("it has a backslash"),
            Self::Unprintable(c) => {
                write!(f, "it has the invisible or control character U+{:04X}", u32::from(*c))
            }
            Self::Encoded => f.write_str("it has a percent-encoded dot, slash or backslash"),
            Self::TooLong => write!(f, "it has a part of more than {MAX_PART_BYTES} bytes"),
            Self::Hidden => f.write_str("it has a hidden part"),
            Self::TooDeep => write!(f, "it is more than {DOCUMENT_DEPTH} directories deep"),
            Self::Manifest => write!(f, "a {MANIFEST} is not a document"),
            Self::NotADocument => f.write_str("only .md and .txt files are documents"),
            Self::OtherSkill => f.write_str("it belongs to a skill inside this one"),
        }
    }
}

/// Whether `path` could be in a skill's list of documents.
pub(super) fn check(path: &str) -> Result<(), PathRefusal> {
    if path.is_empty() {
        return Err(PathRefusal::Empty);
    }
    if path.starts_with('/') {
        return Err(PathRefusal::Absolute);
    }
    path.split('/').try_for_each(check_part)?;
    let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
    if parents.split('/').filter(|part| !part.is_empty()).count() > DOCUMENT_DEPTH {
        Err(PathRefusal::TooDeep)
    } else if is_manifest(name) {
        Err(PathRefusal::Manifest)
    } else if !is_document(name) {
        Err(PathRefusal::NotADocument)
    } else {
        Ok(())
    }
}

/// Whether a document's path may have this part.
pub(super) fn check_part(part: &str) -> Result<(), PathRefusal> {
    if part.is_empty() {
        Err(PathRefusal::EmptyPart)
    } else if matches!(part, "." | "..") {
        Err(PathRefusal::DotPart)
    } else if part.contains('\\') {
        Err(PathRefusal::Backslash)
    } else if let Some(c) = part.chars().find(|&c| is_unprintable(c)) {
        Err(PathRefusal::Unprintable(c))
    } else if has_encoded(part) {
        Err(PathRefusal::Encoded)
    } else if part.len() > MAX_PART_BYTES {
        Err(PathRefusal::TooLong)
    } else if part.starts_with('.') {
        Err(PathRefusal::Hidden)
    } else {
        Ok(())
    }
}

/// Whether `part` has `%2e`, `%2f` or `%5c`.
fn has_encoded(part: &str) -> bool {
    let encoded = [b"%2e", b"%2f", b"%5c"];
    part.as_bytes().windows(3).any(|window| encoded.iter().any(|code| window.eq_ignore_ascii_case(*code)))
}

/// Whether a file of this name is a document.
pub(super) fn is_document(name: &str) -> bool {
    let ends = |ending: &str| {
        let at = name.len().checked_sub(ending.len());
        at.and_then(|at| name.get(at..)).is_some_and(|end| end.eq_ignore_ascii_case(ending))
    };
    (ends(".md") || ends(".txt")) && !is_manifest(name)
}

/// Whether a disk that ignores letter case would take `name` for a SKILL.md.
fn is_manifest(name: &str) -> bool {
    // Both ways: `ſ` is a letter case of `S`, and the Kelvin sign one of `k`.
    name.to_uppercase().to_lowercase() == MANIFEST.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn honest_paths_pass() {
        for path in [
            "a.md",
            "A.TXT",
            "references/REST API (v2).Md",
            "1/2/3/4/five.md",
            "日本/語.md",
            "a..b.md",
            "100%.md",
            "%41.md",
        ] {
            assert_eq!(check(path), Ok(()), "{path:?}");
        }
    }

    #[test]
    fn every_other_path_is_refused_for_what_it_is() {
        let long = format!("{}.md", "n".repeat(MAX_PART_BYTES - 2));
        for (path, refusal) in [
            ("", PathRefusal::Empty),
            ("/a.md", PathRefusal::Absolute),
            ("a//b.md", PathRefusal::EmptyPart),
            ("a.md/", PathRefusal::EmptyPart),
            ("./a.md", PathRefusal::DotPart),
            ("a/../b.md", PathRefusal::DotPart),
            ("..", PathRefusal::DotPart),
            ("..\\a.md", PathRefusal::Backslash),
            ("a.md\0", PathRefusal::Unprintable('\0')),
            ("a\nb.md", PathRefusal::Unprintable('\n')),
            ("a\u{202E}dm.md", PathRefusal::Unprintable('\u{202E}')),
            ("%2e%2E/a.md", PathRefusal::Encoded),
            ("a%2Fb.md", PathRefusal::Encoded),
            ("a%5cb.md", PathRefusal::Encoded),
            (&long, PathRefusal::TooLong),
            (".git/a.md", PathRefusal::Hidden),
            (".md", PathRefusal::Hidden),
            ("1/2/3/4/5/six.md", PathRefusal::TooDeep),
            ("SKILL.md", PathRefusal::Manifest),
            ("inner/skill.MD", PathRefusal::Manifest),
            ("\u{17F}\u{212A}ill.md", PathRefusal::Manifest),
            ("run.sh", PathRefusal::NotADocument),
            ("md", PathRefusal::NotADocument),
            ("é", PathRefusal::NotADocument),
            ("a.md ", PathRefusal::NotADocument),
        ] {
            assert_eq!(check(path), Err(refusal), "{path:?}");
        }
    }
}
