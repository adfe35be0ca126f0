//! The stored threads: finding, reading and exporting them.

mod age;
mod lookup;
mod transcript;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use prowess_agent::thread::ThreadInfo;
use prowess_agent::{Event, Message, ThreadId, ThreadState, ThreadStore};
use prowess_store::SqliteStore;

pub(crate) use self::age::{ago, span};
pub(crate) use self::lookup::{Lookup, look_for};
pub(crate) use self::transcript::{export, markdown};
use crate::chat::ThreadDirectory;
use crate::database::DatabaseArgs;
use crate::directories;
use crate::terminal::printable_start;

/// The database of threads, below the state directory.
pub(crate) const FILE: &str = "threads.db";
/// The directory for files of threads, below the state directory.
pub(crate) const FILES: &str = "threads";
/// The prefix of the threads of sub-agents.
const SUB_AGENT: &str = "task-";

/// How many old threads are removed at once, the oldest first.
pub(crate) const MAX_OLD: usize = 100_000;
/// How many threads are searched.
const MAX_SEARCHED: usize = 10_000;
/// How many events are read to find the first message.
const FIRST_EVENTS: usize = 8;
/// How many characters of the first message are shown.
const MAX_TITLE: usize = 60;
/// How many events are read at once.
const PAGE: usize = 1000;

/// How a thread starts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beginning {
    /// The start of its first message.
    pub(crate) title: String,
    /// The directory it was started in.
    pub(crate) directory: Option<PathBuf>,
}

/// A complete thread.
pub(crate) struct LoadedThread {
    pub(crate) beginning: Beginning,
    pub(crate) run: ThreadState,
    /// The model that was called last.
    pub(crate) model: Option<String>,
    /// The waiting questions, one line each.
    pub(crate) questions: Vec<String>,
}

/// Opens the database of threads, and returns it with the state directory. It is not created if it does not exist.
pub(crate) async fn open_store() -> Result<Option<(PathBuf, SqliteStore)>> {
    let state = directories::state().context("there is no home directory for threads: set HOME")?;
    let path = state.join(FILE);
    if !path.exists() {
        return Ok(None);
    }
    let store = SqliteStore::open(&path).await.map_err(|error| anyhow!("{error}"))?;
    Ok(Some((state, store)))
}

/// Opens the database that is named, or else that of threads on this machine, which is not created.
pub(crate) async fn open_named(database: &DatabaseArgs) -> Result<Option<Arc<dyn ThreadStore>>> {
    if let Some(database) = database.open().await? {
        return Ok(Some(database.threads()));
    }
    Ok(open_store().await?.map(|(_, store)| Arc::new(store) as Arc<dyn ThreadStore>))
}

/// The threads of people, the last changed first. Empty threads and those of sub-agents are left out.
pub(crate) async fn all(store: &dyn ThreadStore) -> Result<Vec<ThreadInfo>> {
    let mut threads = store.list(MAX_SEARCHED).await.map_err(|error| anyhow!("{error}"))?;
    threads.retain(is_of_people);
    Ok(threads)
}

/// Whether a thread belongs to a person, and not to a sub-agent.
pub(crate) fn is_of_people(info: &ThreadInfo) -> bool {
    info.events > 0 && !is_of_sub_agent(&info.id)
}

/// Whether a thread belongs to a sub-agent.
pub(crate) fn is_of_sub_agent(id: &ThreadId) -> bool {
    id.as_str().starts_with(SUB_AGENT)
}

/// The threads of people that have not changed for this long, the last changed first.
pub(crate) async fn unchanged_for(store: &SqliteStore, age: Duration) -> Result<Vec<ThreadInfo>> {
    let mut threads = store.unchanged_for(age, MAX_OLD).await.map_err(|error| anyhow!("{error}"))?;
    threads.retain(is_of_people);
    threads.reverse();
    Ok(threads)
}

/// How a thread starts. Empty if it cannot be read.
pub(crate) async fn beginning(store: &dyn ThreadStore, id: &ThreadId) -> Beginning {
    let events = store.events(id, 0, FIRST_EVENTS).await.unwrap_or_default();
    let events: Vec<&Event> = events.iter().map(|stored| &stored.event).collect();
    beginning_of(&events)
}

fn beginning_of(events: &[&Event]) -> Beginning {
    let said = events.iter().find_map(|event| match event {
        Event::TurnStarted { messages } => Some(messages.iter().map(Message::text).collect::<String>()),
        _ => None,
    });
    let directory = events.iter().find_map(|event| ThreadDirectory::noted(event));
    Beginning { title: printable_start(&said.unwrap_or_default(), MAX_TITLE), directory }
}

/// Finds a thread by its name, by the start or end of the name, or the last one of a directory.
pub(crate) async fn find(store: &dyn ThreadStore, directory: &Path, wanted: &str) -> Result<ThreadId> {
    look_for(store, directory, wanted).await?.found(wanted)
}

/// Reads a complete thread.
pub(crate) async fn read(store: &dyn ThreadStore, id: &ThreadId) -> Result<LoadedThread> {
    let (mut run, mut model, mut after) = (ThreadState::default(), None, 0);
    let (mut first, mut asked): (Vec<Event>, Vec<(String, String)>) = (Vec::new(), Vec::new());
    loop {
        let page = store.events(id, after, PAGE).await.map_err(|error| anyhow!("{error}"))?;
        let is_last = page.len() < PAGE;
        after += page.len() as u64;
        for stored in page {
            run.apply(&stored.event).map_err(|error| anyhow!("thread {id}: {error}"))?;
            match &stored.event {
                Event::ModelCalled { model: name } | Event::ModelResponded { model: name, .. } => {
                    model = Some(name.clone());
                }
                Event::Asked { call, question, .. } => {
                    asked.push((call.to_string(), question.question.wording().title));
                }
                _ => {}
            }
            if first.len() < FIRST_EVENTS {
                first.push(stored.event);
            }
        }
        if is_last {
            break;
        }
    }
    let title =
        |call: String| asked.iter().rev().find(|(asked, _)| *asked == call).map(|(_, title)| title.clone());
    let waiting = run.waiting();
    let questions = waiting.into_iter().filter_map(|call| title(call.id.to_string())).collect();
    Ok(LoadedThread { beginning: beginning_of(&first.iter().collect::<Vec<_>>()), run, model, questions })
}

/// The directory for the files of a thread.
pub(crate) fn files(state: &Path, id: &ThreadId) -> PathBuf {
    state.join(FILES).join(id.as_str())
}
