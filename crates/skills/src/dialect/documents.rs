//! The tools for documents, which all dialects have under the same names.

use super::table::{Entry, Setting, Takes};
use crate::options::Placement;

pub(super) const SELECT: Entry = Entry {
    name: "skill_select_docs",
    takes: Takes::Select,
    says: |setting| format!("Choose which documents of a loaded skill are {}.", place(setting)),
    skill: None,
};

pub(super) const LIST: Entry = Entry {
    name: "skill_list_docs",
    takes: Takes::List,
    says: |_| "List the documents of a skill.".to_owned(),
    skill: None,
};

/// Where the text of documents goes.
fn place(setting: &Setting<'_>) -> &'static str {
    match setting.placement {
        Placement::SystemMessage => "in the system message",
        Placement::ToolAnswer => "in the conversation",
    }
}

/// The step of a section that is about documents.
pub(super) fn step() -> String {
    "**Choose documents**: Use `skill_list_docs` to see its documents, and `skill_select_docs` to put those you need \
     beside its instructions"
        .to_owned()
}
