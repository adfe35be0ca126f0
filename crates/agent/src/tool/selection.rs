//! Which tools an agent has, by the names that people write.

use prowess_skills::{Dialect, SkillToolKind};

use super::ToolKind;

/// Which tools of an agent its model gets. By default, all.
///
/// Tools are named as prowess, Claude Code or opencode name them. A name that no tool has selects nothing.
///
/// ```
/// use prowess_agent::tool::{ToolKind, ToolSelection};
///
/// let selection = ToolSelection::only(["Read", "grep", "docs__search"]);
/// assert!(selection.has("read_file", ToolKind::Read) && selection.has("grep", ToolKind::Search));
/// assert!(selection.has("docs__search", ToolKind::Server), "a tool of an MCP server");
/// assert!(!selection.has("write_file", ToolKind::Write));
///
/// let selection = ToolSelection::default().without(["Edit", "Bash"]);
/// assert!(selection.has("read_file", ToolKind::Read) && !selection.has("edit_file", ToolKind::Edit));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolSelection {
    /// `None` for all.
    only: Option<Vec<Named>>,
    without: Vec<Named>,
}

/// The tools that a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Named {
    All,
    Kinds(&'static [ToolKind]),
    Skill(SkillToolKind),
    /// The tool of this name.
    Tool(String),
    /// The tools whose names begin with this text.
    Prefix(String),
    /// The tools of MCP servers whose names begin with this text.
    ServerPrefix(String),
}

impl ToolSelection {
    /// Only these tools.
    pub fn only<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> Self {
        let only = names.into_iter().filter_map(|name| grant(name.as_ref()));
        Self { only: Some(only.collect()), without: Vec::new() }
    }

    /// Without these tools, even if they are selected.
    #[must_use]
    pub fn without<N: AsRef<str>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.without.extend(names.into_iter().flat_map(|name| denied(word(name.as_ref()))));
        self
    }

    /// Whether the model gets a tool.
    pub fn has(&self, name: &str, kind: ToolKind) -> bool {
        self.selects(Some(name), kind)
    }

    /// Whether the model gets all tools of this kind, whatever their names are.
    pub fn has_kind(&self, kind: ToolKind) -> bool {
        self.selects(None, kind)
    }

    fn selects(&self, name: Option<&str>, kind: ToolKind) -> bool {
        let is_one = |named: &Named| named.is(name, kind);
        let is_selected = match &self.only {
            None => true,
            Some(only) => only.iter().any(is_one) || (belongs_to_runs(kind) && only.iter().any(Named::runs)),
        };
        is_selected && !self.without.iter().any(is_one)
    }

    /// Whether the model gets a tool for skills.
    pub fn has_skills(&self) -> bool {
        SkillToolKind::ALL.into_iter().any(|kind| self.has_kind(ToolKind::Skill(kind)))
    }

    /// Whether the model gets a tool for files.
    pub(crate) fn has_files(&self) -> bool {
        FILES.iter().any(|kind| self.has_kind(*kind))
    }
}

impl Named {
    fn is(&self, name: Option<&str>, kind: ToolKind) -> bool {
        let begins = |prefix: &str| name.is_some_and(|name| name.starts_with(prefix));
        match self {
            Self::All => true,
            Self::Kinds(kinds) => kinds.contains(&kind),
            Self::Skill(skill) => kind == ToolKind::Skill(*skill),
            Self::Tool(tool) => name == Some(tool.as_str()),
            Self::Prefix(prefix) => begins(prefix),
            Self::ServerPrefix(prefix) => kind == ToolKind::Server && begins(prefix),
        }
    }

    fn runs(&self) -> bool {
        match self {
            Self::Kinds(kinds) => kinds.iter().any(|kind| kind.runs()),
            Self::Skill(kind) => kind.runs(),
            _ => false,
        }
    }

    fn changes_files(&self) -> bool {
        matches!(self, Self::Kinds(kinds) if kinds.iter().any(|kind| kind.changes_files()))
    }
}

