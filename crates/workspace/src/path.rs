//! Paths in a workspace, as requests write them.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;

use prowess_base::text::is_unprintable;

use crate::tree::{EARLIER, SKILLS, WORK};

/// The longest path in a workspace, in bytes.
pub(crate) const MAX_PATH: usize = 1024;
/// The most names in a path.
const MAX_DEPTH: usize = 64;

/// A relative path that stays below its start: plain names separated by `/`.
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
    /// It is empty.
    #[error("it is empty")]
    Empty,
    /// It is absolute.
    #[error("it is absolute; use a relative path")]
    Absolute,
    /// It has a `..`.
    #[error("it has a `..`")]
    Upwards,
    /// It has a NUL, a line break or another control character.
    #[error("it has a control character")]
    Control,
    /// It is too long or too deep.
    #[error("it is longer than {MAX_PATH} bytes or deeper than {MAX_DEPTH} directories")]
    TooLong,
}

impl InnerPath {
    /// Checks a path, and removes `./` and doubled slashes.
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

    /// Its parent directory, which may be empty, and its name there.
    pub(crate) fn split(&self) -> (&str, &str) {
        self.0.rsplit_once('/').unwrap_or(("", &self.0))
    }

    /// Its first name.
    pub(crate) fn top(&self) -> &str {
        self.0.split_once('/').map_or(self.0.as_str(), |(top, _)| top)
    }
}

impl fmt::Display for InnerPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The directory that holds the directories of runs.
const RUNS: &str = "runs";

/// The variables of the workspace, and their directories relative to it.
const VARIABLES: [(&str, &str); 5] = [
    ("WORKSPACE_DIR", ""),
    ("SKILLS_DIR", "skills"),
    ("WORK_DIR", "work"),
    ("OUTPUT_DIR", "out"),
    ("RUN_DIR", RUNS),
];

/// The places of the workspace and its skills in the tree, and their directories relative to the workspace.
const PLACES: [(&str, &str); 3] = [(SKILLS, "skills"), (WORK, ""), (EARLIER, "")];

/// Replaces a variable or a place at the start of `text` with its directory: `$OUTPUT_DIR/a`, `${OUTPUT_DIR}/a` and
/// `/work/out/a` become `out/a`.
///
/// `$RUN_DIR` becomes the directory of all runs, because the run is not known yet.
///
/// As in a shell, a name ends where its letters end: `$OUTPUT_DIRX` is another variable and stays.
pub(crate) fn expand(text: &str) -> Cow<'_, str> {
    expand_in(text, RUNS)
}

/// Like [`expand`], with the directory of the run for `$RUN_DIR`.
pub(crate) fn expand_in<'a>(text: &'a str, run: &str) -> Cow<'a, str> {
    let Some(rest) = text.strip_prefix('$') else { return from_place(text) };
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

/// Replaces a place of the tree at the start of `text`.
fn from_place(text: &str) -> Cow<'_, str> {
    for (place, directory) in PLACES {
        let Some(rest) = text.strip_prefix(place).filter(|rest| rest.is_empty() || rest.starts_with('/'))
        else {
            continue;
        };
        return match (directory, rest.trim_start_matches('/')) {
            ("", "") => Cow::Borrowed("."),
            ("", rest) => Cow::Borrowed(rest),
            (directory, "") => Cow::Borrowed(directory),
            (directory, rest) => Cow::Owned(format!("{directory}/{rest}")),
        };
    }
    Cow::Borrowed(text)
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// A file name on one line. Unprintable characters, bytes that are not UTF-8, and `\` are escaped, so that different
/// names stay different.
pub(crate) fn escaped_name(name: &OsStr) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.as_bytes().utf8_chunks() {
        for character in chunk.valid().chars() {
            if character == '\\' {
                text.push_str("\\\\");
            } else if is_unprintable(character) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_and_places_end_where_their_names_end() {
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
            ("/work/out/a", "out/a"),
            ("/work/skills/pdf/a", "skills/pdf/a"),
            ("/work//work/a", "work/a"),
            ("/work", "."),
            ("/work/", "."),
            ("/workshop/a", "/workshop/a"),
            ("/skills/pdf/a", "skills/pdf/a"),
            ("/skills", "skills"),
            ("/ws/out/*.txt", "out/*.txt"),
            ("/project/a", "/project/a"),
        ] {
            assert_eq!(expand(text), expected, "{text}");
        }
    }

    #[test]
    fn different_names_print_differently() {
        let line = OsStr::from_bytes(b"a\nb\x1b[31m\xff");
        assert_eq!(escaped_name(line), "a\\nb\\u{1b}[31m\\xff");
        assert_eq!(escaped_name(OsStr::new("a\\nb")), "a\\\\nb");
        assert_eq!(escaped_name(OsStr::new("\u{202e}gnp.é漢")), "\\u{202e}gnp.é漢");
        assert_eq!(escaped_name(OsStr::new("a\u{3164}b\u{ad}c")), "a\\u{3164}b\\u{ad}c");
    }
}
