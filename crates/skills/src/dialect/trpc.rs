//! The dialect `trpc`: `skill_load`, `skill_select_docs`, `skill_list_docs` and `skill_unload`. `skill_load_with_args` is an
//! addition.

use std::collections::BTreeMap;

use prowess_catalog::section::SectionTemplate;
use serde_json::json;

use super::table::{DialectTable, Signature, ToolContext, ToolEntry, section};
use super::{Capabilities, LoadToolNames, LoadedForm, documents, search_tool};
use crate::options::{Lifetime, Placement};
use crate::state::SkillState;

const LOAD_TOOLS: LoadToolNames = LoadToolNames { load: "skill_load", unload: "skill_unload" };

pub(super) static TABLE: DialectTable = DialectTable {
    name: "trpc",
    load_tools: LOAD_TOOLS,
    skill: "skill",
    tools: &[
        ToolEntry {
            name: LOAD_TOOLS.load,
            signature: Signature::LoadDocuments,
            describe: describe_load,
            skill: None,
        },
        ToolEntry {
            name: "skill_load_with_args",
            signature: Signature::LoadArguments,
            describe: |_| "Load a skill that takes arguments.".to_owned(),
            skill: None,
        },
        search_tool::SEARCH,
        documents::SELECT,
        documents::LIST,
        ToolEntry {
            name: LOAD_TOOLS.unload,
            signature: Signature::Unload,
            describe: |_| "Unload a skill that is no longer needed, with its documents.".to_owned(),
            skill: None,
        },
    ],
    capabilities: Capabilities { arguments: false, search: false, ..Capabilities::all() },
    placement: Placement::SystemMessage,
    lifetime: Lifetime::Turn,
    form: LoadedForm::Instructions,
    reselects: true,
    has_heading: false,
    marks_loaded: true,
    not_found: ("unknown skill", ""),
    template,
};

fn describe_load(context: &ToolContext<'_>) -> String {
    let with = if context.capabilities.documents { ", and the documents you choose," } else { "" };
    let place = match context.placement {
        Placement::SystemMessage => "are put into the system message",
        Placement::ToolAnswer => "are in the answer",
    };
    let again = if context.capabilities.documents { " Call it again to choose other documents." } else { "" };
    format!("Load a skill: its instructions{with} {place}.{again}")
}

fn template(capabilities: Capabilities, placement: Placement) -> Option<SectionTemplate> {
    let LoadToolNames { load, unload } = LOAD_TOOLS;
    let place = match placement {
        Placement::SystemMessage => "its instructions are put into the system message",
        Placement::ToolAnswer => "its instructions are in the answer",
    };
    Some(section(&[
        capabilities.search.then(search_tool::step),
        Some(format!("**Load the skill**: Use `{load}` with its name; {place}")),
        capabilities.documents.then(documents::step),
        Some(
            "**Follow the skill's instructions**: They contain step-by-step workflows, best practices, and examples"
                .to_owned(),
        ),
        capabilities.unload.then(|| {
            format!(
                "**Unload when done**: Use `{unload}` to free up a loading slot when a skill is no longer needed"
            )
        }),
    ]))
}

pub(super) fn state_keys(state: &SkillState) -> BTreeMap<String, String> {
    let mut keys = BTreeMap::new();
    for name in state.names() {
        keys.insert(format!("temp:skill:loaded:{name}"), "1".to_owned());
        if let Some(selection) = state.selection(name) {
            let paths: Vec<&str> =
                selection.documents.iter().map(|document| document.path.as_str()).collect();
            let value = if selection.all { "*".to_owned() } else { json!(paths).to_string() };
            keys.insert(format!("temp:skill:docs:{name}"), value);
        }
    }
    keys
}
