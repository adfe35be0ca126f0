//! The dialect `deepagents`: `load_skill` and `unload_skill`, with the texts of the original agent.

use prowess_catalog::section::SectionTemplate;

use super::table::{DialectTable, Signature, ToolEntry, section};
use super::{Capabilities, LoadToolNames, LoadedForm, documents, search_tool};
use crate::options::{Lifetime, Placement};

const LOAD_TOOLS: LoadToolNames = LoadToolNames { load: "load_skill", unload: "unload_skill" };

pub(super) static TABLE: DialectTable = DialectTable {
    name: "deepagents",
    load_tools: LOAD_TOOLS,
    skill: "skill_name",
    tools: &[
        ToolEntry {
            name: LOAD_TOOLS.load,
            signature: Signature::LoadMaybeArguments,
            describe: |_| {
                "Load a skill's full instructions and discover its resources. Use this instead of read_file when \
                 you need to activate a skill from the available skills list."
                    .to_owned()
            },
            skill: Some("Name of the skill to load from the available skills list."),
        },
        ToolEntry {
            name: LOAD_TOOLS.unload,
            signature: Signature::Unload,
            describe: |_| {
                "Unload a previously loaded skill to free up a loading slot. Use this when you have reached the \
                 maximum number of loaded skills and need to load a different one."
                    .to_owned()
            },
            skill: Some("Name of the loaded skill to unload."),
        },
        search_tool::SEARCH,
        documents::SELECT,
        documents::LIST,
    ],
    capabilities: Capabilities { arguments: true, unload: true, ..Capabilities::none() },
    placement: Placement::ToolAnswer,
    lifetime: Lifetime::Session,
    form: LoadedForm::Manifest,
    reselects: false,
    has_heading: false,
    marks_loaded: true,
    not_found: ("Skill", " not found"),
    template,
};

fn template(capabilities: Capabilities, _: Placement) -> Option<SectionTemplate> {
    if capabilities.unload && !capabilities.documents && !capabilities.search {
        return Some(SectionTemplate::default());
    }
    let LoadToolNames { load, unload } = LOAD_TOOLS;
    Some(section(&[
        capabilities.search.then(search_tool::step),
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
