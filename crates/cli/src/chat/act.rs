//! What the commands of a conversation do.

use anyhow::{Context as _, Result, bail};
use prowess_agent::Thread;
use prowess_agent::message::Content;
use prowess_agent::middleware::Compaction;
use prowess_agent::middleware::SkillsState;

use super::command::{COMMANDS, Command};
use super::happening::Happening;
use super::place::Place;
use super::talk::Talk;
use super::{model, threads, words};
use crate::terminal::{Style, count, shown, start_of, styled};
use crate::threads::{self as kept, ago};

/// How much of a description is shown.
const MAX_DESCRIPTION: usize = 80;
/// How many threads are listed.
const MAX_LISTED: usize = 20;

/// What comes after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The conversation goes on.
    Stay,
    /// The thread has to be opened again, for another agent.
    Reopen,
    /// The same, because another process may have gone on with it.
    Again,
}

/// Does what a command says. An error leaves the conversation as it was.
pub(super) async fn act(talk: &mut Talk, command: Command) -> Result<Next> {
    match command {
        Command::Help => talk.lines(&help())?,
        Command::Skills => {
            let (rows, advice) = skills(talk);
            talk.list(&rows)?;
            talk.lines(&advice)?;
        }
        Command::Context => {
            let (rows, sum) = context(talk).await?;
            talk.list(&rows)?;
            talk.lines(&[sum])?;
        }
        Command::Compact => compact(talk).await?,
        Command::Unload { skill } => unload(talk, &skill).await?,
        Command::Model { name: None } => {
            let name = talk.host.model.name().to_owned();
            note(talk, format!("{name} answers; /model PROVIDER:NAME takes another"))?;
        }
        Command::Model { name: Some(name) } => {
            other_model(talk, &name)?;
            return Ok(Next::Reopen);
        }
        Command::Resume { thread: None } => {
            let rows = listed(talk).await?;
            let advice = match rows.is_empty() {
                true => "There is no thread yet.",
                false => "/resume THREAD goes on with one; its end is enough.",
            };
            talk.list(&rows)?;
            talk.lines(&[advice.to_owned()])?;
        }
        Command::Resume { thread: Some(thread) } => {
            let id = kept::find(&talk.host.store, &talk.host.directory, &thread).await?;
            if id == *talk.thread.id() {
                return Ok(Next::Again);
            }
            talk.switch(id).await?;
            begun(talk)?;
            let _ = talk.go_on().await?;
        }
        Command::Fork => {
            let from = talk.thread.id().clone();
            let copy = threads::fork(&talk.host, &talk.thread).await?;
            talk.switch(copy).await?;
            note(talk, format!("this is {} now, a copy of {from}", talk.thread.id()))?;
        }
        Command::Export { file } => {
            let path = kept::export(talk.thread.id(), talk.thread.state(), file.map(Into::into))?;
            note(talk, format!("the conversation is in {}", path.display()))?;
        }
        Command::New => {
            let name = threads::name(&talk.host).await?;
            talk.switch(name).await?;
            begun(talk)?;
            note(talk, format!("this is {} now", talk.thread.id()))?;
        }
        // Whoever reads lines ends with it.
        Command::Quit => {}
    }
    Ok(Next::Stay)
}

fn note(talk: &Talk, text: String) -> Result<()> {
    talk.show(&Happening::Note { text })
}

/// The thread that is open, and who answers in it.
pub(super) fn opened(talk: &Talk) -> Happening {
    let (id, model) = (talk.thread.id().clone(), talk.host.model.name().to_owned());
    Happening::Thread { id, model, messages: talk.thread.state().messages().len() }
}

/// Says which thread it is, and what was said last in it.
pub(super) fn begun(talk: &Talk) -> Result<()> {
    let messages = talk.thread.state().messages().len();
    talk.show(&opened(talk))?;
    if messages == 0 {
        return Ok(());
    }
    // Who gave a prompt knows where it goes, but `last` may have been in another directory.
    if talk.input.is_some() {
        note(talk, format!("thread {}, {}", talk.thread.id(), count(messages, "message")))?;
    }
    let place = Place::of(talk.thread.states()).filter(|place| **place != talk.host.directory);
    if let Some(place) = place {
        note(talk, format!("it was in {}; its files are those of this directory now", place.display()))?;
    }
    if talk.input.is_some() {
        last_words(&talk.thread).into_iter().try_for_each(|line| note(talk, line))?;
    }
    Ok(())
}

