//! The dialect `opencode`: `skill`, whose description lists the skills. `skill_unload` and `skill_with_args` are additions.

use prowess_catalog::untrusted::code_text;

use super::table::{DialectTable, Signature, ToolContext, ToolEntry};
use super::{Capabilities, LoadToolNames, LoadedForm, MAX_ENUM_NAMES, documents, search_tool};
use crate::options::{Lifetime, Placement};

const LOAD_TOOLS: LoadToolNames = LoadToolNames { load: "skill", unload: "skill_unload" };

pub(super) static TABLE: DialectTable = DialectTable {
    name: "opencode",
    load_tools: LOAD_TOOLS,
    skill: "name",
    tools: &[
        ToolEntry {
            name: LOAD_TOOLS.load,
            signature: Signature::Load,
            describe: describe_load,
            skill: Some("The name of the skill, as in the list of skills."),
        },
        ToolEntry {
            name: "skill_with_args",
            signature: Signature::LoadArguments,
            describe: describe_load_with_args,
            skill: None,
        },
        search_tool::SEARCH,
        documents::SELECT,
        documents::LIST,
        ToolEntry {
            name: LOAD_TOOLS.unload,
            signature: Signature::Unload,
            describe: |_| {
                "Unload a skill that is no longer needed, so that another one can be loaded.".to_owned()
            },
            skill: Some("The name of the loaded skill."),
        },
    ],
    capabilities: Capabilities { unload: true, ..Capabilities::none() },
    placement: Placement::ToolAnswer,
    lifetime: Lifetime::Session,
    form: LoadedForm::Instructions,
    reselects: false,
    has_heading: true,
    marks_loaded: false,
    not_found: ("Skill", " not found"),
    // Its tool lists the skills.
    template: |_, _| None,
};

fn describe_load(context: &ToolContext<'_>) -> String {
    let available = context.view.overview_in_tool();
    if available.is_empty() {
        return "Load a skill to get step-by-step instructions for a task. No skills are available now."
            .to_owned();
    }
    format!(
        "Load a skill to get step-by-step instructions for a task. Use it when the task at hand matches a skill's \
         description.\n\n{available}"
    )
}

fn describe_load_with_args(context: &ToolContext<'_>) -> String {
    let mut text = "Load a skill that takes arguments.".to_owned();
    let offered = context.view.offered();
    // A long list would take as much room as the overview.
    let is_listed = |entry: &&std::sync::Arc<prowess_catalog::SkillEntry>| {
        offered.entries().len() <= MAX_ENUM_NAMES && context.view.visible().is_for_models(entry)
    };
    for entry in offered.entries().iter().filter(is_listed) {
        if let Some(hint) = entry.skill.extensions.argument_hint.as_deref() {
            text.push_str(&format!("\n- {}: {}", code_text(entry.skill.name.as_str()), code_text(hint)));
        }
    }
    text
}
