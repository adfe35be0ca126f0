//! Memory: files that the agent reads at the beginning of a thread and keeps up to date.

use std::fmt::Write as _;

use async_trait::async_trait;
use bytes::Bytes;
use prowess_backend::{Backend, BackendError, Contents, ReadRange, VirtualPath};
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
    sources: Vec<MemorySource>,
}

/// One file of the memory.
#[derive(Clone, Debug)]
struct MemorySource {
    path: VirtualPath,
    contents: SourceContents,
    /// What the file is for, in the guidelines.
    purpose: Option<String>,
}

/// Where the contents of a file come from.
#[derive(Clone, Debug)]
enum SourceContents {
    Backend(Backends),
    /// Read before. `None` if there was no file.
    Given(Option<Bytes>),
}

impl Memory {
    /// Memory in these files.
    pub fn new(backends: impl Into<Backends>, sources: impl IntoIterator<Item = VirtualPath>) -> Self {
        let backends = backends.into();
        let contents = || SourceContents::Backend(backends.clone());
        let source = |path| MemorySource { path, contents: contents(), purpose: None };
        Self { sources: sources.into_iter().map(source).collect() }
    }

    /// Memory without files, for [`Memory::file`].
    pub fn empty() -> Self {
        Self { sources: Vec::new() }
    }

    /// Adds a file whose contents you have read, such as to check them first. `None` means that there is no file yet.
    ///
    /// `path` is the path by which the agent can change the file, and `purpose` says what it is for.
    #[must_use]
    pub fn file(mut self, path: VirtualPath, contents: Option<Bytes>, purpose: impl Into<String>) -> Self {
        let (contents, purpose) = (SourceContents::Given(contents), Some(purpose.into()));
        self.sources.push(MemorySource { path, contents, purpose });
        self
    }

    /// Whether there is no file.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// The files that the thread knows, in the order of the sources. A file that is no longer a source does not count.
    fn known<'a>(
        &'a self,
        state: Option<&'a MemoryState>,
    ) -> impl Iterator<Item = (&'a MemorySource, &'a str)> {
        let text = move |source: &MemorySource| state?.get(&source.path).map(|file| file.text.as_str());
        self.sources.iter().filter_map(move |source| Some((source, text(source)?)))
    }
}

impl MemorySource {
    /// The text of the file, cut at the limit; empty if there is no file.
    async fn read(&self, context: MiddlewareContext<'_>) -> Result<String, BackendError> {
        let (bytes, is_whole) = match &self.contents {
            SourceContents::Backend(backends) => match read(&*backends.at(context), &self.path).await? {
                Some(contents) => (contents.bytes.clone(), contents.is_whole()),
                None => return Ok(String::new()),
            },
            SourceContents::Given(None) => return Ok(String::new()),
            SourceContents::Given(Some(bytes)) => {
                let most = usize::try_from(MAX_MEMORY_BYTES).unwrap_or(usize::MAX);
                (bytes.slice(..bytes.len().min(most)), bytes.len() <= most)
            }
        };
        if is_whole {
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
        // The cut may be in the middle of a character.
        let torn = std::str::from_utf8(&bytes).err().filter(|error| error.error_len().is_none());
        let end = torn.map_or(bytes.len(), |error| error.valid_up_to());
        let text = String::from_utf8_lossy(&bytes[..end]);
        Ok(format!("{text}\n[the rest was left out: only {MAX_MEMORY_BYTES} bytes of the file are read]"))
    }
}

/// The contents of a file, if it exists.
async fn read(backend: &dyn Backend, path: &VirtualPath) -> Result<Option<Contents>, BackendError> {
    match backend.read(path, ReadRange::first(MAX_MEMORY_BYTES)).await {
        Ok(contents) => Ok(Some(contents)),
        Err(BackendError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The files as the thread read them. The text of a missing file is empty.
#[derive(Clone, Debug, Default)]
struct MemoryState(Vec<MemoryFile>);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct MemoryFile {
    path: String,
    text: String,
}

impl MemoryState {
    fn get(&self, path: &VirtualPath) -> Option<&MemoryFile> {
        self.0.iter().find(|file| file.path == path.as_str())
    }
}

impl State for MemoryState {
    type Delta = Vec<MemoryFile>;

    fn apply(&mut self, files: Vec<MemoryFile>) {
        self.0.retain(|known| !files.iter().any(|file| file.path == known.path));
        self.0.extend(files);
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
        let state = context.states.get::<MemoryState>(NAME);
        let mut files = Vec::new();
        for source in &self.sources {
            // Each file is read once per thread.
            if state.is_some_and(|state| state.get(&source.path).is_some()) {
                continue;
            }
            let failed = |error| MiddlewareError::new("read the memory", error);
            let text = source.read(context).await.map_err(failed)?;
            files.push(MemoryFile { path: source.path.to_string(), text });
        }
        if files.is_empty() {
            return Ok(Vec::new());
        }
        Ok(vec![MiddlewareAction::Change(StateChange::new::<MemoryState>(NAME, &files))])
    }

    async fn sections(&self, context: MiddlewareContext<'_>) -> Result<Sections, MiddlewareError> {
        if self.sources.is_empty() {
            return Ok(Sections::default());
        }
        let known: Vec<_> = self.known(context.states.get::<MemoryState>(NAME)).collect();
        let body = known
            .iter()
            .filter(|(_, text)| !text.is_empty())
            .map(|(source, text)| format!("{}\n{text}", source.path));
        let body = body.collect::<Vec<_>>().join("\n\n");
        // The text of a file must not close the tag around it.
        let body = escape_closing_tag(&body, "agent_memory");
        let body = if body.is_empty() { "(No memory loaded)".to_owned() } else { body };
        let text = format!("<agent_memory>\n{body}\n</agent_memory>\n\n{}", guidelines(&known));
        Ok(PromptSection { owner: NAME.to_owned(), text, is_stable: true }.into())
    }
}

/// The guidelines, with the list of files that the agent may write.
fn guidelines(files: &[(&MemorySource, &str)]) -> String {
    let mut list = String::new();
    for (source, text) in files {
        let purpose = source.purpose.iter().map(|purpose| format!(": {purpose}")).collect::<String>();
        let missing = if text.is_empty() { " (empty, or not created yet)" } else { "" };
        // Writing to a String cannot fail.
        let _ = writeln!(list, "- `{}`{purpose}{missing}", source.path);
    }
    let list = escape_closing_tag(&list, "memory_guidelines");
    format!("<memory_guidelines>\n{INTRODUCTION}\n{list}\n{RULES}\n</memory_guidelines>")
}

const INTRODUCTION: &str = "\
The text above was read from files when this conversation started. You maintain these files: change them with
`edit_file`. If a file does not exist, create it with `write_file`.";

const RULES: &str = "\
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
- \"Use this token for the request: …\" Use it, but do not write it anywhere.";
