//! What became of a run.

mod room;

use serde::Serialize;

use crate::artifact::ArtifactFile;
use crate::collect::CollectedFile;
use crate::command::{Exit, Finished, Sandbox};
use crate::warning::RunWarning;

pub use room::MAX_REPORT_BYTES;
pub(crate) use room::ReportRoom;

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
    /// Whether anything in this report was cut: output, files, or which files there are.
    pub truncated: bool,
    /// The files that were asked for.
    pub output_files: Vec<CollectedFile>,
    /// The artifacts that were saved.
    pub artifact_files: Vec<ArtifactFile>,
    /// What else should be known: what was left out, which limit bit.
    pub warnings: Vec<RunWarning>,
    /// What held the command.
    pub sandbox: Sandbox,
}

impl RunReport {
    /// The report of a finished command, before its files are collected.
    pub(crate) fn of(finished: Finished, mut warnings: Vec<RunWarning>) -> Self {
        const KILLED: i32 = 128 + 9;
        let exit_code = match finished.exit {
            Exit::Code(code) => code,
            Exit::Signal(signal) => 128 + signal,
            Exit::TimedOut => 124,
            Exit::OutOfMemory | Exit::TooMuchOutput | Exit::WorkspaceFull | Exit::Cancelled => KILLED,
        };
        // That its time was over has a field of its own.
        if finished.exit.killed_because().is_some() && finished.exit != Exit::TimedOut {
            warnings.push(RunWarning::Killed(finished.exit));
        }
        warnings.extend(finished.warnings);
        let truncated = finished.stdout.left_out() + finished.stderr.left_out() > 0;
        Self {
            stdout: finished.stdout.text(),
            stderr: finished.stderr.text(),
            exit_code,
            timed_out: finished.exit == Exit::TimedOut,
            duration_ms: u64::try_from(finished.duration.as_millis()).unwrap_or(u64::MAX),
            truncated,
            output_files: Vec::new(),
            artifact_files: Vec::new(),
            warnings,
            sandbox: finished.sandbox,
        }
    }
}
