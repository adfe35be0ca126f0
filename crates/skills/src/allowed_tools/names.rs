//! The names that skills use for tools.

use std::collections::{BTreeMap, BTreeSet};

use super::CheckedCall;
use super::scope::ListedEntry;
use super::table::{self, LISTED_TOOLS, ScopeKind};
use crate::dialect::{SkillToolKind, kind_in_any_dialect};

/// The names that skills use for your tools, and the tools that are never blocked.
///
/// ```
/// use prowess_skills::allowed_tools::ToolNames;
/// use prowess_skills::SessionOptions;
///
/// let mut names = ToolNames::default();
/// names.aliases.insert("WebFetch".into(), vec!["http_get".into()]);
/// names.always_allowed.insert("clock".into());
/// let mut options = SessionOptions::default();
/// options.tools = names;
/// assert!(options.tools.aliases.contains_key("Bash"), "the common names are there");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolNames {
    /// For each name that skills use, the tools that it stands for. The default has the names and tools of
    /// [`LISTED_TOOLS`]; the other names there stand for the same tools.
    pub aliases: BTreeMap<String, Vec<String>>,
    /// The tools that [`AllowedTools::Restrict`](super::AllowedTools::Restrict) never blocks. `load_skill`, `unload_skill` and `read_file` also stand for
    /// the tools of other dialects that load skills, unload skills and read documents of skills.
    pub always_allowed: BTreeSet<String>,
}

/// The tools that are never blocked by default.
pub const DEFAULT_ALWAYS_ALLOWED: [&str; 5] =
    ["load_skill", "unload_skill", "write_todos", "read_file", "ls"];

impl Default for ToolNames {
    /// The common names for file tools, shells and sub-agents. Skills, reading, listing and planning are never blocked.
    fn default() -> Self {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Self {
            aliases: LISTED_TOOLS.iter().map(|row| (row.name.to_owned(), owned(row.tools))).collect(),
            always_allowed: DEFAULT_ALWAYS_ALLOWED.map(str::to_owned).into(),
        }
    }
}

impl ToolNames {
    /// Whether a call is never blocked.
    pub(super) fn is_always_allowed(&self, tool: &str) -> bool {
        let stands_for = match kind_in_any_dialect(tool) {
            // A command that runs can be watched and ended.
            Some(SkillToolKind::Poll | SkillToolKind::End) => return true,
            Some(SkillToolKind::Load | SkillToolKind::Search) => "load_skill",
            Some(SkillToolKind::Unload) => "unload_skill",
            Some(SkillToolKind::ListDocuments | SkillToolKind::SelectDocuments) => "read_file",
            Some(SkillToolKind::Run | SkillToolKind::Start | SkillToolKind::Write) | None => tool,
        };
        [tool, stands_for].iter().any(|name| self.always_allowed.contains(*name))
    }

    /// Whether an entry of `allowed-tools` covers a call.
    pub(super) fn covers(&self, listed: &str, call: CheckedCall<'_>, wildcard: NameWildcard) -> bool {
        let Some(entry) = ListedEntry::parse(listed) else { return false };
        let is_wild = wildcard == NameWildcard::Counts && is_for_many(entry, call.name);
        is_wild
            || (self.stands_for(entry.name, call.name)
                && entry.covers_argument(call, scope_kind(entry.name, self)))
    }

    /// Whether a listed name stands for a tool.
    fn stands_for(&self, listed: &str, tool: &str) -> bool {
        let row = table::row_named(listed);
        let names = [Some(listed), row.map(|row| row.name), row.and_then(|row| row.includes)];
        let has =
            |name: &str| self.aliases.get(name).is_some_and(|tools| tools.iter().any(|known| known == tool));
        listed == tool
            || row.is_some_and(|row| row.name == tool)
            || names.into_iter().flatten().any(has)
            || listed
                .strip_prefix(SERVER_TOOL)
                .is_some_and(|own| own == tool && own.contains(SERVER_SEPARATOR))
    }
}

/// What the name of a server's tool begins with in Claude Code: `mcp__docs__search`. Here it is `docs__search`.
const SERVER_TOOL: &str = "mcp__";
/// What separates a server's label from the name of its tool.
const SERVER_SEPARATOR: &str = "__";

