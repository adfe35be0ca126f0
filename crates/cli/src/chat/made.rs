//! What a turn made, and where it is: changed files, files of runs, and saved artifacts.

use std::path::{Path, PathBuf};

use prowess_agent::tool::{ChangeKind, ChangedFile};
use prowess_permission::real_path::real_path;
use prowess_skills::run_summary::RunSummaryProjectFile;
use serde::Serialize;

use super::events::ChatEvent;

/// How many files the list at the end of a turn names.
const MAX_LISTED: usize = 12;

/// Something that a turn made.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct MadeFile {
    /// How it came to be.
    pub(crate) how: How,
    /// The path of a file on this machine, or the name and version of an artifact.
    pub(crate) name: String,
    /// Its size, if it is a file.
    pub(crate) bytes: Option<u64>,
    /// The command that gets an artifact.
    pub(crate) fetch: Option<String>,
}

/// How something came to be. What matters most to a person comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum How {
    /// The agent, or a run in the project, created a file.
    Created,
    /// The agent, or a run in the project, replaced a file.
    Replaced,
    /// The agent edited a file.
    Edited,
    /// A run removed a file of the project.
    Removed,
    /// A run wrote a file.
    Run,
    /// A run saved an artifact.
    Saved,
}

impl From<ChangeKind> for How {
    fn from(change: ChangeKind) -> Self {
        match change {
            ChangeKind::Created => Self::Created,
            ChangeKind::Replaced => Self::Replaced,
            _ => Self::Edited,
        }
    }
}

/// What a list leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct LeftOut {
    /// Files in the directory for results.
    pub(crate) in_directory: usize,
    /// Files elsewhere that were created, changed or removed.
    pub(crate) elsewhere: usize,
    /// Saved artifacts.
    pub(crate) saved: usize,
}

impl LeftOut {
    /// Adds a file or an artifact that the list leaves out.
    fn add(&mut self, file: &MadeFile, out: &Path) {
        match file.how {
            How::Saved => self.saved += 1,
            // A removed file is nowhere.
            How::Removed => self.elsewhere += 1,
            _ if Path::new(&file.name).starts_with(out) => self.in_directory += 1,
            _ => self.elsewhere += 1,
        }
    }
}

/// Collects what a turn makes.
#[derive(Debug, Default)]
pub(super) struct Made {
    files: Vec<MadeFile>,
    /// What has no entry.
    unnamed: LeftOut,
}

impl Made {
    /// Adds a file that the agent changed. `own` are the directories in which an agent keeps files for itself. Of these
    /// files, only those in `out` are for the person.
    pub(super) fn add_changed(&mut self, changed: &ChangedFile, out: &Path, own: &[PathBuf]) {
        let Some(path) = &changed.on_disk else { return };
        let place = Path::new(path);
        if place.starts_with(out) || !own.iter().any(|own| place.starts_with(own)) {
            let bytes = Some(changed.bytes);
            self.add(MadeFile { how: changed.change.into(), name: path.clone(), bytes, fetch: None });
        }
    }

    /// Adds the files of a run, and how many it does not name.
    pub(super) fn add_run(&mut self, events: &[ChatEvent], unnamed: LeftOut) {
        for event in events {
            let ChatEvent::File { name, path, bytes, fetch, .. } = event else { continue };
            let (how, name) = match path {
                Some(path) => (How::Run, path),
                None => (How::Saved, name),
            };
            self.add(MadeFile { how, name: name.clone(), bytes: *bytes, fetch: fetch.clone() });
        }
        self.unnamed.in_directory += unnamed.in_directory;
        self.unnamed.elsewhere += unnamed.elsewhere;
        self.unnamed.saved += unnamed.saved;
    }

    /// Adds files of the project that a run wrote or removed.
    pub(super) fn add_project_files(&mut self, files: &[RunSummaryProjectFile]) {
        for file in files {
            let how = match (file.is_removed, file.is_new) {
                (true, _) => How::Removed,
                (false, true) => How::Created,
                (false, false) => How::Replaced,
            };
            self.add(MadeFile { how, name: file.path.clone(), bytes: None, fetch: None });
        }
    }

    fn add(&mut self, file: MadeFile) {
        let Some(at) = self.files.iter().position(|known| known.name == file.name) else {
            self.files.push(file);
            return;
        };
        let how = match (self.files[at].how, file.how) {
            // The turn made it and removed it.
            (How::Created, How::Removed) => {
                self.files.remove(at);
                return;
            }
            (_, How::Removed) => How::Removed,
            // It was there before.
            (How::Removed, How::Created) => How::Replaced,
            (How::Removed, later) => later,
            // A new file that was then edited is still new.
            (earlier, later) => earlier.min(later),
        };
        self.files[at] = MadeFile { how, ..file };
    }

