//! `[telemetry]`

use super::read::section;
use super::setting::{HttpUrl, Parsed};

section! {
    /// Where prowess sends spans, which say what happened in a turn and how long it took. See
    /// [telemetry](telemetry.md).
    pub(crate) struct TelemetrySettings {
        /// A collector that accepts OTLP over HTTP, such as `http://127.0.0.1:4318`. Without it, prowess sends nothing.
        User endpoint: Option<Parsed<HttpUrl>>,
    }
}
