//! Values from environment variables and from options: texts, which become what their key takes.

use anyhow::{Result, anyhow, bail};
use prowess_permission::nearest::nearest;
use serde_json::Value;

use super::check;
use super::document::Leaf;
use super::origin::Origin;
use super::shape::{Entry, Form, Kind};

/// What the names of our variables begin with.
const PREFIX: &str = "PROWESS_";
/// The variable with the token of `prowess mcp --http`, which is no setting though `mcp` is a section.
pub(crate) const MCP_TOKEN: &str = "PROWESS_MCP_TOKEN";

/// An option of the command that sets a key.
#[derive(Clone, Debug)]
pub(crate) struct Flag {
    /// The key: `model.name`.
    pub(crate) key: &'static str,
    /// The option, as it is typed: `--model`.
    pub(crate) name: &'static str,
    /// What was given.
    pub(crate) text: String,
}

/// Our variables in this process's environment.
pub(crate) fn variables() -> Result<Vec<(String, String)>> {
    let ours = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let ours = ours.filter(|(name, _)| name.starts_with(PREFIX));
    ours.map(|(name, value)| match value.into_string() {
        Ok(value) => Ok((name, value)),
        Err(_) => Err(anyhow!("the environment variable {name} has a value that is no text")),
    })
    .collect()
}

/// The values that `variables` set.
pub(crate) fn values(
    variables: impl IntoIterator<Item = (String, String)>,
    whole: &Entry,
) -> Result<Vec<Leaf>> {
    let mut leaves = Vec::new();
    let known: Vec<(String, Vec<String>)> =
        whole.values().into_iter().map(|(path, ..)| (variable(&path), path)).collect();
    for (name, text) in variables {
        let Some(rest) = name.strip_prefix(PREFIX).filter(|_| name != MCP_TOKEN) else { continue };
        let path = known.iter().find(|(known, _)| *known == name).map(|(_, path)| path.clone());
        if let Some(path) = path.or_else(|| of_provider(rest, whole)) {
            leaves.push(leaf(path, &text, whole, Origin::Environment(name))?);
            continue;
        }
        // Others may have variables that begin so; one that begins with a section of ours is misspelt.
        let is_ours = whole.keys().iter().any(|key| {
            rest.strip_prefix(&key.to_uppercase())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        });
        if is_ours {
            let words = known.iter().filter_map(|(known, _)| known.strip_prefix(PREFIX));
            let hint = nearest(rest, words).map_or_else(
                || "`prowess config reference` has all keys".to_owned(),
                |near| format!("did you mean {PREFIX}{near}?"),
            );
            bail!("the environment variable {name} is for no key; {hint}");
        }
    }
    Ok(leaves)
}

/// The values that options set.
pub(crate) fn flags(flags: &[Flag], whole: &Entry) -> Result<Vec<Leaf>> {
    let leaf = |flag: &Flag| {
        let path = flag.key.split('.').map(ToOwned::to_owned).collect();
        leaf(path, &flag.text, whole, Origin::Flag(flag.name))
    };
    flags.iter().map(leaf).collect()
}

/// The variable that sets the value at `path`.
pub(crate) fn variable(path: &[String]) -> String {
    format!("{PREFIX}{}", path.join("_").to_uppercase())
}

/// `PROVIDER_LOCAL_BASE_URL` is `provider.local.base_url`.
fn of_provider(rest: &str, whole: &Entry) -> Option<Vec<String>> {
    let rest = rest.strip_prefix("PROVIDER_")?.to_lowercase();
    let Form::Named(each) = &whole.at(&["provider".to_owned()])?.form else { return None };
    each.keys().into_iter().find_map(|key| {
        let name = rest.strip_suffix(key)?.strip_suffix('_').filter(|name| !name.is_empty())?;
        Some(vec!["provider".to_owned(), name.to_owned(), key.to_owned()])
    })
}

fn leaf(path: Vec<String>, text: &str, whole: &Entry, origin: Origin) -> Result<Leaf> {
    let Some(Form::Value(kind)) = whole.at(&path).map(|entry| &entry.form) else {
        bail!("{origin} sets a key that is not there");
    };
    let number = || serde_json::from_str(text).ok().filter(Value::is_number);
    let value = match kind {
        Kind::Text | Kind::OneOf(_) => None,
        Kind::Texts => {
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            Some(parts.map(Value::from).collect())
        }
        Kind::Whole(_) | Kind::Number => number(),
    };
    let value = value.unwrap_or_else(|| Value::from(text));
    let named = path.split_last().map_or(&path[..], |(_, above)| above);
    check::name(named).and_then(|()| check::value(&path, kind, &value)).map_err(|problem| {
        let problem =
            problem.replace(" in quotes", "").replace("a list of texts, such as [\"a\", \"b\"]", "a,b");
        anyhow!("{origin}: {problem}")
    })?;
    Ok(Leaf { path, value, origin })
}
