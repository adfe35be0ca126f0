//! What no executor runs.

use super::ExecuteError;
use super::environment::MAX_STRING;
use super::place::check_relative;
use crate::command::Command;

/// Refuses paths that lead out of the workspace, and words that no system passes to a program.
pub(super) fn check_command(command: &Command) -> Result<(), ExecuteError> {
    let refuse = |why: String| Err(ExecuteError::Refused(why));
    check_relative("directory", &command.directory)?;
    for (_, to) in &command.read_only {
        check_relative("input", to)?;
    }
    if command.line.len() > MAX_STRING || command.line.contains('\0') {
        return refuse(format!(
            "the command is longer than {MAX_STRING} bytes or contains NUL; put it into a file"
        ));
    }
    if !command.shell.starts_with('/') || command.shell.contains('\0') {
        return refuse(format!("shell {:?} must be an absolute path", command.shell));
    }
    Ok(())
}
