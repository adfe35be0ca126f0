//! The tokens for private web sites, from `[source.HOST]`.

use std::collections::HashMap;

use anyhow::{Context as _, Result, bail};
use prowess_install::snapshot::http::BearerToken;
use prowess_install::snapshot::token::LazyToken;
use secrecy::{ExposeSecret as _, SecretString};

use crate::config::{Config, OfProject, SourceSettings, key};
use crate::key_command;
use crate::terminal::printable;

/// The tokens by host. Only the user's own file names hosts, so a project's file is not read. A token is looked up when
/// something is downloaded from its host.
pub(super) fn tokens() -> Result<HashMap<String, LazyToken>> {
    let sources = Config::load(&OfProject::Nothing, &[])?.settings.source;
    let token = |host: String, source: SourceSettings| {
        LazyToken::new(move || match source.token(&host) {
            Ok(token) => Ok(BearerToken::new(token.expose_secret())),
            Err(error) => Err(format!("{error:#}")),
        })
    };
    Ok(sources
        .into_iter()
        .map(|(host, source)| (host.to_string(), token(host.to_string(), source)))
        .collect())
}

impl SourceSettings {
    /// The bearer token for `host`.
    fn token(&self, host: &str) -> Result<SecretString> {
        let missing = format!("there is no token for {}", printable(host));
        if let Some(command) = &self.key_command {
            return key_command::run(command).context(missing);
        }
        let variable = self.key_env.as_deref().unwrap_or_default();
        match std::env::var(variable) {
            Ok(token) if !token.trim().is_empty() => Ok(token.trim().to_owned().into()),
            Err(std::env::VarError::NotUnicode(_)) => bail!("{missing}: {variable} is not valid UTF-8"),
            _ => {
                bail!("{missing}: set {variable}, the `key_env` of [{}]", printable(&key(&["source", host])))
            }
        }
    }
}
