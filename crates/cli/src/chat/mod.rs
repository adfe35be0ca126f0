//! `prowess chat`: an agent with skills, in a terminal.

mod act;
mod ask;
mod command;
mod context;
mod happening;
mod host;
mod input;
mod model;
mod place;
mod talk;
mod threads;
mod view;
mod words;

use std::path::{Path, PathBuf};

use anyhow::Result;
use prowess_agent::Outcome;
use prowess_workspace::Runner;

use self::act::{Next, act, begun};
use self::command::Line;
use self::happening::Happening;
use self::host::{Found, Host};
use self::input::{Input, Typed};
pub(crate) use self::talk::Answers;
use self::talk::{Rest, Talk};
pub(crate) use self::view::{AsJson, InPipe, OnScreen, View};
use crate::config::Config;
use crate::options::Places;

/// What a conversation is begun with.
pub(crate) struct Start {
    pub(crate) config: Config,
    pub(crate) places: Places,
    pub(crate) skills: crate::skills::Skills,
    pub(crate) runner: Runner,
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
    let Start { config, places, skills, runner, state, view, answers, resume, prompt, greeting } = start;
    let history = state.join("history");
    let input = match prompt {
        None => Some(Input::new(&history)?),
        Some(_) => None,
    };
    let host = Host::new(Found { config, places, skills, runner, state }).await?;
    let id = match &resume {
        Some(wanted) => threads::find(&host, wanted).await?,
        None => threads::name()?,
    };
    let mut talk = Talk::new(host, id, view, input, answers).await?;
    talk.lines(&greeting)?;
    begun(&talk)?;
    let (talk, end) = match prompt {
        Some(prompt) => once(talk, &prompt).await?,
        None => {
            let _ = talk.go_on().await?;
            let talk = forever(talk, &history).await?;
            if !talk.thread.run().messages().is_empty() {
                let text = format!("`prowess chat --resume {}` goes on with this", talk.thread.id());
                talk.show(&Happening::Note { text })?;
            }
            (talk, End::Well)
        }
    };
    talk.close().await?;
    Ok(end)
}

/// One line, and what comes of it.
async fn once(mut talk: Talk, prompt: &str) -> Result<(Talk, End)> {
    // What was cut off comes first.
    if let Some(rest) = talk.go_on().await?
        && rest != Rest::Ended(Outcome::Answered)
    {
        return unfinished(talk, &rest);
    }
    match Line::parse(prompt, &names(&talk)) {
        Line::Empty => Ok((talk, End::Well)),
        Line::Wrong(why) => Err(anyhow::Error::msg(why)),
        Line::Command(command) => {
            act(&mut talk, command).await?;
            Ok((talk, End::Well))
        }
        Line::Talk(text) => {
            let rest = talk.say(text).await?;
            unfinished(talk, &rest)
        }
    }
}

/// How a single turn ended, for whoever reads the exit code.
fn unfinished(talk: Talk, rest: &Rest) -> Result<(Talk, End)> {
    let end = match rest {
        Rest::Ended(Outcome::Answered) => End::Well,
        Rest::Ended(Outcome::Cancelled) => End::Stopped,
        Rest::Ended(_) => End::Unanswered,
        Rest::Waiting | Rest::Left => {
            let id = talk.thread.id();
            let text =
                format!("a question waits: `prowess chat --resume {id}` asks it, --yes says yes to all");
            talk.show(&Happening::Note { text })?;
            End::Waiting
        }
    };
    Ok((talk, end))
}

/// Line after line, until the person leaves.
async fn forever(mut talk: Talk, history: &Path) -> Result<Talk> {
    loop {
        let names = names(&talk);
        if let Some(input) = &mut talk.input {
            input.complete(&names);
        }
        let line = match talk.read(history)? {
            Typed::Line(line) => Line::parse(&line, &names),
            Typed::Interrupted => continue,
            Typed::End => return Ok(talk),
        };
        match line {
            Line::Empty => {}
            Line::Wrong(why) => talk.show(&Happening::Note { text: why })?,
            Line::Command(command) => match act(&mut talk, command).await {
                Ok(Next::Stay) => {}
                Ok(Next::Reopen) => talk = talk.reopened().await?,
                Ok(Next::Again) => {
                    talk = talk.reopened().await?;
                    begun(&talk)?;
                    let _ = talk.go_on().await?;
                }
                Ok(Next::Quit) => return Ok(talk),
                Err(error) => talk.failed(&error)?,
            },
            Line::Talk(text) => {
                match talk.host.refresh() {
                    Ok(None) => {}
                    Ok(Some(changed)) => {
                        talk = talk.reopened().await?;
                        talk.show(&Happening::Note { text: changed })?;
                    }
                    // What cannot be looked at is not to be used.
                    Err(error) => {
                        talk.show(&Happening::Note { text: format!("nothing was said: {error:#}") })?;
                        continue;
                    }
                }
                match talk.say(text).await {
                    Ok(Rest::Left) => return Ok(talk),
                    Ok(_) => {}
                    Err(error) => talk.failed(&error)?,
                }
            }
        }
    }
}

/// The skills that a person may start.
fn names(talk: &Talk) -> Vec<String> {
    let catalog = talk.host.catalog();
    let entries = catalog.entries().iter();
    let of_people = entries.filter(|entry| entry.skill.extensions.user_invocable);
    of_people.map(|entry| entry.skill.name.as_str().to_owned()).collect()
}
