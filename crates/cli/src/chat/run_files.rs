//! Names the files that runs write, and the commands that get saved artifacts.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use prowess_agent::id::CallId;
use prowess_agent::tool::ChangedFile;
use prowess_base::text::exact_line;
use prowess_permission::real_path::real_path;
use prowess_skills::RunSummary;
use prowess_workspace::Scope;
use prowess_workspace::artifact::ArtifactFile;
use prowess_workspace::tree::{PROJECT, WORK};

use super::events::ChatEvent;
use super::made::{LeftOut, Made};
use super::tree::THREAD_FILES;
use crate::artifacts::get_command;
use crate::terminal::count;
use crate::workspace_dir::WorkspaceDir;

/// The directory for results in a workspace.
const OUT: &str = "out";
/// How many files of one run are named.
const MAX_NAMED: usize = 20;
/// How many changes of one run that were not copied back are named.
const MAX_NOTICES: usize = 8;
/// How many directory entries are read: a run can write anything.
const MAX_ENTRIES: usize = 2_000;
const MAX_DEPTH: usize = 4;

/// Knows the files that the runs of a thread write, and what the current turn made.
#[derive(Debug)]
pub(crate) struct RunFiles {
    workspace: PathBuf,
    /// The directory of files stored with the thread. The model sees them in its workspace.
    thread_files: PathBuf,
    /// The real paths of the directories in which the agent keeps files for itself.
    own: Vec<PathBuf>,
    made: Made,
    /// The scope of saved artifacts.
    scope: Scope,
    workspace_dir: WorkspaceDir,
    /// Files that were named already, with their times. Parallel runs share a workspace.
    told: BTreeMap<String, SystemTime>,
}

impl RunFiles {
    /// A path that the model sees, as a person knows it: from the working directory, or on the disk. `None` if it is not one
    /// of the tree.
    pub(super) fn for_person(&self, path: &str) -> Option<String> {
        let below = |place: &str| {
            path.strip_prefix(place)
                .filter(|rest| rest.is_empty() || rest.starts_with('/'))
                .map(|rest| rest.trim_matches('/'))
        };
        match (below(PROJECT), below(WORK)) {
            (Some(""), _) => Some(".".to_owned()),
            (Some(inside), _) => Some(inside.to_owned()),
            (None, Some(inside)) => {
                let first = inside.split('/').next().unwrap_or_default();
                let is_kept = THREAD_FILES.contains(&first);
                let place = if is_kept { &self.thread_files } else { &self.workspace };
                Some(place.join(inside).to_string_lossy().into_owned())
            }
            (None, None) => None,
        }
    }

    /// For runs that work in this directory. `thread_files` are stored with the thread.
    pub(super) fn new(
        workspace: PathBuf,
        thread_files: &Path,
        scope: Scope,
        workspace_dir: WorkspaceDir,
    ) -> Self {
        let own = vec![real_path(&workspace), real_path(thread_files)];
        let (made, told) = (Made::default(), BTreeMap::new());
        let thread_files = thread_files.to_owned();
        Self { workspace, thread_files, own, made, scope, workspace_dir, told }
    }

    /// A call changed a file.
    pub(super) fn changed(&mut self, file: &ChangedFile) {
        let out = real_path(&self.workspace.join(OUT));
        self.made.add_changed(file, &out, &self.own);
    }

    /// What the turn made, if it made anything.
    pub(super) fn take_made(&mut self) -> Option<ChatEvent> {
        self.made.take(&self.workspace.join(OUT))
    }

    /// The files of a run: those it returned, those it wrote since it started, and saved artifacts.
    pub(super) fn of_run(
        &mut self,
        call: &CallId,
        ran: &RunSummary,
        since: Option<SystemTime>,
    ) -> Vec<ChatEvent> {
        let mut files: BTreeMap<String, u64> = BTreeMap::new();
        for file in ran.files.iter().filter(|file| is_below(&file.name)) {
            files.insert(file.name.clone(), file.bytes);
        }
        if let Some(since) = since {
            self.written(since, &mut files);
        }
        let unnamed = files.keys().skip(MAX_NAMED);
        let in_directory = unnamed.filter(|name| Path::new(name).starts_with(OUT)).count();
        let left_out = LeftOut {
            in_directory,
            elsewhere: files.len().saturating_sub(MAX_NAMED) - in_directory + ran.more_project_files,
            saved: ran.artifacts.len().saturating_sub(MAX_NAMED),
        };
        let mut events: Vec<ChatEvent> =
            files.into_iter().take(MAX_NAMED).map(|(name, bytes)| self.file(call, name, bytes)).collect();
        let saved = ran.artifacts.iter().take(MAX_NAMED);
        let saved = saved.map(|saved| ArtifactFile { name: saved.name.clone(), version: saved.version });
        events.extend(saved.map(|saved| ChatEvent::File {
            call: call.clone(),
            fetch: Some(get_command(&self.scope, &saved, &self.workspace_dir)),
            name: format!("{}@{}", saved.name, saved.version),
            path: None,
            bytes: None,
        }));
        self.made.add_run(&events, left_out);
        self.made.add_project_files(&ran.project_files);
        events.extend(self.not_copied_back(ran));
        events
    }

