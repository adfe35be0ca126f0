//! The tree of a chat: the paths that its model sees, in file tools, in commands and in texts.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, anyhow};
use prowess_agent::ThreadId;
use prowess_agent::backends::Backends;
use prowess_agent::tree_files::{LazyBackend, SkillDirectories, TreeFiles};
use prowess_backend::{Backend, BackendError, LocalBackend};
use prowess_catalog::Catalog;
use prowess_workspace::backend::WorkspaceBackend;
use prowess_workspace::tree::{Tree, WORK};
use prowess_workspace::{Executor, Level, Runner};

use super::agents::make;
use super::memory_files::{MOUNT, MemoryFiles};

/// Directories for what was moved out of the conversation into files. They are stored with the thread, not among the
/// user's files. The model sees them in its workspace.
pub(super) const THREAD_FILES: [&str; 2] = ["conversation_history", "large_tool_results"];

/// The directories of a workspace that file tools see.
const WORKSPACE: [&str; 3] = ["out", "work", "runs"];

/// Where the tree of a thread and its sub-agents is. Each of them has its own workspace.
#[derive(Clone)]
pub(super) struct ChatTree {
    /// The working directory of the person.
    pub(super) project: PathBuf,
    /// The directory of files stored with the thread.
    pub(super) thread_files: PathBuf,
    /// Memory files that are not in the project.
    pub(super) memory: Vec<PathBuf>,
    pub(super) runner: Runner,
    pub(super) names: PathNames,
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
    /// The paths that a model sees in a thread.
    pub(super) fn tree(&self, thread: &ThreadId) -> Tree {
        let workspace = self.runner.workspaces.path_of(thread.as_str());
        let mut tree = Tree::new(workspace).project(&self.project);
        for name in THREAD_FILES {
            tree = tree.place(format!("{WORK}/{name}"), self.thread_files.join(name));
        }
        for file in &self.memory {
            if let Some(path) = MemoryFiles::path_for_model(file) {
                tree = tree.place(path.as_str(), file);
            }
        }
        match self.names {
            PathNames::Own => tree,
            PathNames::Real => tree.real_names(),
        }
    }

    /// The files of the tree: those of the thread, and those of its sub-agents.
    pub(super) fn files(self, catalog: Arc<Mutex<Catalog>>, thread: &ThreadId) -> Result<Backends> {
        let project = open(&self.project)?;
        let mut kept = Vec::new();
        for name in THREAD_FILES {
            let place = self.thread_files.join(name);
            make(&place)?;
            kept.push((name, open(&place)?));
        }
        let latest = move || catalog.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let skills: Arc<dyn Backend> = Arc::new(SkillDirectories::new(latest));
        let memory: Option<Arc<dyn Backend>> = match self.memory.as_slice() {
            [] => None,
            files => Some(Arc::new(MemoryFiles::new(files.to_vec()))),
        };
        let parts = Parts { tree: self, project, kept, skills, memory };
        // A path that cannot be part of a backend is found now, and not in the middle of a turn.
        let own = parts.of_thread(thread).map_err(|error| anyhow!("{error}"))?;
        let known = Mutex::new(HashMap::from([(thread.clone(), own)]));
        Ok(Backends::new(move |context| {
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(files) = known.get(context.thread) {
                return Arc::clone(files);
            }
            let files = parts.of_thread(context.thread).unwrap_or_else(|_| Arc::clone(&parts.project));
            known.insert(context.thread.clone(), Arc::clone(&files));
            files
        }))
    }
}

/// The backends that the threads of one agent share.
struct Parts {
    tree: ChatTree,
    project: Arc<dyn Backend>,
    kept: Vec<(&'static str, Arc<dyn Backend>)>,
    skills: Arc<dyn Backend>,
    memory: Option<Arc<dyn Backend>>,
}

impl Parts {
    fn of_thread(&self, thread: &ThreadId) -> Result<Arc<dyn Backend>, BackendError> {
        let files = TreeFiles::new(&self.tree.tree(thread)).project(Arc::clone(&self.project))?;
        let mut files = files.skills(Arc::clone(&self.skills))?;
        if let Some(memory) = &self.memory {
            files = files.place(&format!("/{MOUNT}"), Arc::clone(memory))?;
        }
        for (name, backend) in &self.kept {
            files = files.work(name, Arc::clone(backend), Some(&format!("/{name}")))?;
        }
        for name in WORKSPACE {
            files = files.work(name, Arc::new(self.in_workspace(thread, name)), None)?;
        }
        Ok(Arc::new(files))
    }

    /// A directory of a thread's workspace. The workspace is made when the directory is first used.
    fn in_workspace(&self, thread: &ThreadId, name: &'static str) -> LazyBackend {
        let (workspaces, id) = (self.tree.runner.workspaces.clone(), thread.as_str().to_owned());
        LazyBackend::new(move || {
            let files = WorkspaceBackend::of_directory(workspaces.workspace(&id)?, name)?;
            Ok(Arc::new(files))
        })
    }
}

fn open(directory: &Path) -> Result<Arc<dyn Backend>> {
    let files = LocalBackend::open(directory);
    Ok(Arc::new(files.with_context(|| format!("{} cannot be read", directory.display()))?))
}
