//! The report of a run.

mod room;

use serde::Serialize;

use crate::artifact::ArtifactFile;
use crate::collect::CollectedFile;
use crate::command::{Exit, Finished, Sandbox};
use crate::warning::RunWarning;
use crate::writable::ChangedProjectFile;

pub use room::MAX_REPORT_BYTES;
pub(crate) use room::ReportRoom;

/// The report of a run, as the model gets it. A command that failed or took too long also has a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RunReport {
    /// The standard output of the command. A line says how much was left out.
    pub stdout: String,
    /// The standard error of the command, in the same form.
    pub stderr: String,
    /// The exit code: 128 plus the number of a signal, or 124 after a timeout.
    pub exit_code: i32,
    /// Whether the command was killed by its timeout.
    pub timed_out: bool,
    /// How long the command ran, in milliseconds.
    pub duration_ms: u64,
    /// Whether anything in this report was cut: output, files, or the list of files.
    pub truncated: bool,
    /// The collected files.
    pub output_files: Vec<CollectedFile>,
    /// The saved artifacts.
    pub artifact_files: Vec<ArtifactFile>,
    /// The files of the project that the run changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub project_files: Vec<ChangedProjectFile>,
    /// Warnings: what was left out, and which limit was reached.
    pub warnings: Vec<RunWarning>,
    /// The sandbox of the command.
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
        // A timeout has its own field.
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
            project_files: Vec::new(),
            warnings,
            sandbox: finished.sandbox,
        }
    }
}
