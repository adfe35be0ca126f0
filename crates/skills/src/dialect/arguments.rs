//! The arguments of tools, with the words that models read about them, and what they come to.
//!
//! Descriptions are for models, who read them in every request.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::Capabilities;
use super::table::{RunSetting, Takes};
use crate::delta::SelectMode;
use crate::documents::DocumentChoice;
use crate::parameters::{self, WrongArguments, check, object, typed};

/// What the argument that names a skill is called in the types here. A dialect may have its own word for it.
pub(super) const SKILL: &str = "skill";

/// What a model wants, whatever the dialect calls it.
#[derive(Debug, PartialEq)]
pub(crate) enum Wanted {
    Load {
        name: String,
        arguments: Option<String>,
        documents: Option<DocumentChoice>,
    },
    Unload {
        name: String,
    },
    Select {
        name: String,
        mode: SelectMode,
        choice: DocumentChoice,
    },
    List {
        name: String,
    },
    #[cfg(feature = "run")]
    Run(Box<prowess_workspace::RunRequest>),
    #[cfg(feature = "run")]
    Start(Box<crate::exec::ExecRequest>),
    #[cfg(feature = "run")]
    Write(crate::exec::WriteRequest),
    #[cfg(feature = "run")]
    Look(crate::exec::PollRequest),
    #[cfg(feature = "run")]
    End {
        id: String,
    },
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ByName {
    skill: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LoadDocuments {
    skill: String,
    #[schemars(description = "Documents to include, named as by skill_list_docs")]
    #[serde(default)]
    docs: Option<Vec<String>>,
    #[serde(default)]
    include_all_docs: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LoadMaybeArguments {
    skill: String,
    #[schemars(description = "Arguments, if the list of skills shows that it takes some")]
    #[serde(default)]
    args: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LoadArguments {
    skill: String,
    args: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Select {
    skill: String,
    #[schemars(description = "Named as by skill_list_docs")]
    #[serde(default)]
    docs: Option<Vec<String>>,
    #[serde(default)]
    include_all_docs: bool,
    #[serde(default = "replace")]
    #[schemars(with = "String", extend("enum" = ["replace", "add", "clear"]))]
    mode: SelectMode,
}

fn replace() -> SelectMode {
    SelectMode::Replace
}

/// The schema of what a tool takes, with the dialect's word for the skill.
pub(super) fn schema(
    takes: Takes,
    word: &str,
    capabilities: Capabilities,
    runs: Option<&RunSetting>,
) -> Value {
    let schema = match takes {
        Takes::Load | Takes::Unload | Takes::List => parameters::schema::<ByName>(),
        Takes::LoadDocuments if capabilities.documents => parameters::schema::<LoadDocuments>(),
        Takes::LoadMaybeArguments if capabilities.arguments => parameters::schema::<LoadMaybeArguments>(),
        Takes::LoadDocuments | Takes::LoadMaybeArguments => parameters::schema::<ByName>(),
        Takes::LoadArguments => parameters::schema::<LoadArguments>(),
        Takes::Select => parameters::schema::<Select>(),
        #[cfg(feature = "run")]
        run => return renamed(super::run::schema(run, capabilities, runs), word),
    };
    #[cfg(not(feature = "run"))]
    let _ = runs;
    renamed(Value::clone(&schema), word)
}

/// What a call with these arguments wants.
pub(super) fn wanted(
    takes: Takes,
    word: &str,
    given: Value,
    capabilities: Capabilities,
) -> Result<Wanted, WrongArguments> {
    let mut given = object(given)?;
    #[cfg(feature = "run")]
    let known = match takes {
        Takes::Start => renamed(super::run::start_schema(), word),
        _ => schema(takes, word, capabilities, None),
    };
    #[cfg(not(feature = "run"))]
    let known = schema(takes, word, capabilities, None);
    check(&known, &mut given, "")?;
    if let Some(name) = given.remove(word) {
        given.insert(SKILL.to_owned(), name);
    }
    Ok(match takes {
        Takes::Load => Wanted::Load { name: typed::<ByName>(given)?.skill, arguments: None, documents: None },
        Takes::LoadDocuments => {
            let LoadDocuments { skill: name, docs, include_all_docs } = typed(given)?;
            Wanted::Load { name, arguments: None, documents: choice(docs, include_all_docs) }
        }
        Takes::LoadMaybeArguments => {
            let LoadMaybeArguments { skill: name, args: arguments } = typed(given)?;
            Wanted::Load { name, arguments, documents: None }
        }
        Takes::LoadArguments => {
            let LoadArguments { skill: name, args } = typed(given)?;
            Wanted::Load { name, arguments: Some(args), documents: None }
        }
        Takes::Unload => Wanted::Unload { name: typed::<ByName>(given)?.skill },
        Takes::List => Wanted::List { name: typed::<ByName>(given)?.skill },
        Takes::Select => {
            let Select { skill: name, docs, include_all_docs, mode } = typed(given)?;
            Wanted::Select { name, mode, choice: choice(docs, include_all_docs).unwrap_or_default() }
        }
        #[cfg(feature = "run")]
        run => super::run::wanted(run, given)?,
    })
}

/// A schema with a dialect's word for the skill.
fn renamed(mut schema: Value, word: &str) -> Value {
    if word == SKILL {
        return schema;
    }
    if let Some(properties) = schema["properties"].as_object_mut() {
        let own = |name: String| if name == SKILL { word.to_owned() } else { name };
        *properties =
            std::mem::take(properties).into_iter().map(|(name, value)| (own(name), value)).collect();
    }
    for name in schema["required"].as_array_mut().into_iter().flatten().filter(|name| **name == SKILL) {
        *name = word.into();
    }
    schema
}

/// The documents that were asked for, if any were.
fn choice(docs: Option<Vec<String>>, all: bool) -> Option<DocumentChoice> {
    if all { Some(DocumentChoice::All) } else { docs.map(DocumentChoice::Named) }
}
