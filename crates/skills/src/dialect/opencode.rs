//! `skill`, whose description lists what there is.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Act, ToolSpec, Words, parsed, schema};
use crate::error::SkillError;
use crate::view::SkillView;

pub(super) const WORDS: Words = Words { load: "skill", unload: "skill_unload" };
pub(super) const TOOLS: &[&str] = &[WORDS.load, WORDS.unload];

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Load {
    /// The name of the skill, as it stands in `available_skills`.
    name: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Unload {
    /// The name of the loaded skill.
    name: String,
}

pub(super) fn tools(view: &SkillView) -> Vec<ToolSpec> {
    let available = view.offered().overview_xml().text;
    let description = if available.is_empty() {
        "Load a skill to get step-by-step instructions for a task. No skills are available now.".to_owned()
    } else {
        format!(
            "Load a skill to get step-by-step instructions for a task. Use it when the task at hand matches \
             a skill's description.\n\n{available}"
        )
    };
    vec![
        ToolSpec {
            name: WORDS.load,
            description,
            parameters: schema::<Load>("name", &view.offered_names()),
        },
        ToolSpec {
            name: WORDS.unload,
            description: "Unload a skill that is no longer needed, so that another one can be loaded."
                .to_owned(),
            parameters: schema::<Unload>("name", &[]),
        },
    ]
}

pub(super) fn act(tool: &str, arguments: Value) -> Result<Act, SkillError> {
    if tool == WORDS.unload {
        let Unload { name } = parsed(tool, arguments)?;
        return Ok(Act::Unload { name });
    }
    let Load { name } = parsed(tool, arguments)?;
    Ok(Act::Load { name, arguments: None, documents: None })
}
