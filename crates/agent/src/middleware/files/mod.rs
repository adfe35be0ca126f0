//! File tools: `ls`, `read_file`, `write_file`, `edit_file`, `copy_file`, `glob`, `grep` and, if the backend can run
//! commands, `execute`.

mod access;
mod arguments;
mod change;
mod copy;
mod execute;
mod listing;
mod preview;
mod read;
mod write;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use prowess_backend::{Backend, BackendError, Entry, EntryKind, GlobQuery, GrepQuery, VirtualPath};
use prowess_permission::Permissions;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::access::{FileAccess, ReadAccess};
use self::arguments::{CopyFile, EditFile, Execute, Glob, Grep, Ls, Read, Write};
pub(crate) use self::change::WatchedChanges;
pub use self::change::{ChangeAllowed, ChangeWatcher, FileChange};
use self::listing::{ListingText, MAX_NAMES, MAX_NOTES};
use crate::backends::Backends;
use crate::middleware::{Middleware, MiddlewareContext, skills};
use crate::model::ToolDefinition;
use crate::tool::{
    ChangeKind, ChangedFile, Tool, ToolAnswer, ToolContext, ToolData, ToolKind, ToolOutput, parsed, schema,
};

const NAME: &str = "files";
/// How many lines `read_file` shows by default.
const DEFAULT_LINES: usize = 2000;
/// How much text of files one answer shows, in bytes.
const MAX_SHOWN: usize = 60_000;
/// How long `execute` may take by default.
const DEFAULT_EXECUTE: Duration = Duration::from_secs(120);

/// The file tools.
///
/// ```
/// use std::sync::{Arc, OnceLock};
/// use prowess_agent::middleware::Files;
/// use prowess_agent::{Agent, NoWatcher, ThreadId};
/// use prowess_backend::MemoryBackend;
/// use prowess_models::{ScriptedExpect, Scripted, ScriptedTurn};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Scripted::new([
///     ScriptedTurn::new().call("write_file", json!({"file_path": "/notes.md", "content": "- tides\n"})),
///     ScriptedTurn::new().call("read_file", json!({"file_path": "/notes.md"})),
///     ScriptedTurn::new().expect(ScriptedExpect::new().last("- tides")).say("Noted."),
/// ]);
/// let files = Files::new(Arc::new(MemoryBackend::new()));
/// let agent = Agent::builder(Arc::new(model)).middleware(files).build()?;
/// let mut thread = agent.open(ThreadId::new()).await?;
/// thread.say("Note the tides.", &NoWatcher).await?;
/// assert_eq!(thread.last_response().as_deref(), Some("Noted."));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Files {
    backends: Backends,
    permissions: Option<Permissions>,
    changes: Option<WatchedChanges>,
}

impl Files {
    /// File tools for these files. The agent can read and change all of them, except files of skills.
    ///
    /// Files of a denied skill do not exist for the agent. Files of a skill that needs approval can be read once it is
    /// loaded.
    pub fn new(backends: impl Into<Backends>) -> Self {
        Self { backends: backends.into(), permissions: None, changes: None }
    }

    /// Applies permission rules to the tools.
    ///
    /// Rules of kind `read` and `write` match a file's real path on this machine, or its path in a remote backend. Rules of
    /// kind `run` match the command line. A question waits in the thread if nobody else can be asked. Denied files are
    /// neither listed nor found.
    #[must_use]
    pub fn permissions(mut self, permissions: Permissions) -> Self {
        self.permissions = Some(permissions);
        self
    }

    /// Tells `watcher` about every change that `write_file` and `edit_file` make to files on this machine.
    #[must_use]
    pub fn watch_changes(self, watcher: Arc<dyn ChangeWatcher>) -> Self {
        self.changes(WatchedChanges::new(watcher))
    }

    /// The same, with a lock that several agents share.
    pub(crate) fn changes(mut self, changes: WatchedChanges) -> Self {
        self.changes = Some(changes);
        self
    }
}

