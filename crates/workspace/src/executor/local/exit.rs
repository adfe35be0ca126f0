//! How a command in the local sandbox ended.

use rustix::process::WaitStatus;

use super::supervise::SandboxEnd;
use crate::command::{Command, Exit};
use crate::executor::ExecuteError;
use crate::executor::exit::{cut_warnings, exit_of_code, exit_with_memory};
use crate::warning::RunWarning;

/// The command never started, with the error output of the sandbox.
#[derive(Debug)]
pub(super) struct NotStarted(String);

impl NotStarted {
    /// The error for the caller.
    pub(super) fn explain(self, command: &Command) -> ExecuteError {
        if self.0.contains("Can't chdir to") {
            return ExecuteError::Refused(format!(
                "directory {:?} is not in the workspace",
                command.directory
            ));
        }
        ExecuteError::System { action: "set up the sandbox".to_owned(), error: std::io::Error::other(self.0) }
    }
}

/// How a command ended.
pub(super) fn exit(
    kept: &SandboxEnd,
    outside: Option<WaitStatus>,
    bare: bool,
    out_of_memory: bool,
    warnings: &mut Vec<RunWarning>,
) -> Result<Exit, NotStarted> {
    if !kept.gone {
        warnings.push(RunWarning::Hangs);
    }
    warnings.extend(cut_warnings(&kept.stdout, &kept.stderr));
    if let Some(verdict) = kept.verdict {
        return Ok(verdict);
    }
    let by_itself = match (kept.status.code, outside) {
        (Some(code), _) => exit_of_code(code),
        (None, Some(status)) if bare => match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => exit_of_code(code),
            (None, Some(signal)) => Exit::Signal(signal),
            (None, None) => Exit::Signal(libc::SIGKILL),
        },
        // Somebody killed bubblewrap, and with it everything inside.
        (None, Some(status)) if status.terminating_signal().is_some() => {
            Exit::Signal(status.terminating_signal().unwrap_or(libc::SIGKILL))
        }
        _ => return Err(NotStarted(String::from_utf8_lossy(&kept.stderr.head).trim().to_owned())),
    };
    Ok(exit_with_memory(by_itself, out_of_memory, warnings))
}
