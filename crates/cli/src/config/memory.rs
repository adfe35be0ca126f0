//! `[memory]`

use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use super::read::{quoted, section};
use super::setting::{FullPath, Parsed};

/// The file with a project's notes for models.
pub(crate) const AGENTS: &str = "AGENTS.md";

section! {
    /// The memory of `prowess chat`: files with notes, which the model reads when a conversation begins and keeps up to
    /// date.
    pub(crate) struct MemorySettings {
        /// The files, in the order in which the model reads them. An absolute path, or one with a leading `~/`, is a file
        /// of your own. Any other path is a file of a project: prowess looks for it in each directory from the top of the
        /// repository down to the working directory, and reads the files that you trust. With an empty list, there is no
        /// memory.
        User files: Vec<Parsed<MemoryPath>> = ["~/.prowess/AGENTS.md", AGENTS],
    }
}

/// A file of the memory, as the user writes it.
#[derive(Clone, Debug)]
pub(crate) enum MemoryPath {
    /// A file of the user.
    Own(PathBuf),
    /// A path below the directories of a project.
    Project(PathBuf),
}

impl FromStr for MemoryPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with('/') || text.starts_with("~/") {
            return text.parse().map(|FullPath(path)| Self::Own(path));
        }
        let is_plain = |part| matches!(part, Component::Normal(_));
        if text.is_empty() || text == "~" || !Path::new(text).components().all(is_plain) {
            let why = "write a file name such as AGENTS.md, an absolute path, or a path with a leading ~/";
            return Err(format!("`{}` is not a file of a project; {why}", quoted(text)));
        }
        Ok(Self::Project(PathBuf::from(text)))
    }
}

impl MemorySettings {
    /// The files that are looked for in a project.
    pub(crate) fn of_projects(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().filter_map(|file| match &file.value {
            MemoryPath::Project(path) => Some(path.as_path()),
            MemoryPath::Own(_) => None,
        })
    }
}
