//! The project that the working directory is in.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use prowess_catalog::{Environment, Root, RootLayout};

use crate::agent_files;
use crate::config::{AGENTS, Config, OfProject, Source};

/// A project: the top of a repository, or the working directory if there is none.
pub(crate) struct Project {
    top: PathBuf,
    /// Its skill directories, as seen from the working directory.
    roots: Vec<Root>,
    /// Its directories with definitions of sub-agents.
    agent_roots: Vec<Root>,
    /// Its prowess.toml, read once, so that the trusted text is the used text.
    configuration: Result<Option<Source>, String>,
    /// Where its memory files are, below the top: from the top down to the working directory. They need not exist.
    memory: Vec<PathBuf>,
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
        let memory = memory_names().iter().flat_map(|name| places(directory, name)).collect();
        Some(Self { roots, agent_roots, configuration, memory, top })
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

    /// Whether it has a memory file.
    pub(crate) fn has_memory(&self) -> bool {
        self.present_memory().next().is_some()
    }

    /// The memory files that exist, below the top.
    pub(crate) fn present_memory(&self) -> impl Iterator<Item = &Path> {
        let is_there = |path: &&Path| self.top.join(path).symlink_metadata().is_ok();
        self.memory.iter().map(PathBuf::as_path).filter(is_there)
    }

    /// Where memory files are, below the top. They need not exist.
    pub(crate) fn memory(&self) -> &[PathBuf] {
        &self.memory
    }

    /// Adds a place of a memory file, below the top.
    pub(crate) fn add_memory(&mut self, path: &Path) {
        if !self.memory.iter().any(|known| known == path) {
            self.memory.push(path.to_owned());
        }
    }

    /// Its configuration, if it has one. It is used only while it is trusted.
    pub(crate) fn configuration(&self) -> Result<Option<&Source>> {
        self.configuration.as_ref().map(Option::as_ref).map_err(|error| anyhow!("{error}"))
    }
}

/// The names of memory files in projects, by the user's configuration. Commands that need a valid configuration check it.
fn memory_names() -> Vec<PathBuf> {
    match Config::load_silently(&OfProject::Nothing, &[]) {
        Ok(config) => config.settings.memory.of_projects().map(Path::to_owned).collect(),
        Err(_) => vec![PathBuf::from(AGENTS)],
    }
}

/// The places of a memory file: below the top itself, and below each directory down to `directory`.
pub(crate) fn places(directory: &Path, name: &Path) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = directory.ancestors().map(|above| above.join(name)).collect();
    places.reverse();
    places
}
