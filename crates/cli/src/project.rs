//! The project that the working directory is in.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use prowess_catalog::{Environment, Root, RootLayout};

use crate::config::Source;

/// What a project tells models about itself.
pub(crate) const MEMORY: &str = "AGENTS.md";

/// A project: the top of a repository, or the working directory where there is none.
pub(crate) struct Project {
    top: PathBuf,
    /// Where it has skills, as seen from the working directory.
    roots: Vec<Root>,
    /// Its prowess.toml, read once: what is trusted is what is used.
    configuration: Result<Option<Source>, String>,
    /// What it may tell models, by its path below the top: that of the working directory.
    memory: PathBuf,
}

impl Project {
    /// The project around a working directory. Neither a home directory is one, nor what it lies in.
    pub(crate) fn around(surroundings: &Environment, layers: &RootLayout) -> Option<Self> {
        let top = layers.project_top(surroundings)?;
        let mut roots = layers.resolve(surroundings);
        roots.retain(|root| root.kind.belongs_to_project());
        let configuration = Source::of_project(&top).map_err(|error| format!("{error:#}"));
        let directory = surroundings.working_directory.strip_prefix(&top).unwrap_or(Path::new(""));
        Some(Self { roots, configuration, memory: directory.join(MEMORY), top })
    }

    /// Its top.
    pub(crate) fn top(&self) -> &Path {
        &self.top
    }

    /// Where it has skills.
    pub(crate) fn roots(&self) -> &[Root] {
        &self.roots
    }

    /// Whether there is anything that would have to be trusted.
    pub(crate) fn brings_something(&self) -> bool {
        !self.roots.is_empty() || self.has_configuration() || self.has_memory()
    }

    /// Whether it has a configuration, readable or not.
    pub(crate) fn has_configuration(&self) -> bool {
        !matches!(self.configuration, Ok(None))
    }

    /// Whether it has something to tell models.
    pub(crate) fn has_memory(&self) -> bool {
        self.top.join(&self.memory).symlink_metadata().is_ok()
    }

    /// Where it may have something to tell models, below its top.
    pub(crate) fn memory(&self) -> &Path {
        &self.memory
    }

    /// Its configuration, if it has one. It counts only while the project is trusted.
    pub(crate) fn configuration(&self) -> Result<Option<&Source>> {
        self.configuration.as_ref().map(Option::as_ref).map_err(|error| anyhow!("{error}"))
    }
}
