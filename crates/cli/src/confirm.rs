//! Questions that a person at a terminal answers with yes or no.

use std::io::{BufRead, IsTerminal as _, Read as _, Write as _};

use anyhow::{Result, bail};

use crate::rows::folded;

/// The longest answer that is read, in bytes.
const MAX_ANSWER: u64 = 1024;

/// What a person said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confirmation {
    Yes,
    /// Anything that is not a clear yes.
    No,
    /// The input ended before there was an answer.
    NoReply,
}

/// Whether somebody can be asked: a person sees the question and can type.
pub(crate) fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks whether to remove something. If nobody can be asked, it is an error that says so.
pub(crate) fn confirm(question: &str) -> Result<bool> {
    if !can_ask() {
        bail!("nothing was removed: there is no terminal to ask on; add --yes to remove without asking");
    }
    Ok(ask(&[question], &mut std::io::stdin().lock())? == Confirmation::Yes)
}

/// Asks on the error stream. What was typed before the question is not its answer.
pub(crate) fn ask(lines: &[&str], answers: &mut impl BufRead) -> Result<Confirmation> {
    let mut err = anstream::stderr();
    crate::terminal::discard_typed_input();
    let width = terminal_size::terminal_size().map_or(usize::MAX, |(width, _)| usize::from(width.0));
    let question = format!("{} [y/N]", lines.join("\n"));
    let rows: Vec<String> = question.split('\n').flat_map(|line| folded(line, width)).collect();
    // In one piece: the echo of an answer that comes at once stands behind the question, and not in the middle.
    err.write_all(format!("{} ", rows.join("\n")).as_bytes())?;
    err.flush()?;
    let mut line = String::new();
    answers.take(MAX_ANSWER).read_line(&mut line)?;
    Ok(match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Confirmation::Yes,
        _ if line.ends_with('\n') => Confirmation::No,
        _ => Confirmation::NoReply,
    })
}
