//! `prowess chat`: an agent with skills, in a terminal.

mod agents;
mod changes;
mod context_usage;
mod conversation;
mod describe;
mod draft;
mod events;
mod following;
mod history;
mod input;
mod input_display;
mod kept_trust;
mod keyboard;
mod keys;
mod line_editor;
mod made;
mod memory;
mod memory_files;
mod model;
mod model_key;
mod old_approvals;
mod open_thread;
mod permissions;
mod prompt;
mod questions;
mod restore_terminal;
mod run_files;
mod skill_model;
mod slash_commands;
mod sub_agents;
mod thread_artifacts;
mod thread_directory;
mod tree;
mod turn;
mod unsent_message;
mod view;
mod watch;
mod window_notice;

use std::sync::Arc;

use anyhow::{Result, bail};
use prowess_agent::TurnOutcome;

pub(crate) use self::agents::session_options;
pub(crate) use self::agents::{AgentSetup, ChatAgents};
use self::conversation::Conversation;
use self::events::ChatEvent;
pub(crate) use self::following::{Following, forget_unused, has_files_from_before};
use self::input::{Entered, Input};
pub(crate) use self::open_thread::LEASE;
use self::slash_commands::{
    Command, Line, Next, execute, new_thread_id, show_opened, thread_event, with_known_arguments,
};
pub(crate) use self::thread_directory::ThreadDirectory;
pub(crate) use self::turn::Approver;
use self::turn::TurnEnd;
use self::unsent_message::UnsentMessage;
pub(crate) use self::view::{JsonView, PipeView, ScreenView, View};
use crate::terminal::count;
use crate::visibility::{self, Visibility};

/// What a chat starts with.
pub(crate) struct Start {
    pub(crate) setup: AgentSetup,
    pub(crate) view: Box<dyn View>,
    /// The thread to continue: its name, a part of it, or `last`.
    pub(crate) resume: Option<String>,
    /// The message to send; `None` for an interactive chat.
    pub(crate) prompt: Option<String>,
    /// The first lines of an interactive chat.
    pub(crate) greeting: Vec<String>,
}

/// How a chat ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With a response, or by a command.
    Well,
    /// The last turn ended without a response.
    NoResponse,
    /// A question waits for a person.
    Waiting,
    /// The person stopped it.
    Stopped,
}

/// Runs a chat to its end.
pub(crate) async fn run(start: Start) -> Result<End> {
    let Start { setup, view, resume, prompt, greeting } = start;
    let (history, approver) = (setup.state.join("history"), setup.approver);
    let unsent = Arc::new(UnsentMessage::default());
    restore_terminal::on_signals(&history, &unsent)?;
    let (agents, notices) = ChatAgents::new(setup).await?;
    let id = match &resume {
        Some(wanted) => crate::threads::find(&*agents.store, &agents.directory, wanted).await?,
        None => new_thread_id(&agents).await?,
    };
    // From here on the keyboard belongs to the chat.
    let input = match prompt {
        None => Some(Input::new(&history, unsent)?),
        Some(_) => None,
    };
    let mut conversation = Conversation::new(agents, id, view, input, approver).await?;
    let servers_line = conversation.agents.servers_line().filter(|_| conversation.input.is_some());
    let notices: Vec<ChatEvent> =
        servers_line.into_iter().chain(notices).map(|text| ChatEvent::Note { text }).collect();
    let told = conversation
        .lines(&greeting)
        .and_then(|()| notices.iter().try_for_each(|notice| conversation.show(notice)));
    let ended = match told {
        Ok(()) => run_conversation(&mut conversation, prompt.as_deref()).await,
        Err(error) => Err(error),
    };
    // The thread is released at once, even after an error.
    let closed = conversation.close().await;
    let end = ended?;
    closed?;
    Ok(end)
}

