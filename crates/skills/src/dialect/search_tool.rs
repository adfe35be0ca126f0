//! The tool that searches skills, which has the same name in all dialects.

use super::table::{Signature, ToolEntry};

/// Its name.
pub(crate) const SEARCH_TOOL: &str = "search_skills";

pub(super) const SEARCH: ToolEntry = ToolEntry {
    name: SEARCH_TOOL,
    signature: Signature::Search,
    describe: |_| "Search all skills, also those that the list leaves out, by words of the task.".to_owned(),
    skill: None,
};

/// The step about searching in the section of the system prompt.
pub(super) fn step() -> String {
    format!(
        "**Search if the list has no match**: Use `{SEARCH_TOOL}(\"words of the task\")` to find skills by what they do"
    )
}
