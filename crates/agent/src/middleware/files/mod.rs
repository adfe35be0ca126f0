//! File tools: `ls`, `read_file`, `write_file`, `edit_file`, `glob`, `grep` and, where the backend can, `execute`.

mod arguments;
mod listed;
mod reach;
mod read;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use prowess_backend::{
    Backend, BackendError, Edit, EntryKind, ExecuteRequest, GlobQuery, GrepQuery, VirtualPath, WriteMode,
};
use prowess_permission::{Action, Permissions};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::arguments::{EditFile, Execute, Glob, Grep, Ls, Read, Write};
use self::listed::{Listed, MAX_NAMES, MAX_NOTES};
use self::reach::{Look, Reach};
use crate::backends::Backends;
use crate::middleware::skills;
use crate::middleware::{Middleware, MiddlewareContext};
use crate::model::ToolDefinition;
use crate::tool::{Tool, ToolAnswer, ToolContext, ToolKind, ToolOutput, parsed, schema};

const NAME: &str = "files";
/// How many lines `read_file` shows when nobody says otherwise.
const DEFAULT_LINES: usize = 2000;
/// The most that one answer shows of files, in bytes.
const MAX_SHOWN: usize = 60_000;
/// How long `execute` may take when nobody says otherwise.
const DEFAULT_EXECUTE: Duration = Duration::from_secs(120);

/// File tools as a part of an agent.
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
/// let agent = Agent::builder(Arc::new(model)).with(files).build()?;
/// let mut thread = agent.open(ThreadId::new()).await?;
/// thread.say("Note the tides.", &NoWatcher).await?;
/// assert_eq!(thread.answer().as_deref(), Some("Noted."));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Files {
    backends: Backends,
    permissions: Option<Permissions>,
}

impl Files {
    /// The tools for these files. Whoever calls them may see and change all of them, but for those of skills: what the
    /// agent is denied is not there for it, and what somebody has to be asked about has to be loaded first.
    pub fn new(backends: impl Into<Backends>) -> Self {
        Self { backends: backends.into(), permissions: None }
    }

    /// The same within these permissions: rules of kind `read` and `write` by the real path of a file on this machine, or
    /// by its path in a backend that is elsewhere, and `run` by command line. What they want asked waits in the thread
    /// where nobody else can be asked. What they deny is not listed, and not found.
    #[must_use]
    pub fn permissions(mut self, permissions: Permissions) -> Self {
        self.permissions = Some(permissions);
        self
    }
}

#[async_trait]
impl Middleware for Files {
    fn name(&self) -> &str {
        NAME
    }

    fn tools(&self, moment: MiddlewareContext<'_>) -> Vec<Arc<dyn Tool>> {
        let backend = self.backends.at(moment);
        let can = |kind: &Kind| *kind != Kind::Execute || backend.executor().is_some();
        let tool =
            |kind| FileTool { kind, backend: Arc::clone(&backend), permissions: self.permissions.clone() };
        KINDS.into_iter().filter(can).map(|kind| Arc::new(tool(kind)) as Arc<dyn Tool>).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ls,
    Read,
    Write,
    Edit,
    Glob,
    Grep,
    Execute,
}

/// All of them, in the order in which a model is told of them.
const KINDS: [Kind; 7] =
    [Kind::Ls, Kind::Read, Kind::Write, Kind::Edit, Kind::Glob, Kind::Grep, Kind::Execute];

#[derive(Debug)]
struct FileTool {
    kind: Kind,
    backend: Arc<dyn Backend>,
    permissions: Option<Permissions>,
}

/// Why a call does not go on.
enum Stop {
    Backend(BackendError),
    /// The call's output instead.
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
    fn defined(&self) -> ToolDefinition {
        let (description, parameters) = match self.kind {
            Kind::Ls => ("List the files and directories in a directory.", schema::<Ls>()),
            Kind::Read => (
                "Read a text file, with line numbers. Read long files in parts, with offset and limit; long lines are \
                 shown in pieces such as 12.1 and 12.2.",
                schema::<Read>(),
            ),
            Kind::Write => ("Write a new file. Change one that exists with edit_file.", schema::<Write>()),
            Kind::Edit => (
                "Replace a text in a file, which must be there once unless replace_all is true. Read the file first.",
                schema::<EditFile>(),
            ),
            Kind::Glob => ("Find files by path.", schema::<Glob>()),
            Kind::Grep => ("Find lines in text files by a regular expression.", schema::<Grep>()),
            Kind::Execute => ("Run a command line where the files are.", schema::<Execute>()),
        };
        ToolDefinition { name: self.kind.name().to_owned(), description: description.to_owned(), parameters }
    }
}

#[async_trait]
impl Tool for FileTool {
    fn definition(&self) -> Arc<ToolDefinition> {
        static MADE: [OnceLock<Arc<ToolDefinition>>; KINDS.len()] = [const { OnceLock::new() }; KINDS.len()];
        Arc::clone(MADE[self.kind as usize].get_or_init(|| self.defined().into()))
    }

