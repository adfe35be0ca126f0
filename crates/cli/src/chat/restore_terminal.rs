//! A program that is told to end leaves the terminal as it was, and keeps what a person was typing.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use tokio::signal::unix::{SignalKind, signal};

use super::unsent_message::UnsentMessage;

/// Signals that end the program, with their numbers. The thread is where it was stored last, as after any end.
const ENDING: [(SignalKind, i32); 3] =
    [(SignalKind::hangup(), 1), (SignalKind::quit(), 3), (SignalKind::terminate(), 15)];
/// Shows the cursor, and ends what keeps the screen still and what marks pasted text.
const AS_IT_WAS: &[u8] = b"\x1b[?25h\x1b[?2026l\x1b[?2004l";

/// Remembers how the terminal is, and puts it back when a signal ends the program. What was typed is found again in
/// `history`.
pub(super) fn on_signals(history: &Path, unsent: &Arc<UnsentMessage>) -> Result<()> {
    let input = std::io::stdin();
    // What is no terminal needs nothing.
    let Ok(was) = tcgetattr(&input) else { return Ok(()) };
    for (kind, number) in ENDING {
        let mut told = signal(kind).context("signals cannot be caught")?;
        let (was, history, unsent) = (was.clone(), history.to_owned(), Arc::clone(unsent));
        tokio::spawn(async move {
            told.recv().await;
            let _rescued = unsent.rescue(&history);
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &was);
            let _ = std::io::stdout().write_all(AS_IT_WAS).and_then(|()| std::io::stdout().flush());
            std::process::exit(128 + number);
        });
    }
    Ok(())
}
