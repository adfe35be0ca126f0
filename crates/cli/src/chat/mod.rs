//! `prowess chat`: an agent with skills, in a terminal.

mod act;
mod apart;
mod approvals;
mod ask;
mod command;
mod context;
mod farewell;
mod happening;
mod host;
mod input;
mod keyboard;
mod keys;
mod line;
mod model;
mod past;
mod place;
mod talk;
mod threads;
mod typing;
mod unsent;
mod view;
mod whereabouts;
mod words;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use prowess_agent::TurnOutcome;
use prowess_workspace::{Artifacts, Runner};

use self::act::{Next, act, begun, opened};
use self::command::{Command, Line};
use self::happening::Happening;
pub(crate) use self::host::session_options;
use self::host::{Found, Host};
use self::input::{Input, Typed};
pub(crate) use self::place::Place;
pub(crate) use self::talk::Answers;
use self::talk::{Rest, Talk};
use self::unsent::Unsent;
pub(crate) use self::view::{AsJson, InPipe, OnScreen, View};
use crate::config::{Config, Flag};
use crate::options::Places;
use crate::sight::{self, Seen};
use crate::state::Kept;
use crate::terminal::count;

/// What a conversation is begun with.
pub(crate) struct Start {
    pub(crate) config: Config,
    /// The options of the command, over every configuration.
    pub(crate) flags: Vec<Flag>,
    pub(crate) places: Places,
    pub(crate) skills: crate::skills::Skills,
    pub(crate) runner: Runner,
    /// All artifacts; each thread gets its own.
    pub(crate) artifacts: Artifacts,
    /// Where workspaces and artifacts are kept.
    pub(crate) kept: Kept,
    /// Where everything of ours is kept.
    pub(crate) state: PathBuf,
    pub(crate) view: Box<dyn View>,
    pub(crate) answers: Answers,
    /// The thread to go on with: its name, a part of it, or `last`.
    pub(crate) resume: Option<String>,
    /// What is to be said; a person at the keyboard otherwise.
    pub(crate) prompt: Option<String>,
    /// What a person reads first.
    pub(crate) greeting: Vec<String>,
}

/// Whether a conversation came to a good end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It did.
    Well,
    /// The last turn has no answer.
    Unanswered,
    /// A question waits for a person.
    Waiting,
    /// Somebody stopped it.
    Stopped,
}

/// Talks until there is nothing more to say.
pub(crate) async fn talk(start: Start) -> Result<End> {
    let Start {
        config,
        flags,
        places,
        skills,
        runner,
        artifacts,
        kept,
        state,
        view,
        answers,
        resume,
        prompt,
        greeting,
    } = start;
    let history = state.join("history");
    let unsent = Arc::new(Unsent::default());
    farewell::prepare(&history, &unsent)?;
    let found = Found { config, flags, places, skills, runner, artifacts, kept, state };
    let (host, notices) = Host::new(found).await?;
    let id = match &resume {
        Some(wanted) => crate::threads::find(&host.store, &host.directory, wanted).await?,
        None => threads::name(&host).await?,
    };
    // From here on the keyboard is ours.
    let input = match prompt {
        None => Some(Input::new(&history, unsent)?),
        Some(_) => None,
    };
    let mut talk = Talk::new(host, id, view, input, answers).await?;
    let of_servers = talk.host.of_servers().filter(|_| talk.input.is_some());
    let notices: Vec<Happening> =
        of_servers.into_iter().chain(notices).map(|text| Happening::Note { text }).collect();
    let told = talk.lines(&greeting).and_then(|()| notices.iter().try_for_each(|notice| talk.show(notice)));
    let ended = match told {
        Ok(()) => converse(&mut talk, prompt.as_deref()).await,
        Err(error) => Err(error),
    };
    // Whatever happened, others can have the thread at once.
    let closed = talk.close().await;
    let end = ended?;
    closed?;
    Ok(end)
}

async fn converse(talk: &mut Talk, prompt: Option<&str>) -> Result<End> {
    begun(talk)?;
    if let Some(prompt) = prompt {
        return once(talk, prompt).await;
    }
    let _ = talk.go_on().await?;
    forever(talk).await?;
    let unsaid = talk.input.as_mut().map_or(0, Input::unsaid);
    if unsaid > 0 {
        let were = if unsaid == 1 { "was" } else { "were" };
        let text = format!("{} {were} not said: Up brings back what you typed", count(unsaid, "line"));
        talk.show(&Happening::Note { text })?;
    }
    if !talk.thread.state().messages().is_empty() {
        let line = talk.host.resume_line(talk.thread.id());
        let waits = if talk.thread.waiting().is_empty() { "" } else { "a question waits: " };
        talk.show(&Happening::Note { text: format!("{waits}`{line}` goes on with this") })?;
    }
    Ok(End::Well)
}

/// One line, and what comes of it.
async fn once(talk: &mut Talk, prompt: &str) -> Result<End> {
    // What was cut off comes first.
    let went_on = talk.go_on().await?;
    if let Some(rest @ (Rest::Waiting | Rest::Left)) = &went_on {
        if !prompt.trim().is_empty() {
            talk.show(&Happening::Note { text: "your prompt was not said: the thread waits".to_owned() })?;
        }
        return unfinished(talk, rest);
    }
    match parsed(talk, prompt) {
        Line::Empty => went_on.map_or(Ok(End::Well), |rest| unfinished(talk, &rest)),
        Line::Wrong(why) => Err(anyhow::Error::msg(why)),
        Line::Command(
            Command::Model { name: Some(_) } | Command::Resume { thread: Some(_) } | Command::New,
        ) => {
            bail!("this is for a conversation at the keyboard; with a PROMPT there are --model and --resume")
        }
        Line::Command(command) => {
            act(talk, command).await?;
            Ok(End::Well)
        }
        Line::Talk(text) => {
            let rest = talk.say(text).await?;
            unfinished(talk, &rest)
        }
    }
}

