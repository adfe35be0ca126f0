//! `allowed-tools`: what the list of a loaded skill means for other tools.

use std::collections::{BTreeMap, BTreeSet};

use prowess_catalog::CatalogView;
use prowess_permission::{Decision, Pattern};

use crate::delta::LoadedSkill;
use crate::error::{or_none, shorten};
use crate::state::SkillState;
use crate::view::SkillView;

/// The meaning of `allowed-tools`.
///
/// ```
/// use prowess_skills::allowed_tools::{CheckedCall, ToolVerdict};
/// use prowess_skills::{AllowedTools, SessionOptions, SkillSession};
///
/// # use prowess_catalog::{Catalog, Root, ScanOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # std::fs::create_dir(scratch.path().join("greet"))?;
/// # let manifest = "---\nname: greet\ndescription: Says hello.\n---\nWave.\n";
/// # std::fs::write(scratch.path().join("greet/SKILL.md"), manifest)?;
/// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// # let manifest = "---\nname: commit\ndescription: Writes commits.\nallowed-tools: Bash(git:*)\n---\nCommit.\n";
/// # std::fs::create_dir(scratch.path().join("commit"))?;
/// # std::fs::write(scratch.path().join("commit/SKILL.md"), manifest)?;
/// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// let mut options = SessionOptions::default();
/// options.allowed_tools = AllowedTools::Restrict;
/// let session = SkillSession::builder(catalog).options(options).build().await;
/// session.load("commit", None).await?; // it has `allowed-tools: Bash(git:*)`
///
/// let git = CheckedCall { name: "bash", argument: Some("git status") };
/// assert_eq!(session.view().check_tool(git), ToolVerdict::Pass);
/// let curl = CheckedCall { name: "bash", argument: Some("curl example.com") };
/// assert!(matches!(session.view().check_tool(curl), ToolVerdict::Blocked { .. }));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AllowedTools {
    /// The overview shows it as a recommendation.
    #[default]
    Recommend,
    /// Tools outside the lists of loaded skills are blocked.
    Restrict,
    /// prowess does not ask about listed tools while their skill is loaded.
    Preapprove,
}

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
    /// For each name that skills use, the tools that it stands for.
    pub aliases: BTreeMap<String, Vec<String>>,
    /// The tools that [`AllowedTools::Restrict`] never blocks, besides those of the dialect.
    pub always_allowed: BTreeSet<String>,
}

impl Default for ToolNames {
    /// The common names for file tools and shells. Reading, listing and planning are never blocked.
    fn default() -> Self {
        let aliases = [
            ("Bash", &["bash", "execute", "shell"][..]),
            ("Read", &["read_file"]),
            ("Write", &["write_file"]),
            ("Edit", &["edit_file"]),
            ("Glob", &["glob"]),
            ("Grep", &["grep"]),
            ("LS", &["ls"]),
            ("Task", &["task"]),
            ("TodoWrite", &["write_todos"]),
        ];
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Self {
            aliases: aliases.map(|(name, tools)| (name.to_owned(), owned(tools))).into(),
            always_allowed: ["load_skill", "unload_skill", "write_todos", "read_file", "ls"]
                .map(str::to_owned)
                .into(),
        }
    }
}

/// A call of one of your tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedCall<'a> {
    /// The tool.
    pub name: &'a str,
    /// The command or path that a scope such as `Bash(git:*)` applies to.
    pub argument: Option<&'a str>,
}

/// What `allowed-tools` decides about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolVerdict {
    /// Nothing: the permissions decide.
    Pass,
    /// The call needs no question: a loaded skill lists the tool.
    Preapproved {
        /// The skill.
        skill: String,
    },
    /// The call is blocked.
    Blocked {
        /// The answer for the model.
        message: String,
    },
}

impl ToolVerdict {
    /// Combines the verdict with the decision of the permissions. A preapproval avoids a question, but never overrides a
    /// denial. `Permissions::request_preapproved` returns the grant.
    pub fn applied_to(&self, decision: Decision) -> Decision {
        match self {
            Self::Pass => decision,
            Self::Preapproved { .. } if decision == Decision::Ask => Decision::Allow,
            Self::Preapproved { .. } => decision,
            Self::Blocked { .. } => Decision::Deny,
        }
    }
}

