//! `skill_load`, `skill_select_docs`, `skill_list_docs` and `skill_unload`; with commands, `skill_run` and its
//! companions.

#[cfg(feature = "run")]
mod run;

use std::collections::BTreeMap;

use prowess_catalog::SectionTemplate;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Act, ToolSpec, Words, parsed, schema};
use crate::delta::SelectMode;
use crate::documents::Choice;
use crate::error::SkillError;
use crate::view::SkillView;
use crate::state::SkillState;

pub(super) const WORDS: Words = Words { load: "skill_load", unload: "skill_unload" };
const SELECT: &str = "skill_select_docs";
const LIST: &str = "skill_list_docs";
#[cfg(feature = "run")]
pub(super) const TOOLS: &[&str] =
    &[WORDS.load, SELECT, LIST, WORDS.unload, run::RUN, run::EXEC, run::WRITE, run::POLL, run::KILL];
#[cfg(not(feature = "run"))]
pub(super) const TOOLS: &[&str] = &[WORDS.load, SELECT, LIST, WORDS.unload];

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Load {
    /// The skill's name.
    skill: String,
    /// Documents to include, by the names that `skill_list_docs` gives.
    #[serde(default)]
    docs: Option<Vec<String>>,
    /// Include all documents of the skill.
    #[serde(default)]
    include_all_docs: Option<bool>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Select {
    /// The name of a loaded skill.
    skill: String,
    /// Documents, by the names that `skill_list_docs` gives.
    #[serde(default)]
    docs: Option<Vec<String>>,
    /// Select all documents of the skill.
    #[serde(default)]
    include_all_docs: Option<bool>,
    /// What happens to the documents selected before: replace them (the default), add to them, or clear them.
    #[serde(default)]
    #[schemars(with = "Option<String>", extend("enum" = ["replace", "add", "clear"]))]
    mode: Option<SelectMode>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ByName {
    /// The skill's name.
    skill: String,
}

pub(super) fn tools(view: &SkillView, hosts_of_runs: Option<Vec<String>>) -> Vec<ToolSpec> {
    let names = view.offered_names();
    let tool = |name, description: &str, parameters| ToolSpec {
        name,
        description: description.to_owned(),
        parameters,
    };
    let mut tools = vec![
        tool(
            WORDS.load,
            "Load a skill: its instructions, and the documents you choose, are put into the system message. \
             Call it again to choose other documents.",
            schema::<Load>("skill", &names),
        ),
        tool(
            SELECT,
            "Add, replace or clear the documents of a loaded skill that are in the system message.",
            schema::<Select>("skill", &[]),
        ),
        tool(LIST, "List the documents of a skill.", schema::<ByName>("skill", &names)),
        tool(
            WORDS.unload,
            "Unload a skill that is no longer needed, with its documents.",
            schema::<ByName>("skill", &[]),
        ),
    ];
    #[cfg(feature = "run")]
    if let Some(hosts) = hosts_of_runs {
        tools.extend(run::tools(&names, &hosts));
    }
    #[cfg(not(feature = "run"))]
    let _ = (&mut tools, hosts_of_runs);
    tools
}

pub(super) fn act(tool: &str, arguments: Value) -> Result<Act, SkillError> {
    Ok(match tool {
        SELECT => {
            let Select { skill: name, docs, include_all_docs, mode } = parsed(tool, arguments)?;
            let choice = choice(docs, include_all_docs).unwrap_or_default();
            Act::Select { name, mode: mode.unwrap_or(SelectMode::Replace), choice }
        }
        LIST => {
            let ByName { skill: name } = parsed(tool, arguments)?;
            Act::List { name }
        }
        #[cfg(feature = "run")]
        run if run::TOOLS.contains(&run) => run::act(tool, arguments)?,
        unload if unload == WORDS.unload => {
            let ByName { skill: name } = parsed(tool, arguments)?;
            Act::Unload { name }
        }
        _ => {
            let Load { skill: name, docs, include_all_docs } = parsed(tool, arguments)?;
            Act::Load { name, arguments: None, documents: choice(docs, include_all_docs) }
        }
    })
}

/// The documents that were asked for, if any were.
fn choice(docs: Option<Vec<String>>, all: Option<bool>) -> Option<Choice> {
    match (docs, all) {
        (_, Some(true)) => Some(Choice::All),
        (Some(docs), _) => Some(Choice::Named(docs)),
        (None, _) => None,
    }
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

pub(super) fn template() -> SectionTemplate {
    SectionTemplate::with_steps(
        "2. **Load the skill**: Use `skill_load` with its name; its instructions are put into the system message
3. **Choose documents**: Use `skill_list_docs` to see its documents, and `skill_select_docs` to put those you need beside its instructions
4. **Follow the skill's instructions**: They contain step-by-step workflows, best practices, and examples
5. **Unload when done**: Use `skill_unload` to free up a loading slot when a skill is no longer needed
",
    )
}
