//! Starts servers that are programs on this machine.

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

use super::short_line::short_line;
use super::stdio::ProgramStdio;

/// The variables of our environment that a program gets: those that programs need to run, and no keys.
const BASICS: [&str; 10] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"];
/// How many of the last bytes on a program's standard error are kept.
const MAX_STDERR: usize = 4096;
/// How many of those bytes a message shows.
const MAX_SHOWN: usize = 300;
/// How long the client waits for the rest of standard error after a program has ended.
const WAIT_FOR_STDERR: Duration = Duration::from_millis(500);
/// How long a program may take to end after its input has ended.
const WAIT_FOR_END: Duration = Duration::from_secs(2);

/// A program that was started. Dropping it kills the program and its process group.
pub(crate) struct Program {
    child: Child,
    group: Option<Pid>,
    stderr_tail: StderrTail,
}

/// The last bytes that a program wrote to standard error.
#[derive(Clone, Default)]
pub(crate) struct StderrTail {
    /// Whether standard error has ended. `None` if there is no program.
    ended: Option<watch::Receiver<bool>>,
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Whether one of its messages was too long to read.
    message_too_long: Arc<AtomicBool>,
}

impl StderrTail {
    /// What the program wrote, as an addition to an error message.
    pub(crate) fn describe(&self) -> String {
        if self.message_too_long.load(Ordering::Relaxed) {
            return ": one of its messages is too long".to_owned();
        }
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let end = bytes.len().saturating_sub(MAX_SHOWN);
        let text = short_line(&String::from_utf8_lossy(&bytes[end..]));
        if text.is_empty() { text } else { format!(" (it wrote: {text})") }
    }

    /// Waits a moment for the rest of standard error of a program that has just ended.
    pub(crate) async fn wait(&self) {
        if let Some(mut ended) = self.ended.clone() {
            let _ = tokio::time::timeout(WAIT_FOR_STDERR, ended.wait_for(|ended| *ended)).await;
        }
    }

    pub(crate) fn message_too_long(&self) {
        self.message_too_long.store(true, Ordering::Relaxed);
    }

    fn add(&self, bytes: &[u8]) {
        let mut kept = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(bytes);
        let surplus = kept.len().saturating_sub(MAX_STDERR);
        kept.drain(..surplus);
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
        // Its own process group: its children end with it, and Ctrl-C in the terminal does not reach it.
        command.process_group(0).kill_on_drop(true);
        let mut child = command
            .spawn()
            .map_err(|error| format!("cannot start `{}`: {error}", short_line(&program.to_string_lossy())))?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (heard, ended) = watch::channel(false);
        let stderr_tail = StderrTail { ended: Some(ended), ..StderrTail::default() };
        let started = Self { child, group, stderr_tail: stderr_tail.clone() };
        let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err("it has no standard streams".to_owned());
        };
        tokio::spawn(drain(stderr, stderr_tail.clone(), heard));
        Ok((started, ProgramStdio::new(stdout, stdin, message_bytes, stderr_tail)))
    }

    pub(crate) fn stderr_tail(&self) -> StderrTail {
        self.stderr_tail.clone()
    }

    /// Waits for the program to end after its input has ended, then kills it.
    pub(crate) async fn end(mut self) {
        let _ = tokio::time::timeout(WAIT_FOR_END, self.child.wait()).await;
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            // The group may be empty.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

async fn drain(mut stderr: ChildStderr, stderr_tail: StderrTail, heard: watch::Sender<bool>) {
    let mut buffer = [0; 1024];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        stderr_tail.add(&buffer[..read]);
    }
    heard.send_replace(true);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_standard_error_is_kept() {
        let tail = StderrTail::default();
        assert_eq!(tail.describe(), "");
        tail.add(&[b'x'; 3 * MAX_STDERR]);
        tail.add(b"\nno such file\x1b[2J");
        assert_eq!(tail.bytes.lock().unwrap().len(), MAX_STDERR);
        let text = tail.describe();
        assert!(text.ends_with(" no such file[2J)") && text.len() < 2 * MAX_SHOWN, "{text}");
    }
}
