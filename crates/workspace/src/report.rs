//! What became of a run.

use serde::Serialize;

use crate::artifact::ArtifactFile;
use crate::collect::CollectedFile;
use crate::command::{Captured, Exit, Finished, Sandbox};

/// What became of a run, as the model gets it. A command that failed or took too long is an answer too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RunReport {
    /// What the command wrote to standard output; where something was left out a line says how much.
    pub stdout: String,
    /// What it wrote to standard error, likewise.
    pub stderr: String,
    /// Its exit code; 128 and the signal's number when a signal ended it, 124 when its time was over.
    pub exit_code: i32,
    /// Whether it was killed because its time was over.
    pub timed_out: bool,
    /// How long it ran, in milliseconds.
    pub duration_ms: u64,
    /// The files that were asked for.
    pub output_files: Vec<CollectedFile>,
    /// The artifacts that were saved.
    pub artifact_files: Vec<ArtifactFile>,
    /// What else should be known: what was left out, which limit bit.
    pub warnings: Vec<String>,
    /// What held the command.
    pub sandbox: Sandbox,
}

impl RunReport {
    /// The report of a finished command, before its files are collected.
    pub(crate) fn of(finished: Finished, mut warnings: Vec<String>) -> Self {
        const KILLED: i32 = 128 + 9;
        let (exit_code, reason) = match finished.exit {
            Exit::Code(code) => (code, None),
            Exit::Signal(signal) => (128 + signal, None),
            Exit::TimedOut => (124, None),
            Exit::OutOfMemory => (KILLED, Some("it was killed: it used more memory than it may")),
            Exit::TooMuchOutput => (KILLED, Some("it was killed: it wrote more output than it may")),
            Exit::WorkspaceFull => (KILLED, Some("it was killed: the workspace is full")),
            Exit::Cancelled => (KILLED, Some("it was killed: it was cancelled")),
        };
        warnings.extend(reason.map(ToOwned::to_owned));
        warnings.extend(finished.warnings);
        Self {
            stdout: text(&finished.stdout),
            stderr: text(&finished.stderr),
            exit_code,
            timed_out: finished.exit == Exit::TimedOut,
            duration_ms: u64::try_from(finished.duration.as_millis()).unwrap_or(u64::MAX),
            output_files: Vec::new(),
            artifact_files: Vec::new(),
            warnings,
            sandbox: finished.sandbox,
        }
    }
}

/// What was kept of a stream as text. Bytes that are no UTF-8 become replacement characters.
fn text(captured: &Captured) -> String {
    let head = String::from_utf8_lossy(&captured.head);
    match captured.left_out() {
        0 => format!("{head}{}", String::from_utf8_lossy(&captured.tail)),
        bytes => {
            format!("{head}\n[… {bytes} bytes left out …]\n{}", String::from_utf8_lossy(&captured.tail))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_said() {
        let whole = Captured { head: b"all\xff".to_vec(), tail: Vec::new(), total: 4 };
        assert_eq!(text(&whole), "all\u{fffd}");
        let cut = Captured { head: b"begin".to_vec(), tail: b"end".to_vec(), total: 1008 };
        assert_eq!(text(&cut), "begin\n[… 1000 bytes left out …]\nend");
    }
}