/// How a single turn ended, for whoever reads the exit code.
fn unfinished(talk: &Talk, rest: &Rest) -> Result<End> {
    Ok(match rest {
        Rest::Ended(TurnOutcome::Answered) => End::Well,
        Rest::Ended(TurnOutcome::Cancelled) => End::Stopped,
        Rest::Ended(_) => End::Unanswered,
        Rest::Waiting | Rest::Left => {
            talk.rest()?;
            let (line, waiting) = (talk.host.resume_line(talk.thread.id()), talk.thread.waiting());
            let title = waiting.first().map(|waiting| waiting.question.wording().title);
            let title = title.unwrap_or_else(|| "a call".to_owned());
            let text = format!("a question waits: {title}; `{line}` asks it, and with --yes says yes to all");
            talk.show(&Happening::Note { text })?;
            talk.rest()?;
            End::Waiting
        }
    })
}

/// Line after line, until the person leaves.
async fn forever(talk: &mut Talk) -> Result<()> {
    loop {
        let names = names(talk);
        if let Some(input) = &mut talk.input {
            input.complete(&names);
        }
        let line = match talk.read().await? {
            Typed::Line(line) => parsed(talk, &line),
            Typed::Interrupted => continue,
            Typed::End => return Ok(()),
        };
        match line {
            Line::Empty => {}
            Line::Wrong(why) => {
                talk.give_back();
                talk.show(&Happening::Note { text: why })?;
            }
            Line::Command(Command::Quit) => return Ok(()),
            line => {
                if !refreshed(talk).await? {
                    talk.give_back();
                } else if follow(talk, line).await? == Rest::Left {
                    return Ok(());
                }
            }
        }
    }
}

/// Does what a line says. What goes wrong is shown, and the conversation goes on; only a thread that cannot be opened again
/// is an error, because there is nothing left to go on with.
async fn follow(talk: &mut Talk, line: Line) -> Result<Rest> {
    let next = match &line {
        Line::Command(command) => act(talk, command.clone()).await,
        _ => Ok(Next::Stay),
    };
    if matches!(next, Ok(Next::Reopen | Next::Again)) {
        talk.reopen().await?;
    }
    let rest = match (next, line) {
        (Err(error), _) => Err(error),
        (Ok(Next::Again), _) => begun(talk).and(talk.go_on().await),
        (Ok(Next::Reopen), _) => talk.show(&opened(talk)).map(|()| None),
        (Ok(Next::Stay), Line::Talk(text)) => talk.say(text).await.map(Some),
        (Ok(Next::Stay), _) => Ok(None),
    };
    let stayed = Rest::Ended(TurnOutcome::Answered);
    match rest {
        Ok(rest) => Ok(rest.unwrap_or(stayed)),
        Err(error) => {
            talk.give_back();
            talk.failed(&error).map(|()| stayed)
        }
    }
}

/// Looks for skills again, and whether the project is trusted still. What cannot be looked at is not to be used: then
/// nothing is done.
async fn refreshed(talk: &mut Talk) -> Result<bool> {
    match talk.host.refresh().await {
        Ok(None) => Ok(true),
        Ok(Some(changed)) => {
            talk.reopen().await?;
            talk.show(&Happening::Note { text: changed })?;
            Ok(true)
        }
        Err(error) => {
            talk.show(&Happening::Note { text: format!("nothing was said or done: {error:#}") })?;
            Ok(false)
        }
    }
}

/// What a line is, with a word about skills that are there and cannot be started.
fn parsed(talk: &Talk, text: &str) -> Line {
    let line = Line::parse(text, &names(talk));
    let name = text.trim().strip_prefix('/').and_then(|rest| rest.split_whitespace().next());
    let why = |name: &str| obstacle(talk, name);
    match (line, name.and_then(why)) {
        (Line::Wrong(_) | Line::Talk(_), Some(why)) => Line::Wrong(why),
        (line, _) => line,
    }
}

/// Why a person cannot start a skill that is there.
fn obstacle(talk: &Talk, name: &str) -> Option<String> {
    let (catalog, sight) = (talk.host.catalog(), talk.host.sight());
    let untrusted = catalog.untrusted().iter().find(|entry| entry.skill.name.as_str() == name);
    let entry = catalog.get(name).or(untrusted)?;
    let shown = crate::terminal::shown(name);
    match sight.seen(entry) {
        Seen::Untrusted => {
            Some(format!("`{shown}` of this project is not trusted: `prowess trust` shows what it brings"))
        }
        Seen::Denied(verdict) => {
            Some(format!("the skill /{shown} is denied by {}; nothing was sent", sight::rule(&verdict)))
        }
        _ if entry.skill.extensions.user_invocable => None,
        Seen::Yes | Seen::WithFiles | Seen::Marked | Seen::Manual => Some(format!(
            "only the model starts the skill /{shown}: its SKILL.md says `user-invocable: false`. Ask for what it does"
        )),
    }
}

/// The skills that a person may start.
fn names(talk: &Talk) -> Vec<String> {
    let sight = talk.host.sight();
    let of_people = sight.view().entries().iter().filter(|entry| entry.skill.extensions.user_invocable);
    of_people.map(|entry| entry.skill.name.as_str().to_owned()).collect()
}
