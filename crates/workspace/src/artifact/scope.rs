//! Scopes: who shares artifacts.

use std::fmt;
use std::fmt::Write as _;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::str::FromStr;

use super::ArtifactName;

/// The longest scope, in bytes.
pub const MAX_SCOPE: usize = 1024;
/// The longest id of a thread or session, in bytes.
const MAX_ID: usize = 64;

const SHARED: &str = "shared";
const USER: &str = "user";
const THREAD: &str = "thread:";
const SESSION: &str = "session:";
const OWNER: &str = "owner:";
const PROJECT: &str = "project:";

/// A scope of artifacts. The same name in two scopes means two artifacts, and no scope sees those of another.
///
/// A scope is written `thread:ID`, `session:ID`, `owner:ID`, `project:/PATH`, `user` or `shared`. It is never used as a path.
///
/// ```
/// use prowess_workspace::Scope;
///
/// let scope = Scope::thread("2026-06-01-3fa9c1")?;
/// assert_eq!(scope.to_string(), "thread:2026-06-01-3fa9c1");
/// assert_eq!("thread:2026-06-01-3fa9c1".parse(), Ok(scope));
/// assert!(Scope::thread("../../etc").is_err());
/// # Ok::<(), prowess_workspace::artifact::ScopeProblem>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope(String);

/// Why a text is not a scope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{scope}` is not a scope: {problem}")]
pub struct ScopeProblem {
    /// The text, safe to print.
    pub scope: String,
    /// The problem.
    pub problem: &'static str,
}

impl Scope {
    /// The default scope. Artifacts from before scopes existed are in it.
    pub fn shared() -> Self {
        Self(SHARED.to_owned())
    }

    /// The scope of the user.
    pub fn user() -> Self {
        Self(USER.to_owned())
    }

    /// The scope of a thread.
    ///
    /// # Errors
    ///
    /// The id is too long, or has characters other than letters, digits, `-` and `_`.
    pub fn thread(id: &str) -> Result<Self, ScopeProblem> {
        format!("{THREAD}{id}").parse()
    }

    /// The scope of a session.
    ///
    /// # Errors
    ///
    /// The id is too long, or has characters other than letters, digits, `-` and `_`.
    pub fn session(id: &str) -> Result<Self, ScopeProblem> {
        format!("{SESSION}{id}").parse()
    }

    /// The scope of a user of a server. No thread sees it.
    ///
    /// # Errors
    ///
    /// The id is too long, or has characters other than letters, digits, `-` and `_`.
    pub fn owner(id: &str) -> Result<Self, ScopeProblem> {
        format!("{OWNER}{id}").parse()
    }

    /// The scope of a new session with an unguessable id: 128 random bits in hexadecimal.
    ///
    /// # Errors
    ///
    /// The system cannot provide random bytes.
    pub fn new_session() -> io::Result<Self> {
        let mut random = [0; 16];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
        Ok(Self(format!("{SESSION}{}", prowess_base::hex::encode(&random))))
    }

    /// The scope of a project, by its directory. Bytes that a person cannot type are escaped as `%XX`.
    ///
    /// # Errors
    ///
    /// The path is relative or too long.
    pub fn project(directory: &Path) -> Result<Self, ScopeProblem> {
        let mut scope = PROJECT.to_owned();
        for chunk in directory.as_os_str().as_bytes().utf8_chunks() {
            for character in chunk.valid().chars() {
                if character.is_control() || character == '%' {
                    escape(character.encode_utf8(&mut [0; 4]).as_bytes(), &mut scope);
                } else {
                    scope.push(character);
                }
            }
            escape(chunk.invalid(), &mut scope);
        }
        scope.parse()
    }

    /// The scope as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the default scope.
    pub fn is_shared(&self) -> bool {
        self.0 == SHARED
    }

    /// The id of the thread, if this is the scope of a thread.
    pub fn thread_id(&self) -> Option<&str> {
        self.0.strip_prefix(THREAD)
    }

    /// The id of the session, if this is the scope of a session.
    pub fn session_id(&self) -> Option<&str> {
        self.0.strip_prefix(SESSION)
    }
}

fn escape(bytes: &[u8], scope: &mut String) {
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(scope, "%{byte:02X}");
    }
}

impl Default for Scope {
    fn default() -> Self {
        Self::shared()
    }
}

impl FromStr for Scope {
    type Err = ScopeProblem;

    fn from_str(text: &str) -> Result<Self, ScopeProblem> {
        let id = |id: &str| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            (1..=MAX_ID).contains(&id.len()) && id.bytes().all(is_plain)
        };
        let problem = if text.len() > MAX_SCOPE {
            "it is longer than 1024 bytes"
        } else if matches!(text, SHARED | USER) {
            return Ok(Self(text.to_owned()));
        } else if let Some(given) = [THREAD, SESSION, OWNER].iter().find_map(|kind| text.strip_prefix(kind)) {
            if id(given) {
                return Ok(Self(text.to_owned()));
            }
            "an id has 1 to 64 letters, digits, `-` and `_`"
        } else if let Some(directory) = text.strip_prefix(PROJECT) {
            if directory.starts_with('/') && !directory.chars().any(char::is_control) {
                return Ok(Self(text.to_owned()));
            }
            "a project is named by its absolute path"
        } else {
            "write thread:ID, session:ID, owner:ID, project:/PATH, user or shared"
        };
        let shown = crate::path::escaped_name(text.as_ref());
        Err(ScopeProblem { scope: shown.chars().take(MAX_ID).collect(), problem })
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of an artifact with its scope.
///
/// ```
/// use prowess_workspace::{ArtifactKey, ArtifactName, Scope};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let key = ArtifactKey::new(Scope::user(), ArtifactName::parse("report.txt")?);
/// assert_eq!(key.name.as_str(), "report.txt");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArtifactKey {
    /// Its scope.
    pub scope: Scope,
    /// Its name in the scope.
    pub name: ArtifactName,
}

impl ArtifactKey {
    /// A name in a scope.
    pub fn new(scope: Scope, name: ArtifactName) -> Self {
        Self { scope, name }
    }
}

/// Only the name, because readers know the scope.
impl fmt::Display for ArtifactKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn a_hostile_id_makes_no_scope() {
        for id in ["", ".", "..", "../x", "a/b", "a\\b", "a b", "a\0", "a\n", "ä", "a:b", &"x".repeat(65)] {
            assert!(Scope::thread(id).is_err(), "{id:?}");
            assert!(Scope::session(id).is_err(), "{id:?}");
            assert!(Scope::owner(id).is_err(), "{id:?}");
        }
        for text in ["", "thread", "thread:", "user:x", "Shared", "project:", "project:x", "project:/a\nb"] {
            assert!(text.parse::<Scope>().is_err(), "{text:?}");
        }
        assert!(format!("project:/{}", "x".repeat(MAX_SCOPE)).parse::<Scope>().is_err());
    }

    #[test]
    fn every_directory_has_a_scope_of_its_own_that_can_be_typed() {
        let scope = |bytes: &[u8]| Scope::project(Path::new(OsStr::from_bytes(bytes))).unwrap();
        assert_eq!(scope(b"/home/me/a b").as_str(), "project:/home/me/a b");
        let odd = [&b"/a\xff"[..], b"/a%FF", b"/a\n", b"/a%0A"];
        for (number, one) in odd.iter().enumerate() {
            assert_eq!(scope(one).as_str().parse(), Ok(scope(one)));
            for other in &odd[number + 1..] {
                assert_ne!(scope(one), scope(other));
            }
        }
        assert!(Scope::project(Path::new("a")).is_err());
    }
}
