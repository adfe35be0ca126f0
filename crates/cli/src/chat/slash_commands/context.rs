//! `/context`

use anyhow::Result;

use crate::chat::conversation::Conversation;
use crate::chat::describe;
use crate::terminal::{Style, printable, styled};

/// A row for each part of the context window, and a row with their sum.
pub(super) async fn rows(conversation: &mut Conversation) -> Result<(Vec<String>, String)> {
    let usage = conversation.context_usage().await?;
    let widest = usage.rows.iter().map(|row| row.what.chars().count()).max().unwrap_or(0);
    let line = |what: &str, tokens: u64, note: &str| {
        let note = if note.is_empty() { String::new() } else { format!("  {}", styled(note, Style::Faint)) };
        format!("  {what:<widest$}  {:>8}{note}", describe::tokens(tokens))
    };
    let lines = usage.rows.iter().map(|row| line(&printable(&row.what), row.tokens, &row.note)).collect();
    let of_window = usage.window.map_or_else(
        || "tokens, estimated; model.context_window is not set".to_owned(),
        |window| {
            let percent = usage.total * 100 / window.max(1);
            format!("of {} tokens, {percent} %, estimated", describe::tokens(window))
        },
    );
    Ok((lines, line("total", usage.total, &of_window)))
}
