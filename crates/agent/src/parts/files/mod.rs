//! File tools: `ls`, `read_file`, `write_file`, `edit_file`, `glob`, `grep` and, where the backend can, `execute`.

mod arguments;
mod reach;
mod read;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use prowess_backend::{
    Backend, BackendError, Edit, EntryKind, ExecuteRequest, GlobQuery, GrepQuery, VirtualPath, WriteMode,
};
use prowess_permission::Permissions;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use self::arguments::{EditFile, Execute, Glob, Grep, Ls, Read, Write};
use self::reach::{Look, Reach};
use crate::backends::Backends;
use crate::middleware::{Middleware, Moment};
use crate::model::ToolDefinition;
use crate::tool::{Tool, ToolAnswer, ToolContext, ToolOutput, parsed, schema};

const NAME: &str = "files";
/// How many lines `read_file` shows when nobody says otherwise.
const DEFAULT_LINES: usize = 2000;
/// The most that one answer shows of files, in bytes.
const MAX_SHOWN: usize = 60_000;
/// How many names or lines a listing shows.
const MAX_NAMES: usize = 1000;
/// How many notes of a kind a listing has.
const MAX_NOTES: usize = 10;
/// How long `execute` may take when nobody says otherwise.
const DEFAULT_EXECUTE: Duration = Duration::from_secs(120);

/// File tools as a part of an agent.
#[derive(Clone, Debug)]
pub struct Files {
    backends: Backends,
    permissions: Option<Permissions>,
}

impl Files {
    /// The tools for these files. Whoever calls them may see and change all of the files.
    pub fn new(backends: impl Into<Backends>) -> Self {
        Self { backends: backends.into(), permissions: None }
    }

    /// The same within these permissions: rules of kind `read` and `write` by path, and `run` by command line. What
    /// they want asked waits in the thread where nobody else can be asked. What they deny is not listed, and not found.
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

