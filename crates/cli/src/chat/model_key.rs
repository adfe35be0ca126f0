//! The API key of a provider. prowess stores it nowhere.

use anyhow::{Context as _, Result, bail};
use secrecy::SecretString;

use crate::config::{ProviderSettings, user_path};
use crate::key_command;
use crate::terminal::printable;

impl ProviderSettings {
    /// The API key of the provider with this name, if it needs one.
    pub(crate) fn key(&self, name: &str) -> Result<Option<SecretString>> {
        let name = printable(name);
        if let Some(command) = &self.key_command {
            return key_command::run(command)
                .map(Some)
                .with_context(|| format!("there is no API key for {name}"));
        }
        let Some(variable) = self.key_env.as_deref().filter(|variable| !variable.is_empty()) else {
            return Ok(None);
        };
        let file = user_path().map_or_else(|| "prowess.toml".to_owned(), |path| path.display().to_string());
        match std::env::var(variable) {
            Ok(key) if !key.trim().is_empty() => Ok(Some(key.trim().to_owned().into())),
            Err(std::env::VarError::NotUnicode(_)) => {
                bail!("the API key for {name} in {variable} is not valid UTF-8")
            }
            _ => bail!(
                "there is no API key for {name}: set {}, or add `key_command = [\"PROGRAM\", \"ARGUMENT\"]` under \
                 [provider.{name}] in {file}",
                printable(variable)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_key_error_says_where_to_put_it() {
        let provider = |key_env: Option<&str>| ProviderSettings {
            api: crate::config::Api::Openai,
            base_url: "http://127.0.0.1".parse().unwrap(),
            key_env: key_env.map(|name| name.parse().unwrap()),
            key_command: None,
            output_limit: None,
            thinking: None,
            tokenizer: None,
        };
        assert!(provider(None).key("local").unwrap().is_none());
        assert!(provider(Some("")).key("local").unwrap().is_none());
        assert!(provider(Some("PATH")).key("local").unwrap().is_some());
        let error = provider(Some("NO_SUCH_KEY")).key("local").unwrap_err().to_string();
        assert!(
            error.starts_with("there is no API key for local: set NO_SUCH_KEY, or add `key_command = "),
            "{error}"
        );
        assert!(
            error.contains("[\"PROGRAM\", \"ARGUMENT\"]` under [provider.local] in ")
                && error.ends_with("prowess.toml"),
            "{error}"
        );
    }
}
