//! Memory: files that the agent reads at the beginning of a session and keeps up to date.

use async_trait::async_trait;
use prowess_backend::{Backend, BackendError, ReadRange, VirtualPath};
use serde::{Deserialize, Serialize};

use crate::backends::Backends;
use crate::middleware::frame::unclosed;
use crate::middleware::{Middleware, MiddlewareAction, MiddlewareContext, MiddlewareError, Sections};
use crate::model::PromptSection;
use crate::state::{AnyState, State};
use crate::thread_state::StateChange;

const NAME: &str = "memory";
/// The most that one file brings into the prompt. What is longer is cut, and says so.
pub const MAX_MEMORY_BYTES: u64 = 64 * 1024;

/// Memory as a part of an agent: files such as `/memory/AGENTS.md`, read once per thread.
///
/// A file that is not there is passed over. Any other trouble stops the turn, which can be gone on with once the trouble
/// is over: an agent that forgot what it was told is worse than one that says so.
///
/// ```
/// use std::sync::Arc;
/// use prowess_agent::middleware::Memory;
/// use prowess_agent::{Agent, NoWatcher, ThreadId};
/// use prowess_backend::{Backend as _, MemoryBackend, VirtualPath};
/// use prowess_models::{ScriptedExpect, Scripted, ScriptedTurn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let files = Arc::new(MemoryBackend::new());
/// let path = VirtualPath::parse("/memory/AGENTS.md")?;
/// files.append(&path, "Dates are written as 2026-06-30.".into()).await?;
/// let model = Scripted::new([ScriptedTurn::new().expect(ScriptedExpect::new().system("2026-06-30")).say("I know.")]);
/// let agent = Agent::builder(Arc::new(model)).with(Memory::new(files, [path])).build()?;
/// let mut thread = agent.open(ThreadId::new()).await?;
/// thread.say("How are dates written?", &NoWatcher).await?;
/// assert_eq!(thread.answer().as_deref(), Some("I know."));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Memory {
    backends: Backends,
    sources: Vec<VirtualPath>,
}

impl Memory {
    /// Memory in these files.
    pub fn new(backends: impl Into<Backends>, sources: impl IntoIterator<Item = VirtualPath>) -> Self {
        Self { backends: backends.into(), sources: sources.into_iter().collect() }
    }
}

/// What a file brings into the prompt, if it is there.
async fn read(backend: &dyn Backend, path: &VirtualPath) -> Result<Option<String>, BackendError> {
    let contents = match backend.read(path, ReadRange::first(MAX_MEMORY_BYTES)).await {
        Ok(contents) => contents,
        Err(BackendError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    if contents.is_whole() {
        return Ok(Some(String::from_utf8_lossy(&contents.bytes).into_owned()));
    }
    // The last character may be torn.
    let torn = std::str::from_utf8(&contents.bytes).err().filter(|error| error.error_len().is_none());
    let end = torn.map_or(contents.bytes.len(), |error| error.valid_up_to());
    let text = String::from_utf8_lossy(&contents.bytes[..end]);
    Ok(Some(format!("{text}\n[the rest was left out: only {MAX_MEMORY_BYTES} bytes of the file are read]")))
}

/// What was read: paths and contents; `None` while nothing was.
#[derive(Clone, Debug, Default)]
struct Read(Option<Vec<Entry>>);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    path: String,
    text: String,
}

impl State for Read {
    type Delta = Vec<Entry>;

    fn apply(&mut self, entries: Vec<Entry>) {
        self.0 = Some(entries);
    }
}

#[async_trait]
impl Middleware for Memory {
    fn name(&self) -> &str {
        NAME
    }

    fn state(&self) -> Option<Box<dyn AnyState>> {
        Some(Box::<Read>::default())
    }

    async fn before_agent(
        &self,
        moment: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        if moment.states.get::<Read>(NAME).is_some_and(|read| read.0.is_some()) {
            return Ok(Vec::new());
        }
        let backend = self.backends.at(moment);
        let mut entries = Vec::new();
        for path in &self.sources {
            let failed = |error| MiddlewareError::new("read what it remembers", error);
            if let Some(text) = read(&*backend, path).await.map_err(failed)? {
                entries.push(Entry { path: path.to_string(), text });
            }
        }
        Ok(vec![MiddlewareAction::Change(StateChange::new::<Read>(NAME, &entries))])
    }

    async fn sections(&self, moment: MiddlewareContext<'_>) -> Result<Sections, MiddlewareError> {
        let read = moment.states.get::<Read>(NAME).and_then(|read| read.0.as_deref()).unwrap_or_default();
        let body = read
            .iter()
            .filter(|entry| !entry.text.is_empty())
            .map(|entry| format!("{}\n{}", entry.path, entry.text));
        let body = body.collect::<Vec<_>>().join("\n\n");
        // A file cannot close the place that it stands in.
        let body = unclosed(&body, "agent_memory");
        let body = if body.is_empty() { "(No memory loaded)".to_owned() } else { body };
        let text = format!("<agent_memory>\n{body}\n</agent_memory>\n\n{GUIDELINES}");
        Ok(PromptSection { owner: NAME.to_owned(), text, is_stable: true }.into())
    }
}

const GUIDELINES: &str = "\
<memory_guidelines>
The text above was read from files when this session began. They are yours to keep: change them with `edit_file`, or
make them with `write_file` where there are none yet.

Write to memory, before anything else that you do in the turn, when
- a person asks you to remember something: \"from now on, answer in German\";
- a person corrects how you work, and it will matter again: \"we never commit to main\";
- you learn what you will need in later sessions: where something is, how a tool of this project is used.

Do not write to memory
- what is of use only now: \"I am late today\", the task at hand, a question and its answer;
- what the files of the project say already;
- credentials of any kind: keys, tokens, passwords. Not even when asked.

Examples
- \"Please remember that the staging server is called heron.\" First edit the file, then answer.
- \"What is 17 times 3?\" Answer; there is nothing to remember.
- \"Use this token for the request: …\" Use it, and write it nowhere.
</memory_guidelines>";