async fn run_conversation(conversation: &mut Conversation, prompt: Option<&str>) -> Result<End> {
    show_opened(conversation)?;
    if let Some(prompt) = prompt {
        return run_prompt(conversation, prompt).await;
    }
    // A person who leaves at a question ends the chat. The question waits in the thread.
    if conversation.go_on().await? != Some(TurnEnd::Left) {
        run_interactive(conversation).await?;
    }
    let unsaid = conversation.input.as_mut().map_or(0, Input::unsaid);
    if unsaid > 0 {
        let were = if unsaid == 1 { "was" } else { "were" };
        let text =
            format!("{} {were} not sent; next time, press Up to find what you typed", count(unsaid, "line"));
        conversation.show(&ChatEvent::Note { text })?;
    }
    if !conversation.thread.state().messages().is_empty() {
        let line = conversation.agents.resume_line(conversation.thread.id());
        let waits = if conversation.thread.waiting().is_empty() { "" } else { "a question is waiting; " };
        conversation.show(&ChatEvent::Note { text: format!("{waits}continue with `{line}`") })?;
    }
    Ok(End::Well)
}

/// Sends one message, or carries out one command.
async fn run_prompt(conversation: &mut Conversation, prompt: &str) -> Result<End> {
    // A turn that was cut off is finished first.
    let went_on = conversation.go_on().await?;
    if let Some(rest @ (TurnEnd::Waiting | TurnEnd::Left)) = &went_on {
        if !prompt.trim().is_empty() {
            conversation.show(&ChatEvent::Note {
                text: "your prompt was not sent: the thread is waiting for a reply".to_owned(),
            })?;
        }
        return end_of_turn(conversation, rest);
    }
    match parse_line(conversation, prompt) {
        Line::Empty => went_on.map_or(Ok(End::Well), |rest| end_of_turn(conversation, &rest)),
        Line::Wrong(why) => Err(anyhow::Error::msg(why)),
        Line::Command(
            Command::Model { name: Some(_) }
            | Command::Resume { thread: Some(_) }
            | Command::Kit { kits: Some(_) }
            | Command::New,
        ) => {
            bail!(
                "this command works only in an interactive chat; with a PROMPT, use --model, --kit and --resume"
            )
        }
        Line::Command(command) => {
            execute(conversation, command).await?;
            Ok(End::Well)
        }
        Line::Message(text) => {
            let rest = conversation.say(text).await?;
            end_of_turn(conversation, &rest)
        }
    }
}

/// The end of a single turn, for the exit code.
fn end_of_turn(conversation: &Conversation, rest: &TurnEnd) -> Result<End> {
    Ok(match rest {
        TurnEnd::Ended(TurnOutcome::Responded) => End::Well,
        TurnEnd::Ended(TurnOutcome::Cancelled) => End::Stopped,
        TurnEnd::Ended(_) => End::NoResponse,
        TurnEnd::Waiting | TurnEnd::Left => {
            conversation.rest()?;
            let (line, waiting) =
                (conversation.agents.resume_line(conversation.thread.id()), conversation.thread.waiting());
            let title = waiting.first().map(|waiting| waiting.question.wording().title);
            let title = title.unwrap_or_else(|| "a call".to_owned());
            let text = format!(
                "a question is waiting: {title}; reply on a terminal with `{line}`, or add --yes to approve everything"
            );
            conversation.show(&ChatEvent::Note { text })?;
            conversation.rest()?;
            End::Waiting
        }
    })
}

/// Reads line after line, until the person leaves.
async fn run_interactive(conversation: &mut Conversation) -> Result<()> {
    loop {
        let (names, with_arguments) = (startable_skills(conversation), with_known_arguments(conversation));
        if let Some(input) = &mut conversation.input {
            input.complete(&names, with_arguments);
        }
        let line = match conversation.read().await? {
            Entered::Line(line) => parse_line(conversation, &line),
            Entered::Interrupted => continue,
            Entered::End => return Ok(()),
        };
        match line {
            Line::Empty => {}
            Line::Wrong(why) => {
                conversation.give_back();
                conversation.show(&ChatEvent::Note { text: why })?;
            }
            Line::Command(Command::Quit) => return Ok(()),
            line => {
                if !refresh_skills(conversation).await? {
                    conversation.give_back();
                } else if carry_out(conversation, line).await? == TurnEnd::Left {
                    return Ok(());
                }
            }
        }
    }
}

