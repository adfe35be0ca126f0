//! The file that records which items of which projects are trusted.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use serde::{Deserialize, Serialize};

use super::items::digest_of;
use crate::config::FILE_NAME;
use crate::directories;

/// The largest size of the file, in bytes.
const MAX_BYTES: u64 = 8 << 20;
const VERSION: u64 = 2;
/// How many items of a project are kept before missing ones are dropped.
const MAX_REMEMBERED: usize = 10_000;

/// The decisions about the items of a project.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    /// The top of the project.
    pub(crate) project: String,
    /// When the last decision was made.
    pub(crate) at: String,
    /// The digest of each trusted item, by its path below the top.
    pub(crate) items: BTreeMap<String, String>,
    /// The digest of each refused item. An earlier digest of it may be trusted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) refused: BTreeMap<String, String>,
    /// The text of the trusted configuration. Its restrictions stay while the file is different.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    configuration: Option<String>,
}

impl Record {
    /// A project without decisions.
    pub(super) fn new(project: &str) -> Self {
        let at = String::new();
        Self {
            project: project.to_owned(),
            at,
            items: BTreeMap::new(),
            refused: BTreeMap::new(),
            configuration: None,
        }
    }

    /// The items with a decision.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.items.keys().chain(self.refused.keys()).map(String::as_str)
    }

    /// Trusts an item with this digest, and no earlier one.
    pub(crate) fn trust(&mut self, path: &str, digest: &str) {
        self.refused.remove(path);
        self.items.insert(path.to_owned(), digest.to_owned());
    }

    /// Keeps the text of the trusted configuration.
    pub(super) fn keep_configuration(&mut self, text: &str) {
        self.configuration = Some(text.to_owned());
    }

    /// The text of the configuration when it was trusted, if it still is.
    pub(super) fn trusted_configuration(&self) -> Option<&str> {
        let text = self.configuration.as_deref()?;
        (self.items.get(FILE_NAME)? == &digest_of(text.as_bytes())).then_some(text)
    }

    /// Refuses an item with this digest.
    pub(crate) fn refuse(&mut self, path: &str, digest: &str) {
        self.items.retain(|known, trusted| known != path || trusted != digest);
        self.refused.insert(path.to_owned(), digest.to_owned());
    }

    /// Missing items are kept, because they may come back with another branch, unless there are too many.
    fn forget_gone(&mut self) {
        let top = Path::new(&self.project);
        let is_there = |path: &String, _: &mut String| top.join(path).symlink_metadata().is_ok();
        if self.items.len() + self.refused.len() > MAX_REMEMBERED {
            self.items.retain(is_there);
            self.refused.retain(is_there);
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with a version and projects")]
struct Stored<T> {
    version: u64,
    projects: Vec<T>,
}

/// A project in a file of version 1, which was trusted or refused as a whole.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    project: String,
    at: String,
    items: BTreeMap<String, String>,
    #[serde(default)]
    refused: bool,
}

impl From<Whole> for Record {
    fn from(whole: Whole) -> Self {
        let Whole { project, at, items, refused } = whole;
        let none = BTreeMap::new();
        let (items, refused) = if refused { (none, items) } else { (items, none) };
        Self { project, at, items, refused, configuration: None }
    }
}

#[derive(Deserialize)]
#[serde(expecting = "an object with a version")]
struct Versioned {
    version: u64,
}

/// The trust file, in JSON. Several processes may use it at the same time.
///
/// A change is written to a new file, which then replaces the old one. Writers lock a second file.
#[derive(Clone, Debug)]
pub(crate) struct TrustFile {
    path: PathBuf,
}

impl TrustFile {
    /// The user's file; `None` without a home directory.
    pub(crate) fn of_user() -> Option<Self> {
        directories::state().map(|directory| Self::at(directory.join("trust.json")))
    }

    pub(crate) fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// All projects with decisions.
    pub(crate) fn read(&self) -> Result<Vec<Record>> {
        let name = self.path.display();
        let unread = || format!("{name} cannot be read");
        // Checked before it is opened, because opening a FIFO waits for a writer.
        match fs::metadata(&self.path) {
            Ok(found) if found.is_file() => {}
            Ok(_) => bail!("{name} is not a file: remove it"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).with_context(unread),
        }
        let file = File::open(&self.path).with_context(unread)?;
        let found = file.metadata().with_context(unread)?;
        if found.mode() & 0o022 != 0 || found.uid() != rustix::process::geteuid().as_raw() {
            bail!("others can write to {name}: run `chmod 600` on it, and check `prowess trust --list`");
        }
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).with_context(unread)?;
        if bytes.len() as u64 > MAX_BYTES {
            bail!("{name} is larger than {MAX_BYTES} bytes: remove it, and trust your projects again");
        }
        let damaged = |error: serde_json::Error| {
            anyhow!("{name} is damaged: {error}; fix or remove it, and trust your projects again")
        };
        let Versioned { version } = serde_json::from_slice(&bytes).map_err(damaged)?;
        match version {
            1 => {
                let stored: Stored<Whole> = serde_json::from_slice(&bytes).map_err(damaged)?;
                Ok(stored.projects.into_iter().map(Record::from).collect())
            }
            VERSION => {
                let stored: Stored<Record> = serde_json::from_slice(&bytes).map_err(damaged)?;
                Ok(stored.projects)
            }
            _ => bail!(
                "{name} has version {version}, but this prowess knows only {VERSION}: use a newer prowess"
            ),
        }
    }

    /// The decisions about the project at `top`.
    pub(crate) fn get(&self, top: &Path) -> Result<Option<Record>> {
        let Some(top) = top.to_str() else { return Ok(None) };
        Ok(self.read()?.into_iter().find(|record| record.project == top))
    }

    /// Changes the decisions about the project at `top`. Concurrent changes of others stay.
    pub(crate) fn change(&self, top: &str, change: impl FnOnce(&mut Record)) -> Result<()> {
        self.update(|projects| {
            let known = projects.iter().position(|record| record.project == top);
            let mut record = known.map_or_else(|| Record::new(top), |at| projects.swap_remove(at));
            change(&mut record);
            record.at = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            record.forget_gone();
            projects.push(record);
            projects.sort_by(|a, b| a.project.cmp(&b.project));
        })
    }

    /// Removes a project, and says whether it was there.
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

    fn update(&self, change: impl FnOnce(&mut Vec<Record>)) -> Result<()> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        directories::make_directory(directory)
            .with_context(|| format!("cannot create {}", directory.display()))?;
        let unlocked = || format!("{} cannot be locked", self.path.display());
        let lock = private().create(true).open(self.beside(".lock")).with_context(unlocked)?;
        lock.lock().with_context(unlocked)?;
        let mut projects = self.read()?;
        change(&mut projects);
        self.replace(&Stored { version: VERSION, projects })
            .with_context(|| format!("{} cannot be written", self.path.display()))
    }

    fn replace(&self, stored: &Stored<Record>) -> Result<()> {
        let mut bytes = serde_json::to_vec_pretty(stored)?;
        bytes.push(b'\n');
        if bytes.len() as u64 > MAX_BYTES {
            bail!("it would be larger than {MAX_BYTES} bytes: revoke projects that are gone");
        }
        // A leftover of a crash; the lock is held.
        let fresh = self.beside(".new");
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let mut file = private().create_new(true).open(&fresh)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&fresh, &self.path)?;
        // Syncing the directory makes the rename durable.
        File::open(self.path.parent().unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(())
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(suffix);
        name.into()
    }
}

/// Options for writing a file that only the user can read.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}
