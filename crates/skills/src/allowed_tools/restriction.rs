//! A restriction: the tools that an agent may call while a skill with a list is loaded.

use std::collections::BTreeSet;

use super::CheckedCall;
use super::names::{NameWildcard, ToolNames};
use crate::error::{or_none, shorten};

/// A list of tools that restricts an agent, and the agents that work for it.
///
/// ```
/// use prowess_skills::allowed_tools::{CheckedCall, Restriction, ToolNames};
///
/// let restriction = Restriction::new(["Read".to_owned(), "Bash(git:*)".to_owned()]);
/// let names = ToolNames::default();
/// assert!(restriction.objection(&names, CheckedCall::new("skill_run").argument("git log")).is_none());
/// assert!(restriction.objection(&names, CheckedCall::new("write_file")).is_some());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Restriction(BTreeSet<String>);

impl Restriction {
    /// A restriction to these entries of `allowed-tools`.
    pub fn new(listed: impl IntoIterator<Item = String>) -> Self {
        Self(listed.into_iter().collect())
    }

    /// Adds entries.
    #[must_use]
    pub fn and(mut self, listed: impl IntoIterator<Item = String>) -> Self {
        self.0.extend(listed);
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The answer for the model, if the call is blocked.
    pub fn objection(&self, names: &ToolNames, call: CheckedCall<'_>) -> Option<String> {
        let is_listed = || self.0.iter().any(|tool| names.covers(tool, call, NameWildcard::Counts));
        if names.is_always_allowed(call.name) || is_listed() {
            return None;
        }
        let listed: Vec<String> = self.0.iter().cloned().collect();
        Some(format!(
            "Tool '{}' is not in the allowed-tools list for the currently loaded skills. Allowed tools: {}. \
             If you believe this tool is necessary, explain your reasoning.",
            shorten(&call_text(call, &listed)),
            or_none(&listed)
        ))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_for_many_tools_block_nothing_and_preapprove_nothing() {
        let names = ToolNames::default();
        for (listed, tool, passes) in [
            ("*", "write_file", true),
            ("mcp__docs", "docs__search", true),
            ("mcp__docs__*", "docs__search", true),
            ("mcp__docs", "other__search", false),
            ("mcp__docs", "write_file", false),
            ("mcp__", "docs__search", false),
        ] {
            let restriction = Restriction::new([listed.to_owned()]);
            let call = CheckedCall::new(tool);
            assert_eq!(restriction.objection(&names, call).is_none(), passes, "{listed} {tool}");
            assert!(!names.covers(listed, call, NameWildcard::IsIgnored), "{listed} {tool}");
        }
    }

    #[test]
    fn what_always_stays_allowed_follows_the_list() {
        let mut names = ToolNames::default();
        let restriction = Restriction::new(["Glob".to_owned()]);
        let passes = |names: &ToolNames, tool| restriction.objection(names, CheckedCall::new(tool)).is_none();
        for tool in
            ["skill_load", "skill", "skill_unload", "skill_select_docs", "read_file", "ls", "write_todos"]
        {
            assert!(passes(&names, tool), "{tool}");
        }
        for tool in
            ["skill_run", "skill_exec", "skill_write_stdin", "task", "execute", "docs__x", "write_file"]
        {
            assert!(!passes(&names, tool), "{tool}");
        }
        names.always_allowed = ["task".to_owned()].into();
        assert!(passes(&names, "task") && !passes(&names, "skill_load") && !passes(&names, "read_file"));
        assert!(passes(&names, "skill_poll_session") && passes(&names, "skill_kill_session"));
    }
}