#[async_trait]
impl Middleware for Files {
    fn name(&self) -> &str {
        NAME
    }

    fn tools(&self, context: MiddlewareContext<'_>) -> Vec<Arc<dyn Tool>> {
        let backend = self.backends.at(context);
        let can = |kind: &FileToolKind| *kind != FileToolKind::Execute || backend.executor().is_some();
        let tool = |kind| FileTool {
            kind,
            backend: Arc::clone(&backend),
            permissions: self.permissions.clone(),
            changes: self.changes.clone(),
        };
        KINDS.into_iter().filter(can).map(|kind| Arc::new(tool(kind)) as Arc<dyn Tool>).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileToolKind {
    Ls,
    Read,
    Write,
    Edit,
    Copy,
    Glob,
    Grep,
    Execute,
}

/// All file tools, in the order in which the model sees them.
const KINDS: [FileToolKind; 8] = [
    FileToolKind::Ls,
    FileToolKind::Read,
    FileToolKind::Write,
    FileToolKind::Edit,
    FileToolKind::Copy,
    FileToolKind::Glob,
    FileToolKind::Grep,
    FileToolKind::Execute,
];

#[derive(Debug)]
struct FileTool {
    kind: FileToolKind,
    backend: Arc<dyn Backend>,
    permissions: Option<Permissions>,
    changes: Option<WatchedChanges>,
}

/// Why a call ends early.
enum Stop {
    Backend(BackendError),
    /// The call returns this output instead.
    Output(ToolOutput),
}

impl From<BackendError> for Stop {
    fn from(error: BackendError) -> Self {
        Self::Backend(error)
    }
}

impl From<ToolOutput> for Stop {
    fn from(output: ToolOutput) -> Self {
        Self::Output(output)
    }
}

impl FileTool {
    fn create_definition(&self) -> ToolDefinition {
        let (description, parameters) = match self.kind {
            FileToolKind::Ls => ("List the files and directories in a directory.", schema::<Ls>()),
            FileToolKind::Read => (
                "Read a text file, with line numbers. Read long files in parts, with offset and limit; long lines are \
                 shown in pieces such as 12.1 and 12.2.",
                schema::<Read>(),
            ),
            FileToolKind::Write => {
                ("Write a new file. To change a file that exists, use edit_file.", schema::<Write>())
            }
            FileToolKind::Edit => (
                "Replace text in a file. It must occur exactly once, unless replace_all is true. Read the file first.",
                schema::<EditFile>(),
            ),
            FileToolKind::Copy => {
                ("Copy a file of any type, such as a result into the project.", schema::<CopyFile>())
            }
            FileToolKind::Glob => ("Find files by path.", schema::<Glob>()),
            FileToolKind::Grep => ("Find lines in text files by a regular expression.", schema::<Grep>()),
            FileToolKind::Execute => {
                ("Run a command line in the directory of the files.", schema::<Execute>())
            }
        };
        ToolDefinition::new(self.kind.name(), description, parameters)
    }
}

#[async_trait]
impl Tool for FileTool {
    fn definition(&self) -> Arc<ToolDefinition> {
        static DEFINITIONS: [OnceLock<Arc<ToolDefinition>>; KINDS.len()] =
            [const { OnceLock::new() }; KINDS.len()];
        Arc::clone(DEFINITIONS[self.kind as usize].get_or_init(|| self.create_definition().into()))
    }

    fn kind(&self) -> ToolKind {
        match self.kind {
            FileToolKind::Ls => ToolKind::List,
            FileToolKind::Read => ToolKind::Read,
            FileToolKind::Write => ToolKind::Write,
            FileToolKind::Edit => ToolKind::Edit,
            FileToolKind::Copy => ToolKind::Copy,
            FileToolKind::Glob => ToolKind::Find,
            FileToolKind::Grep => ToolKind::Search,
            FileToolKind::Execute => ToolKind::Execute,
        }
    }

    async fn call(&self, arguments: Value, context: ToolContext<'_>) -> ToolOutput {
        let access = FileAccess {
            backend: &*self.backend,
            permissions: self.permissions.as_ref(),
            skills: skills::at(context.middleware),
            context,
            tool: self.kind.name(),
            preapproved_by: OnceLock::new(),
        };
        let done = match self.kind {
            FileToolKind::Ls => self.with(arguments, |a: Ls| self.ls(a, &access)).await,
            FileToolKind::Read => self.with(arguments, |a: Read| self.read(a, &access)).await,
            FileToolKind::Write => self.with(arguments, |a: Write| self.write(a, &access)).await,
            FileToolKind::Edit => self.with(arguments, |a: EditFile| self.edit(a, &access)).await,
            FileToolKind::Copy => self.with(arguments, |a: CopyFile| self.copy(a, &access)).await,
            FileToolKind::Glob => self.with(arguments, |a: Glob| self.glob(a, &access)).await,
            FileToolKind::Grep => self.with(arguments, |a: Grep| self.grep(a, &access)).await,
            FileToolKind::Execute => self.with(arguments, |a: Execute| self.execute(a, &access)).await,
        };
        let output = match done {
            Ok(output) | Err(Stop::Output(output)) => output,
            Err(Stop::Backend(error)) => ToolAnswer::error(self.error_text(&error, context)).into(),
        };
        match output {
            ToolOutput::Done(answer) => answer.preapproved_by(access.preapproved_by.into_inner()).into(),
            output => output,
        }
    }
}

impl FileToolKind {
    fn name(self) -> &'static str {
        match self {
            Self::Ls => "ls",
            Self::Read => "read_file",
            Self::Write => "write_file",
            Self::Edit => "edit_file",
            Self::Copy => "copy_file",
            Self::Glob => "glob",
            Self::Grep => "grep",
            Self::Execute => "execute",
        }
    }
}

impl FileTool {
    /// Parses the arguments and does the work.
    async fn with<A, R, W>(&self, arguments: Value, work: impl FnOnce(A) -> W) -> Result<ToolOutput, Stop>
    where
        A: DeserializeOwned + JsonSchema + 'static,
        R: Into<ToolAnswer>,
        W: Future<Output = Result<R, Stop>>,
    {
        let arguments = parsed(self.kind.name(), arguments).map_err(ToolOutput::from)?;
        Ok(work(arguments).await?.into().into())
    }