    fn act(&self) -> ToolKind {
        match self.kind {
            Kind::Ls => ToolKind::List,
            Kind::Read => ToolKind::Read,
            Kind::Write => ToolKind::Write,
            Kind::Edit => ToolKind::Edit,
            Kind::Glob => ToolKind::Find,
            Kind::Grep => ToolKind::Search,
            Kind::Execute => ToolKind::Execute,
        }
    }

    async fn call(&self, arguments: Value, context: ToolContext<'_>) -> ToolOutput {
        let reach = Reach {
            backend: &*self.backend,
            permissions: self.permissions.as_ref(),
            skills: skills::at(context.moment),
            context,
        };
        let done = match self.kind {
            Kind::Ls => self.with(arguments, |a: Ls| self.ls(a, &reach)).await,
            Kind::Read => self.with(arguments, |a: Read| self.read(a, &reach)).await,
            Kind::Write => self.with(arguments, |a: Write| self.write(a, &reach)).await,
            Kind::Edit => self.with(arguments, |a: EditFile| self.edit(a, &reach)).await,
            Kind::Glob => self.with(arguments, |a: Glob| self.glob(a, &reach)).await,
            Kind::Grep => self.with(arguments, |a: Grep| self.grep(a, &reach)).await,
            Kind::Execute => self.with(arguments, |a: Execute| self.execute(a, &reach)).await,
        };
        done.unwrap_or_else(|stopped| stopped)
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Ls => "ls",
            Self::Read => "read_file",
            Self::Write => "write_file",
            Self::Edit => "edit_file",
            Self::Glob => "glob",
            Self::Grep => "grep",
            Self::Execute => "execute",
        }
    }
}

