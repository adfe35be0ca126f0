//! The sources that the user named on this machine.
//!
//! A project's lock can come from a stranger. prowess fetches what it names, but reaches directories of this machine and private
//! addresses only if the user added the same source here before.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use prowess_catalog::Digest;

use crate::source::Source;

/// A directory with an empty file for each source, named by the digest of the source. So two processes need no lock, and the
/// directory reveals no URL.
#[derive(Clone, Debug)]
pub struct KnownSources {
    directory: PathBuf,
}

impl KnownSources {
    /// Known sources in this directory. The first recorded source makes it.
    ///
    /// ```
    /// use prowess_install::known_sources::KnownSources;
    /// use prowess_install::source::{Source, SourceEnvironment};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let known = KnownSources::new(directory.path().join("known"));
    /// let parse = |text| Source::parse(text, &SourceEnvironment::default()).unwrap();
    /// known.record(&parse("git@git.local:team/skills#main"))?;
    /// assert!(known.has(&parse("git@git.local:team/skills#next")));
    /// assert!(!known.has(&parse("git@git.local:team/other")));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// Remembers that the user named this source.
    ///
    /// # Errors
    ///
    /// The directory cannot be written.
    pub fn record(&self, source: &Source) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let file = self.directory.join(identity(source));
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(file).map(drop)
    }

    /// Whether the user named this source before, with any branch, directory or skill of it.
    pub fn has(&self, source: &Source) -> bool {
        self.directory.join(identity(source)).symlink_metadata().is_ok_and(|metadata| metadata.is_file())
    }
}

/// The name of the file of a source. A directory has one name, however it was reached.
fn identity(source: &Source) -> String {
    let (kind, location) = match source {
        Source::Local(local) => {
            let path = real_path(&local.path).unwrap_or_else(|| local.path.clone());
            ("local", path.to_string_lossy().into_owned())
        }
        Source::Git(_) => ("git", source.location()),
        Source::Download(_) | Source::WellKnown(_) => ("web", source.location()),
    };
    prowess_base::hex::encode(Digest::of(format!("{kind}\0{location}").as_bytes()).as_bytes())
}

/// The real path of a local source. `None` if there is nothing.
#[expect(
    clippy::disallowed_methods,
    reason = "sources are named by paths, and only this user's processes could change what they mean"
)]
pub(crate) fn real_path(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()
}
