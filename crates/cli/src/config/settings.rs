//! All settings: one field for each table.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, bail};
use prowess_agent::Prices;
use prowess_agent::cost::{ModelPrice, Price};
use prowess_mcp::client::ServerLabel;
use prowess_permission::nearest::nearest;

use super::alias::Aliases;
use super::model::ModelName;
use super::price::ModelPattern;
use super::provider::{Api, BUILT_IN, ProviderName};
use super::read::{Reader, Row, Section, Table, alternatives, check_keys};
use super::renamed::rename;
use super::search::EmbeddingModel;
use super::setting::Parsed;
use super::value::{Origin, Values, put};
use super::{
    agent, alias, artifacts, compaction, limits, mcp, memory, model, price, provider, run, sandbox, search,
    serve, skills, telemetry, web_source,
};
use crate::terminal::printable;

/// Declares the settings, with the name and the type of each table.
macro_rules! settings {
    ($($name:ident: $type:ty,)+) => {
        /// Everything that can be set, except rules and hooks.
        #[derive(Clone, Debug)]
        pub(crate) struct Settings {
            $(pub(crate) $name: $type,)+
        }

        /// The names of all tables.
        pub(super) const TABLES: &[&str] = &[$(stringify!($name)),+];

        /// All tables with their keys.
        pub(super) fn tables() -> Vec<Table> {
            [$(<$type>::tables(&[stringify!($name)])),+].into_iter().flatten().collect()
        }

        fn read_tables(reader: &mut Reader<'_>) -> Result<Settings> {
            Ok(Settings { $($name: Section::read(reader, &[stringify!($name)])?),+ })
        }
    };
}

settings! {
    model: model::ModelSettings,
    provider: BTreeMap<Parsed<ProviderName>, provider::ProviderSettings>,
    alias: Aliases,
    skills: skills::SkillSettings,
    search: search::SearchSettings,
    sandbox: sandbox::SandboxSettings,
    run: run::RunSettings,
    artifacts: artifacts::ArtifactSettings,
    memory: memory::MemorySettings,
    limits: limits::LimitSettings,
    compaction: compaction::CompactionSettings,
    agent: BTreeMap<Parsed<agent::SubAgentName>, agent::AgentSettings>,
    mcp: BTreeMap<Parsed<ServerLabel>, mcp::McpSettings>,
    source: BTreeMap<Parsed<web_source::SourceHost>, web_source::SourceSettings>,
    price: BTreeMap<Parsed<ModelPattern>, price::PriceSettings>,
    serve: serve::ServeSettings,
    telemetry: telemetry::TelemetrySettings,
}

impl Settings {
    /// The settings if nobody sets anything.
    pub(crate) fn built_in() -> Result<Self> {
        Ok(Self::read(Vec::new())?.0)
    }

    /// Reads the settings from all sources, the strongest last. Also gives every key, and notices about renamed ones.
    pub(super) fn read(mut sources: Vec<Values>) -> Result<(Self, Vec<Row>, Vec<String>)> {
        let mut notices: Vec<String> = sources.iter_mut().flat_map(rename).collect();
        let tables = tables();
        sources.insert(0, built_in());
        alias::resolve(&mut sources);
        sources.iter().try_for_each(|values| check_keys(values, &sources, &tables))?;
        let mut reader = Reader::new(&sources);
        let mut settings = read_tables(&mut reader)?;
        settings.check(&reader)?;
        notices.extend(settings.skills.check_kits(&reader)?);
        notices.extend(settings.skills.ineffective(&reader));
        Ok((settings, reader.rows, notices))
    }

    /// Checks the keys that depend on each other.
    fn check(&mut self, reader: &Reader<'_>) -> Result<()> {
        for (name, provider) in &mut self.provider {
            provider.check(name, |key| reader.origin(&["provider", name, key]))?;
        }
        for (name, server) in &self.mcp {
            server.check(name, |key| reader.origin(&["mcp", name, key]))?;
        }
        for (host, source) in &self.source {
            source.check(host, |key| reader.origin(&["source", host, key]))?;
        }
        self.serve.oidc.check(|key| reader.origin(&["serve", "oidc", key]))?;
        self.check_embeddings(reader)?;
        let aliases =
            self.alias.iter().map(|(name, alias)| (["alias", name, "model"].to_vec(), &alias.model));
        for (path, model) in aliases.chain([(["model", "name"].to_vec(), &self.model.name)]) {
            let ModelName::Of { provider, .. } = model else { continue };
            if !self.provider.contains_key(provider.as_str()) {
                bail!("{}: {}", reader.origin(&path), self.unknown_provider(provider));
            }
        }
        Ok(())
    }

    /// Checks that the embedding model is one that prowess can call.
    fn check_embeddings(&self, reader: &Reader<'_>) -> Result<()> {
        let Some(EmbeddingModel { provider, .. }) = &self.search.embeddings else { return Ok(()) };
        let place = reader.origin(&["search", "embeddings"]);
        match self.provider.get(provider.as_str()) {
            None => bail!("{place}: {}", self.unknown_provider(provider)),
            Some(known) if known.api != Api::Openai => bail!(
                "{place}: `search.embeddings` needs a provider with the api `openai`, which `{}` has not",
                printable(provider)
            ),
            Some(_) => Ok(()),
        }
    }

    /// The message about the name of a provider that is not known.
    pub(crate) fn unknown_provider(&self, provider: &str) -> String {
        let known: Vec<&str> = self.provider.keys().map(|name| &**name).collect();
        let hint = nearest(provider, known.iter().copied()).map_or_else(
            || format!("use {}, or add one with [provider.NAME]", alternatives(&known)),
            |near| format!("did you mean `{near}`?"),
        );
        format!("there is no provider `{}`; {hint}", printable(provider))
    }

    /// What models cost. The offline model costs nothing.
    pub(crate) fn prices(&self) -> Result<Prices> {
        let prices = self.price.iter().map(|(name, price)| (name.to_string(), price.clone().into()));
        let mut prices: BTreeMap<String, ModelPrice> = prices.collect();
        prices.entry("offline".to_owned()).or_insert(ModelPrice::new(Price::default(), Price::default()));
        Prices::try_from(prices).map_err(|error| anyhow!("{error}"))
    }
}

/// The providers and aliases that are built in.
fn built_in() -> Values {
    let mut values = Values::new();
    for (name, keys) in BUILT_IN {
        for (key, value) in keys {
            put(&mut values, &["provider", name, key], value.into(), &Origin::Default);
        }
    }
    for (name, model) in alias::BUILT_IN {
        put(&mut values, &["alias", name, "model"], model.into(), &Origin::Default);
    }
    values
}
