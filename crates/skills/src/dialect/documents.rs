//! The tools for documents, which have the same names in all dialects.

use super::table::{Signature, ToolContext, ToolEntry};
use crate::options::Placement;

pub(super) const SELECT: ToolEntry = ToolEntry {
    name: "skill_select_docs",
    signature: Signature::Select,
    describe: |context| format!("Choose which documents of a loaded skill are {}.", placement(context)),
    skill: None,
};

pub(super) const LIST: ToolEntry = ToolEntry {
    name: "skill_list_docs",
    signature: Signature::List,
    describe: |_| "List the documents of a skill.".to_owned(),
    skill: None,
};

/// Where the text of documents goes.
fn placement(context: &ToolContext<'_>) -> &'static str {
    match context.placement {
        Placement::SystemMessage => "in the system message",
        Placement::ToolAnswer => "in the conversation",
    }
}

/// The step about documents in the section of the system prompt.
pub(super) fn step() -> String {
    "**Choose documents**: Use `skill_list_docs` to see its documents, and `skill_select_docs` to put those you need \
     beside its instructions"
        .to_owned()
}