impl SkillView {
    /// What the `allowed-tools` of the loaded skills decide about a call of one of your tools.
    ///
    /// The list from the time of loading counts. A skill preapproves nothing if a rule denies it now, if it has moved, or if
    /// its manifest no longer lists the tool.
    pub fn check_tool(&self, call: CheckedCall<'_>) -> ToolVerdict {
        let options = self.engine().options();
        let (visible, state) = (self.visible(), self.state());
        match options.allowed_tools {
            AllowedTools::Recommend => ToolVerdict::Pass,
            AllowedTools::Preapprove => preapproved(&options.tools, &visible.view, state, call),
            AllowedTools::Restrict => {
                let own: Vec<&str> = options.dialect.tool_names().collect();
                restricted(&options.tools, &own, state, call)
            }
        }
    }
}

fn preapproved(
    names: &ToolNames,
    view: &CatalogView,
    state: &SkillState,
    call: CheckedCall<'_>,
) -> ToolVerdict {
    let lists = |skill: &&LoadedSkill| {
        let entry = view.get(&skill.name).filter(|entry| entry.skill.location == skill.location);
        entry.is_some_and(|entry| {
            let listed = skill.allowed_tools.iter().filter(|tool| entry.skill.allowed_tools.contains(tool));
            listed.into_iter().any(|tool| covers(tool, names, call))
        })
    };
    match state.loaded().iter().find(lists) {
        Some(skill) => ToolVerdict::Preapproved { skill: skill.name.clone() },
        None => ToolVerdict::Pass,
    }
}

/// `own` are the dialect's tools for skills.
fn restricted(names: &ToolNames, own: &[&str], state: &SkillState, call: CheckedCall<'_>) -> ToolVerdict {
    let always = own.contains(&call.name) || names.always_allowed.contains(call.name);
    let listed: BTreeSet<&str> =
        state.loaded().iter().flat_map(|skill| &skill.allowed_tools).map(String::as_str).collect();
    if always || listed.is_empty() || listed.iter().any(|tool| covers(tool, names, call)) {
        return ToolVerdict::Pass;
    }
    let listed: Vec<String> = listed.into_iter().map(str::to_owned).collect();
    ToolVerdict::Blocked {
        message: format!(
            "Tool '{}' is not in the allowed-tools list for the currently loaded skills. Allowed tools: {}. \
             If you believe this tool is necessary, explain your reasoning.",
            shorten(&call_text(call, &listed)),
            or_none(&listed)
        ),
    }
}

/// The call as the list would write it: with its argument if the list has scopes.
fn call_text(call: CheckedCall<'_>, listed: &[String]) -> String {
    match call.argument {
        Some(argument) if listed.iter().any(|tool| tool.contains('(')) => {
            format!("{}({argument})", call.name)
        }
        _ => call.name.to_owned(),
    }
}

/// Whether an entry of `allowed-tools` covers a call.
fn covers(listed: &str, names: &ToolNames, call: CheckedCall<'_>) -> bool {
    let (name, scope) = match listed.split_once('(') {
        Some((name, scope)) => match scope.strip_suffix(')') {
            Some(scope) => (name.trim(), Some(scope.trim())),
            None => return false,
        },
        None => (listed.trim(), None),
    };
    let stands_for = |tool: &str| {
        name == tool || names.aliases.get(name).is_some_and(|tools| tools.iter().any(|known| known == tool))
    };
    let is_shell = name == SHELL
        || names.aliases.get(SHELL).is_some_and(|shells| shells.iter().any(|shell| shell == name));
    let kind = if is_shell { ArgumentKind::Command } else { ArgumentKind::Path };
    stands_for(call.name) && scope.is_none_or(|scope| covers_argument(scope, call.argument, kind))
}

/// The name that skills use for a shell. Its aliases are shells too.
const SHELL: &str = "Bash";
/// The longest scope, in characters.
const MAX_SCOPE_CHARS: usize = 256;
/// The longest argument that a wildcard covers, in bytes.
const MAX_ARGUMENT_BYTES: usize = 64 * 1024;

/// The kind of a tool's argument.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ArgumentKind {
    Command,
    Path,
}

