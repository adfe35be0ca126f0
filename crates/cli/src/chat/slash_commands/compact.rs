//! `/compact`

use anyhow::Result;
use prowess_agent::Thread;
use prowess_agent::middleware::Compaction;

use super::note;
use crate::chat::conversation::{Conversation, Precision};
use crate::chat::describe;
use crate::terminal::count;

/// Summarises the conversation, and says how many tokens that saved.
pub(super) async fn compact(conversation: &mut Conversation) -> Result<()> {
    let before = conversation.window_use(Precision::Estimate).await?.total();
    let text = match conversation.compact().await? {
        Some(Compaction::Done { .. }) => {
            let after = conversation.window_use(Precision::Estimate).await?.total();
            let saved = if after < before { "" } else { "; this saved none" };
            format!("{} tokens before, {} now{saved}", describe::tokens(before), describe::tokens(after))
        }
        Some(Compaction::Failed { why }) => format!("nothing was summarised: {why}"),
        Some(_) => format!("nothing was summarised: {}", too_short(&conversation.thread)),
        None => "stopped: nothing was summarised".to_owned(),
    };
    note(conversation, text)
}

/// Why there is nothing to summarise.
fn too_short(thread: &Thread) -> String {
    let run = thread.state();
    let messages = run.messages().len() - run.cut();
    if messages == 0 {
        return "the conversation is empty".to_owned();
    }
    let since = if run.cut() > 0 { "since the last summary " } else { "" };
    let are = if messages == 1 { "is" } else { "are" };
    // A tool's answer stays together with its call.
    format!("{since}there {are} {}, and the last one always stays", count(messages, "message"))
}
