//! The memory files of a chat: the user's own, and those of the project that are trusted.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use prowess_agent::middleware::{MAX_MEMORY_BYTES, Memory};
use prowess_backend::VirtualPath;
use prowess_base::beneath;
use prowess_permission::real_path::real_path;
use prowess_permission::{Decision, Kind, Policy, Question, RealPath};
use rustix::fs::{CWD, Mode};
use rustix::io::Errno;

use super::memory_files::MemoryFiles;
use crate::config::{MemoryPath, MemorySettings};
use crate::project::{Project, places};
use crate::skills::Skills;
use crate::terminal::printable;

/// What the files are for, as the guidelines tell the model.
const OWN: &str = "notes of the person for all projects";
const PROJECT: &str = "notes for this project";
const PART: &str = "notes for this part of the project";

/// The memory files of a chat, in the order in which the model reads them.
#[derive(Default)]
pub(super) struct ChatMemory {
    files: Vec<ChatMemoryFile>,
}

struct ChatMemoryFile {
    /// Its real path.
    path: PathBuf,
    place: Place,
    /// What was read and, in a project, checked for trust. `None` if there is no file.
    contents: Option<Bytes>,
    purpose: &'static str,
}

/// Where a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    WorkingDirectory,
    /// The model reaches it by its own path.
    Outside,
}

impl ChatMemory {
    /// Reads the memory files. Those of the project are read only if they are trusted, and if no rule denies it: a project
    /// can have a link to a denied file.
    pub(super) fn read(
        settings: &MemorySettings,
        skills: &Skills,
        directory: &Path,
        policy: &Policy,
    ) -> Result<Self> {
        let mut memory = Self { files: Vec::new() };
        let trusted = skills.project.as_ref().map(|project| (project, skills.trust_status.memory(project)));
        let mut can_create = true;
        for file in &settings.files {
            match &file.value {
                MemoryPath::Own(path) if path.is_absolute() => {
                    memory.add(directory, real_path(path), own_contents(path)?, OWN);
                }
                MemoryPath::Own(_) => {}
                MemoryPath::Project(name) => {
                    let Some((project, texts)) = &trusted else { continue };
                    for path in project_places(project, directory, name) {
                        let Some(text) = path.to_str().and_then(|path| texts.get(path)) else { continue };
                        let purpose = if path == *name { PROJECT } else { PART };
                        let path = project.top().join(&path);
                        let question = Question::about_file(Kind::READ, RealPath::find(&path));
                        if policy.evaluate(&question).decision != Decision::Deny {
                            memory.add(directory, path, Some(text.clone()), purpose);
                        }
                    }
                    // The model may create the first file of the project, here.
                    if std::mem::take(&mut can_create) && !project.has_memory() {
                        memory.add(directory, directory.join(name), None, PROJECT);
                    }
                }
            }
        }
        Ok(memory)
    }

    fn add(&mut self, directory: &Path, path: PathBuf, contents: Option<Bytes>, purpose: &'static str) {
        let place = if path.starts_with(directory) { Place::WorkingDirectory } else { Place::Outside };
        if !self.files.iter().any(|file| file.path == path) {
            self.files.push(ChatMemoryFile { path, place, contents, purpose });
        }
    }

    /// Whether both have the same files. Their contents do not count: a thread reads them once.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let known = |memory: &Self| {
            let files = memory.files.iter().map(|file| (file.path.clone(), file.contents.is_some()));
            files.collect::<Vec<_>>()
        };
        known(self) == known(other)
    }

    /// The memory for an agent. `path_for_model` gives the paths by which the model opens files of the working directory.
    /// A file that has no such path is left out.
    pub(super) fn middleware(&self, path_for_model: &dyn Fn(&Path) -> Option<VirtualPath>) -> Memory {
        self.files.iter().fold(Memory::empty(), |memory, file| {
            let path = match file.place {
                Place::WorkingDirectory => path_for_model(&file.path),
                Place::Outside => MemoryFiles::path_for_model(&file.path),
            };
            match path {
                Some(path) => memory.file(path, file.contents.clone(), file.purpose),
                None => memory,
            }
        })
    }

    /// The real paths of the files outside of the working directory.
    pub(super) fn outside(&self) -> impl Iterator<Item = String> {
        let outside = self.files.iter().filter(|file| file.place == Place::Outside);
        outside.map(|file| file.path.to_string_lossy().into_owned())
    }
}

/// Where a project may have this file, below its top: from the top down to the working directory.
fn project_places(project: &Project, directory: &Path, name: &Path) -> Vec<PathBuf> {
    places(directory.strip_prefix(project.top()).unwrap_or(Path::new("")), name)
}

/// The contents of the user's own file, if it exists. It may be a link: many people keep such files elsewhere.
fn own_contents(path: &Path) -> Result<Option<Bytes>> {
    let name = printable(&path.display().to_string());
    let unread = || format!("the memory file {name} cannot be read");
    let file = match rustix::fs::openat(CWD, path, beneath::FILE, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(error) => return Err(error).with_context(unread),
    };
    if !file.metadata().with_context(unread)?.is_file() {
        bail!("the memory file {name} is not a regular file: replace it, or remove it from `memory.files`");
    }
    let mut bytes = Vec::new();
    // One byte more says that there is more.
    file.take(MAX_MEMORY_BYTES + 1).read_to_end(&mut bytes).with_context(unread)?;
    Ok(Some(bytes.into()))
}
