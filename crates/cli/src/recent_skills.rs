//! The skills that the user used recently, for the order of the overview.
//!
//! They are kept in a file of the state directory, which several processes can use. A loss does no harm, so a damaged file
//! counts as empty, and the next use replaces it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use prowess_catalog::SkillEntry;
use prowess_skills::uses::{SkillUses, UsedSkill};
use serde::{Deserialize, Serialize};

use crate::directories;

/// The name of the file in the state directory.
const FILE: &str = "recent-skills.json";
const VERSION: u64 = 1;
/// The most skills that are kept.
const MAX_RECENT: usize = 50;
/// The longest name and the longest root of a skill that are kept, in bytes. Together the skills are below [`MAX_BYTES`].
const MAX_NAME: usize = 256;
const MAX_ROOT: usize = 4096;
/// The largest file that is read.
const MAX_BYTES: u64 = 1 << 20;
/// How long the end of a command waits until the last uses are stored.
const PATIENCE: Duration = Duration::from_secs(2);

/// When a process asks for the order again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Whenever a session needs it: its own uses count.
    Current,
    /// Once, at the start.
    Fixed,
    /// Once, at the start, and uses are not stored.
    ReadOnly,
}

/// The skills that the user used recently, the last one first.
#[derive(Debug)]
pub(crate) struct RecentSkills {
    path: Option<PathBuf>,
    order: Order,
    skills: Mutex<Vec<UsedSkill>>,
    /// Stores uses on a thread of its own, because a session cannot wait.
    writer: OnceLock<Mutex<Sender<Message>>>,
}

enum Message {
    Used(UsedSkill),
    /// Reply when everything before it is stored.
    Flush(Sender<()>),
}

#[derive(Serialize, Deserialize)]
struct Stored {
    version: u64,
    skills: Vec<UsedSkill>,
}

impl RecentSkills {
    /// The skills of this user.
    pub(crate) fn of_user(order: Order) -> Arc<Self> {
        Self::at(directories::state().map(|state| state.join(FILE)), order)
    }

    fn at(path: Option<PathBuf>, order: Order) -> Arc<Self> {
        let skills = path.as_deref().map(read).unwrap_or_default();
        Arc::new(Self { path, order, skills: Mutex::new(skills), writer: OnceLock::new() })
    }

    /// Waits until all uses are stored.
    pub(crate) fn flush(&self) {
        let Some(writer) = self.writer.get() else { return };
        let (done, stored) = channel();
        if writer.lock().unwrap_or_else(PoisonError::into_inner).send(Message::Flush(done)).is_ok() {
            // A process that holds the lock and does not move must not keep this one.
            let _ = stored.recv_timeout(PATIENCE);
        }
    }

    fn store(&self, used: UsedSkill) {
        let Some(path) = &self.path else { return };
        let writer = self.writer.get_or_init(|| {
            let (sender, receiver) = channel();
            let path = path.clone();
            std::thread::spawn(move || write_all(&path, &receiver));
            Mutex::new(sender)
        });
        // If the thread is gone, the use is lost, which does no harm.
        let _ = writer.lock().unwrap_or_else(PoisonError::into_inner).send(Message::Used(used));
    }
}

impl SkillUses for RecentSkills {
    fn note(&self, entry: &SkillEntry) {
        // The project's skills come first anyway. So no project can push other skills out of the list.
        if self.order == Order::ReadOnly || entry.root.kind.belongs_to_project() {
            return;
        }
        let used = UsedSkill::of(entry);
        if used.name.len() > MAX_NAME || used.root.len() > MAX_ROOT {
            return;
        }
        if self.order == Order::Current {
            put_first(&mut self.skills.lock().unwrap_or_else(PoisonError::into_inner), used.clone());
        }
        self.store(used);
    }

