//! The names of a skill's files, for the search index.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use crate::catalog::SkillEntry;
use crate::local::{self, EntryKind, Follow};
use crate::resource::ResourceKind;
use crate::root::Storage;
use crate::skill::MANIFEST;

/// How many file names of one skill are indexed.
pub const MAX_FILE_NAMES: usize = 64;
/// How many entries of one directory are read. The order of a directory means nothing, so the names are sorted before they are
/// counted.
const MAX_ENTRIES: usize = 1024;

/// Lists the files of skills.
///
/// A skill of a server comes with its list. A skill on a local disk is listed: its directory, and the directories `scripts`,
/// `references` and `assets` in it. A skill in a backend or on a network file system is not listed, because a search must not
/// wait for a network.
#[derive(Default)]
pub(super) struct FileNames {
    /// The open directories from which skills are opened, by root and link. `None` if the directory is not on this machine.
    bases: HashMap<(usize, Arc<str>), Option<OwnedFd>>,
}

impl FileNames {
    /// The names of the files of this skill, one per line, without endings such as `.md`.
    pub(super) fn of(&mut self, entry: &SkillEntry) -> String {
        let mut names: Vec<String> = Vec::new();
        if let Some(published) = entry.published() {
            let files = published.files.iter().take(MAX_ENTRIES);
            names.extend(files.filter_map(|file| file.path.rsplit('/').next()).map(str::to_owned));
        } else if entry.root.storage == Storage::Local {
            self.list(entry, &mut names);
        }
        names.retain(|name| name != MANIFEST);
        names.sort_unstable();
        names.truncate(MAX_FILE_NAMES);
        let stems = names.iter().map(|name| name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem));
        stems.collect::<Vec<_>>().join("\n")
    }

    fn list(&mut self, entry: &SkillEntry, names: &mut Vec<String>) {
        let root = Arc::as_ptr(&entry.root) as usize;
        let base = self
            .bases
            .entry((root, Arc::clone(&entry.link)))
            .or_insert_with(|| entry.open_base().ok().filter(local::is_of_this_machine));
        let Some(base) = base else { return };
        let Ok(directory) = entry.open_directory_below(base) else { return };
        let mut folders = Vec::new();
        list_files(&directory, names, &mut folders);
        for folder in folders {
            if let Ok(inner) = local::open_directory_at(directory.as_fd(), &folder, Follow::Never) {
                list_files(&inner, names, &mut Vec::new());
            }
        }
    }
}

fn list_files(directory: &OwnedFd, names: &mut Vec<String>, folders: &mut Vec<String>) {
    let mut left = MAX_ENTRIES;
    // What cannot be listed has no names: the search still finds the skill by its manifest.
    let _ = local::list_while(directory, |name, kind| {
        left -= 1;
        match std::str::from_utf8(name) {
            Ok(name) if name.starts_with('.') => {}
            Ok(name) if kind == EntryKind::File => names.push(name.to_owned()),
            Ok(name) if kind == EntryKind::Directory && ResourceKind::of_directory(name).is_some() => {
                folders.push(name.to_owned());
            }
            _ => {}
        }
        left > 0
    });
}
