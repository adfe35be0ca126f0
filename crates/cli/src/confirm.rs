//! Yes-or-no questions on the terminal.

use std::io::{BufRead, IsTerminal as _, Read as _, Write as _};

use anyhow::{Result, bail};

use crate::rows::folded;

/// The longest reply that is read, in bytes.
const MAX_REPLY: u64 = 1024;

/// The reply to a yes-or-no question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confirmation {
    Yes,
    /// Anything that is not a clear yes.
    No,
    /// The input ended before there was a reply.
    NoReply,
}

/// Whether a person can be asked: standard input and standard error are terminals.
pub(crate) fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks whether to remove something. Fails if nobody can be asked.
pub(crate) fn confirm(question: &str) -> Result<bool> {
    if !can_ask() {
        bail!("nothing was removed: there is no terminal to ask on; add --yes to remove without asking");
    }
    Ok(ask(&[question], &mut std::io::stdin().lock())? == Confirmation::Yes)
}

/// Asks on the error stream. Text typed before the question is not taken as its reply.
pub(crate) fn ask(lines: &[&str], replies: &mut impl BufRead) -> Result<Confirmation> {
    let mut err = anstream::stderr();
    crate::terminal::discard_typed_input();
    let width = crate::terminal::screen_width();
    let question = format!("{} [y/N]", lines.join("\n"));
    let rows: Vec<String> = question.split('\n').flat_map(|line| folded(line, width)).collect();
    // In one write, so that the echo of a quick reply comes after the question.
    err.write_all(format!("{} ", rows.join("\n")).as_bytes())?;
    err.flush()?;
    let mut line = String::new();
    replies.take(MAX_REPLY).read_line(&mut line)?;
    Ok(match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Confirmation::Yes,
        _ if line.ends_with('\n') => Confirmation::No,
        _ => Confirmation::NoReply,
    })
}
