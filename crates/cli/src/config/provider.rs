//! `[provider.NAME]`

use anyhow::{Result, bail};
use prowess_models::{ANTHROPIC_BASE_URL, OPENAI_BASE_URL, OutputLimitName, Thinking, Tokenizer};

use super::read::section;
use super::setting::{CommandLine, HttpUrl, Parsed, VariableOrNone, text, words};
use super::value::Origin;

section! {
    /// A provider of models, under a name of your choice. `model.name` begins with that name. `openai` and `anthropic`
    /// are built in, and you can change them. Any other provider needs `api` and `base_url`.
    pub(crate) struct ProviderSettings {
        /// The protocol of the provider.
        User api: Api,
        /// The URL of the provider's API.
        User base_url: Parsed<HttpUrl>,
        /// The environment variable that holds the API key. If it is empty, prowess sends no key.
        User key_env: Option<Parsed<VariableOrNone>>,
        /// A program that prints the API key, with its arguments, instead of `key_env`. It runs without a shell and
        /// has ten seconds.
        User key_command: Option<CommandLine>,
        /// The name of the limit for a response, if `api` is `openai`. The default is `max_completion_tokens`; older
        /// servers want `max_tokens`.
        User output_limit: Option<OutputLimitName>,
        /// How a request says how hard to think: by a word (the default), by a number of tokens (Anthropic's models
        /// before the end of 2025), or not at all (models that refuse such requests).
        User thinking: Option<Thinking>,
        /// How tokens are counted, if `api` is `openai`: with the tokenizer of OpenAI's models (`o200k`) or by the
        /// number of characters (`estimate`). The default, `automatic`, is `o200k` for models of OpenAI at OpenAI's own
        /// `base_url`, and otherwise `estimate`.
        User tokenizer: Option<Tokenizer>,
    }
}

words! {
    /// The protocol of a provider.
    enum Api { "openai" = Openai, "anthropic" = Anthropic }
}
words!(OutputLimitName { "max_completion_tokens" = MaxCompletionTokens, "max_tokens" = MaxTokens });
words!(Tokenizer { "automatic" = Automatic, "o200k" = O200k, "estimate" = Estimate });
words!(Thinking { "word" = Adaptive, "tokens" = Budget, "off" = Off });

text!(
    /// The name of a provider.
    ProviderName: |name| !matches!(name, "" | "offline")
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte)),
    "a provider's name has lowercase letters, digits, `-` and `_`, and is not `offline`"
);

/// The providers that are built in.
pub(super) const BUILT_IN: [(&str, [(&str, &str); 3]); 2] = [
    ("openai", [("api", "openai"), ("base_url", OPENAI_BASE_URL), ("key_env", "OPENAI_API_KEY")]),
    ("anthropic", [("api", "anthropic"), ("base_url", ANTHROPIC_BASE_URL), ("key_env", "ANTHROPIC_API_KEY")]),
];

impl ProviderSettings {
    /// Checks the keys that depend on each other. `at` gives the origin of a key.
    pub(super) fn check<'a>(&mut self, name: &str, at: impl Fn(&str) -> &'a Origin) -> Result<()> {
        if self.thinking == Some(Thinking::Budget) && self.api == Api::Openai {
            let place = at("thinking");
            bail!("{place}: `provider.{name}.thinking` can be `tokens` only with the api `anthropic`");
        }
        for (key, is_set) in
            [("output_limit", self.output_limit.is_some()), ("tokenizer", self.tokenizer.is_some())]
        {
            if is_set && self.api == Api::Anthropic {
                let place = at(key);
                bail!("{place}: `provider.{name}.{key}` is only for the api `openai`; remove it");
            }
        }
        if self.key_command.is_some() && self.key_env.is_some() {
            let (command, variable) = (at("key_command"), at("key_env"));
            if *variable != Origin::Default {
                bail!(
                    "{command}: `provider.{name}` has a key_command here and a key_env at {variable}; remove one of them"
                );
            }
            self.key_env = None;
        }
        Ok(())
    }
}