    /// What the turn made, if anything is left of it. Begins the list of the next turn.
    pub(super) fn take(&mut self, out: &Path) -> Option<ChatEvent> {
        let Self { mut files, unnamed: mut left_out } = std::mem::take(self);
        files.retain_mut(|file| {
            if file.how == How::Saved {
                return true;
            }
            // A later call may have removed or changed it. A link is not followed.
            let found = std::fs::symlink_metadata(&file.name).ok().filter(std::fs::Metadata::is_file);
            file.bytes = found.as_ref().map(std::fs::Metadata::len);
            found.is_some() != (file.how == How::Removed)
        });
        // Stable: what is alike stays in the order of time.
        files.sort_by_key(|file| file.how);
        // File tools know files by their real paths.
        let real = real_path(out);
        for file in files.drain(MAX_LISTED.min(files.len())..) {
            left_out.add(&file, if Path::new(&file.name).starts_with(&real) { &real } else { out });
        }
        let more = left_out.in_directory + left_out.elsewhere + left_out.saved;
        let directory = (left_out.in_directory > 0).then(|| out.display().to_string());
        (!files.is_empty() || more > 0).then_some(ChatEvent::Made { files, more, left_out, directory })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_short_and_true() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let (out, own) = (at("ws/out"), [at("ws"), at("threads")]);
        std::fs::create_dir_all(&out).unwrap();
        std::fs::create_dir_all(at("threads")).unwrap();
        let mut made = Made::default();
        let change = |made: &mut Made, name: &str, change| {
            std::fs::write(at(name), name).unwrap();
            let on_disk = Some(at(name).to_string_lossy().into_owned());
            let mut changed: ChangedFile =
                serde_json::from_value(serde_json::json!({"path": name, "bytes": 1, "change": "edited"}))
                    .unwrap();
            (changed.on_disk, changed.change) = (on_disk, change);
            made.add_changed(&changed, &out, &own);
        };
        assert_eq!(made.take(&out), None, "nothing was made");
        change(&mut made, "threads/kept.md", ChangeKind::Created);
        change(&mut made, "ws/draft.md", ChangeKind::Created);
        assert_eq!(made.take(&out), None, "nothing for the person");
        change(&mut made, "b.md", ChangeKind::Edited);
        change(&mut made, "a.md", ChangeKind::Created);
        change(&mut made, "a.md", ChangeKind::Edited);
        change(&mut made, "gone.md", ChangeKind::Created);
        change(&mut made, "ws/out/c.md", ChangeKind::Replaced);
        std::fs::remove_file(at("gone.md")).unwrap();
        let Some(ChatEvent::Made { files, more: 0, directory: None, .. }) = made.take(&out) else {
            panic!("a list")
        };
        let name = |name: &str| at(name).to_string_lossy().into_owned();
        let told: Vec<_> = files.iter().map(|file| (file.how, file.name.clone())).collect();
        assert_eq!(
            told,
            [(How::Created, name("a.md")), (How::Replaced, name("ws/out/c.md")), (How::Edited, name("b.md"))]
        );
        assert_eq!(files[0].bytes, Some(4), "its size now");
        let gone = |made: &mut Made, name: &str| {
            let _ = std::fs::remove_file(at(name));
            made.add_project_files(&[RunSummaryProjectFile {
                path: at(name).to_string_lossy().into_owned(),
                is_new: false,
                is_removed: true,
            }]);
        };
        change(&mut made, "new.md", ChangeKind::Created);
        gone(&mut made, "new.md");
        assert_eq!(made.take(&out), None, "it came and went");
        change(&mut made, "a.md", ChangeKind::Edited);
        gone(&mut made, "a.md");
        gone(&mut made, "b.md");
        change(&mut made, "b.md", ChangeKind::Created);
        let Some(ChatEvent::Made { files, .. }) = made.take(&out) else { panic!("a list") };
        let told: Vec<_> = files.iter().map(|file| (file.how, file.name.clone(), file.bytes)).collect();
        assert_eq!(told, [(How::Replaced, name("b.md"), Some(4)), (How::Removed, name("a.md"), None)]);
        for number in 0..20 {
            change(&mut made, &format!("{number}.md"), ChangeKind::Created);
        }
        let Some(ChatEvent::Made { files, more, left_out, directory: None }) = made.take(&out) else {
            panic!("a list")
        };
        assert_eq!((files.len(), more), (MAX_LISTED, 20 - MAX_LISTED));
        assert_eq!(left_out, LeftOut { elsewhere: 20 - MAX_LISTED, ..LeftOut::default() });
        for number in 0..MAX_LISTED + 2 {
            change(&mut made, &format!("ws/out/{number}.md"), ChangeKind::Edited);
        }
        gone(&mut made, "19.md");
        let Some(ChatEvent::Made { left_out, directory: Some(_), .. }) = made.take(&out) else {
            panic!("a list")
        };
        assert_eq!(left_out, LeftOut { in_directory: 2, elsewhere: 1, saved: 0 });
    }
}
