//! Signals that ask the process to end.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a shell adds to the number of the signal that ended a program.
const ENDED_BY: u8 = 128;
/// The signals, with their numbers.
const ASKING: [(SignalKind, u8); 3] =
    [(SignalKind::hangup(), 1), (SignalKind::interrupt(), 2), (SignalKind::terminate(), 15)];

/// The signals, caught as long as the process lives.
#[derive(Debug)]
pub(crate) struct Signals {
    caught: Vec<(Signal, u8)>,
}

impl Signals {
    /// Catches the signals, except those that the parent set to be ignored, as `nohup` does.
    pub(crate) fn catch() -> io::Result<Self> {
        let ignored = ignored(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
        let asking = ASKING.iter().filter(|(_, number)| ignored >> (number - 1) & 1 == 0);
        let caught = asking.map(|(kind, number)| Ok((signal(*kind)?, *number)));
        Ok(Self { caught: caught.collect::<io::Result<_>>()? })
    }

    /// Waits for a signal and returns its exit code.
    pub(crate) async fn code(&mut self) -> u8 {
        std::future::poll_fn(|context| {
            let mut came = self.caught.iter_mut();
            let came =
                came.find_map(|(signal, number)| signal.poll_recv(context).is_ready().then_some(*number));
            came.map_or(std::task::Poll::Pending, |number| std::task::Poll::Ready(ENDED_BY + number))
        })
        .await
    }
}

/// The ignored signals of a process, one bit each, from /proc/self/status.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_read() {
        assert_eq!(ignored("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\tff\n"), 0x1001);
        assert_eq!(ignored("Name:\tx\n"), 0);
    }
}
