//! Values from environment variables and from options.

use anyhow::{Result, anyhow, bail};
use prowess_permission::nearest::nearest;

use super::read::Chosen;
use super::settings::{TABLES, tables};
use super::value::{Origin, Values, put};
use super::{OTHER_TABLES, renamed};

/// The prefix of all variables of prowess.
const PREFIX: &str = "PROWESS_";
/// The variable with the token of `prowess mcp --http`. It is not a setting, although `mcp` is a table.
pub(crate) const MCP_TOKEN: &str = "PROWESS_MCP_TOKEN";
/// The variables of options, which are no settings either.
const OF_OPTIONS: [&str; 3] = ["PROWESS_DATABASE", "PROWESS_FILES", "PROWESS_LISTEN_DATABASE"];

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

/// The values of variables, and notices about variables that probably have a mistake in their name.
pub(crate) fn values(variables: impl IntoIterator<Item = (String, String)>) -> Result<(Values, Vec<String>)> {
    let (mut values, mut notices) = (Values::new(), Vec::new());
    let tables = tables();
    let plain = tables.iter().filter(|table| table.chosen == Chosen::Nothing);
    let keys = plain.flat_map(|table| table.keys.iter().map(|key| format!("{}.{}", table.name(), key.name)));
    let known: Vec<String> = keys.collect();
    let provider = tables.iter().find(|table| table.path == ["provider"]);
    // `PROVIDER_LOCAL_BASE_URL` sets `provider.local.base_url`.
    let of_provider = |rest: &str| {
        let rest = rest.strip_prefix("PROVIDER_")?.to_lowercase();
        provider?.keys.iter().find_map(|key| {
            let name = rest.strip_suffix(key.name)?.strip_suffix('_')?;
            (!name.is_empty() && !name.contains('.')).then(|| format!("provider.{name}.{}", key.name))
        })
    };
    for (name, text) in variables {
        let Some(rest) =
            name.strip_prefix(PREFIX).filter(|_| name != MCP_TOKEN && !OF_OPTIONS.contains(&&*name))
        else {
            continue;
        };
        let key = known.iter().cloned().chain(renamed::old_keys()).find(|key| variable(key) == name);
        if let Some(key) = key.or_else(|| of_provider(rest)) {
            let path: Vec<&str> = key.split('.').collect();
            put(&mut values, &path, text.into(), &Origin::Environment(name));
            continue;
        }
        // Other programs may have variables with this prefix. A name that begins like a table is a mistake, and one that
        // resembles a key probably is.
        let begins = |table: &&str| format!("{rest}_").starts_with(&format!("{}_", table.to_uppercase()));
        let problem = format!("the environment variable {name} sets no key");
        if OTHER_TABLES.iter().any(begins) {
            bail!("{problem}; only a prowess.toml can have rules and hooks");
        }
        let near = nearest_key(rest, &known);
        if TABLES.iter().any(begins) {
            let all = || "`prowess config reference` lists all keys".to_owned();
            bail!("{problem}; {}", near.map_or_else(all, |near| format!("did you mean {near}?")));
        }
        notices.extend(near.map(|near| format!("{problem}; did you mean {near}?")));
    }
    Ok((values, notices))
}

/// The variable whose name is most like `PROWESS_` and `rest`, by the present or the old name of its key.
fn nearest_key(rest: &str, known: &[String]) -> Option<String> {
    let renamed = renamed::new_names().map(|(old, new)| (variable(&old), variable(&new)));
    let all: Vec<(String, String)> =
        known.iter().map(|key| (variable(key), variable(key))).chain(renamed).collect();
    let near = nearest(rest, all.iter().map(|(name, _)| &name[PREFIX.len()..]))?;
    all.iter().find(|(name, _)| &name[PREFIX.len()..] == near).map(|(_, new)| new.clone())
}

/// The values of options.
pub(crate) fn flags(flags: &[Flag]) -> Values {
    let mut values = Values::new();
    for flag in flags {
        let path: Vec<&str> = flag.key.split('.').collect();
        put(&mut values, &path, flag.text.clone().into(), &Origin::Flag(flag.name));
    }
    values
}

/// The variable that sets a key.
pub(crate) fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "_").to_uppercase())
}