/// Whether a tool is of use only together with those that run commands: a command belongs to a skill, which must be loaded.
fn belongs_to_runs(kind: ToolKind) -> bool {
    matches!(kind, ToolKind::Skill(kind) if !kind.runs())
}

/// What a name in a list of allowed tools stands for. A scope that prowess cannot hold, as in `Bash(git:*)`, gives nothing.
fn grant(name: &str) -> Option<Named> {
    let is_scoped = name.contains('(') && !matches!(word(name), "Task" | "Agent");
    (!is_scoped).then(|| named(word(name)))
}

/// What a name in a list of denied tools stands for. Who must not write or edit files must not copy over them either.
fn denied(name: &str) -> impl Iterator<Item = Named> + use<> {
    let named = named(name);
    let copy = named.changes_files().then_some(Named::Kinds(&[ToolKind::Copy]));
    std::iter::once(named).chain(copy)
}

/// A name without its scope.
fn word(name: &str) -> &str {
    name.split('(').next().unwrap_or_default().trim()
}

const FILES: [ToolKind; 8] = [
    ToolKind::Read,
    ToolKind::Write,
    ToolKind::Edit,
    ToolKind::Copy,
    ToolKind::List,
    ToolKind::Find,
    ToolKind::Search,
    ToolKind::Execute,
];

/// The tools that a name stands for: the table of names that other agents use, and the names of prowess itself.
fn named(name: &str) -> Named {
    use SkillToolKind as Skill;
    let lowercase = name.to_ascii_lowercase();
    Named::Kinds(match lowercase.as_str() {
        "*" => return Named::All,
        "read" | "read_file" | "notebookread" => &[ToolKind::Read],
        "write" => &[ToolKind::Write, ToolKind::Copy],
        "write_file" => &[ToolKind::Write],
        "copy_file" => &[ToolKind::Copy],
        "edit" | "edit_file" | "multiedit" | "patch" | "notebookedit" => &[ToolKind::Edit],
        "ls" | "list" => &[ToolKind::List],
        // Other agents list a directory with a pattern.
        "glob" => &[ToolKind::Find, ToolKind::List],
        "grep" => &[ToolKind::Search],
        "todowrite" | "todoread" | "write_todos" => &[ToolKind::Todo],
        "task" | "agent" => &[ToolKind::Task],
        "skill" => &[
            ToolKind::Skill(Skill::Load),
            ToolKind::Skill(Skill::Unload),
            ToolKind::Skill(Skill::Search),
            ToolKind::Skill(Skill::ListDocuments),
            ToolKind::Skill(Skill::SelectDocuments),
        ],
        "bash" | "execute" | "skill_run" => &[
            ToolKind::Execute,
            ToolKind::Skill(Skill::Run),
            ToolKind::Skill(Skill::Start),
            ToolKind::Skill(Skill::Write),
            ToolKind::Skill(Skill::Poll),
            ToolKind::Skill(Skill::End),
        ],
        own => return Dialect::tool_kind(own).map_or_else(|| server_tool(name), Named::Skill),
    })
}

