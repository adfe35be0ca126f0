//! Values from environment variables and from options.

use anyhow::{Result, anyhow, bail};
use prowess_permission::nearest::nearest;

use super::origin::Origin;
use super::provider::ProviderSettings;
use super::read::Section as _;
use super::reference::keys;
use super::renamed;
use super::settings::TABLES;
use super::tree::{Node, Value};

/// The prefix of all variables of prowess.
const PREFIX: &str = "PROWESS_";
/// The variable with the token of `prowess mcp --http`. It is not a setting, although `mcp` is a table.
pub(crate) const MCP_TOKEN: &str = "PROWESS_MCP_TOKEN";

/// An option of the command that sets a key.
#[derive(Clone, Debug)]
pub(crate) struct Flag {
    /// The key: `model.name`.
    pub(crate) key: &'static str,
    /// The option: `--model`.
    pub(crate) name: &'static str,
    /// The given value.
    pub(crate) text: String,
}

/// The variables of prowess in the environment of this process.
pub(crate) fn variables() -> Result<Vec<(String, String)>> {
    let ours = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let ours = ours.filter(|(name, _)| name.starts_with(PREFIX));
    ours.map(|(name, value)| match value.into_string() {
        Ok(value) => Ok((name, value)),
        Err(_) => Err(anyhow!("the value of the environment variable {name} is not valid UTF-8")),
    })
    .collect()
}

/// The values of variables.
pub(crate) fn values(variables: impl IntoIterator<Item = (String, String)>) -> Result<Node> {
    let mut tree = Node::empty();
    let of = |path: [&'static str; 2]| (variable(&path), path.map(ToOwned::to_owned).to_vec());
    let known: Vec<(String, Vec<String>)> = keys().map(|(path, _)| of(path)).collect();
    let old: Vec<(String, Vec<String>)> = renamed::old_keys().map(of).collect();
    for (name, text) in variables {
        let Some(rest) = name.strip_prefix(PREFIX).filter(|_| name != MCP_TOKEN) else { continue };
        let path = known.iter().chain(&old).find(|(known, _)| *known == name).map(|(_, path)| path.clone());
        if let Some(path) = path.or_else(|| of_provider(rest)) {
            tree.put(&path, Value::Text(text), &Origin::Environment(name));
            continue;
        }
        // Other programs may have variables with this prefix. A name that begins like a table is a mistake.
        let is_ours = TABLES.iter().any(|section| {
            rest.strip_prefix(&section.to_uppercase())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        });
        if is_ours {
            let words = known.iter().filter_map(|(known, _)| known.strip_prefix(PREFIX));
            let hint = nearest(rest, words).map_or_else(
                || "`prowess config reference` lists all keys".to_owned(),
                |near| format!("did you mean {PREFIX}{near}?"),
            );
            bail!("the environment variable {name} sets no key; {hint}");
        }
    }
    Ok(tree)
}

/// The values of options.
pub(crate) fn flags(flags: &[Flag]) -> Node {
    let mut tree = Node::empty();
    for flag in flags {
        let path: Vec<&str> = flag.key.split('.').collect();
        tree.put(&path, Value::Text(flag.text.clone()), &Origin::Flag(flag.name));
    }
    tree
}

/// The variable that sets a key.
pub(crate) fn variable<S: AsRef<str>>(path: &[S]) -> String {
    let names: Vec<&str> = path.iter().map(AsRef::as_ref).collect();
    format!("{PREFIX}{}", names.join("_").to_uppercase())
}

/// `PROVIDER_LOCAL_BASE_URL` sets `provider.local.base_url`.
fn of_provider(rest: &str) -> Option<Vec<String>> {
    let rest = rest.strip_prefix("PROVIDER_")?.to_lowercase();
    ProviderSettings::NAMES.iter().find_map(|key| {
        let name = rest.strip_suffix(key)?.strip_suffix('_').filter(|name| !name.is_empty())?;
        Some(vec!["provider".to_owned(), name.to_owned(), (*key).to_owned()])
    })
}
