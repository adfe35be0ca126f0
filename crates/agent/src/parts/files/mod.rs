//! File tools: `ls`, `read_file`, `write_file`, `edit_file`, `glob`, `grep` and, where the backend can, `execute`.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use prowess_backend::{
    Backend, BackendError, Edit, EntryKind, ExecuteRequest, GlobQuery, GrepQuery, ReadRange, VirtualPath,
    WriteMode,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::backends::Backends;
use crate::middleware::{Middleware, Moment};
use crate::model::ToolDefinition;
use crate::tool::{Tool, ToolAnswer, ToolContext, ToolOutput, parsed, schema};

const NAME: &str = "files";
/// The most that `read_file` reads of a file, in bytes.
const MAX_READ_BYTES: u64 = 10 * 1024 * 1024;
/// How many lines `read_file` shows when nobody says otherwise.
const DEFAULT_LINES: usize = 2000;
/// The longest line that is shown whole, in characters.
const MAX_LINE: usize = 2000;
/// How many names a listing shows.
const MAX_NAMES: usize = 1000;
/// How long `execute` may take when nobody says otherwise.
const DEFAULT_EXECUTE: Duration = Duration::from_secs(120);

/// File tools as a part of an agent.
#[derive(Clone, Debug)]
pub struct Files(Backends);

impl Files {
    /// The tools for these files.
    pub fn new(backends: impl Into<Backends>) -> Self {
        Self(backends.into())
    }
}

#[async_trait]
impl Middleware for Files {
    fn name(&self) -> &str {
        NAME
    }