/// A tool of an MCP server: `LABEL__TOOL`, or as in Claude Code `mcp__LABEL__TOOL` and `mcp__LABEL` for all of them.
fn server_tool(name: &str) -> Named {
    let own = name.strip_prefix("mcp__");
    let tool = own.unwrap_or(name);
    match (own, tool.strip_suffix('*')) {
        (Some(_), Some(prefix)) => Named::ServerPrefix(prefix.to_owned()),
        (None, Some(prefix)) => Named::Prefix(prefix.to_owned()),
        (Some(label), None) if !label.contains("__") => Named::ServerPrefix(format!("{label}__")),
        _ => Named::Tool(tool.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: ToolKind = ToolKind::Skill(SkillToolKind::Load);
    const RUN: ToolKind = ToolKind::Skill(SkillToolKind::Run);

    #[test]
    fn names_of_other_agents_select_our_tools() {
        let claude = ToolSelection::only(["Read", "Glob", "Grep", "TodoWrite", "WebFetch"]);
        for (name, kind, expected) in [
            ("read_file", ToolKind::Read, true),
            ("ls", ToolKind::List, true),
            ("glob", ToolKind::Find, true),
            ("grep", ToolKind::Search, true),
            ("write_todos", ToolKind::Todo, true),
            ("write_file", ToolKind::Write, false),
            ("skill_run", RUN, false),
            ("skill_load", LOAD, false),
            ("docs__search", ToolKind::Server, false),
        ] {
            assert_eq!(claude.has(name, kind), expected, "{name}");
        }
        assert!(!claude.has_skills() && claude.has_files());
    }

    #[test]
    fn commands_need_their_skills_but_not_the_other_way_round() {
        let runs = ToolSelection::only(["bash"]);
        assert!(runs.has_kind(RUN) && runs.has_kind(LOAD));
        let loads = ToolSelection::only(["Skill"]);
        assert!(loads.has_kind(LOAD) && !loads.has_kind(RUN));
        let without = ToolSelection::default().without(["Bash"]);
        assert!(without.has_kind(LOAD) && !without.has_kind(RUN) && without.has_kind(ToolKind::Read));
    }

    #[test]
    fn a_copy_is_a_way_to_write() {
        let copies = |selection: ToolSelection| selection.has("copy_file", ToolKind::Copy);
        assert!(["Write", "copy_file", "*"].into_iter().all(|name| copies(ToolSelection::only([name]))));
        assert!(!["write_file", "Edit", "Bash"].into_iter().any(|name| copies(ToolSelection::only([name]))));
        for name in ["Write", "write_file", "edit", "MultiEdit", "copy_file", "Write(docs/*)"] {
            assert!(!copies(ToolSelection::default().without([name])), "{name}");
        }
        assert!(copies(ToolSelection::default().without(["Read", "Bash"])));
        let copy = ToolSelection::only(["copy_file"]);
        assert!(copy.has_files() && !copy.has_kind(ToolKind::Write));
        let without = ToolSelection::default().without(["copy_file"]);
        assert!(without.has_kind(ToolKind::Write) && without.has_kind(ToolKind::Edit));
    }

    #[test]
    fn our_own_names_select_their_tools() {
        for dialect in Dialect::ALL {
            for name in dialect.tool_names() {
                let kind = ToolKind::Skill(Dialect::tool_kind(name).unwrap());
                assert!(ToolSelection::only([name]).has(name, kind), "{name}");
                assert!(!ToolSelection::default().without([name]).has(name, kind), "{name}");
            }
        }
        let loads = ToolSelection::only(["skill_load"]);
        assert!(loads.has_skills() && !loads.has_kind(RUN) && !loads.has_files());
        let starts = ToolSelection::only(["skill_exec"]);
        assert!(starts.has_kind(LOAD) && !starts.has_kind(RUN));
    }

    #[test]
    fn a_scope_that_cannot_be_held_gives_nothing_and_takes_everything() {
        assert!(!ToolSelection::only(["Bash(git:*)"]).has_kind(RUN));
        assert!(!ToolSelection::default().without(["Bash(rm:*)"]).has_kind(RUN));
        assert!(ToolSelection::only(["Task(reviewer)"]).has_kind(ToolKind::Task));
        assert!(!ToolSelection::only(["(", ""]).has_kind(ToolKind::Read));
    }

    #[test]
    fn tools_of_servers_are_named() {
        let has = |name: &str| ToolSelection::only([name]).has("docs__search", ToolKind::Server);
        assert!(["docs__search", "mcp__docs__search", "mcp__docs", "mcp__docs__*", "*"].into_iter().all(has));
        assert!(!ToolSelection::only(["mcp__*"]).has("write_file", ToolKind::Write), "only those of servers");
        assert!(!["docs", "mcp__doc", "search", "DOCS__SEARCH"].into_iter().any(has));
    }
}
