//! `load_skill` and `unload_skill`, whose words are those of their origin.

use prowess_catalog::section::SectionTemplate;

use super::table::{Entry, Table, Takes, section};
use super::{Capabilities, Form, LoadToolNames, documents};
use crate::options::{Lifetime, Placement};

const WORDS: LoadToolNames = LoadToolNames { load: "load_skill", unload: "unload_skill" };

pub(super) static TABLE: Table = Table {
    name: "deepagents",
    words: WORDS,
    skill: "skill_name",
    tools: &[
        Entry {
            name: WORDS.load,
            takes: Takes::LoadMaybeArguments,
            says: |_| {
                "Load a skill's full instructions and discover its resources. Use this instead of read_file when \
                 you need to activate a skill from the available skills list."
                    .to_owned()
            },
            skill: Some("Name of the skill to load from the available skills list."),
        },
        Entry {
            name: WORDS.unload,
            takes: Takes::Unload,
            says: |_| {
                "Unload a previously loaded skill to free up a loading slot. Use this when you have reached the \
                 maximum number of loaded skills and need to load a different one."
                    .to_owned()
            },
            skill: Some("Name of the loaded skill to unload."),
        },
        documents::SELECT,
        documents::LIST,
    ],
    capabilities: Capabilities { arguments: true, unload: true, ..Capabilities::none() },
    placement: Placement::ToolAnswer,
    lifetime: Lifetime::Session,
    form: Form::Document,
    reselects: false,
    has_heading: false,
    marks_loaded: true,
    not_found: ("Skill", " not found"),
    template,
};

fn template(capabilities: Capabilities, _: Placement) -> Option<SectionTemplate> {
    if capabilities.unload && !capabilities.documents {
        return Some(SectionTemplate::default());
    }
    let LoadToolNames { load, unload } = WORDS;
    Some(section(&[
        Some(format!(
            "**Load the skill**: Use `{load}(\"skill-name\")` to read full instructions and discover resources"
        )),
        Some(
            "**Follow the skill's instructions**: The loaded content contains step-by-step workflows, best \
             practices, and examples"
                .to_owned(),
        ),
        Some(
            "**Access supporting files**: Use the resource paths shown in the loaded skill output with `read_file`"
                .to_owned(),
        ),
        capabilities.documents.then(documents::step),
        capabilities.unload.then(|| {
            format!(
                "**Unload when done**: Use `{unload}(\"skill-name\")` to free up a loading slot when a skill is no \
                 longer needed"
            )
        }),
    ]))
}
