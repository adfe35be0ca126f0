//! `load_skill` and `unload_skill`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Act, ToolSpec, Words, parsed, schema};
use crate::error::SkillError;
use crate::view::SkillView;

pub(super) const WORDS: Words = Words { load: "load_skill", unload: "unload_skill" };
pub(super) const TOOLS: &[&str] = &[WORDS.load, WORDS.unload];

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Load {
    /// Name of the skill to load from the available skills list.
    skill_name: String,
    /// Arguments for the skill, where the available skills list shows that it takes some.
    #[serde(default)]
    args: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Unload {
    /// Name of the loaded skill to unload.
    skill_name: String,
}

pub(super) fn tools(view: &SkillView) -> Vec<ToolSpec> {
    vec![
        ToolSpec {
            name: WORDS.load,
            description: "Load a skill's full instructions and discover its resources. Use this instead of \
                          read_file when you need to activate a skill from the available skills list."
                .to_owned(),
            parameters: schema::<Load>("skill_name", &view.offered_names()),
        },
        ToolSpec {
            name: WORDS.unload,
            description: "Unload a previously loaded skill to free up a loading slot. Use this when you \
                          have reached the maximum number of loaded skills and need to load a different one."
                .to_owned(),
            parameters: schema::<Unload>("skill_name", &[]),
        },
    ]
}

pub(super) fn act(tool: &str, arguments: Value) -> Result<Act, SkillError> {
    if tool == WORDS.unload {
        let Unload { skill_name: name } = parsed(tool, arguments)?;
        return Ok(Act::Unload { name });
    }
    let Load { skill_name: name, args: arguments } = parsed(tool, arguments)?;
    Ok(Act::Load { name, arguments, documents: None })
}
