//! The arguments of the tools that load, unload and select, and how a call is parsed.
//!
//! Models read the descriptions in every request, so they are short.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::Capabilities;
use super::table::{RunToolInfo, Signature};
use crate::delta::SelectMode;
use crate::documents::DocumentChoice;
use crate::parameters::{self, WrongArguments, check, object, typed};

/// The name of the argument for the skill in the types here. A dialect may use another name.
pub(super) const SKILL: &str = "skill";
/// The name of the argument for the arguments of the skill.
pub(super) const ARGUMENTS: &str = "args";

/// A parsed call, which no longer depends on the dialect.
#[derive(Debug, PartialEq)]
pub(crate) enum ParsedCall {
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
    Search {
        query: String,
        limit: Option<usize>,
    },
    #[cfg(feature = "run")]
    Run(crate::run::RunCall),
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

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Search {
    query: String,
    #[schemars(range(min = 1, max = 50))]
    #[serde(default)]
    limit: Option<u32>,
}

fn replace() -> SelectMode {
    SelectMode::Replace
}

/// The schema of a tool's arguments, with the dialect's name for the skill.
pub(super) fn schema(
    signature: Signature,
    skill_argument: &str,
    capabilities: Capabilities,
    runs: Option<&RunToolInfo>,
) -> Value {
    let schema = match signature {
        Signature::Load | Signature::Unload | Signature::List => parameters::schema::<ByName>(),
        Signature::LoadDocuments if capabilities.documents => parameters::schema::<LoadDocuments>(),
        Signature::LoadMaybeArguments if capabilities.arguments => parameters::schema::<LoadMaybeArguments>(),
        Signature::LoadDocuments | Signature::LoadMaybeArguments => parameters::schema::<ByName>(),
        Signature::LoadArguments => parameters::schema::<LoadArguments>(),
        Signature::Select => parameters::schema::<Select>(),
        Signature::Search => parameters::schema::<Search>(),
        #[cfg(feature = "run")]
        Signature::Run => return renamed(super::run_tool::schema(runs), skill_argument),
        #[cfg(feature = "run")]
        interactive => {
            let schema = super::interactive_tools::schema(interactive, capabilities, runs);
            return renamed(schema, skill_argument);
        }
    };
    #[cfg(not(feature = "run"))]
    let _ = runs;
    renamed(Value::clone(&schema), skill_argument)
}

/// Checks and parses the arguments of a call.
pub(super) fn parse(
    signature: Signature,
    skill_argument: &str,
    given: Value,
    capabilities: Capabilities,
) -> Result<ParsedCall, WrongArguments> {
    let mut given = object(given)?;
    #[cfg(feature = "run")]
    let known = match signature {
        Signature::Start => renamed(super::interactive_tools::start_schema(), skill_argument),
        _ => schema(signature, skill_argument, capabilities, None),
    };
    #[cfg(not(feature = "run"))]
    let known = schema(signature, skill_argument, capabilities, None);
    check(&known, &mut given, "")?;
    if let Some(name) = given.remove(skill_argument) {
        given.insert(SKILL.to_owned(), name);
    }
    Ok(match signature {
        Signature::Load => {
            ParsedCall::Load { name: typed::<ByName>(given)?.skill, arguments: None, documents: None }
        }
        Signature::LoadDocuments => {
            let LoadDocuments { skill: name, docs, include_all_docs } = typed(given)?;
            ParsedCall::Load { name, arguments: None, documents: choice(docs, include_all_docs) }
        }
        Signature::LoadMaybeArguments => {
            let LoadMaybeArguments { skill: name, args: arguments } = typed(given)?;
            ParsedCall::Load { name, arguments, documents: None }
        }
        Signature::LoadArguments => {
            let LoadArguments { skill: name, args } = typed(given)?;
            ParsedCall::Load { name, arguments: Some(args), documents: None }
        }
        Signature::Unload => ParsedCall::Unload { name: typed::<ByName>(given)?.skill },
        Signature::List => ParsedCall::List { name: typed::<ByName>(given)?.skill },
        Signature::Search => {
            let Search { query, limit } = typed(given)?;
            ParsedCall::Search { query, limit: limit.map(|limit| limit as usize) }
        }
        Signature::Select => {
            let Select { skill: name, docs, include_all_docs, mode } = typed(given)?;
            ParsedCall::Select { name, mode, choice: choice(docs, include_all_docs).unwrap_or_default() }
        }
        #[cfg(feature = "run")]
        Signature::Run => ParsedCall::Run(super::run_tool::parse(given)?),
        #[cfg(feature = "run")]
        interactive => ParsedCall::Run(super::interactive_tools::parse(interactive, given)?),
    })
}

/// The schema with another name for the skill's argument.
fn renamed(mut schema: Value, skill_argument: &str) -> Value {
    if skill_argument == SKILL {
        return schema;
    }
    if let Some(properties) = schema["properties"].as_object_mut() {
        let own = |name: String| if name == SKILL { skill_argument.to_owned() } else { name };
        *properties =
            std::mem::take(properties).into_iter().map(|(name, value)| (own(name), value)).collect();
    }
    for name in schema["required"].as_array_mut().into_iter().flatten().filter(|name| **name == SKILL) {
        *name = skill_argument.into();
    }
    schema
}

/// The chosen documents, if the call chooses any.
fn choice(docs: Option<Vec<String>>, all: bool) -> Option<DocumentChoice> {
    if all { Some(DocumentChoice::All) } else { docs.map(DocumentChoice::Named) }
}
