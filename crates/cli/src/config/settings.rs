//! All settings: one field for each table.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, bail};
use prowess_agent::Prices;
use prowess_agent::cost::{ModelPrice, Price};
use prowess_mcp::client::ServerLabel;

use super::artifacts::ArtifactSettings;
use super::limits::LimitSettings;
use super::mcp::McpSettings;
use super::model::{ModelName, ModelSettings};
use super::origin::Origin;
use super::price::{ModelPattern, PriceSettings};
use super::provider::{BUILT_IN, ProviderName, ProviderSettings};
use super::read::{Row, Tables, alternatives};
use super::sandbox::SandboxSettings;
use super::setting::Parsed;
use super::skills::SkillSettings;
use super::telemetry::TelemetrySettings;
use super::tree::{Node, Value};
use super::{OTHER_TABLES, reference};
use crate::terminal::printable;

/// Everything that can be set, except rules and hooks.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) model: ModelSettings,
    pub(crate) provider: BTreeMap<Parsed<ProviderName>, ProviderSettings>,
    pub(crate) skills: SkillSettings,
    pub(crate) sandbox: SandboxSettings,
    pub(crate) artifacts: ArtifactSettings,
    pub(crate) limits: LimitSettings,
    pub(crate) mcp: BTreeMap<Parsed<ServerLabel>, McpSettings>,
    pub(crate) price: BTreeMap<Parsed<ModelPattern>, PriceSettings>,
    pub(crate) telemetry: TelemetrySettings,
}

/// The names of all tables.
pub(super) const TABLES: [&str; 9] =
    ["model", "provider", "skills", "sandbox", "artifacts", "limits", "mcp", "price", "telemetry"];

impl Settings {
    /// The settings if nobody sets anything.
    pub(crate) fn built_in() -> Result<Self> {
        Self::read(&[built_in()], &mut Vec::new())
    }

    /// Reads the settings from all sources, the strongest last, and lists every key in `rows`.
    pub(super) fn read(sources: &[Node], rows: &mut Vec<Row>) -> Result<Self> {
        let top = Tables::top(sources);
        top.check_keys(&[&TABLES[..], &OTHER_TABLES].concat())?;
        let mut settings = Self {
            model: top.section("model", rows)?,
            provider: top.named("provider", rows)?,
            skills: top.section("skills", rows)?,
            sandbox: top.section("sandbox", rows)?,
            artifacts: top.section("artifacts", rows)?,
            limits: top.section("limits", rows)?,
            mcp: top.named("mcp", rows)?,
            price: top.named("price", rows)?,
            telemetry: top.section("telemetry", rows)?,
        };
        settings.check(rows)?;
        Ok(settings)
    }

    /// Checks the keys that depend on each other.
    fn check(&mut self, rows: &[Row]) -> Result<()> {
        let origin = |path: &[&str]| {
            let is_meant = |row: &&Row| row.path.iter().zip(path).all(|(one, other)| one == other);
            rows.iter().find(is_meant).map(|row| row.origin.clone())
        };
        for (name, provider) in &mut self.provider {
            provider.check(name, |key| origin(&["provider", name, key]))?;
        }
        for (name, server) in &self.mcp {
            server.check(name, origin(&["mcp", name]), |key| origin(&["mcp", name, key]))?;
        }
        let ModelName::Of { provider, .. } = &self.model.name else { return Ok(()) };
        if !self.provider.contains_key(provider.as_str()) {
            let known: Vec<&str> = self.provider.keys().map(|name| &**name).collect();
            let hint = prowess_permission::nearest::nearest(provider, known.iter().copied()).map_or_else(
                || format!("use {}, or add one with [provider.NAME]", alternatives(&known)),
                |near| format!("did you mean `{near}`?"),
            );
            let place = origin(&["model", "name"]).unwrap_or(Origin::Default);
            bail!("{place}: `model.name` names an unknown provider, `{}`; {hint}", printable(provider));
        }
        Ok(())
    }

    /// What models cost. The offline model costs nothing.
    pub(crate) fn prices(&self) -> Result<Prices> {
        let prices = self.price.iter().map(|(name, price)| (name.to_string(), price.clone().into()));
        let mut prices: BTreeMap<String, ModelPrice> = prices.collect();
        prices.entry("offline".to_owned()).or_insert(ModelPrice::new(Price::default(), Price::default()));
        Prices::try_from(prices).map_err(|error| anyhow!("{error}"))
    }
}

/// The defaults, and the providers that are built in.
pub(super) fn built_in() -> Node {
    let mut tree = Node::empty();
    for (path, default) in reference::keys() {
        if let Some(default) = default {
            tree.put(&path, Value::Typed(default), &Origin::Default);
        }
    }
    for (name, keys) in BUILT_IN {
        for (key, value) in keys {
            tree.put(&["provider", name, key], Value::Typed(value.into()), &Origin::Default);
        }
    }
    tree
}