/// Whether entries for many tools count: `*`, and `mcp__docs` or `mcp__docs__*` for all tools of a server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NameWildcard {
    /// They say that nothing is blocked.
    Counts,
    /// A preapproval needs the name of the tool.
    IsIgnored,
}

/// Whether an entry is for all tools, or for all tools of the server that has this tool.
fn is_for_many(entry: ListedEntry<'_>, tool: &str) -> bool {
    let server = entry.name.strip_prefix(SERVER_TOOL).map(|rest| rest.strip_suffix("__*").unwrap_or(rest));
    let is_of_server = |label: &str| {
        !label.is_empty() && tool.split_once(SERVER_SEPARATOR).is_some_and(|(server, _)| server == label)
    };
    entry.is_for_all() && (entry.name == "*" || server.is_some_and(is_of_server))
}

/// What the scope of a listed name is compared with.
fn scope_kind(listed: &str, names: &ToolNames) -> ScopeKind {
    let is_shell = |shells: &Vec<String>| shells.iter().any(|shell| shell == listed);
    match table::row_of(listed) {
        Some(row) => row.scope,
        None if names.aliases.get(SHELL).is_some_and(is_shell) => ScopeKind::Command,
        None => ScopeKind::Path,
    }
}

/// The name that skills use for a shell. Its aliases are shells too.
const SHELL: &str = "Bash";

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(listed: &str, name: &str, argument: Option<&str>) -> bool {
        let call = CheckedCall::new(name).argument(argument);
        ToolNames::default().covers(listed, call, NameWildcard::IsIgnored)
    }

    #[test]
    fn names_are_literal_and_have_aliases() {
        assert!(covered("Read", "Read", None));
        assert!(covered("Read", "read_file", Some("/etc/passwd")));
        assert!(
            !covered("Read", "read", None) && !covered("*", "Read", None) && !covered("Rea*", "Read", None)
        );
    }

    #[test]
    fn names_of_all_agents_stand_for_the_tools_of_prowess() {
        for (listed, tool, covers) in [
            ("bash", "skill_run", true),
            ("Bash", "skill_exec", true),
            ("skill_run", "skill_run", true),
            ("skill_run", "skill_exec", false),
            ("execute", "skill_run", false),
            ("read", "read_file", true),
            ("read_file", "read_file", true),
            ("read_file", "edit_file", false),
            ("Write", "edit_file", true),
            ("write", "edit_file", true),
            ("write_file", "edit_file", false),
            ("Edit", "write_file", false),
            ("MultiEdit", "edit_file", true),
            ("edit", "edit_file", true),
            ("Agent", "task", true),
            ("task", "task", true),
            ("list", "ls", true),
            ("grep", "grep", true),
            ("Glob", "glob", true),
            ("skill", "skill_load", true),
            ("WebFetch", "skill_run", false),
            ("webfetch", "WebFetch", true),
            ("mcp__docs__search", "docs__search", true),
            ("docs__search", "docs__search", true),
            ("mcp__docs", "docs__search", false),
            ("mcp__docs__*", "docs__search", false),
            ("mcp__read_file", "read_file", false),
        ] {
            assert_eq!(covered(listed, tool, None), covers, "{listed} {tool}");
        }
        for (listed, argument, covers) in
            [("skill_run(git:*)", "git log", true), ("bash(git:*)", "rm x", false), ("Task(a)", "a", true)]
        {
            let tool = if listed.starts_with("Task") { "task" } else { "skill_run" };
            assert_eq!(covered(listed, tool, Some(argument)), covers, "{listed} {argument}");
        }
    }

    #[test]
    fn scopes_need_an_argument_and_both_parentheses() {
        assert!(!covered("Bash(git:*)", "bash", None), "without an argument a scope covers nothing");
        assert!(!covered("Bash(git:*", "bash", Some("git")), "an open parenthesis is no scope");
        assert!(covered("Bash(*)", "bash", None) && covered("Bash(:*)", "bash", Some("x; y")));
    }
}
