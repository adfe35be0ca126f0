//! Sends spans to a collector, if one is configured.

use std::io::Write as _;

use anyhow::Result;
use prowess_agent::telemetry::Exporter;

use crate::config::TelemetrySettings;
use crate::terminal::printable;

/// The exporter that sends spans to a collector, if the configuration or the environment names one.
pub(crate) fn exporter(settings: &TelemetrySettings) -> Result<Option<Exporter>> {
    let made = match &settings.endpoint {
        Some(endpoint) => Exporter::new(endpoint, "prowess").map(Some),
        None => Exporter::from_env(),
    };
    made.map_err(|error| anyhow::anyhow!("telemetry: {error}"))
}

/// The same for work that goes on without telemetry if the settings are wrong.
pub(crate) fn exporter_if_possible(settings: &TelemetrySettings) -> Option<Exporter> {
    exporter(settings).unwrap_or_else(|error| {
        tell(&format!("{error}; no spans are sent"));
        None
    })
}

/// Sends the last spans, which takes three seconds at most. If some were lost, says so: that is no reason to fail.
pub(crate) fn send_last_spans(exporter: Option<Exporter>) {
    if let Some(Err(error)) = exporter.map(Exporter::shutdown) {
        tell(&format!("telemetry: {error}"));
    }
}

fn tell(notice: &str) {
    // Nobody may read the error stream any more.
    let _ = writeln!(anstream::stderr(), "{}", printable(notice));
}