    fn tools(&self, moment: Moment<'_>) -> Vec<Arc<dyn Tool>> {
        let all = [Kind::Ls, Kind::Read, Kind::Write, Kind::Edit, Kind::Glob, Kind::Grep, Kind::Execute];
        let backend = self.0.at(moment);
        let can = |kind: &Kind| *kind != Kind::Execute || backend.executor().is_some();
        all.into_iter()
            .filter(can)
            .map(|kind| Arc::new(FileTool { kind, backend: Arc::clone(&backend) }) as Arc<dyn Tool>)
            .collect()
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
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Ls {
    /// The directory, from the root, such as `/notes`.
    path: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Read {
    /// The file, from the root.
    file_path: String,
    /// The line to begin at, from 0.
    #[serde(default)]
    offset: Option<usize>,
    /// How many lines; 2000 by default.
    #[serde(default)]
    limit: Option<usize>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Write {
    /// The new file, from the root.
    file_path: String,
    /// All of its text.
    content: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EditFile {
    /// The file, from the root.
    file_path: String,
    /// The text to replace, exactly as it stands in the file.
    old_string: String,
    /// What to put there.
    new_string: String,
    /// Whether to replace every occurrence, and not the only one.
    #[serde(default)]
    replace_all: Option<bool>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Glob {
    /// What paths below `path` must look like, such as `**/*.md`.
    pattern: String,
    /// The directory to look in; the root by default.
    #[serde(default)]
    path: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Grep {
    /// A regular expression that lines must match.
    pattern: String,
    /// The file or directory to look in; the root by default.
    #[serde(default)]
    path: Option<String>,
    /// Only files whose path looks like this, such as `**/*.rs`.
    #[serde(default)]
    glob: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Execute {
    /// The command line.
    command: String,
    /// Seconds that it may take; 120 by default.
    #[serde(default)]
    timeout: Option<u64>,
}

#[async_trait]
impl Tool for FileTool {
    fn definition(&self) -> ToolDefinition {
        let (description, parameters) = match self.kind {
            Kind::Ls => ("List the files and directories in a directory.", schema::<Ls>()),
            Kind::Read => (
                "Read a text file, with line numbers. Long files are read in parts, with offset and limit.",
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

    async fn call(&self, arguments: Value, _: ToolContext<'_>) -> ToolOutput {
        let text = match self.kind {
            Kind::Ls => self.with(arguments, |a: Ls| self.ls(a)).await,
            Kind::Read => self.with(arguments, |a: Read| self.read(a)).await,
            Kind::Write => self.with(arguments, |a: Write| self.write(a)).await,
            Kind::Edit => self.with(arguments, |a: EditFile| self.edit(a)).await,
            Kind::Glob => self.with(arguments, |a: Glob| self.glob(a)).await,
            Kind::Grep => self.with(arguments, |a: Grep| self.grep(a)).await,
            Kind::Execute => self.with(arguments, |a: Execute| self.execute(a)).await,
        };
        text.unwrap_or_else(|answer| answer).into()
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
    async fn with<A: DeserializeOwned, W: Future<Output = Result<String, BackendError>>>(
        &self,
        arguments: Value,
        act: impl FnOnce(A) -> W,
    ) -> Result<ToolAnswer, ToolAnswer> {
        let arguments = parsed(self.kind.name(), arguments)?;
        match act(arguments).await {
            Ok(text) => Ok(ToolAnswer::text(text)),
            Err(error) => Err(ToolAnswer::error(format!("Error: {error}"))),
        }
    }

    async fn ls(&self, ls: Ls) -> Result<String, BackendError> {
        let listing = self.backend.ls(&VirtualPath::parse(&ls.path)?).await?;
        let names = listing.entries.iter().map(|entry| match entry.kind {
            EntryKind::Directory => format!("{}/", entry.path),
            _ => entry.path.to_string(),
        });
        Ok(listed(names, "the directory is empty"))
    }

    async fn read(&self, read: Read) -> Result<String, BackendError> {
        let path = VirtualPath::parse(&read.file_path)?;
        let contents = self.backend.read(&path, ReadRange::first(MAX_READ_BYTES)).await?;
        let whole = contents.is_whole();
        let Ok(text) = std::str::from_utf8(&contents.bytes) else {
            return Err(BackendError::NotText { path });
        };
        if text.is_empty() {
            return Ok("(the file is empty)".to_owned());
        }
        let (offset, limit) = (read.offset.unwrap_or(0), read.limit.unwrap_or(DEFAULT_LINES).max(1));
        let mut shown = String::new();
        let lines = text.lines().count();
        for (number, line) in text.lines().enumerate().skip(offset).take(limit) {
            let cut: String = line.chars().take(MAX_LINE).collect();
            let more = if cut.len() < line.len() { " [line truncated]" } else { "" };
            let _ = writeln!(shown, "{:6}\t{cut}{more}", number + 1);
        }
        if shown.is_empty() {
            return Ok(format!("(the file has {lines} lines: there is nothing from line {} on)", offset + 1));
        }
        if offset + limit < lines {
            let more = count(lines - offset - limit, "more line");
            let _ = write!(shown, "[{more}: read on with offset {}]", offset + limit);
        } else if !whole {
            let _ = write!(shown, "[the rest was left out: the file is too long]");
        }
        Ok(shown)
    }

    async fn write(&self, write: Write) -> Result<String, BackendError> {
        let path = VirtualPath::parse(&write.file_path)?;
        let entry = self.backend.write(&path, write.content.into(), WriteMode::CreateNew).await?;
        Ok(format!("Wrote {} ({} bytes).", entry.path, entry.size))
    }

    async fn edit(&self, edit: EditFile) -> Result<String, BackendError> {
        let path = VirtualPath::parse(&edit.file_path)?;
        let change = if edit.replace_all == Some(true) {
            Edit::all(edit.old_string, edit.new_string)
        } else {
            Edit::unique(edit.old_string, edit.new_string)
        };
        let edited = self.backend.edit(&path, &change).await?;
        Ok(format!("Replaced {} in {}.", count(edited.replacements, "occurrence"), edited.entry.path))
    }

    async fn glob(&self, glob: Glob) -> Result<String, BackendError> {
        let base = base(glob.path.as_deref())?;
        // Models write patterns from the root; they are from the base here.
        let query = GlobQuery::new(glob.pattern.trim_start_matches('/'))?.max_results(MAX_NAMES + 1);
        let report = self.backend.glob(&base, &query).await?;
        Ok(listed(report.entries.iter().map(|entry| entry.path.to_string()), "no file matches"))
    }

    async fn grep(&self, grep: Grep) -> Result<String, BackendError> {
        let mut query = GrepQuery::regex(&grep.pattern)?.max_matches(MAX_NAMES);
        if let Some(files) = &grep.glob {
            query = query.in_files(GlobQuery::new(files.trim_start_matches('/'))?);
        }
        let report = self.backend.grep(&base(grep.path.as_deref())?, &query).await?;
        let lines =
            report.matches.iter().map(|found| format!("{}:{}:{}", found.path, found.line, found.text));
        let mut text = listed(lines, "no line matches");
        if report.stopped.is_some() {
            text.push_str("\n[there may be more: ask for less]");
        }
        Ok(text)
    }

    async fn execute(&self, execute: Execute) -> Result<String, BackendError> {
        let Some(executor) = self.backend.executor() else {
            return Ok("Error: commands cannot be run here.".to_owned());
        };
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

fn listed(lines: impl Iterator<Item = String>, none: &str) -> String {
    let mut lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        return format!("({none})");
    }
    if lines.len() > MAX_NAMES {
        lines.truncate(MAX_NAMES);
        lines.push(format!("[only the first {MAX_NAMES} are shown]"));
    }
    lines.join("\n")
}

fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
