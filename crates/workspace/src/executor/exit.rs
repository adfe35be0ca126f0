//! Translates exit codes, for all executors.

use super::Stream;
use crate::command::{Captured, Exit};
use crate::warning::RunWarning;

/// Signals that end a program by default. A code above 128 means one of these.
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

/// The exit for a code from a sandbox or shell: above 128 it is a signal.
pub(super) fn exit_of_code(code: i32) -> Exit {
    match code - 128 {
        signal if DEADLY.contains(&signal) => Exit::Signal(signal),
        _ => Exit::Code(code),
    }
}

/// The exit of a command whose processes may have been killed for their memory.
pub(super) fn exit_with_memory(by_itself: Exit, out_of_memory: bool, warnings: &mut Vec<RunWarning>) -> Exit {
    match (out_of_memory, by_itself) {
        (true, Exit::Code(0)) => {
            warnings.push(RunWarning::ProcessOutOfMemory);
            by_itself
        }
        (true, _) => Exit::OutOfMemory,
        (false, _) => by_itself,
    }
}

/// Warnings for output that was left out.
pub(super) fn cut_warnings(stdout: &Captured, stderr: &Captured) -> Vec<RunWarning> {
    let streams = [(Stream::Stdout, stdout.left_out()), (Stream::Stderr, stderr.left_out())];
    let lacking = streams.into_iter().filter(|(_, bytes)| *bytes > 0);
    lacking.map(|(stream, bytes)| RunWarning::OutputCut { stream, bytes }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_above_128_are_signals() {
        assert_eq!(exit_of_code(137), Exit::Signal(9));
        assert_eq!(exit_of_code(143), Exit::Signal(15));
        assert_eq!(
            [exit_of_code(0), exit_of_code(1), exit_of_code(127), exit_of_code(128), exit_of_code(255)],
            [0, 1, 127, 128, 255].map(Exit::Code)
        );
    }
}
