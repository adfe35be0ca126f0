//! The slash commands of a chat, one file each.

mod add;
mod agents;
mod compact;
mod context;
mod export;
mod fork;
mod help;
mod kit;
mod model;
mod new;
mod parse;
mod resume;
mod skills;
mod unload;

use anyhow::Result;
use prowess_agent::Thread;
use prowess_agent::message::Content;

use self::context::Listed;
pub(super) use self::new::new_thread_id;
pub(super) use self::parse::Line;
use super::conversation::Conversation;
use super::events::ChatEvent;
use super::thread_directory::ThreadDirectory;
use crate::terminal::{count, printable_start};

/// How many characters of a description or a message are shown.
const MAX_DESCRIPTION: usize = 80;

/// A slash command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    Skills { words: Option<String> },
    Add { arguments: String },
    Agents,
    Context(Listed),
    Compact,
    Unload { skill: Option<String> },
    Kit { kits: Option<Vec<String>> },
    Model { name: Option<String> },
    Resume { thread: Option<String> },
    Fork,
    Export { file: Option<String> },
    New,
    Quit,
}

/// Each command, its argument, and what it does.
pub(super) const COMMANDS: [(&str, &str, &str); 14] = [
    ("/help", "", "show this list"),
    ("/skills", "[WORDS]", "list the skills, and which are loaded, or search them"),
    ("/add", "[-g] SOURCE", "install skills from a repository, an archive, a web site or a directory"),
    ("/agents", "", "list the sub-agents that are defined"),
    ("/context", "[tools]", "show what fills the model's context window, or each tool"),
    ("/compact", "", "summarise the conversation now; loaded skills stay"),
    ("/unload", "[SKILL]", "say which skills are loaded, or take one out of the conversation"),
    ("/kit", "[NAME…|off]", "list the kits, or show the model only the skills of some"),
    ("/model", "[NAME]", "show the model, or switch to another: PROVIDER:NAME or offline"),
    ("/resume", "[THREAD]", "list the threads, or continue another one"),
    ("/fork", "", "continue in a copy of this thread"),
    ("/export", "[FILE]", "write the conversation to a file: .md or .json"),
    ("/new", "", "start a new thread"),
    ("/quit", "", "leave; the thread is kept"),
];

/// The commands with an argument that Tab completes.
pub(super) fn with_known_arguments(conversation: &Conversation) -> Vec<String> {
    let unload = unload::names(conversation).into_iter().map(|skill| format!("/unload {skill}"));
    let kit = kit::choices(conversation).into_iter().map(|kit| format!("/kit {kit}"));
    unload.chain(kit).chain(["/context tools".to_owned()]).collect()
}

/// What the chat does after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It continues.
    Stay,
    /// It opens the thread again, because the agent has changed.
    Reopen,
    /// It reads the thread again, because another process may have continued it.
    ReadAgain,
}

/// Carries out a command. After an error the conversation is as it was.
pub(super) async fn execute(conversation: &mut Conversation, command: Command) -> Result<Next> {
    match command {
        Command::Help => conversation.lines(&help::lines())?,
        Command::Skills { words } => {
            let (rows, advice) = skills::rows(conversation, words.as_deref());
            conversation.list(&rows)?;
            conversation.lines(&advice)?;
        }
        Command::Add { arguments } => add::add(conversation, &arguments).await?,
        Command::Agents => agents::show(conversation)?,
        Command::Context(listed) => context::show(conversation, listed).await?,
        Command::Compact => compact::compact(conversation).await?,
        Command::Unload { skill: None } => note(conversation, unload::loaded(conversation))?,
        Command::Unload { skill: Some(skill) } => unload::unload(conversation, &skill).await?,
        Command::Kit { kits: None } => {
            let (rows, line) = kit::rows(conversation);
            conversation.list(&rows)?;
            conversation.lines(&[line])?;
        }
        Command::Kit { kits: Some(kits) } => {
            kit::choose(conversation, &kits)?;
            return Ok(Next::Reopen);
        }
        Command::Model { name: None } => model::show(conversation)?,
        Command::Model { name: Some(name) } => {
            model::switch(conversation, &name)?;
            return Ok(Next::Reopen);
        }
        Command::Resume { thread: None } => resume::list(conversation).await?,
        Command::Resume { thread: Some(thread) } => return resume::resume(conversation, &thread).await,
        Command::Fork => fork::fork(conversation).await?,
        Command::Export { file } => export::export(conversation, file)?,
        Command::New => new::start(conversation).await?,
        // The loop that reads lines ends with it.
        Command::Quit => {}
    }
    Ok(Next::Stay)
}

fn note(conversation: &Conversation, text: String) -> Result<()> {
    conversation.show(&ChatEvent::Note { text })
}

/// The event that says which thread is open, and which model is used in it.
pub(super) fn thread_event(conversation: &Conversation) -> ChatEvent {
    let (id, model) = (conversation.thread.id().clone(), conversation.agents.model.name().to_owned());
    ChatEvent::Thread { id, model, messages: conversation.thread.state().messages().len() }
}

/// Says which thread is open, and what was said last in it.
pub(super) fn show_opened(conversation: &Conversation) -> Result<()> {
    let messages = conversation.thread.state().messages().len();
    conversation.show(&thread_event(conversation))?;
    if messages == 0 {
        return Ok(());
    }
    // With a PROMPT only a change of directory is news: `last` may have worked elsewhere.
    if conversation.input.is_some() {
        note(conversation, format!("thread {}, {}", conversation.thread.id(), count(messages, "message")))?;
    }
    let place = ThreadDirectory::of(conversation.thread.states())
        .filter(|place| **place != conversation.agents.directory);
    if let Some(place) = place {
        note(
            conversation,
            format!(
                "this thread worked in {} before; now its files are those of this directory",
                place.display()
            ),
        )?;
    }
    if conversation.input.is_some() {
        last_messages(&conversation.thread).into_iter().try_for_each(|line| note(conversation, line))?;
    }
    Ok(())
}

/// The last message of the person and of the model, one line each.
fn last_messages(thread: &Thread) -> Vec<String> {
    let messages = thread.state().messages().iter().rev();
    let mut said = messages.filter(|message| !message.text().trim().is_empty());
    let of_person = said.clone().find(|message| message.is_by_person());
    let of_model = said.find(|message| matches!(message.content, Content::Assistant { .. }));
    let line = |who: &str, text: String| format!("{who} {}", printable_start(text.trim(), MAX_DESCRIPTION));
    let of_person = of_person.map(|message| line("you:", message.text()));
    of_person.into_iter().chain(of_model.map(|message| line("model:", message.text()))).collect()
}
