//! What the commands of a conversation do.

use anyhow::{Context as _, Result, bail};
use prowess_agent::Thread;
use prowess_agent::message::Content;
use prowess_agent::middleware::Compaction;
use prowess_agent::middleware::SkillsState;

use super::fork as threads;
use super::{COMMANDS, Command};
use crate::chat::conversation::Conversation;
use crate::chat::events::ChatEvent;
use crate::chat::thread_directory::ThreadDirectory;
use crate::chat::{describe, model};
use crate::terminal::{Style, count, printable, printable_start, styled};
use crate::threads::{self as kept, ago};

/// How much of a description is shown.
const MAX_DESCRIPTION: usize = 80;
/// How many threads are listed.
const MAX_LISTED: usize = 20;

/// What comes after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::chat) enum Next {
    /// The conversation goes on.
    Stay,
    /// The thread has to be opened again, for another agent.
    Reopen,
    /// The same, because another process may have gone on with it.
    Again,
}

/// Does what a command says. An error leaves the conversation as it was.
pub(in crate::chat) async fn act(conversation: &mut Conversation, command: Command) -> Result<Next> {
    match command {
        Command::Help => conversation.lines(&help())?,
        Command::Skills => {
            let (rows, advice) = skills(conversation);
            conversation.list(&rows)?;
            conversation.lines(&advice)?;
        }
        Command::Context => {
            let (rows, sum) = context(conversation).await?;
            conversation.list(&rows)?;
            conversation.lines(&[sum])?;
        }
        Command::Compact => compact(conversation).await?,
        Command::Unload { skill } => unload(conversation, &skill).await?,
        Command::Model { name: None } => {
            let name = conversation.agents.model.name().to_owned();
            note(conversation, format!("{name} answers; /model PROVIDER:NAME takes another"))?;
        }
        Command::Model { name: Some(name) } => {
            other_model(conversation, &name)?;
            return Ok(Next::Reopen);
        }
        Command::Resume { thread: None } => {
            let rows = listed(conversation).await?;
            let advice = match rows.is_empty() {
                true => "There is no thread yet.",
                false => "/resume THREAD goes on with one; its end is enough.",
            };
            conversation.list(&rows)?;
            conversation.lines(&[advice.to_owned()])?;
        }
        Command::Resume { thread: Some(thread) } => {
            let id = kept::find(&conversation.agents.store, &conversation.agents.directory, &thread).await?;
            if id == *conversation.thread.id() {
                return Ok(Next::Again);
            }
            conversation.switch(id).await?;
            begun(conversation)?;
            let _ = conversation.go_on().await?;
        }
        Command::Fork => {
            let from = conversation.thread.id().clone();
            let copy = threads::fork(&conversation.agents, &conversation.thread).await?;
            conversation.switch(copy).await?;
            note(conversation, format!("this is {} now, a copy of {from}", conversation.thread.id()))?;
        }
        Command::Export { file } => {
            let path =
                kept::export(conversation.thread.id(), conversation.thread.run(), file.map(Into::into))?;
            note(conversation, format!("the conversation is in {}", path.display()))?;
        }
        Command::New => {
            let name = threads::name(&conversation.agents).await?;
            conversation.switch(name).await?;
            begun(conversation)?;
            note(conversation, format!("this is {} now", conversation.thread.id()))?;
        }
        // Whoever reads lines ends with it.
        Command::Quit => {}
    }
    Ok(Next::Stay)
}

fn note(conversation: &Conversation, text: String) -> Result<()> {
    conversation.show(&ChatEvent::Note { text })
}

/// The thread that is open, and who answers in it.
pub(in crate::chat) fn opened(conversation: &Conversation) -> ChatEvent {
    let (id, model) = (conversation.thread.id().clone(), conversation.agents.model.name().to_owned());
    ChatEvent::Thread { id, model, messages: conversation.thread.run().messages().len() }
}

/// Says which thread it is, and what was said last in it.
pub(in crate::chat) fn begun(conversation: &Conversation) -> Result<()> {
    let messages = conversation.thread.run().messages().len();
    conversation.show(&opened(conversation))?;
    if messages == 0 {
        return Ok(());
    }
    // Who gave a prompt knows where it goes, but `last` may have been in another directory.
    if conversation.input.is_some() {
        note(conversation, format!("thread {}, {}", conversation.thread.id(), count(messages, "message")))?;
    }
    let place = ThreadDirectory::of(conversation.thread.states())
        .filter(|place| **place != conversation.agents.directory);
    if let Some(place) = place {
        note(
            conversation,
            format!("it was in {}; its files are those of this directory now", place.display()),
        )?;
    }
    if conversation.input.is_some() {
        last_words(&conversation.thread).into_iter().try_for_each(|line| note(conversation, line))?;
    }
    Ok(())
}

/// What the person and the model said last, in a line each.
fn last_words(thread: &Thread) -> Vec<String> {
    let messages = thread.run().messages().iter().rev();
    let mut said = messages.filter(|message| !message.text().trim().is_empty());
    let of_person = said.clone().find(|message| message.is_by_person());
    let of_model = said.find(|message| matches!(message.content, Content::Assistant { .. }));
    let line = |who: &str, text: String| format!("{who} {}", printable_start(text.trim(), MAX_DESCRIPTION));
    let of_person = of_person.map(|message| line("you:", message.text()));
    of_person.into_iter().chain(of_model.map(|message| line("model:", message.text()))).collect()
}

