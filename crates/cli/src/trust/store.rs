//! The file that remembers which projects are trusted.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use serde::{Deserialize, Serialize};

use crate::state;

/// The largest such file, in bytes.
const MAX_BYTES: u64 = 8 << 20;
const VERSION: u64 = 1;

/// A project that is trusted, or was refused.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Trusted {
    /// Its top.
    pub(crate) project: String,
    /// When it was trusted.
    pub(crate) at: String,
    /// The digest of each thing that it had then.
    pub(crate) items: BTreeMap<String, String>,
    /// Whether somebody said that it is not to be trusted as it was then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) refused: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with a version and projects")]
struct Stored {
    version: u64,
    projects: Vec<Trusted>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with a version")]
struct Versioned {
    version: u64,
}

/// Trusted projects in one JSON file, which several processes may use at the same time.
///
/// A change is written to a new file that then takes the old one's place. Writers take turns by locking a file beside it.
#[derive(Clone, Debug)]
pub(crate) struct TrustFile {
    path: PathBuf,
}

impl TrustFile {
    /// The file of the user, or none where the user has no home.
    pub(crate) fn of_user() -> Option<Self> {
        state::directory().map(|directory| Self::at(directory.join("trust.json")))
    }

    pub(crate) fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The projects that are trusted.
    pub(crate) fn read(&self) -> Result<Vec<Trusted>> {
        let name = self.path.display();
        let unread = || format!("{name} cannot be read");
        // Looked at before it is opened, because opening a FIFO waits for somebody to write to it.
        match fs::metadata(&self.path) {
            Ok(found) if found.is_file() => {}
            Ok(_) => bail!("{name} is not a file: remove it"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).with_context(unread),
        }
        let file = File::open(&self.path).with_context(unread)?;
        let found = file.metadata().with_context(unread)?;
        if found.mode() & 0o022 != 0 || found.uid() != rustix::process::geteuid().as_raw() {
            bail!(
                "{name} can be written by others: `chmod 600` it, and check what `prowess trust --list` says"
            );
        }
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).with_context(unread)?;
        if bytes.len() as u64 > MAX_BYTES {
            bail!("{name} is larger than {MAX_BYTES} bytes: remove it, and trust your projects again");
        }
        let damaged = |error: serde_json::Error| {
            anyhow!("{name} is damaged: {error}; mend or remove it, and trust your projects again")
        };
        let Versioned { version } = serde_json::from_slice(&bytes).map_err(damaged)?;
        if version != VERSION {
            bail!("{name} has version {version}, and this program knows {VERSION}: use a newer one");
        }
        let stored: Stored = serde_json::from_slice(&bytes).map_err(damaged)?;
        Ok(stored.projects)
    }

    /// What is remembered of the project at `top`.
    pub(crate) fn get(&self, top: &Path) -> Result<Option<Trusted>> {
        let Some(top) = top.to_str() else { return Ok(None) };
        Ok(self.read()?.into_iter().find(|trusted| trusted.project == top))
    }

    /// Remembers a project, in place of what was remembered of it.
    pub(crate) fn put(&self, trusted: Trusted) -> Result<()> {
        self.update(|projects| {
            projects.retain(|other| other.project != trusted.project);
            projects.push(trusted);
            projects.sort_by(|a, b| a.project.cmp(&b.project));
        })
    }

    /// Forgets a project; says whether it was there.
    pub(crate) fn remove(&self, top: &Path) -> Result<bool> {
        let mut was_there = false;
        self.update(|projects| {
            projects.retain(|other| {
                let is_it = Path::new(&other.project) == top;
                was_there |= is_it;
                !is_it
            });
        })?;
        Ok(was_there)
    }

    fn update(&self, change: impl FnOnce(&mut Vec<Trusted>)) -> Result<()> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        state::make_directory(directory)
            .with_context(|| format!("{} cannot be made", directory.display()))?;
        let unlocked = || format!("{} cannot be locked", self.path.display());
        let lock = private().create(true).open(self.beside(".lock")).with_context(unlocked)?;
        lock.lock().with_context(unlocked)?;
        let mut projects = self.read()?;
        change(&mut projects);
        self.replace(&Stored { version: VERSION, projects })
            .with_context(|| format!("{} cannot be written", self.path.display()))
    }

    fn replace(&self, stored: &Stored) -> Result<()> {
        let mut bytes = serde_json::to_vec_pretty(stored)?;
        bytes.push(b'\n');
        if bytes.len() as u64 > MAX_BYTES {
            bail!("it would be larger than {MAX_BYTES} bytes: revoke projects that are gone");
        }
        // One name is enough while the lock is held. What is there was left by a crash.
        let fresh = self.beside(".new");
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let mut file = private().create_new(true).open(&fresh)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&fresh, &self.path)?;
        // The new name is on the disk only once the directory is.
        File::open(self.path.parent().unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(())
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(suffix);
        name.into()
    }
}

/// For writing, and readable by nobody else.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}
