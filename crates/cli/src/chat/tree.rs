//! The tree of a chat: the paths that its model sees, in file tools, in commands and in texts.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, anyhow};
use prowess_agent::ThreadId;
use prowess_agent::backends::Backends;
use prowess_agent::tree_files::{LazyBackend, SkillDirectories, TreeFiles};
use prowess_backend::{Backend, BackendError, LocalBackend};
use prowess_catalog::Catalog;
use prowess_workspace::backend::WorkspaceBackend;
use prowess_workspace::tree::{MEMORY, Tree, WORK};
use prowess_workspace::{Executor, Level, Runner};

use super::agents::make;
use super::memory_files::MemoryFiles;

/// Directories for what was moved out of the conversation into files. They are stored with the thread, not among the
/// user's files. The model sees them in its workspace.
pub(super) const THREAD_FILES: [&str; 2] = ["conversation_history", "large_tool_results"];

/// The directories of a workspace that file tools see.
const WORKSPACE: [&str; 3] = ["out", "work", "runs"];

/// Where the tree of a thread is. Its sub-agents see the same tree, so that a path means the same to all of them.
#[derive(Clone)]
pub(super) struct ChatTree {
    pub(super) thread: ThreadId,
    /// The working directory of the person.
    pub(super) project: PathBuf,
    /// The directory of files stored with the thread.
    pub(super) thread_files: PathBuf,
    /// Memory files that are not in the project.
    pub(super) memory: Vec<PathBuf>,
    pub(super) runner: Runner,
    pub(super) names: PathNames,
    /// When directories are opened.
    pub(super) opened: Opened,
}

/// When the directories of a tree are made and opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opened {
    AtOnce,
    /// When a file in them is first used: this process may never do so.
    WhenUsed,
}

/// How the places of the tree are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathNames {
    /// By names of their own, such as `/project`. Commands see the same names.
    Own,
    /// By their real paths, because the sandbox level has no mounts.
    Real,
}

impl PathNames {
    /// The names for commands of this executor.
    pub(super) async fn of(executor: Option<&dyn Executor>) -> Self {
        let Some(executor) = executor else { return Self::Own };
        match executor.probe().await {
            Ok(sandbox) if matches!(sandbox.level, Level::Landlock | Level::None) => Self::Real,
            // Without a sandbox no command runs.
            _ => Self::Own,
        }
    }
}

impl ChatTree {
    /// The paths that a model sees.
    pub(super) fn tree(&self) -> Tree {
        let workspace = self.runner.workspaces.path_of(self.thread.as_str());
        let mut tree = Tree::new(workspace).project(&self.project);
        for name in THREAD_FILES {
            tree = tree.place(format!("{WORK}/{name}"), self.thread_files.join(name));
        }
        if !self.memory.is_empty() {
            tree = tree.only_for_file_tools(MEMORY);
        }
        match self.names {
            PathNames::Own => tree,
            PathNames::Real => tree.real_names(),
        }
    }

    /// The files of the tree, for a middleware.
    pub(super) fn files(self, catalog: Arc<Mutex<Catalog>>) -> Result<Backends> {
        Ok(Backends::from(self.tree_files(catalog)?))
    }

    /// The files of the tree.
    pub(super) fn tree_files(&self, catalog: Arc<Mutex<Catalog>>) -> Result<Arc<dyn Backend>> {
        let files = TreeFiles::new(&self.tree()).project(self.open(&self.project)?);
        let mut files = files.map_err(|error| anyhow!("{error}"))?;
        let latest = move || catalog.lock().unwrap_or_else(PoisonError::into_inner).clone();
        files =
            self.add(files, Arc::new(SkillDirectories::new(latest))).map_err(|error| anyhow!("{error}"))?;
        for name in THREAD_FILES {
            let place = self.thread_files.join(name);
            if self.opened == Opened::AtOnce {
                make(&place)?;
            }
            files = files
                .work(name, self.open(&place)?, Some(&format!("/{name}")))
                .map_err(|error| anyhow!("{error}"))?;
        }
        Ok(Arc::new(files))
    }

    fn open(&self, directory: &Path) -> Result<Arc<dyn Backend>> {
        if self.opened == Opened::AtOnce {
            return open(directory);
        }
        let directory = directory.to_owned();
        Ok(Arc::new(LazyBackend::new(move || {
            make(&directory).and_then(|()| open(&directory)).map_err(Into::into)
        })))
    }

    /// The tree with files from elsewhere: `at` gets a path of the tree, such as `project` or `work/out`.
    pub(super) fn files_from(
        &self,
        catalog: Arc<Mutex<Catalog>>,
        at: impl Fn(&str) -> Arc<dyn Backend>,
    ) -> Result<Arc<dyn Backend>> {
        let latest = move || catalog.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let made = || {
            let mut files = TreeFiles::new(&self.tree()).project(at("project"))?;
            files = files.skills(Arc::new(SkillDirectories::new(latest)))?;
            for name in THREAD_FILES {
                files = files.work(name, at(&format!("work/{name}")), Some(&format!("/{name}")))?;
            }
            for name in WORKSPACE {
                files = files.work(name, at(&format!("work/{name}")), None)?;
            }
            Ok::<_, BackendError>(files)
        };
        Ok(Arc::new(made().map_err(|error| anyhow!("{error}"))?))
    }

    /// Adds the skills, the memory files that are not in the project, and the directories of the workspace.
    fn add(&self, files: TreeFiles, skills: Arc<dyn Backend>) -> Result<TreeFiles, BackendError> {
        let mut files = files.skills(skills)?;
        if !self.memory.is_empty() {
            files = files.place(MEMORY, Arc::new(MemoryFiles::new(self.memory.clone())))?;
        }
        for name in WORKSPACE {
            files = files.work(name, Arc::new(self.in_workspace(name)), None)?;
        }
        Ok(files)
    }

    /// A directory of the workspace. The workspace is made when the directory is first used.
    fn in_workspace(&self, name: &'static str) -> LazyBackend {
        let (workspaces, id) = (self.runner.workspaces.clone(), self.thread.as_str().to_owned());
        LazyBackend::new(move || {
            Ok(Arc::new(WorkspaceBackend::of_directory(workspaces.workspace(&id)?, name)?))
        })
    }
}

fn open(directory: &Path) -> Result<Arc<dyn Backend>> {
    let files = LocalBackend::open(directory);
    Ok(Arc::new(files.with_context(|| format!("{} cannot be read", directory.display()))?))
}
