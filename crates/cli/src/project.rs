//! The project that the working directory is in.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use prowess_catalog::{Layers, Root, Surroundings};

use crate::config::Source;

/// What a project tells models about itself, at its top.
pub(crate) const MEMORY: &str = "AGENTS.md";

/// A project: the top of a repository, or the working directory where there is none.
pub(crate) struct Project {
    top: PathBuf,
    /// Where it has skills, as seen from the working directory.
    roots: Vec<Root>,
    /// Its prowess.toml, read once: what is trusted is what is used.
    configuration: Result<Option<Source>, String>,
}

impl Project {
    /// The project around a working directory. Neither a home directory is one, nor what it lies in.
    pub(crate) fn around(surroundings: &Surroundings, layers: &Layers) -> Option<Self> {
        let top = layers.project_top(surroundings)?;
        let mut roots = layers.resolve(surroundings);
        roots.retain(|root| root.kind.belongs_to_project());
        let configuration = Source::of_project(&top).map_err(|error| format!("{error:#}"));
        Some(Self { top, roots, configuration })
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
        !self.roots.is_empty()
            || !matches!(self.configuration, Ok(None))
            || self.top.join(MEMORY).symlink_metadata().is_ok()
    }

    /// Its configuration, if it has one. It counts only while the project is trusted.
    pub(crate) fn configuration(&self) -> Result<Option<&Source>> {
        self.configuration.as_ref().map(Option::as_ref).map_err(|error| anyhow!("{error}"))
    }
}