    /// Notices about changes that were not copied back to the project.
    fn not_copied_back(&self, ran: &RunSummary) -> impl Iterator<Item = ChatEvent> {
        let workspace = format!(" is at {}/", self.workspace.display());
        let named = ran.not_copied_back.iter().take(MAX_NOTICES).map(move |change| {
            let reason = change.reason.replace(&format!(" is at {WORK}/"), &workspace);
            format!("{} was not copied back to the project: {reason}", exact_line(&change.path))
        });
        let more = ran.not_copied_back.len().saturating_sub(MAX_NOTICES) + ran.more_not_copied_back;
        let more =
            (more > 0).then(|| format!("{} not copied back to the project", were(more, "more change")));
        named.chain(more).map(|text| ChatEvent::Note { text })
    }

    fn file(&self, call: &CallId, name: String, bytes: u64) -> ChatEvent {
        let path = self.workspace.join(&name).display().to_string();
        ChatEvent::File { call: call.clone(), name, path: Some(path), bytes: Some(bytes), fetch: None }
    }

    /// Adds result files that were written since then and not named before, even if the run returned none.
    fn written(&mut self, since: SystemTime, files: &mut BTreeMap<String, u64>) {
        let (mut room, mut pending) = (MAX_ENTRIES, vec![(self.workspace.join(OUT), 0)]);
        while let Some((directory, depth)) = pending.pop() {
            for entry in std::fs::read_dir(directory).into_iter().flatten().flatten().take(room) {
                room -= 1;
                // Neither call follows a link.
                let (Ok(kind), Ok(found)) = (entry.file_type(), entry.metadata()) else { continue };
                if kind.is_dir() && depth < MAX_DEPTH {
                    pending.push((entry.path(), depth + 1));
                    continue;
                }
                let Some(written) =
                    found.modified().ok().filter(|written| kind.is_file() && *written >= since)
                else {
                    continue;
                };
                let path = entry.path();
                let Ok(name) = path.strip_prefix(&self.workspace) else { continue };
                let name = name.to_string_lossy().into_owned();
                if self.told.insert(name.clone(), written) != Some(written) {
                    files.entry(name).or_insert(found.len());
                }
            }
        }
    }
}

/// A number of things, as the subject of a sentence about the past.
fn were(number: usize, what: &str) -> String {
    format!("{} {}", count(number, what), if number == 1 { "was" } else { "were" })
}

/// Whether a name stays below the workspace.
fn is_below(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    !name.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prowess_skills::run_summary::{RunSummaryArtifact, RunSummaryFile};

    use super::*;

    fn names(events: &[ChatEvent]) -> Vec<String> {
        let name = |event: &ChatEvent| match event {
            ChatEvent::File { name, path, fetch, .. } => {
                assert!(path.is_some() != fetch.is_some());
                name.clone()
            }
            other => panic!("{other:?}"),
        };
        events.iter().map(name).collect()
    }

    #[test]
    fn files_of_a_run_are_named_whether_they_were_asked_for_or_not() {
        let place = tempfile::tempdir().unwrap();
        let out = place.path().join("out");
        std::fs::create_dir_all(out.join("a/b")).unwrap();
        std::os::unix::fs::symlink("/etc", out.join("link")).unwrap();
        std::os::unix::fs::symlink("/etc/hosts", out.join("hosts")).unwrap();
        std::fs::write(out.join("a/b/new.txt"), "new").unwrap();
        let old = std::fs::File::create(out.join("old.txt")).unwrap();
        let since = SystemTime::now() - Duration::from_secs(60);
        old.set_modified(since - Duration::from_secs(1)).unwrap();
        let (thread_files, scope) = (place.path().join("threads"), Scope::user());
        let mut files = RunFiles::new(place.path().to_owned(), &thread_files, scope, WorkspaceDir::default());
        let asked = |name: &str| RunSummaryFile { name: name.to_owned(), bytes: 2 };
        let mut answer = RunSummary::default();
        answer.files = vec![asked("out/asked.txt"), asked("../x")];
        answer.artifacts = vec![RunSummaryArtifact { name: "it's".to_owned(), version: 3 }];
        let call = CallId::from("c");
        let mut after = |ran: &RunSummary| files.of_run(&call, ran, Some(since));
        assert_eq!(names(&after(&answer)), ["out/a/b/new.txt", "out/asked.txt", "it's@3"]);
        let mut ended = RunSummary::default();
        ended.exit_code = 1;
        assert!(after(&ended).is_empty(), "nothing is named twice");
        std::fs::write(out.join("a/b/newer.txt"), "newer").unwrap();
        assert_eq!(names(&after(&ended)), ["out/a/b/newer.txt"]);
        for number in 0..2 * MAX_ENTRIES {
            std::fs::write(out.join(format!("{number}.txt")), "").unwrap();
        }
        let many = after(&ended);
        assert_eq!(many.len(), MAX_NAMED);
        let Some(ChatEvent::Made { files: listed, more, directory, .. }) = files.take_made() else {
            panic!("a list")
        };
        assert!(listed[0].name.ends_with("out/a/b/new.txt"), "{listed:?}");
        assert!(more > MAX_ENTRIES - 100 && directory.is_some_and(|place| place.ends_with("/out")));
    }
}