/// What the person and the model said last, in a line each.
fn last_words(thread: &Thread) -> Vec<String> {
    let messages = thread.state().messages().iter().rev();
    let mut said = messages.filter(|message| !message.text().trim().is_empty());
    let of_person = said.clone().find(|message| message.is_by_person());
    let of_model = said.find(|message| matches!(message.content, Content::Assistant { .. }));
    let line = |who: &str, text: String| format!("{who} {}", start_of(text.trim(), MAX_DESCRIPTION));
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
fn skills(talk: &Talk) -> (Vec<String>, Vec<String>) {
    let (catalog, sight) = (talk.host.catalog(), talk.host.sight());
    let loaded = SkillsState::of(talk.thread.states()).map(SkillsState::loaded).unwrap_or_default();
    let mut lines = Vec::new();
    for entry in sight.view().entries() {
        let name = entry.skill.name.as_str();
        let tokens = loaded.iter().find(|skill| skill.name == name).map(|skill| skill.tokens);
        let mark = tokens.map_or_else(|| " ".to_owned(), |_| styled("+", Style::Good));
        let note = tokens.map(|tokens| format!(" ({} tokens)", words::tokens(tokens as u64)));
        let description = start_of(&entry.skill.description, MAX_DESCRIPTION);
        lines.push(format!(
            "{mark} {}{}  {}",
            styled(shown(name), Style::Name),
            note.unwrap_or_default(),
            styled(description, Style::Faint)
        ));
    }
    let mut advice = Vec::new();
    if lines.is_empty() {
        advice.push("There are no skills here; `prowess new NAME` makes one.".to_owned());
    }
    advice.extend(sight.of_denied());
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
async fn context(talk: &mut Talk) -> Result<(Vec<String>, String)> {
    let filled = talk.filled().await?;
    let widest = filled.rows.iter().map(|row| row.what.chars().count()).max().unwrap_or(0);
    let line = |what: &str, tokens: u64, note: &str| {
        let note = if note.is_empty() { String::new() } else { format!("  {}", styled(note, Style::Faint)) };
        format!("  {what:<widest$}  {:>8}{note}", words::tokens(tokens))
    };
    let lines = filled.rows.iter().map(|row| line(&shown(&row.what), row.tokens, &row.note)).collect();
    let of_window = filled.window.map_or_else(
        || "tokens, about; model.window is not set".to_owned(),
        |window| {
            let percent = filled.total * 100 / window.max(1);
            format!("of {} tokens, {percent} %, about", words::tokens(window))
        },
    );
    Ok((lines, line("all", filled.total, &of_window)))
}

async fn compact(talk: &mut Talk) -> Result<()> {
    let before = talk.filled().await?.total;
    let text = match talk.compact().await? {
        Some(Compaction::Done { .. }) => {
            let after = talk.filled().await?.total;
            format!("{} tokens before, {} now", words::tokens(before), words::tokens(after))
        }
        Some(Compaction::Failed { why }) => format!("nothing was summarised: {why}"),
        Some(_) => format!("nothing was summarised: {}", too_short(&talk.thread)),
        None => "stopped: nothing was summarised".to_owned(),
    };
    note(talk, text)
}

/// Why there is nothing to summarise.
fn too_short(thread: &Thread) -> String {
    let run = thread.state();
    let messages = run.messages().len() - run.cut();
    if messages == 0 {
        return "nothing has been said yet".to_owned();
    }
    let since = if run.cut() > 0 { "since the last summary " } else { "" };
    let are = if messages == 1 { "is" } else { "are" };
    // With the call that it answers.
    format!("{since}there {are} {}, and the last one always stays", count(messages, "message"))
}

async fn unload(talk: &mut Talk, skill: &str) -> Result<()> {
    let loaded = SkillsState::of(talk.thread.states()).map(SkillsState::loaded).unwrap_or_default();
    if !loaded.iter().any(|known| known.name == skill) {
        let names: Vec<&str> = loaded.iter().map(|skill| skill.name.as_str()).collect();
        let loaded = if names.is_empty() { "none is".to_owned() } else { format!("{} is", names.join(", ")) };
        bail!("`{}` is not loaded; {loaded}", start_of(skill, 64));
    }
    talk.unload(skill).await
}

/// Takes another model, or says why it cannot be taken.
fn other_model(talk: &mut Talk, name: &str) -> Result<()> {
    let taken = name.parse().map_err(anyhow::Error::msg);
    let taken = taken.and_then(|name| {
        let before = std::mem::replace(&mut talk.host.config.settings.model.name, name);
        model::chosen(&talk.host.config.settings)
            .inspect_err(|_| talk.host.config.settings.model.name = before)
    });
    talk.host.model = taken.with_context(|| format!("`{}` cannot be taken", start_of(name, 64)))?;
    note(talk, format!("{} answers from now on", talk.host.model.name()))
}

async fn listed(talk: &Talk) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for info in kept::all(&talk.host.store).await?.into_iter().take(MAX_LISTED) {
        let begun = kept::beginning(&talk.host.store, &info.id).await;
        let is_here = begun.directory.as_ref() == Some(&talk.host.directory);
        let place = match &begun.directory {
            Some(directory) if !is_here => format!(" in {}", shown(&directory.display().to_string())),
            _ => String::new(),
        };
        let mark = if info.id == *talk.thread.id() { styled("+", Style::Good) } else { " ".to_owned() };
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
