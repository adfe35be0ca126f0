//! `skill`, whose description lists what there is; and `skill_unload` and `skill_with_args` for what its origin lacks.

use prowess_catalog::untrusted::code_text;

use super::table::{Entry, Setting, Table, Takes};
use super::{Capabilities, Form, LoadToolNames, documents};
use crate::options::{Lifetime, Placement};

const WORDS: LoadToolNames = LoadToolNames { load: "skill", unload: "skill_unload" };

pub(super) static TABLE: Table = Table {
    name: "opencode",
    words: WORDS,
    skill: "name",
    tools: &[
        Entry {
            name: WORDS.load,
            takes: Takes::Load,
            says: load_says,
            skill: Some("The name of the skill, as it stands in `available_skills`."),
        },
        Entry { name: "skill_with_args", takes: Takes::LoadArguments, says: with_says, skill: None },
        documents::SELECT,
        documents::LIST,
        Entry {
            name: WORDS.unload,
            takes: Takes::Unload,
            says: |_| {
                "Unload a skill that is no longer needed, so that another one can be loaded.".to_owned()
            },
            skill: Some("The name of the loaded skill."),
        },
    ],
    capabilities: Capabilities { unload: true, ..Capabilities::none() },
    placement: Placement::ToolAnswer,
    lifetime: Lifetime::Session,
    form: Form::Body,
    reselects: false,
    has_heading: true,
    marks_loaded: false,
    not_found: ("Skill", " not found"),
    // Its tool says what there is.
    template: |_, _| None,
};

fn load_says(setting: &Setting<'_>) -> String {
    let available = setting.view.offered().overview_xml().text;
    if available.is_empty() {
        return "Load a skill to get step-by-step instructions for a task. No skills are available now."
            .to_owned();
    }
    format!(
        "Load a skill to get step-by-step instructions for a task. Use it when the task at hand matches a skill's \
         description.\n\n{available}"
    )
}

fn with_says(setting: &Setting<'_>) -> String {
    let mut says = "Load a skill that takes arguments.".to_owned();
    for entry in setting.view.offered().entries() {
        if let Some(hint) = entry.skill.extensions.argument_hint.as_deref() {
            says.push_str(&format!("\n- {}: {}", code_text(entry.skill.name.as_str()), code_text(hint)));
        }
    }
    says
}