/// Whether a scope covers an argument. For a shell, `git:*` covers `git` with any arguments; any other scope is a pattern.
///
/// A wildcard never covers text that could start a second command. In a path it covers no `..`, and in a command with a path
/// no additional word. A scope without wildcards covers exactly its own text.
fn covers_argument(scope: &str, argument: Option<&str>, kind: ArgumentKind) -> bool {
    if scope == "*" {
        return true;
    }
    let Some(argument) = argument.map(str::trim).filter(|_| !scope.is_empty()) else { return false };
    if scope == argument {
        return true;
    }
    if argument.len() > MAX_ARGUMENT_BYTES
        || has_operators(argument)
        || scope.chars().count() > MAX_SCOPE_CHARS
    {
        return false;
    }
    let prefix = scope.strip_suffix(":*").filter(|_| kind == ArgumentKind::Command);
    let climbs = argument.split(['/', '\\', ' ']).any(|part| part == "..");
    if kind == ArgumentKind::Path && climbs {
        return false;
    }
    if kind == ArgumentKind::Command && scope.contains('/') && prefix.is_none() {
        let words = |text: &str| text.split_whitespace().count();
        // Quotes and shell patterns could hide these.
        if climbs || words(argument) != words(scope) || argument.contains(SHELL_SYNTAX) {
            return false;
        }
    }
    match prefix {
        Some(prefix) => {
            let rest = argument.strip_prefix(prefix.trim_end());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
        }
        None => Pattern::parse(scope).is_ok_and(|pattern| pattern.matches(argument)),
    }
}

/// The characters that a shell expands or removes.
const SHELL_SYNTAX: [char; 14] = ['\'', '"', '\\', '$', '~', '{', '}', '[', ']', '*', '?', '(', ')', '!'];

/// Whether a shell could see more than one simple command, or a redirection, in `text`.
fn has_operators(text: &str) -> bool {
    text.contains([';', '&', '|', '<', '>', '`', '\n', '\r', '\0'])
        || text.contains("$(")
        || text.contains("${")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(listed: &str, name: &str, argument: Option<&str>) -> bool {
        covers(listed, &ToolNames::default(), CheckedCall { name, argument })
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
    fn scopes_bind_words_and_not_letters() {
        for (scope, argument, covers) in [
            ("git:*", "git", true),
            ("git:*", "git status", true),
            ("git:*", "gitk", false),
            ("git status", "git status", true),
            ("git status", "git status -s", false),
            ("git status *", "git status -s", true),
            ("npm run test:*", "npm run test --all", true),
            ("./src/*", "./src/main.rs", true),
            ("cat src/*", "cat src/{.,}./{.,}./etc/passwd", false),
            ("*", "anything; at all", true),
            ("", "anything", false),
            ("cat src/*", "cat src/a", true),
            ("cat src/*", "cat src/a /etc/shadow", false),
            ("cat src/*", "cat src/.\\./x", false),
            ("cat src/*", "cat src/\"..\"/x", false),
            ("git:*", "git commit -m \"a b\"", true),
        ] {
            assert_eq!(
                covered(&format!("Bash({scope})"), "bash", Some(argument)),
                covers,
                "{scope} {argument}"
            );
        }
        assert!(!covered("Bash(git:*)", "bash", None), "without an argument a scope covers nothing");
        assert!(!covered("Bash(git:*", "bash", Some("git")), "an open parenthesis is no scope");
    }

    #[test]
    fn paths_do_not_climb() {
        for (scope, argument, covers) in [
            ("src/*", "src/main.rs", true),
            ("src/*", "src/../../etc/passwd", false),
            ("*.md", "notes/today.md", true),
            ("*.md", "../../../etc/x.md", false),
            ("src*", "src/../../etc/passwd", false),
            ("docs/:*", "docs/ ../../etc/shadow", false),
            ("notes:*", "notes /../../etc/passwd", false),
        ] {
            assert_eq!(
                covered(&format!("Write({scope})"), "write_file", Some(argument)),
                covers,
                "{scope} {argument}"
            );
        }
    }

    #[test]
    fn a_prefix_does_not_cover_a_second_command() {
        for argument in [
            "git status; rm -rf /",
            "git status && rm x",
            "git log | sh",
            "git `rm x`",
            "git $(rm x)",
            "git a\nrm x",
            "git log > /etc/x",
        ] {
            assert!(!covered("Bash(git:*)", "bash", Some(argument)), "{argument}");
            assert!(!covered("Bash(git *)", "bash", Some(argument)), "{argument}");
        }
        assert!(covered("Bash(git log | wc -l)", "bash", Some("git log | wc -l")), "spelled out in full");
    }
}
