//! The names of artifacts.

use std::fmt;

/// The longest name of an artifact, in bytes.
pub const MAX_ARTIFACT_NAME: usize = 255;

/// The name of an artifact, which looks like a relative path: `reports/june.txt`. It is never used as a path.
///
/// ```
/// use prowess_workspace::ArtifactName;
///
/// assert_eq!(ArtifactName::parse("reports/june.txt")?.as_str(), "reports/june.txt");
/// assert!(ArtifactName::parse("../june.txt").is_err());
/// # Ok::<(), prowess_workspace::artifact::ArtifactNameProblem>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArtifactName(String);

/// Why a name is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` cannot be the name of an artifact: {problem}")]
pub struct ArtifactNameProblem {
    /// The name, safe to print.
    pub name: String,
    /// The problem.
    pub problem: &'static str,
}

impl ArtifactName {
    /// Checks a name.
    ///
    /// # Errors
    ///
    /// The name is empty, absolute, longer than [`MAX_ARTIFACT_NAME`] bytes, or has a control character, a doubled slash,
    /// a `.` or a `..`.
    pub fn parse(name: &str) -> Result<Self, ArtifactNameProblem> {
        let problem = if name.is_empty() {
            "it is empty"
        } else if name.len() > MAX_ARTIFACT_NAME {
            "it is longer than 255 bytes"
        } else if name.starts_with('/') {
            "it is absolute"
        } else if name.chars().any(char::is_control) {
            "it has a control character"
        } else if name.split(['/', '\\']).any(|part| part == "..") {
            "it has a `..`"
        } else if name.split('/').any(|part| matches!(part, "" | ".")) {
            "it has a doubled slash, or a `.`"
        } else {
            return Ok(Self(name.to_owned()));
        };
        let shown = crate::path::escaped_name(name.as_ref());
        Err(ArtifactNameProblem { name: shown.chars().take(MAX_ARTIFACT_NAME).collect(), problem })
    }

    /// Puts a prefix such as `reports/` before the name of a file.
    ///
    /// # Errors
    ///
    /// The result is not a valid name.
    pub fn with_prefix(prefix: &str, name: &str) -> Result<Self, ArtifactNameProblem> {
        Self::parse(&format!("{prefix}{name}"))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last component of the name.
    pub(crate) fn base(&self) -> &str {
        self.0.rsplit_once('/').map_or(self.0.as_str(), |(_, base)| base)
    }
}

impl fmt::Display for ArtifactName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_relative() {
        for name in ["a", "a/b.txt", "a b", "..a", "a..", "報告.txt", "a@2"] {
            assert!(ArtifactName::parse(name).is_ok(), "{name}");
        }
        for name in ["", "/a", "..", "a/../b", "../a", "a//b", "a/", "./a", "a\nb", "a\0", "a\\..\\b"] {
            assert!(ArtifactName::parse(name).is_err(), "{name:?}");
        }
        assert!(ArtifactName::parse(&"a".repeat(256)).is_err());
        assert_eq!(ArtifactName::with_prefix("pref/", "out/a").unwrap().as_str(), "pref/out/a");
        assert!(ArtifactName::with_prefix("../../", "a").is_err());
        assert!(ArtifactName::with_prefix("/", "a").is_err());
    }
}