    /// An error for the model. It says what the model can do with the tools that it has.
    fn error_text(&self, error: &BackendError, context: ToolContext<'_>) -> String {
        let has = |kind: FileToolKind| context.middleware().tool_kind(kind.name()).is_some();
        let advice = match (error, self.kind) {
            (BackendError::AlreadyExists { .. }, FileToolKind::Copy) => {
                "; choose another path, or set `replace`"
            }
            (BackendError::AlreadyExists { .. }, _) if has(FileToolKind::Edit) => {
                "; choose another path, or change the file with edit_file"
            }
            (BackendError::AlreadyExists { .. }, _) => "; choose another path",
            _ => "",
        };
        format!("Error: {error}{advice}")
    }

    async fn ls(&self, ls: Ls, access: &FileAccess<'_>) -> Result<String, Stop> {
        let path = VirtualPath::parse(&ls.path)?;
        let readable = access.read(&path).await?;
        let listing = self.backend.ls(&path).await?;
        let mut names = ListingText::default();
        for entry in &listing.entries {
            if names.has_room() && readable.may_name(&entry.path).await {
                let end = if entry.kind == EntryKind::Directory { "/" } else { "" };
                names.add(&format!("{}{end}", entry.path));
            }
        }
        names.note_skipped(&listing.skipped, &readable).await;
        names.note(listing.stopped.map(|cap| cap.to_string()));
        Ok(names.finish("the directory is empty"))
    }

    async fn read(&self, read: Read, access: &FileAccess<'_>) -> Result<String, Stop> {
        let path = VirtualPath::parse(&read.file_path)?;
        access.read(&path).await?;
        let from = (read.offset, read.piece);
        Ok(read::lines(&*self.backend, &path, from, read.limit.max(1)).await?)
    }

