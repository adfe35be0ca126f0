//! A workspace and an executor for tests.

use std::path::{Path, PathBuf};
use std::time::Duration;

use prowess_workspace::executor::NoSink;
use prowess_workspace::executor::local::{LocalExecutor, LocalOptions, sandbox_owner};
use prowess_workspace::{Command, Executor as _, Finished};
use tempfile::TempDir;

/// A workspace and an executor.
pub(crate) struct Home {
    directory: TempDir,
    pub(crate) executor: LocalExecutor,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self::with(LocalOptions::default())
    }

    pub(crate) fn with(options: LocalOptions) -> Self {
        let directory = tempfile::tempdir().unwrap();
        lay_out(directory.path());
        Self { directory, executor: LocalExecutor::new(options) }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A command in `work/`, with enough time for a busy machine.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(self.path(), "work", line);
        command.limits.timeout = Duration::from_secs(60);
        command.limits.grace = Duration::from_millis(300);
        command
    }

    pub(crate) async fn run(&self, line: &str) -> Finished {
        self.finish(self.command(line)).await
    }

    pub(crate) async fn finish(&self, command: Command) -> Finished {
        self.executor.run(command, &NoSink).await.unwrap()
    }

    /// Everything that a command writes.
    pub(crate) async fn says(&self, line: &str) -> String {
        let finished = self.run(line).await;
        text(&finished)
    }
}

/// Everything that a command wrote, and how it ended.
pub(crate) fn text(finished: &Finished) -> String {
    let (out, err) =
        (String::from_utf8_lossy(&finished.stdout.head), String::from_utf8_lossy(&finished.stderr.head));
    format!("{out}{err}")
}

/// Makes the directories of a workspace, for the user that commands run as.
pub(crate) fn lay_out(workspace: &Path) {
    for part in ["skills", "work", "out", "runs"] {
        std::fs::create_dir(workspace.join(part)).unwrap();
    }
    if let Some((user, group)) = sandbox_owner() {
        for part in [".", "work", "out", "runs"] {
            std::os::unix::fs::chown(workspace.join(part), Some(user), Some(group)).unwrap();
        }
    }
}

/// The processes of this machine with a word in their command lines, except this one.
pub(crate) fn processes_with(word: &str) -> Vec<PathBuf> {
    let all = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    all.filter(|process| {
        let line = std::fs::read(process.join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word)
    })
    .collect()
}

/// A unique word.
pub(crate) fn unique(word: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    format!("{word}-{}-{now:x}", std::process::id())
}
