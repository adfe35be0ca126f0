//! Reports the output of a command as progress of its tool call, while the command runs.
//!
//! A person reads it, no model does. Reports have whole lines, so that nobody sees a part of a character, or of a path that
//! must be replaced. A command can write without end: a report has the last lines, and comes ten times a second at most.

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prowess_workspace::executor::{OutputSink, Stream};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// How often output is reported.
const REPORT_EVERY: Duration = Duration::from_millis(100);
/// The most bytes of one report. Lines before the last ones are left out.
const MAX_REPORT: usize = 8 << 10;
/// The most bytes of a line. The rest of a longer line is left out.
const MAX_LINE: usize = 1 << 10;
/// Stands for what is left out.
const LEFT_OUT: &str = "…";

/// The output of a command that was not reported yet.
#[derive(Debug, Default)]
pub(crate) struct ReportedOutput {
    lines: Mutex<Lines>,
    has_lines: Notify,
}

impl ReportedOutput {
    /// Does the work, and reports what it writes until it is done.
    pub(crate) async fn reporting<T>(
        &self,
        progress: &(dyn Fn(&str) + Send + Sync),
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = pin!(work);
        let mut next = Instant::now();
        loop {
            let is_due = async {
                self.has_lines.notified().await;
                sleep_until(next).await;
            };
            tokio::select! {
                biased;
                done = &mut work => {
                    self.lock().end();
                    self.report(progress);
                    return done;
                }
                () = is_due => {
                    self.report(progress);
                    next = Instant::now() + REPORT_EVERY;
                }
            }
        }
    }

