//! The threads there are: names, finding one, copies, and writing one into a file.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context as _, Result, anyhow, bail};
use prowess_agent::{Content, Event, Message, Run, Thread, ThreadError, ThreadId, ThreadStore};

use super::host::{Host, make};
use super::place::Place;
use crate::terminal::{shown, shown_lines, start_of};

/// How many threads are looked through and how many are listed.
const MAX_SEARCHED: usize = 10_000;
const MAX_LISTED: usize = 20;
/// How many are opened to find the last one of a directory.
const MAX_LOOKED_AT: usize = 500;
/// Where in a thread its first words are.
const FIRST_EVENTS: usize = 8;
/// How much of its first words is shown.
const MAX_TITLE: usize = 60;

/// A thread, as a list shows it.
pub(super) struct Listed {
    pub(super) id: ThreadId,
    pub(super) changed: SystemTime,
    pub(super) title: String,
    pub(super) directory: Option<PathBuf>,
}

/// A name for a new thread that no other has: the day, and something of its own that is short enough to type.
pub(super) async fn name(host: &Host) -> Result<ThreadId> {
    let day = jiff::Zoned::now().strftime("%Y-%m-%d").to_string();
    loop {
        let own = ThreadId::new();
        let own = &own.as_str()[own.as_str().len() - 6..];
        let name: ThreadId = format!("{day}-{own}").parse().map_err(|error| anyhow!("{error}"))?;
        match host.store.events(&name, 0, 1).await {
            Err(ThreadError::NotFound(_)) => return Ok(name),
            Err(error) => return Err(anyhow!("{error}")),
            Ok(_) => {}
        }
    }
}

/// The threads of people that changed last.
pub(super) async fn list(host: &Host) -> Result<Vec<Listed>> {
    let mut listed = Vec::new();
    for info in all(host).await?.into_iter().take(MAX_LISTED) {
        let events = host.store.events(&info.id, 0, FIRST_EVENTS).await.unwrap_or_default();
        let said = events.iter().find_map(|stored| match &stored.event {
            Event::TurnStarted { messages } => Some(messages.iter().map(Message::text).collect::<String>()),
            _ => None,
        });
        let directory = events.iter().find_map(|stored| Place::noted(&stored.event));
        let title = start_of(&said.unwrap_or_default(), MAX_TITLE);
        listed.push(Listed { id: info.id, changed: info.changed, title, directory });
    }
    Ok(listed)
}

/// The threads, without those of sub-agents.
async fn all(host: &Host) -> Result<Vec<prowess_agent::ThreadInfo>> {
    let mut threads = host.store.list(MAX_SEARCHED).await.map_err(|error| anyhow!("{error}"))?;
    threads.retain(|info| info.events > 0 && !info.id.as_str().starts_with("task-"));
    Ok(threads)
}

/// The thread that somebody means: by its name, its beginning or its end, or the last one.
pub(super) async fn find(host: &Host, wanted: &str) -> Result<ThreadId> {
    let threads = all(host).await?;
    if wanted == "last" {
        for info in threads.iter().take(MAX_LOOKED_AT) {
            let events = host.store.events(&info.id, 0, FIRST_EVENTS).await.unwrap_or_default();
            if events.iter().find_map(|stored| Place::noted(&stored.event)).as_ref() == Some(&host.directory)
            {
                return Ok(info.id.clone());
            }
        }
        bail!("there is no thread of this directory to go on with; /resume in `prowess chat` lists all");
    }
    let fits = |id: &str| id.starts_with(wanted) || id.ends_with(wanted);
    let exact = threads.iter().find(|info| info.id.as_str() == wanted);
    let mut fitting = threads.iter().filter(|info| !wanted.is_empty() && fits(info.id.as_str()));
    match (exact, fitting.next(), fitting.next()) {
        (Some(found), ..) | (None, Some(found), None) => Ok(found.id.clone()),
        (None, Some(one), Some(other)) => {
            bail!("`{}` can be {} or {}: write more of it", start_of(wanted, 64), one.id, other.id)
        }
        (None, None, _) => bail!(
            "there is no thread `{}`; `prowess chat` with /resume lists those there are, and `--resume last` is the last one",
            start_of(wanted, 64)
        ),
    }
}

/// A copy of a thread as it is now, with the files beside it and copies of its artifacts: what the conversation names
/// stays what it was, and neither thread replaces what the other has.
pub(super) async fn fork(host: &Host, thread: &Thread) -> Result<ThreadId> {
    let copy = name(host).await?;
    copy_files(&host.kept(thread.id()), &host.kept(&copy))?;
    let (from, to) = (host.artifacts_of(thread.id())?, host.artifacts_of(&copy)?);
    if from.scope() != to.scope() {
        from.copy_all(to.scope()).await.map_err(|error| anyhow!("{error}"))?;
    }
    host.store.fork(thread.id(), thread.events(), &copy).await.map_err(|error| anyhow!("{error}"))?;
    Ok(copy)
}

/// Copies the files of a directory, and of all in it.
fn copy_files(from: &Path, to: &Path) -> Result<()> {
    let Ok(entries) = std::fs::read_dir(from) else { return Ok(()) };
    make(to)?;
    for entry in entries.flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            copy_files(&path, &target)?;
        } else if kind.is_file() {
            std::fs::copy(&path, &target).with_context(|| format!("{} cannot be copied", path.display()))?;
        }
    }
    Ok(())
}

/// Writes a conversation into a new file, and gives its path.
pub(super) fn export(thread: &Thread, file: Option<&str>) -> Result<PathBuf> {
    let path = file.map_or_else(|| PathBuf::from(format!("prowess-{}.md", thread.id())), PathBuf::from);
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    let text = if is_json {
        serde_json::to_string_pretty(thread.run().messages())? + "\n"
    } else {
        markdown(thread.id(), thread.run())
    };
    let opened = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let mut opened = opened.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            anyhow!("{} is there already: give another name", path.display())
        }
        _ => anyhow!(error).context(format!("{} cannot be written", path.display())),
    })?;
    let written = opened.write_all(text.as_bytes()).and_then(|()| opened.sync_all());
    if written.is_err() {
        // A part of it would only be in the way.
        let _ = std::fs::remove_file(&path);
    }
    written.with_context(|| format!("{} cannot be written", path.display()))?;
    Ok(path)
}

/// The whole conversation, for people.
fn markdown(id: &ThreadId, run: &Run) -> String {
    let mut text = format!("# Thread {id}\n");
    for message in run.messages() {
        match &message.content {
            Content::User { .. } if message.is_by_person() => section(&mut text, "You", &message.text()),
            Content::User { .. } => section(&mut text, "Told to the model", &message.text()),
            Content::Assistant { .. } => {
                let said = message.text();
                if !said.is_empty() {
                    section(&mut text, "The model", &said);
                }
                for call in message.tool_calls() {
                    section(&mut text, &format!("Call of `{}`", shown(&call.name)), &fenced(&call.arguments));
                }
            }
            Content::Tool(result) => {
                let heading = if result.is_error { "Answered with an error" } else { "Answered" };
                section(&mut text, heading, &fenced(&result.text));
            }
        }
    }
    text
}

fn section(text: &mut String, heading: &str, body: &str) {
    text.push_str(&format!("\n## {heading}\n\n{}\n", shown_lines(body).trim_end()));
}

/// A text as a block of code that it cannot close.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{}\n{fence}", text.trim_end())
}
