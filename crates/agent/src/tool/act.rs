//! What tools do, whatever they are called.

use prowess_skills::SkillToolKind;

/// What a tool does. Parts and hosts go by it: names are for models, and for rules that people write.
///
/// A name in an old thread may be that of a tool which is no longer there. Nobody knows what that did: its calls and results
/// stay as they are.
///
/// ```
/// use prowess_agent::tool::ToolKind;
///
/// assert!(ToolKind::Read.reads_files() && ToolKind::Read.is_idempotent());
/// assert!(ToolKind::Write.holds_file_text(), "what is written need not be read again and again");
/// assert!(!ToolKind::Other.is_idempotent(), "nobody knows");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ToolKind {
    /// Shows a file.
    Read,
    /// Writes a file.
    Write,
    /// Changes a part of a file.
    Edit,
    /// Shows what is in a directory.
    List,
    /// Finds files by their paths.
    Find,
    /// Finds lines in files.
    Search,
    /// Runs a command line.
    Execute,
    /// Writes the list of steps.
    Todo,
    /// Hands work to a sub-agent.
    Task,
    /// Does something with skills.
    Skill(SkillToolKind),
    /// Calls a tool of an MCP server: it may do anything.
    Server,
    /// Something else: it may do anything.
    #[default]
    Other,
}

impl ToolKind {
    /// Whether a call that was cut off may be made again: it does nothing, or the same each time.
    pub fn is_idempotent(self) -> bool {
        match self {
            // A task has a thread, which has what was done already.
            Self::Read | Self::List | Self::Find | Self::Search | Self::Todo | Self::Task => true,
            Self::Skill(act) => act.is_idempotent(),
            Self::Write | Self::Edit | Self::Execute | Self::Server | Self::Other => false,
        }
    }

    /// Whether it looks at files that the agent works on.
    pub fn reads_files(self) -> bool {
        matches!(self, Self::Read | Self::Edit | Self::List | Self::Find | Self::Search)
    }

    /// Whether it changes files that the agent works on.
    pub fn changes_files(self) -> bool {
        matches!(self, Self::Write | Self::Edit)
    }

    /// Whether it runs a command, or does something to one that runs.
    pub fn runs(self) -> bool {
        match self {
            Self::Execute => true,
            Self::Skill(act) => act.runs(),
            _ => false,
        }
    }

    /// Whether its arguments have the text of files, which can be read where it was written: in old calls it may be cut.
    pub fn holds_file_text(self) -> bool {
        matches!(self, Self::Write | Self::Edit)
    }

    /// Whether its answer is about files, in parts that can be asked for again: it is in a file already.
    pub fn shows_files(self) -> bool {
        self.reads_files()
    }
}
