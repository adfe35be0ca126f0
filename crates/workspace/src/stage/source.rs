//! The source of a skill: a local directory, or other files.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::path::InnerPath;
use crate::warning::RunWarning;

/// The files of a skill that is not a local directory.
///
/// ```
/// use std::{io, sync::Arc};
/// use async_trait::async_trait;
/// use bytes::Bytes;
/// use prowess_workspace::stage::{SkillListing, StageFile, StageFiles, StageSource};
/// use prowess_workspace::{InnerPath, Workspaces};
///
/// /// A skill that is built into the program.
/// struct BuiltIn;
/// const MANIFEST: &str = "---\nname: greet\ndescription: Says hello.\n---\nWave.\n";
///
/// #[async_trait]
/// impl StageFiles for BuiltIn {
///     async fn list(&self) -> io::Result<SkillListing> {
///         let path = InnerPath::parse("SKILL.md").map_err(io::Error::other)?;
///         let stamp = Some("1".into());
///         let file = StageFile { path, size: MANIFEST.len() as u64, executable: false, stamp };
///         Ok(SkillListing { files: vec![file], ..SkillListing::default() })
///     }
///
///     async fn read(&self, _: &InnerPath, max: u64) -> io::Result<Option<Bytes>> {
///         Ok((MANIFEST.len() as u64 <= max).then(|| MANIFEST.into()))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// let workspace = Workspaces::open(place.path())?.workspace("session-1")?;
/// let staged = workspace.stage("greet", &StageSource::Files(Arc::new(BuiltIn))).await?;
/// assert_eq!(staged.copied, 1);
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait StageFiles: Send + Sync {
    /// Lists the files. It is called before every run, so it should not read their contents.
    ///
    /// # Errors
    ///
    /// The files cannot be listed.
    async fn list(&self) -> io::Result<SkillListing>;

    /// Reads a listed file; `None` if it has more than `max` bytes.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    async fn read(&self, path: &InnerPath, max: u64) -> io::Result<Option<Bytes>>;
}

/// The files and directories of a skill.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkillListing {
    /// The files.
    pub files: Vec<StageFile>,
    /// The directories, including empty ones.
    pub directories: Vec<InnerPath>,
    /// Warnings about files that were left out.
    pub warnings: Vec<RunWarning>,
}

/// A file of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageFile {
    /// Its path in the skill.
    pub path: InnerPath,
    /// Its size in bytes.
    pub size: u64,
    /// Whether it is executable.
    pub executable: bool,
    /// A text that changes whenever the contents change, such as an entity tag. Without it, the file is read before every
    /// run to see whether it has changed.
    pub stamp: Option<String>,
}

/// The source of a skill.
///
/// ```
/// use prowess_workspace::stage::StageSource;
///
/// let source = StageSource::Directory("/srv/skills/greet".into());
/// assert_eq!(format!("{source:?}"), r#"Directory("/srv/skills/greet")"#);
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum StageSource {
    /// A local directory.
    Directory(PathBuf),
    /// Files from elsewhere.
    Files(Arc<dyn StageFiles>),
}

impl fmt::Debug for StageSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => f.debug_tuple("Directory").field(path).finish(),
            Self::Files(_) => f.debug_tuple("Files").finish_non_exhaustive(),
        }
    }
}