fn help() -> Vec<String> {
    let mut lines = vec!["Say what you want done, or:".to_owned()];
    for (command, after, what) in COMMANDS {
        let left = format!("{command} {after}");
        lines.push(format!("  {}  {what}", styled(format!("{left:<18}"), Style::Name)));
    }
    lines.push(format!(
        "  {}  start a skill yourself",
        styled(format!("{:<18}", "/SKILL [ARGUMENTS]"), Style::Name)
    ));
    lines.push("Alt-Enter, or \\ at the end of a line, begins another line.".to_owned());
    lines.push("Lines that you type during a turn wait for its end. Up takes the last one back.".to_owned());
    lines.push("Ctrl-C stops the turn, Ctrl-D leaves, Tab completes.".to_owned());
    lines
}

/// A row for every skill, and what to know besides.
fn skills(conversation: &Conversation) -> (Vec<String>, Vec<String>) {
    let (catalog, visible_skills) = (conversation.agents.catalog(), conversation.agents.visible_skills());
    let loaded = SkillsState::of(conversation.thread.states()).map(SkillsState::loaded).unwrap_or_default();
    let mut lines = Vec::new();
    for entry in visible_skills.view().entries() {
        let name = entry.skill.name.as_str();
        let tokens = loaded.iter().find(|skill| skill.name == name).map(|skill| skill.tokens);
        let mark = tokens.map_or_else(|| " ".to_owned(), |_| styled("+", Style::Good));
        let note = tokens.map(|tokens| format!(" ({} tokens)", describe::tokens(tokens as u64)));
        let description = printable_start(&entry.skill.description, MAX_DESCRIPTION);
        lines.push(format!(
            "{mark} {}{}  {}",
            styled(printable(name), Style::Name),
            note.unwrap_or_default(),
            styled(description, Style::Faint)
        ));
    }
    let mut advice = Vec::new();
    if lines.is_empty() {
        advice.push("There are no skills here; `prowess new NAME` makes one.".to_owned());
    }
    advice.extend(visible_skills.denied_line());
    let untrusted = catalog.untrusted().len();
    if untrusted > 0 {
        advice.push(format!(
            "{} of this project not shown to the model: `prowess trust` says what they are",
            count(untrusted, "skill")
        ));
    }
    (lines, advice)
}

/// A row for everything that is in the window, and their sum.
async fn context(conversation: &mut Conversation) -> Result<(Vec<String>, String)> {
    let usage = conversation.context_usage().await?;
    let widest = usage.rows.iter().map(|row| row.what.chars().count()).max().unwrap_or(0);
    let line = |what: &str, tokens: u64, note: &str| {
        let note = if note.is_empty() { String::new() } else { format!("  {}", styled(note, Style::Faint)) };
        format!("  {what:<widest$}  {:>8}{note}", describe::tokens(tokens))
    };
    let lines = usage.rows.iter().map(|row| line(&printable(&row.what), row.tokens, &row.note)).collect();
    let of_window = usage.window.map_or_else(
        || "tokens, about; model.window is not set".to_owned(),
        |window| {
            let percent = usage.total * 100 / window.max(1);
            format!("of {} tokens, {percent} %, about", describe::tokens(window))
        },
    );
    Ok((lines, line("all", usage.total, &of_window)))
}

async fn compact(conversation: &mut Conversation) -> Result<()> {
    let before = conversation.context_usage().await?.total;
    let text = match conversation.compact().await? {
        Some(Compaction::Done { .. }) => {
            let after = conversation.context_usage().await?.total;
            format!("{} tokens before, {} now", describe::tokens(before), describe::tokens(after))
        }
        Some(Compaction::Failed { why }) => format!("nothing was summarised: {why}"),
        Some(_) => format!("nothing was summarised: {}", too_short(&conversation.thread)),
        None => "stopped: nothing was summarised".to_owned(),
    };
    note(conversation, text)
}

/// Why there is nothing to summarise.
fn too_short(thread: &Thread) -> String {
    let run = thread.run();
    let messages = run.messages().len() - run.cut();
    if messages == 0 {
        return "nothing has been said yet".to_owned();
    }
    let since = if run.cut() > 0 { "since the last summary " } else { "" };
    let are = if messages == 1 { "is" } else { "are" };
    // With the call that it answers.
    format!("{since}there {are} {}, and the last one always stays", count(messages, "message"))
}

async fn unload(conversation: &mut Conversation, skill: &str) -> Result<()> {
    let loaded = SkillsState::of(conversation.thread.states()).map(SkillsState::loaded).unwrap_or_default();
    if !loaded.iter().any(|known| known.name == skill) {
        let names: Vec<&str> = loaded.iter().map(|skill| skill.name.as_str()).collect();
        let loaded = if names.is_empty() { "none is".to_owned() } else { format!("{} is", names.join(", ")) };
        bail!("`{}` is not loaded; {loaded}", printable_start(skill, 64));
    }
    conversation.unload(skill).await
}

/// Takes another model, or says why it cannot be taken.
fn other_model(conversation: &mut Conversation, name: &str) -> Result<()> {
    let taken = name.parse().map_err(anyhow::Error::msg);
    let taken = taken.and_then(|name| {
        let before = std::mem::replace(&mut conversation.agents.config.settings.model.name, name);
        model::chosen(&conversation.agents.config.settings)
            .inspect_err(|_| conversation.agents.config.settings.model.name = before)
    });
    conversation.agents.model =
        taken.with_context(|| format!("`{}` cannot be taken", printable_start(name, 64)))?;
    note(conversation, format!("{} answers from now on", conversation.agents.model.name()))
}

async fn listed(conversation: &Conversation) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for info in kept::all(&conversation.agents.store).await?.into_iter().take(MAX_LISTED) {
        let begun = kept::beginning(&conversation.agents.store, &info.id).await;
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
