//! Servers that are started: programs on this machine.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;

use super::printable::printable;
use super::stdio::ProgramStdio;

/// What a program finds of our environment: what programs need to run at all, and none of our keys.
const BASICS: [&str; 10] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"];
/// How much is kept of what a program writes to standard error, in bytes.
const MAX_STDERR: usize = 4096;
/// How much of that is told, in bytes.
const MAX_TOLD: usize = 300;
/// How long it may take until all of it was read, when a program has ended.
const LAST_MOMENT: Duration = Duration::from_millis(500);
/// How long a program may take to end when its input has.
const FAREWELL: Duration = Duration::from_secs(2);

/// A program that was started. It is killed, with all that it started in its group, when this goes.
pub(crate) struct Program {
    child: Child,
    group: Option<Pid>,
    last_words: LastWords,
}

/// The end of what a program wrote to standard error.
#[derive(Clone, Default)]
pub(crate) struct LastWords {
    /// Whether they are all, where there are any to be expected.
    ended: Option<watch::Receiver<bool>>,
    words: Arc<Mutex<Vec<u8>>>,
    /// Whether a message of it was too long to be read.
    said_too_much: Arc<AtomicBool>,
}

impl LastWords {
    /// What there is, to be added to a message of ours.
    pub(crate) fn told(&self) -> String {
        if self.said_too_much.load(Ordering::Relaxed) {
            return ": one of its messages is too long".to_owned();
        }
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        let end = words.len().saturating_sub(MAX_TOLD);
        let words = printable(&String::from_utf8_lossy(&words[end..]));
        if words.is_empty() { words } else { format!(" (it wrote: {words})") }
    }

    /// Waits a moment for a program that has just ended to be heard to its end.
    pub(crate) async fn settled(&self) {
        if let Some(mut ended) = self.ended.clone() {
            let _ = tokio::time::timeout(LAST_MOMENT, ended.wait_for(|ended| *ended)).await;
        }
    }

    pub(crate) fn said_too_much(&self) {
        self.said_too_much.store(true, Ordering::Relaxed);
    }

    fn add(&self, bytes: &[u8]) {
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        words.extend_from_slice(bytes);
        let surplus = words.len().saturating_sub(MAX_STDERR);
        words.drain(..surplus);
    }
}

impl Program {
    pub(crate) fn start(
        program: &OsString,
        args: &[OsString],
        env: &BTreeMap<OsString, OsString>,
        directory: Option<&Path>,
        message_bytes: usize,
    ) -> Result<(Self, ProgramStdio<ChildStdout, ChildStdin>), String> {
        let mut command = Command::new(program);
        command.args(args).env_clear();
        command.envs(BASICS.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.envs(env);
        if let Some(directory) = directory {
            command.current_dir(directory);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own: what it starts can be ended with it, and the terminal's Ctrl-C does not reach it.
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| {
            format!("`{}` cannot be started: {error}", printable(&program.to_string_lossy()))
        })?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (heard, ended) = watch::channel(false);
        let last_words = LastWords { ended: Some(ended), ..LastWords::default() };
        let started = Self { child, group, last_words: last_words.clone() };
        let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err("it has no standard streams".to_owned());
        };
        tokio::spawn(drain(stderr, last_words.clone(), heard));
        Ok((started, ProgramStdio::new(stdout, stdin, message_bytes, last_words)))
    }

    pub(crate) fn last_words(&self) -> LastWords {
        self.last_words.clone()
    }

    /// Waits for it to end by itself, now that its input has ended, and ends it if it does not.
    pub(crate) async fn end(mut self) {
        let _ = tokio::time::timeout(FAREWELL, self.child.wait()).await;
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            // There may be nobody left in it.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

async fn drain(mut stderr: ChildStderr, last_words: LastWords, heard: watch::Sender<bool>) {
    let mut buffer = [0; 1024];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        last_words.add(&buffer[..read]);
    }
    heard.send_replace(true);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_few() {
        let words = LastWords::default();
        assert_eq!(words.told(), "");
        words.add(&[b'x'; 3 * MAX_STDERR]);
        words.add(b"\nno such file\x1b[2J");
        assert_eq!(words.words.lock().unwrap().len(), MAX_STDERR);
        let told = words.told();
        assert!(told.ends_with(" no such file[2J)") && told.len() < 2 * MAX_TOLD, "{told}");
    }
}
