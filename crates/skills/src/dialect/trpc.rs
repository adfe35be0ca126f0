//! `skill_load`, `skill_select_docs`, `skill_list_docs` and `skill_unload`; and `skill_load_with_args` for what its origin
//! lacks.

use std::collections::BTreeMap;

use prowess_catalog::section::SectionTemplate;
use serde_json::json;

use super::table::{Entry, Setting, Table, Takes, section};
use super::{Capabilities, Form, LoadToolNames, documents};
use crate::options::{Lifetime, Placement};
use crate::state::SkillState;

const WORDS: LoadToolNames = LoadToolNames { load: "skill_load", unload: "skill_unload" };

pub(super) static TABLE: Table = Table {
    name: "trpc",
    words: WORDS,
    skill: "skill",
    tools: &[
        Entry { name: WORDS.load, takes: Takes::LoadDocuments, says: load_says, skill: None },
        Entry {
            name: "skill_load_with_args",
            takes: Takes::LoadArguments,
            says: |_| "Load a skill that takes arguments.".to_owned(),
            skill: None,
        },
        documents::SELECT,
        documents::LIST,
        Entry {
            name: WORDS.unload,
            takes: Takes::Unload,
            says: |_| "Unload a skill that is no longer needed, with its documents.".to_owned(),
            skill: None,
        },
    ],
    capabilities: Capabilities { arguments: false, ..Capabilities::all() },
    placement: Placement::SystemMessage,
    lifetime: Lifetime::Turn,
    form: Form::Body,
    reselects: true,
    has_heading: false,
    marks_loaded: true,
    not_found: ("unknown skill", ""),
    template,
};

fn load_says(setting: &Setting<'_>) -> String {
    let with = if setting.capabilities.documents { ", and the documents you choose," } else { "" };
    let place = match setting.placement {
        Placement::SystemMessage => "are put into the system message",
        Placement::ToolAnswer => "are in the answer",
    };
    let again = if setting.capabilities.documents { " Call it again to choose other documents." } else { "" };
    format!("Load a skill: its instructions{with} {place}.{again}")
}

fn template(capabilities: Capabilities, placement: Placement) -> Option<SectionTemplate> {
    let LoadToolNames { load, unload } = WORDS;
    let place = match placement {
        Placement::SystemMessage => "its instructions are put into the system message",
        Placement::ToolAnswer => "its instructions are in the answer",
    };
    Some(section(&[
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
