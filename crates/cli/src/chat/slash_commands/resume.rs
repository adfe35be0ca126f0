//! `/resume`

use anyhow::Result;

use super::{Next, show_opened};
use crate::chat::conversation::Conversation;
use crate::terminal::{Style, printable, styled};
use crate::threads::{self, ago};

/// How many threads are listed.
const MAX_LISTED: usize = 20;

/// Lists the last threads.
pub(super) async fn list(conversation: &Conversation) -> Result<()> {
    let rows = rows(conversation).await?;
    let advice = match rows.is_empty() {
        true => "There are no threads yet.",
        false => "/resume THREAD continues one; the end of its name is enough.",
    };
    conversation.list(&rows)?;
    conversation.lines(&[advice.to_owned()])
}

/// Continues another thread, or reads this one again.
pub(super) async fn resume(conversation: &mut Conversation, wanted: &str) -> Result<Next> {
    let id = threads::find(&*conversation.agents.store, &conversation.agents.directory, wanted).await?;
    if id == *conversation.thread.id() {
        return Ok(Next::ReadAgain);
    }
    conversation.switch(id).await?;
    show_opened(conversation)?;
    let _ = conversation.go_on().await?;
    Ok(Next::Stay)
}

async fn rows(conversation: &Conversation) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for info in threads::all(&*conversation.agents.store).await?.into_iter().take(MAX_LISTED) {
        let begun = threads::beginning(&*conversation.agents.store, &info.id).await;
        let is_here = begun.directory.as_ref() == Some(&conversation.agents.directory);
        let place = match &begun.directory {
            Some(directory) if !is_here => format!(" in {}", printable(&directory.display().to_string())),
            _ => String::new(),
        };
        let mark =
            if info.id == *conversation.thread.id() { styled("+", Style::Good) } else { " ".to_owned() };
        lines.push(format!(
            "{mark} {}  {:<8}  {}{}",
            styled(&info.id, Style::Name),
            ago(info.changed),
            begun.title,
            styled(place, Style::Faint)
        ));
    }
    Ok(lines)
}
