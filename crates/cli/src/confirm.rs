//! A question before something is removed.

use std::io::{BufRead as _, IsTerminal as _, Read as _, Write as _};

use anyhow::{Result, bail};

/// The longest answer that is read, in bytes.
const MAX_ANSWER: u64 = 1024;

/// Asks on the error stream whether to do something. Nothing but a clear yes is one; where nobody can be asked, it is an
/// error that says so.
pub(crate) fn confirm(question: &str) -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        bail!("nobody can be asked here, so nothing was removed: add --yes if it is to go");
    }
    let mut err = anstream::stderr();
    crate::terminal::forget_typed();
    write!(err, "{question} [y/N] ")?;
    err.flush()?;
    let mut line = String::new();
    std::io::stdin().lock().take(MAX_ANSWER).read_line(&mut line)?;
    Ok(matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