    fn recent(&self) -> Vec<UsedSkill> {
        self.skills.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn put_first(skills: &mut Vec<UsedSkill>, used: UsedSkill) {
    skills.retain(|other| *other != used);
    skills.insert(0, used);
    skills.truncate(MAX_RECENT);
}

/// The skills in the file; none if it does not exist or cannot be used.
fn read(path: &Path) -> Vec<UsedSkill> {
    // Checked before it is opened, because opening a FIFO waits for a writer.
    if !fs::metadata(path).is_ok_and(|found| found.is_file()) {
        return Vec::new();
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
    let stored = read.ok().and_then(|_| serde_json::from_slice::<Stored>(&bytes).ok());
    let mut skills =
        stored.filter(|stored| stored.version == VERSION).map_or_else(Vec::new, |stored| stored.skills);
    skills.truncate(MAX_RECENT);
    skills
}

/// Stores uses as they come.
fn write_all(path: &Path, messages: &Receiver<Message>) {
    while let Ok(first) = messages.recv() {
        let (mut used, mut waiting) = (Vec::new(), Vec::new());
        for message in std::iter::once(first).chain(messages.try_iter()) {
            match message {
                Message::Used(skill) => used.push(skill),
                Message::Flush(done) => waiting.push(done),
            }
        }
        if !used.is_empty()
            && let Err(error) = update(path, used)
        {
            tracing::debug!(%error, "The used skills were not stored");
        }
        // Whoever waited may be gone.
        for done in waiting {
            let _ = done.send(());
        }
    }
}

/// Adds uses to the file, the last one last. Uses of other processes stay.
fn update(path: &Path, used: Vec<UsedSkill>) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        directories::make_directory(directory)?;
    }
    let lock = private().create(true).open(path.with_extension("json.lock"))?;
    lock.lock()?;
    let mut skills = read(path);
    used.into_iter().for_each(|used| put_first(&mut skills, used));
    let fresh = path.with_extension("json.new");
    // A leftover of a crash; the lock is held.
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = private().create_new(true).open(&fresh)?;
    serde_json::to_writer(&mut file, &Stored { version: VERSION, skills })?;
    file.write_all(b"\n")?;
    fs::rename(&fresh, path)
}

/// Options for writing a file that only the user can read.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

#[cfg(test)]
mod tests {
    use prowess_catalog::{Catalog, Root, RootKind, ScanOptions};

    use super::*;

    fn used(name: &str) -> UsedSkill {
        UsedSkill { name: name.to_owned(), root: "/skills".to_owned() }
    }

    fn names(path: &Path) -> Vec<String> {
        read(path).into_iter().map(|skill| skill.name).collect()
    }

    #[test]
    fn the_last_use_is_first_and_the_list_is_bounded() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("state").join(FILE);
        assert_eq!(names(&path), [""; 0]);
        update(&path, vec![used("a"), used("b"), used("a")]).unwrap();
        update(&path, vec![used("c")]).unwrap();
        assert_eq!(names(&path), ["c", "a", "b"]);
        update(&path, (0..200).map(|number| used(&format!("n{number}"))).collect()).unwrap();
        assert_eq!(names(&path).len(), MAX_RECENT);
        assert_eq!(names(&path)[0], "n199");
    }

    #[test]
    fn a_damaged_file_counts_as_empty_and_is_replaced() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(FILE);
        for damaged in ["", "{", "[]", r#"{"version": 9, "skills": []}"#, r#"{"version": 1, "skills": [1]}"#]
        {
            fs::write(&path, damaged).unwrap();
            assert_eq!(names(&path), [""; 0], "{damaged}");
            update(&path, vec![used("a")]).unwrap();
            assert_eq!(names(&path), ["a"], "{damaged}");
        }
    }

    #[test]
    fn no_use_is_lost_if_several_write_at_once() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(FILE);
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let path = &path;
                scope.spawn(move || {
                    for number in 0..10 {
                        update(path, vec![used(&format!("{writer}-{number}"))]).unwrap();
                    }
                });
            }
        });
        assert_eq!(names(&path).len(), 40);
    }

    #[test]
    fn uses_of_a_project_are_not_kept_and_an_order_can_be_fixed() {
        let place = tempfile::tempdir().unwrap();
        for name in ["mine", "theirs"] {
            let directory = place.path().join(name).join(name);
            fs::create_dir_all(&directory).unwrap();
            let manifest = format!("---\nname: {name}\ndescription: Does what its name says.\n---\nDo it.\n");
            fs::write(directory.join("SKILL.md"), manifest).unwrap();
        }
        let root = |name: &str, kind| Root::new(place.path().join(name), kind, name);
        let roots = [root("mine", RootKind::User), root("theirs", RootKind::Project)];
        let catalog = Catalog::discover(&roots, &ScanOptions::default());
        let path = place.path().join(FILE);
        for (order, now) in [(Order::Current, 1), (Order::Fixed, 0), (Order::ReadOnly, 0)] {
            let _ = fs::remove_file(&path);
            let recent = RecentSkills::at(Some(path.clone()), order);
            catalog.entries().iter().for_each(|entry| recent.note(entry));
            recent.flush();
            assert_eq!(recent.recent().len(), now, "{order:?}");
            let stored: &[&str] = if order == Order::ReadOnly { &[] } else { &["mine"] };
            assert_eq!(names(&path), stored, "{order:?}");
        }
    }
}
