//! Servers that are started: programs on this machine.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::transport::async_rw::AsyncRwTransport;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::shown::shown;

/// What a program finds of our environment: what programs need to run at all, and none of our keys.
const BASICS: [&str; 10] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"];
/// How much is kept of what a program writes to standard error, in bytes.
const MAX_STDERR: usize = 4096;
/// How much of that is told, in bytes.
const MAX_TOLD: usize = 300;
/// How long a program may take to end when its input has.
const FAREWELL: Duration = Duration::from_secs(2);

/// A program that was started. It is killed, with all that it started in its group, when this goes.
pub(crate) struct Program {
    child: Child,
    group: Option<Pid>,
    last_words: LastWords,
}

/// How the program is spoken to.
pub(crate) type Pipes = AsyncRwTransport<RoleClient, Bounded<ChildStdout>, ChildStdin>;

/// The end of what a program wrote to standard error.
#[derive(Clone, Default)]
pub(crate) struct LastWords {
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
        let words = shown(&String::from_utf8_lossy(&words[end..]));
        if words.is_empty() { words } else { format!(" (it wrote: {words})") }
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
    ) -> Result<(Self, Pipes), String> {
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
        let mut child = command
            .spawn()
            .map_err(|error| format!("`{}` cannot be started: {error}", shown(&program.to_string_lossy())))?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let last_words = LastWords::default();
        let started = Self { child, group, last_words: last_words.clone() };
        let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err("it has no standard streams".to_owned());
        };
        tokio::spawn(drain(stderr, last_words.clone()));
        let stdout = Bounded::new(stdout, message_bytes, last_words.said_too_much);
        let pipes = AsyncRwTransport::new_client(stdout, stdin);
        Ok((started, pipes.with_max_line_length(message_bytes)))
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

async fn drain(mut stderr: ChildStderr, last_words: LastWords) {
    let mut buffer = [0; 1024];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        last_words.add(&buffer[..read]);
    }
}

/// A reader that fails at a line that is too long: whoever waits for it is told at once.
pub(crate) struct Bounded<R> {
    reader: R,
    line: usize,
    most: usize,
    has_failed: Arc<AtomicBool>,
}

impl<R> Bounded<R> {
    fn new(reader: R, most: usize, has_failed: Arc<AtomicBool>) -> Self {
        Self { reader, line: 0, most, has_failed }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Bounded<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.reader).poll_read(context, buffer))?;
        for piece in buffer.filled()[before..].split_inclusive(|byte| *byte == b'\n') {
            self.line += piece.len();
            if self.line > self.most {
                self.has_failed.store(true, Ordering::Relaxed);
                return Poll::Ready(Err(std::io::Error::other("a message is too long")));
            }
            if piece.ends_with(b"\n") {
                self.line = 0;
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_that_is_too_long_ends_the_reading() {
        let mut text = String::new();
        let mut fine = Bounded::new(&b"1234\n1234\n\n1234"[..], 5, Arc::default());
        fine.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "1234\n1234\n\n1234");
        let mut long = Bounded::new(&b"12\n123456"[..], 5, Arc::default());
        assert!(long.read_to_string(&mut text).await.is_err());
    }

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
