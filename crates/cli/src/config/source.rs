//! Reads configuration files, which may be hostile.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use prowess_base::beneath;
use prowess_permission::config::MAX_CONFIG_BYTES;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::directories::user_directory;

/// The name of a configuration file.
pub(crate) const FILE_NAME: &str = "prowess.toml";

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    User,
    Project,
}

/// A file as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) owner: Owner,
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

/// How much of a project's file counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OfProject {
    /// Nothing: there is no file, or nobody trusts it.
    Nothing,
    /// All of it.
    Whole(Source),
    /// The file has changed since somebody trusted it. This is the trusted version: its hooks count, and its rules that
    /// deny or ask. Otherwise a change to the file would remove them.
    Restrictions(Source),
}

impl Source {
    /// The user's file, if there is one. It may be a link: many people keep such files elsewhere.
    pub(crate) fn of_user() -> Result<Option<Self>> {
        let Some(path) = user_path() else { return Ok(None) };
        Self::read(Owner::User, &path, OFlags::empty())
    }

    /// The file of the project with this top, if it has one.
    pub(crate) fn of_project(top: &Path) -> Result<Option<Self>> {
        Self::read(Owner::Project, &top.join(FILE_NAME), OFlags::NOFOLLOW)
    }

    /// An earlier version of a project's file.
    pub(crate) fn earlier(top: &Path, text: &str) -> Self {
        Self { owner: Owner::Project, path: top.join(FILE_NAME), bytes: text.as_bytes().to_vec() }
    }

    fn read(owner: Owner, path: &Path, more: OFlags) -> Result<Option<Self>> {
        let name = path.display();
        let file = match rustix::fs::openat(CWD, path, beneath::FILE | more, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(Errno::LOOP) if owner == Owner::Project => {
                bail!("{name} is a link; a project's configuration must be a regular file")
            }
            Err(Errno::NXIO) => bail!("{name} is not a regular file; remove it or replace it"),
            Err(error) => return Err(error).with_context(|| format!("cannot read {name}")),
        };
        let found = file.metadata().with_context(|| format!("cannot read {name}"))?;
        if !found.is_file() {
            bail!("{name} is not a regular file; remove it or replace it");
        }
        // The file names programs that prowess runs.
        if owner == Owner::User && found.permissions().mode() & 0o002 != 0 {
            bail!("everybody can write {name}; check its contents, then run `chmod o-w` on it");
        }
        let ours = [0, rustix::process::geteuid().as_raw()];
        if owner == Owner::User && !ours.contains(&found.uid()) {
            bail!("{name} belongs to another user; make yourself its owner");
        }
        let mut bytes = Vec::new();
        let read = file.take(MAX_CONFIG_BYTES as u64 + 1).read_to_end(&mut bytes);
        read.with_context(|| format!("cannot read {name}"))?;
        if bytes.len() > MAX_CONFIG_BYTES {
            bail!("{name} is larger than {MAX_CONFIG_BYTES} bytes; shorten it");
        }
        Ok(Some(Self { owner, path: path.to_owned(), bytes }))
    }

    /// Its text.
    pub(crate) fn text(&self) -> Result<&str> {
        std::str::from_utf8(&self.bytes).map_err(|error| {
            let before = &self.bytes[..error.valid_up_to()];
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            anyhow::anyhow!("{}:{line}: this is not valid UTF-8; save the file as UTF-8", self.path.display())
        })
    }
}

/// Where prowess looks for the user's file.
pub(crate) fn user_path() -> Option<PathBuf> {
    Some(user_directory("XDG_CONFIG_HOME", ".config")?.join("prowess").join(FILE_NAME))
}
