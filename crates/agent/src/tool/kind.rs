//! The kinds of work that tools do, whatever their names are.

use prowess_skills::SkillToolKind;

/// The kind of work that a tool does. Middleware and programs decide by the kind. Names are for models, and for rules
/// that people write.
///
/// A thread can contain calls of a tool that no longer exists. Its kind is unknown, so its calls and answers stay as they
/// are.
///
/// ```
/// use prowess_agent::tool::ToolKind;
///
/// assert!(ToolKind::Read.reads_files() && ToolKind::Read.is_idempotent());
/// assert!(ToolKind::Write.holds_file_text(), "the model need not read the written text again");
/// assert!(!ToolKind::Other.is_idempotent(), "it may do anything");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ToolKind {
    /// Shows a file.
    Read,
    /// Writes a file.
    Write,
    /// Edits a file.
    Edit,
    /// Copies a file.
    Copy,
    /// Lists a directory.
    List,
    /// Finds files by their paths.
    Find,
    /// Finds lines in files.
    Search,
    /// Runs a command line.
    Execute,
    /// Writes the todo list.
    Todo,
    /// Hands work to a sub-agent.
    Task,
    /// Does something with skills.
    Skill(SkillToolKind),
    /// Calls a tool of an MCP server. It may do anything.
    Server,
    /// Something else. It may do anything.
    #[default]
    Other,
}

impl ToolKind {
    /// Whether a call that was cut off can be repeated: it changes nothing, or does the same each time.
    pub fn is_idempotent(self) -> bool {
        match self {
            // A task has its own thread, so it continues where it was.
            Self::Read | Self::List | Self::Find | Self::Search | Self::Todo | Self::Task => true,
            Self::Skill(kind) => kind.is_idempotent(),
            Self::Write | Self::Edit | Self::Copy | Self::Execute | Self::Server | Self::Other => false,
        }
    }

    /// Whether it reads files that the agent works on.
    pub fn reads_files(self) -> bool {
        matches!(self, Self::Read | Self::Edit | Self::List | Self::Find | Self::Search)
    }

    /// Whether it changes files that the agent works on.
    pub fn changes_files(self) -> bool {
        matches!(self, Self::Write | Self::Edit | Self::Copy)
    }

    /// Whether it runs a command, or controls a running one.
    pub fn runs(self) -> bool {
        match self {
            Self::Execute => true,
            Self::Skill(kind) => kind.runs(),
            _ => false,
        }
    }

    /// Whether its arguments contain the text of files. In old calls that text can be shortened, because it is in the file.
    pub fn holds_file_text(self) -> bool {
        matches!(self, Self::Write | Self::Edit)
    }

    /// Whether its answer shows files. Such an answer needs no eviction: its text is in a file already.
    pub fn shows_files(self) -> bool {
        self.reads_files()
    }
}
