//! Restores the terminal and saves the unsent message when a signal ends the program.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use tokio::signal::unix::{SignalKind, signal};

use super::unsent_message::UnsentMessage;

/// Signals that end the program, with their numbers. The thread is already stored.
const ENDING: [(SignalKind, i32); 3] =
    [(SignalKind::hangup(), 1), (SignalKind::quit(), 3), (SignalKind::terminate(), 15)];
/// Shows the cursor, and ends synchronized updates and marked pastes.
const AS_IT_WAS: &[u8] = b"\x1b[?25h\x1b[?2026l\x1b[?2004l";

/// Restores the terminal when a signal ends the program, and adds the unsent message to `history`.
pub(super) fn on_signals(history: &Path, unsent: &Arc<UnsentMessage>) -> Result<()> {
    let input = std::io::stdin();
    // Without a terminal there is nothing to restore.
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