    fn tools(&self, moment: Moment<'_>) -> Vec<Arc<dyn Tool>> {
        let all = [Kind::Ls, Kind::Read, Kind::Write, Kind::Edit, Kind::Glob, Kind::Grep, Kind::Execute];
        let backend = self.backends.at(moment);
        let can = |kind: &Kind| *kind != Kind::Execute || backend.executor().is_some();
        let tool =
            |kind| FileTool { kind, backend: Arc::clone(&backend), permissions: self.permissions.clone() };
        all.into_iter().filter(can).map(|kind| Arc::new(tool(kind)) as Arc<dyn Tool>).collect()
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

#[async_trait]
impl Tool for FileTool {
    fn definition(&self) -> ToolDefinition {
        let (description, parameters) = match self.kind {
            Kind::Ls => ("List the files and directories in a directory.", schema::<Ls>()),
            Kind::Read => (
                "Read a text file, with line numbers. Long files are read in parts, with offset and limit; long lines are \
                 shown in pieces such as 12.1 and 12.2.",
                schema::<Read>(),
            ),
            Kind::Write => {
                ("Write a new file. One that is there is not replaced: use edit_file.", schema::<Write>())
            }
            Kind::Edit => (
                "Replace a text in a file. It must stand there once, or replace_all be true. Read the file first.",
                schema::<EditFile>(),
            ),
            Kind::Glob => ("Find files by their paths.", schema::<Glob>()),
            Kind::Grep => ("Find lines in text files by a regular expression.", schema::<Grep>()),
            Kind::Execute => ("Run a command line where the files are.", schema::<Execute>()),
        };
        ToolDefinition { name: self.kind.name().to_owned(), description: description.to_owned(), parameters }
    }

    fn is_idempotent(&self) -> bool {
        matches!(self.kind, Kind::Ls | Kind::Read | Kind::Glob | Kind::Grep)
    }

    async fn call(&self, arguments: Value, context: ToolContext<'_>) -> ToolOutput {
        let reach = Reach { permissions: self.permissions.as_ref(), context };
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
    async fn with<A: DeserializeOwned, W: Future<Output = Result<String, Stop>>>(
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
        let entries = listing.entries.iter().filter(|entry| look.names(&entry.path));
        let names = entries.map(|entry| match entry.kind {
            EntryKind::Directory => format!("{}/", entry.path),
            _ => entry.path.to_string(),
        });
        let mut text = listed(names, "the directory is empty");
        note(&mut text, skipped(&listing.skipped, &look));
        note(&mut text, listing.stopped.map(|cap| cap.to_string()));
        Ok(text)
    }

    async fn read(&self, read: Read, reach: &Reach<'_>) -> Result<String, Stop> {
        let path = VirtualPath::parse(&read.file_path)?;
        reach.look(&path).await?;
        let from = (read.offset.unwrap_or(0), read.piece.unwrap_or(0));
        let limit = read.limit.unwrap_or(DEFAULT_LINES).max(1);
        Ok(read::lines(&*self.backend, &path, from, limit).await?)
    }

    async fn write(&self, write: Write, reach: &Reach<'_>) -> Result<String, Stop> {
        let path = VirtualPath::parse(&write.file_path)?;
        reach.write(&path, json!({"content": write.content})).await?;
        let entry = self.backend.write(&path, write.content.into(), WriteMode::CreateNew).await?;
        Ok(format!("Wrote {} ({} bytes).", entry.path, entry.size))
    }

    async fn edit(&self, edit: EditFile, reach: &Reach<'_>) -> Result<String, Stop> {
        let path = VirtualPath::parse(&edit.file_path)?;
        let all = edit.replace_all == Some(true);
        let details =
            json!({"old_string": edit.old_string, "new_string": edit.new_string, "replace_all": all});
        reach.edit(&path, details).await?;
        let change = if all {
            Edit::all(edit.old_string, edit.new_string)
        } else {
            Edit::unique(edit.old_string, edit.new_string)
        };
        let edited = self.backend.edit(&path, &change).await?;
        Ok(format!("Replaced {} in {}.", count(edited.replacements, "occurrence"), edited.entry.path))
    }

    async fn glob(&self, glob: Glob, reach: &Reach<'_>) -> Result<String, Stop> {
        let base = base(glob.path.as_deref())?;
        let look = reach.look(&base).await?;
        // Models write patterns from the root; they are from the base here.
        let query = GlobQuery::new(glob.pattern.trim_start_matches('/'))?.max_results(MAX_NAMES + 1);
        let report = self.backend.glob(&base, &query).await?;
        let entries = report.entries.iter().filter(|entry| look.names(&entry.path));
        let mut text = listed(entries.map(|entry| entry.path.to_string()), "no file matches");
        note(&mut text, skipped(&report.skipped, &look));
        note(&mut text, report.stopped.map(|cap| cap.to_string()));
        Ok(text)
    }

    async fn grep(&self, grep: Grep, reach: &Reach<'_>) -> Result<String, Stop> {
        let base = base(grep.path.as_deref())?;
        let look = reach.look(&base).await?;
        let mut query = GrepQuery::regex(&grep.pattern)?.max_matches(MAX_NAMES);
        if let Some(files) = &grep.glob {
            query = query.in_files(GlobQuery::new(files.trim_start_matches('/'))?);
        }
        let report = self.backend.grep(&base, &query).await?;
        let matches = report.matches.iter().filter(|found| look.shows(&found.path));
        let lines = matches.map(|found| format!("{}:{}:{}", found.path, found.line, found.text));
        let mut text = listed(lines, "no line matches");
        let partial = report.partial.iter().map(|(path, _)| path).filter(|path| look.shows(path));
        note(&mut text, partial.map(|path| format!("{path} was searched in part: read it, or ask for less")));
        let withheld = self.withheld(&base, query.files(), &look).await.into_iter();
        note(&mut text, withheld.map(|path| format!("{path} needs permission: read it")));
        note(&mut text, skipped(&report.skipped, &look));
        note(&mut text, report.stopped.map(|cap| cap.to_string()));
        Ok(text)
    }

    /// The files that a search leaves out because nobody was asked about them, whatever is in them.
    async fn withheld(&self, base: &VirtualPath, files: &GlobQuery, look: &Look<'_>) -> Vec<VirtualPath> {
        if !look.withholds() {
            return Vec::new();
        }
        // A base that is a file was asked about itself.
        let Ok(report) = self.backend.glob(base, files).await else { return Vec::new() };
        let paths = report.entries.into_iter().map(|entry| entry.path);
        paths.filter(|path| look.names(path) && !look.shows(path)).take(MAX_NOTES).collect()
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
            timeout: execute.timeout.map_or(DEFAULT_EXECUTE, Duration::from_secs),
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

fn base(path: Option<&str>) -> Result<VirtualPath, BackendError> {
    Ok(path.map(VirtualPath::parse).transpose()?.unwrap_or_else(VirtualPath::root))
}

/// Lines of a listing, as many as may be shown.
fn listed(lines: impl Iterator<Item = String>, none: &str) -> String {
    let (mut text, mut shown) = (String::new(), 0);
    for line in lines {
        if shown == MAX_NAMES || text.len() + line.len() > MAX_SHOWN {
            text.push_str(&format!("[only the first {shown} are shown]\n"));
            break;
        }
        text.push_str(&line);
        text.push('\n');
        shown += 1;
    }
    if text.is_empty() {
        return format!("({none})");
    }
    text.pop();
    text
}

/// Says after a listing what it is not.
fn note(text: &mut String, notes: impl IntoIterator<Item = String>) {
    for note in notes.into_iter().take(MAX_NOTES) {
        text.push_str(&format!("\n[{note}]"));
    }
}

/// What could not be looked at.
fn skipped(errors: &[BackendError], look: &Look<'_>) -> impl Iterator<Item = String> {
    let named = errors.iter().filter(|error| error.path().is_none_or(|path| look.names(path)));
    named.map(|error| format!("left out: {error}"))
}

fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