/// Carries out a line. Errors are shown and the chat continues, unless the thread cannot be opened again.
async fn carry_out(conversation: &mut Conversation, line: Line) -> Result<TurnEnd> {
    let next = match &line {
        Line::Command(command) => execute(conversation, command.clone()).await,
        _ => Ok(Next::Stay),
    };
    if matches!(next, Ok(Next::Reopen | Next::ReadAgain)) {
        conversation.reopen().await?;
    }
    let rest = match (next, line) {
        (Err(error), _) => Err(error),
        (Ok(Next::ReadAgain), _) => show_opened(conversation).and(conversation.go_on().await),
        (Ok(Next::Reopen), _) => conversation.show(&thread_event(conversation)).map(|()| None),
        (Ok(Next::Stay), Line::Message(text)) => conversation.say(text).await.map(Some),
        (Ok(Next::Stay), _) => Ok(None),
    };
    let stayed = TurnEnd::Ended(TurnOutcome::Responded);
    match rest {
        Ok(rest) => Ok(rest.unwrap_or(stayed)),
        Err(error) => {
            conversation.give_back();
            conversation.failed(&error).map(|()| stayed)
        }
    }
}

/// Looks for skills and trust again. If that fails, nothing is sent, because untrusted content must not be used.
async fn refresh_skills(conversation: &mut Conversation) -> Result<bool> {
    match conversation.agents.refresh().await {
        Ok(None) => Ok(true),
        Ok(Some(notices)) => {
            conversation.reopen().await?;
            for text in notices {
                conversation.show(&ChatEvent::Note { text })?;
            }
            Ok(true)
        }
        Err(error) => {
            conversation.show(&ChatEvent::Note { text: format!("nothing was sent: {error:#}") })?;
            Ok(false)
        }
    }
}

/// Parses a line. If it names a skill that cannot be started, says why.
fn parse_line(conversation: &Conversation, text: &str) -> Line {
    let line = Line::parse(text, &startable_skills(conversation));
    let name = text.trim().strip_prefix('/').and_then(|rest| rest.split_whitespace().next());
    let why = |name: &str| why_not_startable(conversation, name);
    match (line, name.and_then(why)) {
        (Line::Wrong(_) | Line::Message(_), Some(why)) => Line::Wrong(why),
        (line, _) => line,
    }
}

/// Why a person cannot start an existing skill.
fn why_not_startable(conversation: &Conversation, name: &str) -> Option<String> {
    let (catalog, visible_skills) = (conversation.agents.catalog(), conversation.agents.visible_skills());
    let untrusted = catalog.untrusted().iter().find(|entry| entry.skill.name.as_str() == name);
    let entry = catalog.get(name).or(untrusted)?;
    let shown = crate::terminal::printable(name);
    match visible_skills.visibility(entry) {
        Visibility::Untrusted => {
            Some(format!("`{shown}` of this project is not trusted; `prowess trust` shows what it contains"))
        }
        Visibility::Denied(verdict) => Some(format!(
            "the skill /{shown} is denied by {}; nothing was sent",
            visibility::describe_rule(&verdict)
        )),
        Visibility::Off => Some(format!(
            "the skill /{shown} is off: `skills.mode` in prowess.toml says so; nothing was sent"
        )),
        Visibility::OutsideKits => {
            Some(format!("the skill /{shown} is in none of the kits in use; `/kit off` uses all skills"))
        }
        _ if entry.skill.extensions.user_invocable => None,
        Visibility::Yes | Visibility::WithFiles | Visibility::Marked | Visibility::Manual => Some(format!(
            "only the model can start the skill /{shown}: its SKILL.md says `user-invocable: false`. Ask the model to do its task"
        )),
    }
}

/// The skills that a person may start.
fn startable_skills(conversation: &Conversation) -> Vec<String> {
    let visible_skills = conversation.agents.visible_skills();
    let of_people =
        visible_skills.view().entries().iter().filter(|entry| entry.skill.extensions.user_invocable);
    of_people.map(|entry| entry.skill.name.as_str().to_owned()).collect()
}
