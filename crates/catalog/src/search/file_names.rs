//! The names of a skill's files, for the search index.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use crate::catalog::SkillEntry;
use crate::digest::{Digest, Digester};
use crate::local::{self, Clock, EntryKind, FileStamp, Follow};
use crate::root::Storage;
use crate::skill::MANIFEST;

/// How many file names of one skill are indexed.
pub const MAX_FILE_NAMES: usize = 64;
/// How many entries of one directory are read. The order of a directory means nothing, so the names are sorted before they are
/// counted.
const MAX_ENTRIES: usize = 1024;
/// The directories of a skill that are listed, too. The number of a set of them is that of its bits.
const FOLDERS: [&str; 3] = ["scripts", "references", "assets"];

/// Whether directories are as they were when they were listed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Listed {
    /// Which of [`FOLDERS`] each skill has.
    pub(super) folders: Vec<u8>,
    /// The digest of the stamps of all listed directories.
    pub(super) stamps: Digest,
}

/// Lists the files of skills.
///
/// A skill of a server comes with its list. A skill on a local disk is listed: its directory, and the directories `scripts`,
/// `references` and `assets` in it. A skill in a backend or on a network file system is not listed, because a search must not
/// wait for a network.
pub(super) struct FileNames {
    bases: Bases,
    folders: Vec<u8>,
    stamps: Digester,
    clock: Clock,
    is_settled: bool,
}

/// The open directories from which skills are opened, by root and link. `None` if the directory is not on this machine.
#[derive(Default)]
struct Bases(HashMap<(usize, Arc<str>), Option<OwnedFd>>);

impl Bases {
    fn of(&mut self, entry: &SkillEntry) -> Option<&OwnedFd> {
        if entry.root.storage != Storage::Local {
            return None;
        }
        let root = Arc::as_ptr(&entry.root) as usize;
        let open = || entry.open_base().ok().filter(local::is_of_this_machine);
        self.0.entry((root, Arc::clone(&entry.link))).or_insert_with(open).as_ref()
    }
}

impl Listed {
    /// Whether the directories of these skills are still as they were: one system call for each.
    pub(super) fn is_current(&self, entries: &[Arc<SkillEntry>]) -> bool {
        let (mut bases, mut stamps) = (Bases::default(), Digester::default());
        for (entry, folders) in entries.iter().zip(&self.folders) {
            let Some(base) = bases.of(entry) else { continue };
            add(&mut stamps, local::directory_stamp(base.as_fd(), entry.below()));
            for (_, folder) in (0..).zip(FOLDERS).filter(|(bit, _)| folders >> bit & 1 == 1) {
                let path = crate::scan::join(entry.below(), folder);
                add(&mut stamps, local::directory_stamp(base.as_fd(), &path));
            }
        }
        self.folders.len() == entries.len() && stamps.digest() == self.stamps
    }
}

fn add(stamps: &mut Digester, stamp: Option<FileStamp>) {
    match stamp {
        Some(stamp) => stamps.update(&stamp.to_bytes()),
        None => stamps.update(b"none"),
    }
}

impl FileNames {
    pub(super) fn new() -> Self {
        let (bases, stamps) = (Bases::default(), Digester::default());
        Self { bases, folders: Vec::new(), stamps, clock: Clock::now(), is_settled: true }
    }

    /// What was listed, and whether a later change would surely show in the stamps.
    pub(super) fn finish(self) -> (Listed, bool) {
        (Listed { folders: self.folders, stamps: self.stamps.digest() }, self.is_settled)
    }

    /// The names of the files of this skill, one per line, without endings such as `.md`.
    pub(super) fn of(&mut self, entry: &SkillEntry) -> String {
        let mut names: Vec<String> = Vec::new();
        if let Some(published) = entry.published() {
            let files = published.files.iter().take(MAX_ENTRIES);
            names.extend(files.filter_map(|file| file.path.rsplit('/').next()).map(str::to_owned));
        }
        let folders = self.list(entry, &mut names);
        self.folders.push(folders);
        names.retain(|name| name != MANIFEST);
        names.sort_unstable();
        names.truncate(MAX_FILE_NAMES);
        let stems = names.iter().map(|name| name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem));
        stems.collect::<Vec<_>>().join("\n")
    }

    /// Lists the files of a local skill. Returns which of [`FOLDERS`] it has.
    fn list(&mut self, entry: &SkillEntry, names: &mut Vec<String>) -> u8 {
        let Some(base) = self.bases.of(entry) else { return 0 };
        let Ok(directory) = entry.open_directory_below(base) else {
            self.note(None);
            return 0;
        };
        // The stamp comes first. If files change after it, the stamp is not current any more.
        self.note(local::stamp_of(&directory).ok());
        let mut found = Vec::new();
        list_files(&directory, names, &mut found);
        let mut folders = 0;
        for (bit, folder) in (0..).zip(FOLDERS).filter(|(_, folder)| found.iter().any(|name| name == folder))
        {
            folders |= 1 << bit;
            let inner = local::open_directory_at(directory.as_fd(), folder, Follow::Never).ok();
            self.note(inner.as_ref().and_then(|inner| local::stamp_of(inner).ok()));
            if let Some(inner) = inner {
                list_files(&inner, names, &mut Vec::new());
            }
        }
        folders
    }

    fn note(&mut self, stamp: Option<FileStamp>) {
        self.is_settled &= stamp.is_some_and(|stamp| self.clock.settled(stamp).is_some());
        add(&mut self.stamps, stamp);
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
            Ok(name) if kind == EntryKind::Directory && FOLDERS.contains(&name) => {
                folders.push(name.to_owned());
            }
            _ => {}
        }
        left > 0
    });
}