    /// The answer of a call that changed a file.
    async fn changed(&self, text: String, entry: &Entry, change: ChangeKind) -> ToolAnswer {
        let target = self.backend.target(&entry.path).await;
        let on_disk = target.on_disk.last().map(|path| path.to_string_lossy().into_owned());
        let file = ChangedFile { path: entry.path.to_string(), on_disk, bytes: entry.size, change };
        ToolAnswer { data: Some(ToolData::ChangedFile(Box::new(file))), ..ToolAnswer::text(text) }
    }

    async fn glob(&self, glob: Glob, access: &FileAccess<'_>) -> Result<String, Stop> {
        let (base, pattern) = absolute(&glob.path, &glob.pattern);
        let base = VirtualPath::parse(base)?;
        let readable = access.read(&base).await?;
        let query = GlobQuery::new(pattern)?;
        let report = self.backend.glob(&base, &query).await?;
        let mut names = ListingText::default();
        for entry in &report.entries {
            if names.has_room() && readable.may_name(&entry.path).await {
                names.add(entry.path.as_str());
            }
        }
        names.note_skipped(&report.skipped, &readable).await;
        names.note(report.stopped.map(|cap| cap.to_string()));
        Ok(names.finish("no file matches"))
    }

    async fn grep(&self, grep: Grep, access: &FileAccess<'_>) -> Result<String, Stop> {
        let base = VirtualPath::parse(&grep.path)?;
        let readable = access.read(&base).await?;
        let mut query = GrepQuery::regex(&grep.pattern)?.max_matches(MAX_NAMES);
        if let Some(files) = &grep.glob {
            query = query.files(GlobQuery::new(files.trim_start_matches('/'))?);
        }
        let report = self.backend.grep(&base, &query).await?;
        let mut lines = ListingText::default();
        for found in &report.matches {
            if lines.has_room() && readable.may_show(&found.path).await {
                lines.add(&format!("{}:{}:{}", found.path, found.line, found.text));
            }
        }
        let mut partial = Vec::new();
        for (path, _) in &report.partial {
            if readable.may_show(path).await {
                partial.push(format!("{path} was searched in part: read it, or ask for less"));
            }
        }
        lines.note(partial);
        lines.note(self.withheld(&base, query.searched_files(), &readable).await);
        lines.note_skipped(&report.skipped, &readable).await;
        lines.note(report.stopped.map(|cap| cap.to_string()));
        Ok(lines.finish("no line matches"))
    }

    /// Notes about the files that a search leaves out because nobody was asked about them.
    async fn withheld(
        &self,
        base: &VirtualPath,
        files: &GlobQuery,
        readable: &ReadAccess<'_>,
    ) -> Vec<String> {
        let mut withheld = Vec::new();
        if !readable.can_withhold() {
            return withheld;
        }
        // If the base is a file, the person was asked about it.
        let Ok(report) = self.backend.glob(base, files).await else { return withheld };
        for path in report.entries.into_iter().map(|entry| entry.path) {
            if withheld.len() <= MAX_NOTES
                && readable.may_name(&path).await
                && !readable.may_show(&path).await
            {
                withheld.push(format!("{path} needs permission: read it"));
            }
        }
        withheld
    }
}

/// The directory and the pattern of a search. A pattern from the root, such as `/project/*.md`, names its own directory.
fn absolute<'a>(path: &'a str, pattern: &'a str) -> (&'a str, &'a str) {
    let literal = pattern.find(['*', '?', '[', '{']).map_or(pattern, |at| &pattern[..at]);
    match literal.rfind('/') {
        Some(end) if path == "/" && end > 0 && pattern.starts_with('/') => {
            (&pattern[..end], &pattern[end + 1..])
        }
        // Models write patterns from the root. Here they start at the base.
        _ => (path, pattern.trim_start_matches('/')),
    }
}

fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
