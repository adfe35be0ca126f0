//! Checks the paths of files that a caller supplies.

use std::fmt;

use crate::diagnostic::{Code, Diagnostic, MAX_FINDINGS};
use crate::document::{MAX_PART_BYTES, PathRefusal};
use crate::untrusted::escaped_start;

/// Why a repeated path is left out.
pub(crate) const TWICE: &str = "it was given before";

/// Checks that a file can have this path. Each path has one spelling, so that no two paths are the same file.
pub(crate) fn check(path: &str) -> Result<(), PathRefusal> {
    if path.is_empty() {
        return Err(PathRefusal::Empty);
    }
    if path.starts_with('/') {
        return Err(PathRefusal::Absolute);
    }
    path.split('/').try_for_each(|part| match part {
        "" => Err(PathRefusal::EmptyPart),
        "." | ".." => Err(PathRefusal::DotPart),
        part if part.contains('\0') => Err(PathRefusal::Unprintable('\0')),
        part if part.contains('\\') => Err(PathRefusal::Backslash),
        part if part.len() > MAX_PART_BYTES => Err(PathRefusal::TooLong),
        _ => Ok(()),
    })
}

/// The paths that were left out, up to a limit.
#[derive(Debug, Default)]
pub(crate) struct RefusedPaths(Vec<String>);

impl RefusedPaths {
    pub(crate) fn add(&mut self, path: &str, why: &dyn fmt::Display) {
        if self.0.len() <= MAX_FINDINGS {
            self.0.push(format!("`{}` is left out: {why}", escaped_start(path)));
        }
    }

    /// The diagnostics for the directory of these paths.
    pub(crate) fn into_diagnostics(self, directory: &str) -> Vec<Diagnostic> {
        let found = self.0.into_iter().enumerate().map(|(at, message)| {
            if at < MAX_FINDINGS {
                Diagnostic::new(Code::Unreadable, directory, message)
            } else {
                let message = format!("only the first {MAX_FINDINGS} findings are listed");
                Diagnostic::new(Code::FindingsCapped, directory, message)
            }
        });
        found.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_spelling_and_leads_nowhere_else() {
        for path in ["a", "a/b", ".hidden/x", "a b/ü\n.md", "a..b", "%2e%2e/x", "~/x", "C:/x"] {
            assert_eq!(check(path), Ok(()), "{path:?}");
        }
        let long = "n".repeat(MAX_PART_BYTES + 1);
        for (path, refusal) in [
            ("", PathRefusal::Empty),
            ("/", PathRefusal::Absolute),
            ("/etc/passwd", PathRefusal::Absolute),
            ("//a", PathRefusal::Absolute),
            ("a//b", PathRefusal::EmptyPart),
            ("a/", PathRefusal::EmptyPart),
            (".", PathRefusal::DotPart),
            ("a/./b", PathRefusal::DotPart),
            ("a/..", PathRefusal::DotPart),
            ("../a", PathRefusal::DotPart),
            ("a\\b", PathRefusal::Backslash),
            ("a/b\0", PathRefusal::Unprintable('\0')),
            (&long, PathRefusal::TooLong),
        ] {
            assert_eq!(check(path), Err(refusal), "{path:?}");
        }
    }

    #[test]
    fn however_many_are_refused_only_some_are_told() {
        let mut refused = RefusedPaths::default();
        (0..1000).for_each(|_| refused.add("../a\n", &PathRefusal::DotPart));
        let told = refused.into_diagnostics("/skills");
        assert_eq!(told.len(), MAX_FINDINGS + 1);
        assert_eq!(told[0].message, "`../a\\u{a}` is left out: it has a `.` or `..` part");
        assert_eq!(told[MAX_FINDINGS].code, Code::FindingsCapped);
    }
}