    fn report(&self, progress: &(dyn Fn(&str) + Send + Sync)) {
        let report = self.lock().take();
        if !report.trim().is_empty() {
            progress(&report);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutputSink for ReportedOutput {
    fn piece(&self, stream: Stream, bytes: &[u8]) {
        if self.lock().push(stream, bytes) {
            self.has_lines.notify_one();
        }
    }
}

/// The lines that wait for the next report, and the line of each stream that has not ended.
#[derive(Debug, Default)]
struct Lines {
    /// Whole lines, in the order in which they came.
    ready: Vec<u8>,
    has_left_out: bool,
    open: [Vec<u8>; 2],
}

impl Lines {
    /// Takes a piece of output. Returns whether a line has ended.
    fn push(&mut self, stream: Stream, piece: &[u8]) -> bool {
        let open = &mut self.open[usize::from(stream == Stream::Stderr)];
        let (lines, rest) = piece.split_at(end_of_lines(piece));
        let has_ended = !lines.is_empty() || (open.ends_with(b"\r") && !piece.starts_with(b"\n"));
        if has_ended {
            self.ready.append(open);
            self.ready.extend_from_slice(lines);
            if self.ready.len() > MAX_REPORT {
                let surplus = self.ready.len() - MAX_REPORT;
                let kept = self.ready[surplus - 1..].iter().position(|byte| is_end(*byte));
                self.ready.drain(..kept.map_or(self.ready.len(), |at| surplus + at));
                self.has_left_out = true;
            }
        }
        // One byte more says that the line is too long.
        let room = (MAX_LINE + 1).saturating_sub(open.len());
        open.extend_from_slice(&rest[..rest.len().min(room)]);
        has_ended
    }

    /// Nothing comes any more: what is open is a line.
    fn end(&mut self) {
        for open in &mut self.open {
            self.ready.append(open);
            if self.ready.last().is_some_and(|last| *last != b'\n') {
                self.ready.push(b'\n');
            }
        }
    }

    /// The lines that wait, without the last line break.
    fn take(&mut self) -> String {
        let ready = std::mem::take(&mut self.ready);
        let text = String::from_utf8_lossy(&ready);
        let mut report = String::with_capacity(text.len());
        if std::mem::take(&mut self.has_left_out) {
            report.push_str(LEFT_OUT);
            report.push('\n');
        }
        for line in text.lines() {
            // A command that draws on one line begins it again and again. Its last state counts.
            let line = line.rsplit('\r').find(|state| !state.is_empty()).unwrap_or_default();
            let kept = line.floor_char_boundary(MAX_LINE);
            report.push_str(&line[..kept]);
            if kept < line.len() {
                report.push_str(LEFT_OUT);
            }
            report.push('\n');
        }
        report.truncate(report.trim_end_matches('\n').len());
        report
    }
}

/// Where the last whole line ends. A carriage return at the very end can be the first half of a line break.
fn end_of_lines(piece: &[u8]) -> usize {
    let last = piece.iter().rposition(|byte| *byte == b'\n');
    let before_last = piece.len().saturating_sub(1);
    let drawn = piece[..before_last].iter().rposition(|byte| *byte == b'\r');
    last.max(drawn).map_or(0, |at| at + 1)
}

fn is_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All reports of pieces on standard output: one report after each piece, and one at the end.
    fn reports(pieces: &[&[u8]]) -> Vec<String> {
        let mut lines = Lines::default();
        let mut reports = Vec::new();
        for piece in pieces {
            lines.push(Stream::Stdout, piece);
            reports.push(lines.take());
        }
        lines.end();
        reports.push(lines.take());
        reports
    }

    #[test]
    fn a_report_has_whole_lines() {
        assert_eq!(reports(&[b"one\ntw", b"o\r\n\nthree"]), ["one", "two", "three"]);
        assert_eq!(reports(&["é\n".as_bytes().split_at(1).0, b"\xa9\n\xff\n"]), ["", "é\n\u{fffd}", ""]);
    }

    #[test]
    fn the_last_state_of_a_line_counts() {
        assert_eq!(
            reports(&[b"10 %\r", b"20 %\r30 %\r", b"\n", b"done\r\n"]),
            ["", "20 %", "30 %", "done", ""]
        );
        assert_eq!(reports(&[b"\r10 %", b"\r20 %", b"\r30 %"]), ["", "10 %", "20 %", "30 %"]);
        assert_eq!(reports(&[b"one\r", b"\ntwo\n"]), ["", "one\ntwo", ""]);
    }

    #[test]
    fn lines_of_both_streams_keep_their_order() {
        let mut lines = Lines::default();
        lines.push(Stream::Stdout, b"one\nfo");
        lines.push(Stream::Stderr, b"two\n");
        lines.push(Stream::Stdout, b"ur\n");
        lines.push(Stream::Stderr, b"five");
        lines.end();
        assert_eq!(lines.take(), "one\ntwo\nfour\nfive");
    }

    #[test]
    fn a_flood_is_bounded_and_its_last_lines_are_reported() {
        let mut lines = Lines::default();
        for number in 0..1_000_000 {
            lines.push(Stream::Stdout, format!("line {number}\n").as_bytes());
            assert!(lines.ready.capacity() < 4 * MAX_REPORT);
        }
        let report = lines.take();
        assert!(report.starts_with("…\nline 99") && report.ends_with("\nline 999999"), "{report}");
        assert!(report.len() <= MAX_REPORT + LEFT_OUT.len() + 1);
        assert_eq!(lines.take(), "");

        // A line without an end is not kept either.
        for _ in 0..100 {
            lines.push(Stream::Stdout, &[b'x'; 64 << 10]);
        }
        assert!(lines.open[0].len() <= MAX_LINE + 1);
        lines.push(Stream::Stdout, b"y\nafter\n");
        assert_eq!(lines.take(), format!("{}…\nafter", "x".repeat(MAX_LINE)));
        lines.push(Stream::Stdout, &["z".repeat(64 << 10).as_bytes(), b"\n"].concat());
        assert_eq!(lines.take(), "…");
    }

    #[tokio::test]
    async fn output_is_reported_while_the_command_runs() {
        let output = ReportedOutput::default();
        let reports = Mutex::new(Vec::new());
        let progress = |text: &str| reports.lock().unwrap().push(text.to_owned());
        let so_far = || reports.lock().unwrap().join("|");
        let work = async {
            output.piece(Stream::Stdout, b"one\n");
            while so_far() != "one" {
                tokio::task::yield_now().await;
            }
            // However much comes at once, it is one report.
            for _ in 0..50 {
                output.piece(Stream::Stdout, b"two\n");
            }
            while so_far() == "one" {
                tokio::task::yield_now().await;
            }
            assert_eq!(so_far(), format!("one|{}", vec!["two"; 50].join("\n")));
            output.piece(Stream::Stderr, b"the rest");
            "done"
        };
        assert_eq!(output.reporting(&progress, work).await, "done");
        assert!(so_far().ends_with("|the rest"));
    }
}
