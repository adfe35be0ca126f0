//! Paths in a workspace, as requests name them.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;

/// The longest path in a workspace, in bytes.
pub(crate) const MAX_PATH: usize = 1024;
/// The most names in a path.
const MAX_DEPTH: usize = 64;

/// A relative path that stays where it starts: plain names with `/` between them.
///
/// ```
/// use prowess_workspace::InnerPath;
///
/// assert_eq!(InnerPath::parse("./work//a.txt")?.as_str(), "work/a.txt");
/// assert!(InnerPath::parse("work/../../x").is_err());
/// assert!(InnerPath::parse("/etc/passwd").is_err());
/// # Ok::<(), prowess_workspace::path::PathProblem>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InnerPath(String);

/// Why a path is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathProblem {
    /// It names nothing.
    #[error("it is empty")]
    Empty,
    /// It begins at the root of a disk.
    #[error("it is absolute; paths are relative")]
    Absolute,
    /// It has a `..`.
    #[error("it has a `..`")]
    Upwards,
    /// It has a NUL, a line break or another control character.
    #[error("it has a control character")]
    Control,
    /// It is longer than any path needs to be.
    #[error("it is longer than {MAX_PATH} bytes or deeper than {MAX_DEPTH} directories")]
    TooLong,
}

impl InnerPath {
    /// Checks a path. `./` and doubled slashes are dropped.
    ///
    /// # Errors
    ///
    /// It is empty, absolute, too long, or has a `..` or a control character.
    pub fn parse(text: &str) -> Result<Self, PathProblem> {
        if text.len() > MAX_PATH {
            return Err(PathProblem::TooLong);
        }
        if text.starts_with('/') {
            return Err(PathProblem::Absolute);
        }
        if text.chars().any(char::is_control) {
            return Err(PathProblem::Control);
        }
        let names: Vec<&str> = text.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
        match names.as_slice() {
            [] => Err(PathProblem::Empty),
            names if names.contains(&"..") => Err(PathProblem::Upwards),
            names if names.len() > MAX_DEPTH => Err(PathProblem::TooLong),
            names => Ok(Self(names.join("/"))),
        }
    }

    /// The path.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The directory that it lies in, empty at the top, and its name there.
    pub(crate) fn split(&self) -> (&str, &str) {
        self.0.rsplit_once('/').unwrap_or(("", &self.0))
    }

    /// The first name of it.
    pub(crate) fn top(&self) -> &str {
        self.0.split_once('/').map_or(self.0.as_str(), |(top, _)| top)
    }
}

impl fmt::Display for InnerPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The directory of the directories of runs.
const RUNS: &str = "runs";

/// Where the workspace's variables lead, relative to it.
const VARIABLES: [(&str, &str); 5] = [
    ("WORKSPACE_DIR", ""),
    ("SKILLS_DIR", "skills"),
    ("WORK_DIR", "work"),
    ("OUTPUT_DIR", "out"),
    ("RUN_DIR", RUNS),
];

/// `text` with a variable of the workspace at its beginning replaced by the directory's path in the
/// workspace: `$OUTPUT_DIR/a` and `${OUTPUT_DIR}/a` are `out/a`.
///
/// `$RUN_DIR` is the directory of all runs until it is known which run is meant.
///
/// As in a shell a name ends where its letters end: `$OUTPUT_DIRX` is another variable, and stays.
pub(crate) fn expand(text: &str) -> Cow<'_, str> {
    expand_in(text, RUNS)
}

/// The same, for a run whose own directory is known.
pub(crate) fn expand_in<'a>(text: &'a str, run: &str) -> Cow<'a, str> {
    let Some(rest) = text.strip_prefix('$') else { return Cow::Borrowed(text) };
    for (name, directory) in VARIABLES {
        let directory = if directory == RUNS { run } else { directory };
        let braced = rest.strip_prefix('{').and_then(|rest| rest.strip_prefix(name)?.strip_prefix('}'));
        let plain = || rest.strip_prefix(name).filter(|rest| !rest.starts_with(is_word));
        let Some(rest) = braced.or_else(plain) else { continue };
        return match (directory, rest.strip_prefix('/')) {
            ("", Some(rest)) => Cow::Owned(rest.trim_start_matches('/').to_owned()),
            ("", None) if rest.is_empty() => Cow::Borrowed("."),
            _ => Cow::Owned(format!("{directory}{rest}")),
        };
    }
    Cow::Borrowed(text)
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// A file's name as one line of text that says exactly which name it is: control characters, characters
/// that change the direction of text, and bytes that are no UTF-8 are written as escapes, as is `\`.
pub(crate) fn printable(name: &OsStr) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.as_bytes().utf8_chunks() {
        for character in chunk.valid().chars() {
            if character == '\\' {
                text.push_str("\\\\");
            } else if character.is_control() || is_invisible(character) {
                text.extend(character.escape_default());
            } else {
                text.push(character);
            }
        }
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_end_where_their_letters_end() {
        for (text, expected) in [
            ("$OUTPUT_DIR/a", "out/a"),
            ("${OUTPUT_DIR}/**", "out/**"),
            ("$OUTPUT_DIR", "out"),
            ("$OUTPUT_DIRX/a", "$OUTPUT_DIRX/a"),
            ("$OUTPUT_DIR_2/a", "$OUTPUT_DIR_2/a"),
            ("$OUTPUT_DIR*.txt", "out*.txt"),
            ("${OUTPUT_DIR", "${OUTPUT_DIR"),
            ("${OUTPUT_DIRX}/a", "${OUTPUT_DIRX}/a"),
            ("$WORK_DIR/a", "work/a"),
            ("$WORKSPACE_DIR/out/a", "out/a"),
            ("$WORKSPACE_DIR//etc/a", "etc/a"),
            ("$WORKSPACE_DIR", "."),
            ("$SKILLS_DIR/x/a", "skills/x/a"),
            ("${RUN_DIR}/log", "runs/log"),
            ("a/$OUTPUT_DIR", "a/$OUTPUT_DIR"),
            ("$HOME/a", "$HOME/a"),
        ] {
            assert_eq!(expand(text), expected, "{text}");
        }
    }

    #[test]
    fn shown_names_differ_where_names_differ() {
        let line = OsStr::from_bytes(b"a\nb\x1b[31m\xff");
        assert_eq!(printable(line), "a\\nb\\u{1b}[31m\\xff");
        assert_eq!(printable(OsStr::new("a\\nb")), "a\\\\nb");
        assert_eq!(printable(OsStr::new("\u{202e}gnp.é漢")), "\\u{202e}gnp.é漢");
    }
}
