//! `/context` and `/context tools`

use anyhow::Result;

use crate::chat::context_usage::{Row, rows, source, tool_rows};
use crate::chat::conversation::{Conversation, Precision};
use crate::chat::describe;
use crate::chat::events::ChatEvent;
use crate::terminal::{Style, printable, styled};

/// The columns of a number of tokens.
const TOKENS: usize = 6;

/// What `/context` lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::chat) enum Listed {
    /// All parts of the request.
    Parts,
    /// Each tool.
    Tools,
}

/// Shows a row with the sum, and a row for each part of the context window. `--json` prints the parts as data.
pub(super) async fn show(conversation: &mut Conversation, listed: Listed) -> Result<()> {
    let used = conversation.window_use(Precision::Provider).await?;
    conversation.show(&ChatEvent::window(&used))?;
    let rows = match listed {
        Listed::Parts => rows(&used),
        Listed::Tools => tool_rows(&used),
    };
    let width = |row: &Row| row.what.chars().count() + if row.is_inner { 2 } else { 0 };
    let widest = rows.iter().map(width).max().unwrap_or(0);
    let line = |what: &str, tokens: u64, note: &str| {
        let note = if note.is_empty() { String::new() } else { format!("  {}", styled(note, Style::Faint)) };
        format!("  {what:<widest$}  {:>TOKENS$}{note}", describe::tokens(tokens))
    };
    let source = source(&used);
    let of_window = used.window.map_or_else(
        || format!("tokens, {source}; model.context_window is not set"),
        |window| {
            let percent = used.total() * 100 / window.max(1);
            format!("of {} tokens, {percent} %, {source}", describe::tokens(window))
        },
    );
    conversation.lines(&[line("total", used.total(), &of_window)])?;
    // The columns of a note, after the name, the tokens, and two spaces before each.
    let room = conversation.width().map(|width| width.saturating_sub(widest + TOKENS + 6));
    let rows: Vec<String> = rows
        .iter()
        .map(|row| {
            let indent = if row.is_inner { "  " } else { "" };
            line(&format!("{indent}{}", printable(&row.what)), row.tokens, &row.note.within(room))
        })
        .collect();
    conversation.list(&rows)
}
