//! Memory: files that the agent reads at the beginning of a thread and keeps up to date.

use async_trait::async_trait;
use prowess_backend::{Backend, BackendError, ReadRange, VirtualPath};
use serde::{Deserialize, Serialize};

use crate::backends::Backends;
use crate::middleware::tags::escape_closing_tag;
use crate::middleware::{Middleware, MiddlewareAction, MiddlewareContext, MiddlewareError, Sections};
use crate::model::PromptSection;
use crate::state::{AnyState, State};
use crate::thread_state::StateChange;

const NAME: &str = "memory";
/// How much of one file comes into the prompt, in bytes. A note says that a longer file was cut.
pub const MAX_MEMORY_BYTES: u64 = 64 * 1024;

/// The agent's memory: files such as `/memory/AGENTS.md`, which it reads once per thread.
///
/// A missing file is skipped. Any other error stops the turn, so that the agent does not work without its memory. The turn
/// can continue once the file can be read.
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
/// let agent = Agent::builder(Arc::new(model)).middleware(Memory::new(files, [path])).build()?;
/// let mut thread = agent.open(ThreadId::new()).await?;
/// thread.say("How are dates written?", &NoWatcher).await?;
/// assert_eq!(thread.last_response().as_deref(), Some("I know."));
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

/// The text of a file, if it exists, cut at the limit.
async fn read(backend: &dyn Backend, path: &VirtualPath) -> Result<Option<String>, BackendError> {
    let contents = match backend.read(path, ReadRange::first(MAX_MEMORY_BYTES)).await {
        Ok(contents) => contents,
        Err(BackendError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    if contents.is_whole() {
        return Ok(Some(String::from_utf8_lossy(&contents.bytes).into_owned()));
    }
    // The cut may be in the middle of a character.
    let torn = std::str::from_utf8(&contents.bytes).err().filter(|error| error.error_len().is_none());
    let end = torn.map_or(contents.bytes.len(), |error| error.valid_up_to());
    let text = String::from_utf8_lossy(&contents.bytes[..end]);
    Ok(Some(format!("{text}\n[the rest was left out: only {MAX_MEMORY_BYTES} bytes of the file are read]")))
}

/// The files as the thread read them. `None` until it has.
#[derive(Clone, Debug, Default)]
struct MemoryState(Option<Vec<MemoryFile>>);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct MemoryFile {
    path: String,
    text: String,
}

impl State for MemoryState {
    type Delta = Vec<MemoryFile>;

    fn apply(&mut self, files: Vec<MemoryFile>) {
        self.0 = Some(files);
    }
}

#[async_trait]
impl Middleware for Memory {
    fn name(&self) -> &str {
        NAME
    }

    fn state(&self) -> Option<Box<dyn AnyState>> {
        Some(Box::<MemoryState>::default())
    }

    async fn before_agent(
        &self,
        context: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        if context.states.get::<MemoryState>(NAME).is_some_and(|memory| memory.0.is_some()) {
            return Ok(Vec::new());
        }
        let backend = self.backends.at(context);
        let mut files = Vec::new();
        for path in &self.sources {
            let failed = |error| MiddlewareError::new("read the memory", error);
            if let Some(text) = read(&*backend, path).await.map_err(failed)? {
                files.push(MemoryFile { path: path.to_string(), text });
            }
        }
        Ok(vec![MiddlewareAction::Change(StateChange::new::<MemoryState>(NAME, &files))])
    }

    async fn sections(&self, context: MiddlewareContext<'_>) -> Result<Sections, MiddlewareError> {
        let memory = context.states.get::<MemoryState>(NAME);
        let files = memory.and_then(|memory| memory.0.as_deref()).unwrap_or_default();
        let body = files
            .iter()
            .filter(|file| !file.text.is_empty())
            .map(|file| format!("{}\n{}", file.path, file.text));
        let body = body.collect::<Vec<_>>().join("\n\n");
        // The text of a file must not close the tag around it.
        let body = escape_closing_tag(&body, "agent_memory");
        let body = if body.is_empty() { "(No memory loaded)".to_owned() } else { body };
        let text = format!("<agent_memory>\n{body}\n</agent_memory>\n\n{GUIDELINES}");
        Ok(PromptSection { owner: NAME.to_owned(), text, is_stable: true }.into())
    }
}

const GUIDELINES: &str = "\
<memory_guidelines>
The text above was read from files when this conversation started. You maintain these files: change them with
`edit_file`. If a file does not exist, create it with `write_file`.

Write to memory, before anything else in the turn, when
- a person asks you to remember something: \"from now on, write in German\";
- a person corrects how you work, and it will matter again: \"we never commit to main\";
- you learn something for later conversations: where something is, how to use a tool of this project.

Do not write to memory
- things that matter only now: \"I am late today\", the current task, a question and its solution;
- things that the project's files already say;
- credentials of any kind: keys, tokens, passwords. Not even if a person asks.

Examples
- \"Please remember that the staging server is called heron.\" First edit the file, then respond.
- \"What is 17 times 3?\" Respond; there is nothing to remember.
- \"Use this token for the request: …\" Use it, but do not write it anywhere.
</memory_guidelines>";
