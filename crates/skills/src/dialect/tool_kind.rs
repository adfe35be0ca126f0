//! The kinds of tools for skills: what a tool does, regardless of its name in a dialect.

/// What a tool for skills does. Every tool of every dialect has one of these kinds. Decide by the kind, never by a name.
///
/// ```
/// use prowess_skills::{Dialect, SkillToolKind};
///
/// let kind = Dialect::tool_kind("load_skill").unwrap();
/// assert_eq!(kind, SkillToolKind::Load);
/// assert!(kind.changes_loaded() && !kind.runs());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SkillToolKind {
    /// Loads a skill, with arguments or without.
    Load,
    /// Unloads a skill.
    Unload,
    /// Searches the skills.
    Search,
    /// Lists the documents of a skill.
    ListDocuments,
    /// Selects documents of a loaded skill.
    SelectDocuments,
    /// Runs a command of a skill to its end.
    Run,
    /// Starts a command of a skill that the model can type into.
    Start,
    /// Types into a running command.
    Write,
    /// Reads the output of a running command.
    #[serde(rename = "look")]
    Poll,
    /// Ends a running command.
    End,
}

impl SkillToolKind {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Load,
        Self::Unload,
        Self::Search,
        Self::ListDocuments,
        Self::SelectDocuments,
        Self::Run,
        Self::Start,
        Self::Write,
        Self::Poll,
        Self::End,
    ];

    /// Whether an interrupted call may be repeated: it runs nothing and types nothing.
    pub fn is_idempotent(self) -> bool {
        !matches!(self, Self::Run | Self::Start | Self::Write)
    }

    /// Whether it starts, changes or ends a run.
    pub fn runs(self) -> bool {
        matches!(self, Self::Run | Self::Start | Self::Write | Self::End)
    }

    /// Whether its answer reports on a run.
    pub fn reports(self) -> bool {
        matches!(self, Self::Run | Self::Start | Self::Write | Self::Poll | Self::End)
    }

    /// Whether it depends on other calls: it continues an earlier call, or only later calls can continue it. It is useless
    /// for a client whose calls share no session.
    pub fn spans_calls(self) -> bool {
        matches!(
            self,
            Self::Unload | Self::SelectDocuments | Self::Start | Self::Write | Self::Poll | Self::End
        )
    }

    /// Whether it changes what is loaded.
    pub fn changes_loaded(self) -> bool {
        matches!(self, Self::Load | Self::Unload | Self::SelectDocuments)
    }
}
