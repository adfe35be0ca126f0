//! What tools for skills do, whatever a dialect calls them.

/// What a tool for skills does. Every tool of every dialect does one of these; hosts decide by it, never by a name.
///
/// ```
/// use prowess_skills::{Dialect, SkillToolKind};
///
/// let act = Dialect::act_of("load_skill").unwrap();
/// assert_eq!(act, SkillToolKind::Load);
/// assert!(act.changes_loaded() && !act.runs());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SkillToolKind {
    /// Loads a skill, with arguments or without.
    Load,
    /// Unloads a skill.
    Unload,
    /// Lists the documents of a skill.
    ListDocuments,
    /// Chooses documents of a loaded skill.
    SelectDocuments,
    /// Runs a command of a skill to its end.
    Run,
    /// Starts a command of a skill that can be written to.
    Start,
    /// Writes to a command that was started.
    Write,
    /// Looks at a command that was started.
    Look,
    /// Ends a command that was started.
    End,
}

impl SkillToolKind {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Load,
        Self::Unload,
        Self::ListDocuments,
        Self::SelectDocuments,
        Self::Run,
        Self::Start,
        Self::Write,
        Self::Look,
        Self::End,
    ];

    /// Whether a call that was cut off may be made again: it runs nothing and types nothing.
    pub fn is_idempotent(self) -> bool {
        !matches!(self, Self::Run | Self::Start | Self::Write)
    }

    /// Whether it has an effect on something that runs: it is not only reading.
    pub fn runs(self) -> bool {
        matches!(self, Self::Run | Self::Start | Self::Write | Self::End)
    }

    /// Whether it is about a command, so that its answer reports on one.
    pub fn reports(self) -> bool {
        matches!(self, Self::Run | Self::Start | Self::Write | Self::Look | Self::End)
    }

    /// Whether it belongs to calls before or after it: it goes on with what an earlier call began, or begins something
    /// that only later calls can go on with. It is of no use where nothing is known of other calls.
    pub fn spans_calls(self) -> bool {
        matches!(
            self,
            Self::Unload | Self::SelectDocuments | Self::Start | Self::Write | Self::Look | Self::End
        )
    }

    /// Whether it changes what is loaded.
    pub fn changes_loaded(self) -> bool {
        matches!(self, Self::Load | Self::Unload | Self::SelectDocuments)
    }
}
