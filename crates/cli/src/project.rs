//! The project that the working directory is in.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use prowess_catalog::{Environment, Root, RootLayout};

use crate::agent_files;
use crate::config::Source;

/// The file with a project's notes for models.
pub(crate) const MEMORY: &str = "AGENTS.md";

/// A project: the top of a repository, or the working directory if there is none.
pub(crate) struct Project {
    top: PathBuf,
    /// Its skill directories, as seen from the working directory.
    roots: Vec<Root>,
    /// Its directories with definitions of sub-agents.
    agent_roots: Vec<Root>,
    /// Its prowess.toml, read once, so that the trusted text is the used text.
    configuration: Result<Option<Source>, String>,
    /// The path of the AGENTS.md in the working directory, below the top.
    memory: PathBuf,
}

impl Project {
    /// The project around a working directory. A home directory is not a project, and neither is anything above it.
    pub(crate) fn around(environment: &Environment, layout: &RootLayout) -> Option<Self> {
        let top = layout.project_top(environment)?;
        let mut roots = layout.resolve(environment);
        roots.retain(|root| root.kind.belongs_to_project());
        let mut agent_roots = agent_files::layout(layout).resolve(environment);
        agent_roots.retain(|root| root.kind.belongs_to_project() && agent_files::has_some(&root.path));
        let configuration = Source::of_project(&top).map_err(|error| format!("{error:#}"));
        let directory = environment.working_directory.strip_prefix(&top).unwrap_or(Path::new(""));
        Some(Self { roots, agent_roots, configuration, memory: directory.join(MEMORY), top })
    }

    /// The top directory.
    pub(crate) fn top(&self) -> &Path {
        &self.top
    }

    /// The skill directories.
    pub(crate) fn roots(&self) -> &[Root] {
        &self.roots
    }

    /// The directories with definitions of sub-agents.
    pub(crate) fn agent_roots(&self) -> &[Root] {
        &self.agent_roots
    }

    /// Whether the project has anything that needs trust.
    pub(crate) fn brings_something(&self) -> bool {
        !self.roots.is_empty()
            || !self.agent_roots.is_empty()
            || self.has_configuration()
            || self.has_memory()
    }

    /// Whether it has a configuration, even an unreadable one.
    pub(crate) fn has_configuration(&self) -> bool {
        !matches!(self.configuration, Ok(None))
    }

    /// Whether it has an AGENTS.md.
    pub(crate) fn has_memory(&self) -> bool {
        self.top.join(&self.memory).symlink_metadata().is_ok()
    }

    /// The path of the AGENTS.md, below the top.
    pub(crate) fn memory(&self) -> &Path {
        &self.memory
    }

    /// Its configuration, if it has one. It is used only while it is trusted.
    pub(crate) fn configuration(&self) -> Result<Option<&Source>> {
        self.configuration.as_ref().map(Option::as_ref).map_err(|error| anyhow!("{error}"))
    }
}
