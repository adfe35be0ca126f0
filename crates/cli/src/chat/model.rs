//! The model of a chat.

use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use async_trait::async_trait;
use prowess_agent::agent::NextModel;
use prowess_agent::model::{Effort, ModelErrorKind, ModelLimits, ModelResponse};
use prowess_agent::{Middleware, MiddlewareContext, Model, ModelError};
use prowess_models::{Anthropic, EffortField, Offline, OpenAi, Thinking};

use crate::config::{Amount, Api, ModelName, ProviderSettings, Settings};
use crate::terminal::printable;

/// The configured model. Fails at once if a key is missing.
pub(super) fn configured(settings: &Settings) -> Result<Arc<dyn Model>> {
    let ModelName::Of { provider, model } = &settings.model.name else { return Ok(Arc::new(Offline)) };
    let found = settings.provider.get_key_value(provider.as_str());
    let (name, provider) = found.ok_or_else(|| anyhow!(settings.unknown_provider(provider)))?;
    if let Some(Amount(most)) = settings.limits.cost
        && settings.prices()?.of(&settings.model.name.to_string()).is_none()
    {
        let name = printable(&settings.model.name.to_string());
        bail!(
            "there is a cost limit of ${most} but no price for {name}: add [price.\"{name}\"] with input and output to your prowess.toml"
        );
    }
    let mut limits = ModelLimits::default();
    (limits.context, limits.output) = (
        settings.model.context_window.map(|most| most.0),
        settings.model.max_output_tokens.map(|most| most.0),
    );
    build((name, provider), model, &settings.model.name.to_string(), limits)
}

fn build(
    (provider_name, provider): (&str, &ProviderSettings),
    model: &str,
    name: &str,
    limits: ModelLimits,
) -> Result<Arc<dyn Model>> {
    let key = provider.key(provider_name)?;
    let failed = |error| anyhow!("provider.{}: {error}", printable(provider_name));
    Ok(match provider.api {
        Api::Openai => {
            let mut builder = OpenAi::builder(model).name(name).base_url(&*provider.base_url).limits(limits);
            if let Some(name) = provider.output_limit {
                builder = builder.output_limit_name(name);
            }
            if let Some(tokenizer) = provider.tokenizer {
                builder = builder.tokenizer(tokenizer);
            }
            if provider.thinking == Some(Thinking::Off) {
                builder = builder.effort_field(EffortField::Omitted);
            }
            if let Some(key) = key {
                builder = builder.key(key);
            }
            Arc::new(builder.build().map_err(failed)?)
        }
        Api::Anthropic => {
            let mut builder =
                Anthropic::builder(model).name(name).base_url(&*provider.base_url).limits(limits);
            if let Some(thinking) = provider.thinking {
                builder = builder.thinking(thinking);
            }
            if let Some(key) = key {
                builder = builder.key(key);
            }
            Arc::new(builder.build().map_err(failed)?)
        }
    })
}

/// What to do about a model error.
pub(super) fn advice(error: &ModelError, settings: &Settings) -> Option<String> {
    let ModelName::Of { provider, .. } = &settings.model.name else { return None };
    let (name, provider) = settings.provider.get_key_value(provider.as_str())?;
    let name = printable(name);
    Some(match error.kind {
        ModelErrorKind::Auth => match &provider.key_env {
            Some(variable) => format!("check the API key in {}", printable(variable)),
            None => format!("check the API key of [provider.{name}]"),
        },
        ModelErrorKind::Unreachable | ModelErrorKind::TimedOut => {
            let url = crate::url::without_secrets(&provider.base_url);
            format!("check the network and `provider.{name}.base_url`, which is {}", printable(&url))
        }
        ModelErrorKind::RateLimited | ModelErrorKind::Overloaded => {
            "try again later, or switch to another model with /model".to_owned()
        }
        ModelErrorKind::NoSuchModel => {
            format!("check the name of the model with {name}, or switch to another model with /model")
        }
        _ => return None,
    })
}

/// Default parameters for model calls.
#[derive(Clone, Debug)]
pub(super) struct ModelDefaults {
    pub(super) effort: Option<Effort>,
    pub(super) max_output: Option<u64>,
}

#[async_trait]
impl Middleware for ModelDefaults {
    fn name(&self) -> &str {
        "manner"
    }

    async fn wrap_model_call(
        &self,
        _: MiddlewareContext<'_>,
        mut next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        next.request.effort = next.request.effort.or(self.effort);
        next.request.max_output = next.request.max_output.or(self.max_output);
        next.call().await
    }
}