impl FileTool {
    /// Does something with typed arguments.
    async fn with<A: DeserializeOwned + JsonSchema + 'static, W: Future<Output = Result<String, Stop>>>(
        &self,
        arguments: Value,
        act: impl FnOnce(A) -> W,
    ) -> Result<ToolOutput, ToolOutput> {
        let arguments = parsed(self.kind.name(), arguments)?;
        match act(arguments).await {
            Ok(text) => Ok(ToolAnswer::text(text).into()),
            Err(Stop::Backend(error)) => Err(ToolAnswer::error(format!("Error: {error}")).into()),
            Err(Stop::Output(output)) => Err(output),
        }
    }

    async fn ls(&self, ls: Ls, reach: &Reach<'_>) -> Result<String, Stop> {
        let path = VirtualPath::parse(&ls.path)?;
        let look = reach.look(&path).await?;
        let listing = self.backend.ls(&path).await?;
        let mut names = Listed::default();
        for entry in &listing.entries {
            if names.has_room() && look.names(&entry.path).await {
                let end = if entry.kind == EntryKind::Directory { "/" } else { "" };
                names.add(&format!("{}{end}", entry.path));
            }
        }
        names.note_skipped(&listing.skipped, &look).await;
        names.note(listing.stopped.map(|cap| cap.to_string()));
        Ok(names.or("the directory is empty"))
    }

    async fn read(&self, read: Read, reach: &Reach<'_>) -> Result<String, Stop> {
        let path = VirtualPath::parse(&read.file_path)?;
        reach.look(&path).await?;
        let from = (read.offset, read.piece);
        Ok(read::lines(&*self.backend, &path, from, read.limit.max(1)).await?)
    }

    async fn write(&self, write: Write, reach: &Reach<'_>) -> Result<String, Stop> {
        let path = VirtualPath::parse(&write.file_path)?;
        reach.write(&path, Action::WriteFile { content: write.content.clone() }).await?;
        let entry = self.backend.write(&path, write.content.into(), WriteMode::CreateNew).await?;
        Ok(format!("Wrote {} ({} bytes).", entry.path, entry.size))
    }

    async fn edit(&self, edit: EditFile, reach: &Reach<'_>) -> Result<String, Stop> {
        let path = VirtualPath::parse(&edit.file_path)?;
        let all = edit.replace_all;
        let deed = Action::EditFile {
            old_string: edit.old_string.clone(),
            new_string: edit.new_string.clone(),
            replace_all: all,
        };
        reach.edit(&path, deed).await?;
        let change = if all {
            Edit::all(edit.old_string, edit.new_string)
        } else {
            Edit::unique(edit.old_string, edit.new_string)
        };
        let edited = self.backend.edit(&path, &change).await?;
        Ok(format!("Replaced {} in {}.", count(edited.replacements, "occurrence"), edited.entry.path))
    }

    async fn glob(&self, glob: Glob, reach: &Reach<'_>) -> Result<String, Stop> {
        let base = VirtualPath::parse(&glob.path)?;
        let look = reach.look(&base).await?;
        // Models write patterns from the root; they are from the base here.
        let query = GlobQuery::new(glob.pattern.trim_start_matches('/'))?;
        let report = self.backend.glob(&base, &query).await?;
        let mut names = Listed::default();
        for entry in &report.entries {
            if names.has_room() && look.names(&entry.path).await {
                names.add(entry.path.as_str());
            }
        }
        names.note_skipped(&report.skipped, &look).await;
        names.note(report.stopped.map(|cap| cap.to_string()));
        Ok(names.or("no file matches"))
    }

    async fn grep(&self, grep: Grep, reach: &Reach<'_>) -> Result<String, Stop> {
        let base = VirtualPath::parse(&grep.path)?;
        let look = reach.look(&base).await?;
        let mut query = GrepQuery::regex(&grep.pattern)?.max_matches(MAX_NAMES);
        if let Some(files) = &grep.glob {
            query = query.in_files(GlobQuery::new(files.trim_start_matches('/'))?);
        }
        let report = self.backend.grep(&base, &query).await?;
        let mut lines = Listed::default();
        for found in &report.matches {
            if lines.has_room() && look.shows(&found.path).await {
                lines.add(&format!("{}:{}:{}", found.path, found.line, found.text));
            }
        }
        let mut partial = Vec::new();
        for (path, _) in &report.partial {
            if look.shows(path).await {
                partial.push(format!("{path} was searched in part: read it, or ask for less"));
            }
        }
        lines.note(partial);
        lines.note(self.withheld(&base, query.files(), &look).await);
        lines.note_skipped(&report.skipped, &look).await;
        lines.note(report.stopped.map(|cap| cap.to_string()));
        Ok(lines.or("no line matches"))
    }

    /// The files that a search leaves out because nobody was asked about them, whatever is in them.
    async fn withheld(&self, base: &VirtualPath, files: &GlobQuery, look: &Look<'_>) -> Vec<String> {
        let mut withheld = Vec::new();
        if !look.withholds() {
            return withheld;
        }
        // A base that is a file was asked about itself.
        let Ok(report) = self.backend.glob(base, files).await else { return withheld };
        for path in report.entries.into_iter().map(|entry| entry.path) {
            if withheld.len() <= MAX_NOTES && look.names(&path).await && !look.shows(&path).await {
                withheld.push(format!("{path} needs permission: read it"));
            }
        }
        withheld
    }

    async fn execute(&self, execute: Execute, reach: &Reach<'_>) -> Result<String, Stop> {
        let Some(executor) = self.backend.executor() else {
            return Ok("Error: commands cannot be run here.".to_owned());
        };
        reach.run(&execute.command).await?;
        let request = ExecuteRequest {
            command: execute.command,
            cwd: VirtualPath::root(),
            env: std::collections::BTreeMap::new(),
            timeout: Duration::from_secs(execute.timeout),
        };
        let report = executor.execute(request).await?;
        let end = match report.exit_code {
            Some(code) => format!("[exit code {code}]"),
            None => "[it was killed]".to_owned(),
        };
        let cut = if report.truncated { "\n[the output was truncated]" } else { "" };
        Ok(format!("{}\n{end}{cut}", report.output.trim_end()))
    }
}

fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
