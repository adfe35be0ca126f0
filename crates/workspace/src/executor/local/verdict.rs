//! How a command ended, from all that was seen of its end.

use rustix::process::WaitStatus;

use super::supervise::Kept;
use crate::command::{Command, Exit};
use crate::executor::ExecuteError;

/// Signals that end a program that does nothing about them. Others are not what a code above 128 means.
const DEADLY: [i32; 16] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGKILL,
    libc::SIGSEGV,
    libc::SIGPIPE,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGXCPU,
    libc::SIGXFSZ,
    libc::SIGSYS,
];

/// The command never began: what was said about it.
#[derive(Debug)]
pub(super) struct Never(String);

impl Never {
    /// Says whose fault it was.
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
    kept: &Kept,
    outside: Option<WaitStatus>,
    bare: bool,
    out_of_memory: bool,
    warnings: &mut Vec<String>,
) -> Result<Exit, Never> {
    if !kept.gone {
        warnings.push("a killed process hangs in the kernel and may still be there".to_owned());
    }
    for (name, captured) in [("stdout", &kept.stdout), ("stderr", &kept.stderr)] {
        let left_out = captured.left_out();
        if left_out > 0 {
            warnings.push(format!("{name}: {left_out} bytes in its middle were left out"));
        }
    }
    if let Some(verdict) = kept.verdict {
        return Ok(verdict);
    }
    let by_itself = match (kept.status.code, outside) {
        (Some(code), _) => told(code),
        (None, Some(status)) if bare => match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => told(code),
            (None, Some(signal)) => Exit::Signal(signal),
            (None, None) => Exit::Signal(libc::SIGKILL),
        },
        // Someone killed bubblewrap, which kills all inside.
        (None, Some(status)) if status.terminating_signal().is_some() => {
            Exit::Signal(status.terminating_signal().unwrap_or(libc::SIGKILL))
        }
        _ => return Err(Never(String::from_utf8_lossy(&kept.stderr.head).trim().to_owned())),
    };
    match (out_of_memory, by_itself) {
        (true, Exit::Code(0)) => {
            warnings.push("a process was killed because it used too much memory".to_owned());
            Ok(by_itself)
        }
        (true, _) => Ok(Exit::OutOfMemory),
        (false, _) => Ok(by_itself),
    }
}

/// A code as bubblewrap and shells tell it: above 128 it is a signal.
fn told(code: i32) -> Exit {
    match code - 128 {
        signal if DEADLY.contains(&signal) => Exit::Signal(signal),
        _ => Exit::Code(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_above_128_are_signals() {
        assert_eq!(told(137), Exit::Signal(9));
        assert_eq!(told(143), Exit::Signal(15));
        assert_eq!(
            [told(0), told(1), told(127), told(128), told(255)],
            [0, 1, 127, 128, 255].map(Exit::Code)
        );
    }
}
