//! `[telemetry]`

use super::read::section;
use super::setting::{HttpUrl, Parsed, words};

section! {
    /// Where prowess sends spans, which say what happened in a turn and how long it took. See
    /// [telemetry](telemetry.md).
    pub(crate) struct TelemetrySettings {
        /// A collector that accepts OTLP over HTTP, such as `http://127.0.0.1:4318`. Without it, prowess sends nothing.
        User endpoint: Option<Parsed<HttpUrl>>,
        /// Whether spans name skills, in the attributes `gen_ai.skill.*`. OpenTelemetry has not settled on these names, so
        /// they can change.
        User skills: SkillSpans = "off",
    }
}

words! {
    /// Whether spans name skills.
    enum SkillSpans { "on" = On, "off" = Off }
}

impl TelemetrySettings {
    /// Whether spans name skills.
    pub(crate) fn names_skills(&self) -> bool {
        self.skills == SkillSpans::On
    }
}
