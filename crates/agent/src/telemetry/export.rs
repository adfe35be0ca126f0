//! Sends spans to an OpenTelemetry collector with OTLP: protobuf over HTTP.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{Array, StringValue, Value};
use opentelemetry_otlp::{WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use reqwest::Url;
use reqwest::blocking::Client;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterFn, LevelFilter};
use tracing_subscriber::registry::LookupSpan;

/// How long a shutdown waits for the last spans.
const LAST_SPANS: Duration = Duration::from_secs(3);
/// How long the collector may take for one request by default.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The address of a collector on this machine.
const LOCAL: &str = "http://localhost:4318";
/// The path for spans.
const PATH: &str = "/v1/traces";
const SERVICE: &str = "prowess";

/// Sends spans to an OpenTelemetry collector, until it is dropped or shut down.
///
/// A separate thread sends the spans in batches. A slow or missing collector delays nothing: if the queue is full, spans are
/// dropped. A shutdown waits at most three seconds for the last spans. The exporter follows no redirects.
///
/// ```no_run
/// use prowess_agent::telemetry::Exporter;
/// use tracing_subscriber::layer::SubscriberExt as _;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let exporter = Exporter::new("http://localhost:4318", "my-agent")?;
/// tracing::subscriber::set_global_default(tracing_subscriber::registry().with(exporter.layer()))?;
/// // …
/// exporter.shutdown()?;
/// # Ok(())
/// # }
/// ```
pub struct Exporter {
    provider: SdkTracerProvider,
    lost: Arc<AtomicU64>,
}

/// Why spans are not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The collector's address is invalid.
    #[error("`{0}` is not the address of a collector: write one such as {LOCAL}")]
    Endpoint(String),
    /// The environment asks for something that prowess does not support.
    #[error("{name}={value} is not supported: {instead}")]
    Unsupported {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// The supported values.
        instead: &'static str,
    },
    /// The exporter could not be set up.
    #[error("spans cannot be sent: {0}")]
    Setup(String),
    /// Some spans were not sent.
    #[error("{0} spans were not sent: the collector did not take them")]
    Lost(u64),
    /// The collector took too long.
    #[error("the last spans were not sent in time")]
    TooSlow,
}

impl Exporter {
    /// Sends to the collector at this address, as this service. If the address does not end with `/v1/traces`, that is
    /// added.
    ///
    /// # Errors
    ///
    /// The address is invalid, or the exporter could not be set up.
    pub fn new(endpoint: &str, service: &str) -> Result<Self, ExportError> {
        let mut url = address(endpoint)?;
        if !url.path().ends_with(PATH) {
            url.set_path(&format!("{}{PATH}", url.path().trim_end_matches('/')));
        }
        Self::to(&url, resource().with_service_name(service.to_owned()).build())
    }

    /// Takes all settings from the usual environment variables: `OTEL_EXPORTER_OTLP_ENDPOINT`, `…_HEADERS` and `…_TIMEOUT`,
    /// each also with `TRACES_` before its last word, `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, and those for
    /// sampling and batches.
    ///
    /// Returns `None` if no variable names an endpoint and `OTEL_TRACES_EXPORTER` is not `otlp`. Also returns `None` if
    /// `OTEL_TRACES_EXPORTER` is `none`, or `OTEL_SDK_DISABLED` is `true`.
    ///
    /// # Errors
    ///
    /// The environment asks for another protocol than protobuf over HTTP, or the exporter could not be set up.
    pub fn from_env() -> Result<Option<Self>, ExportError> {
        let exporter = variable("OTEL_TRACES_EXPORTER");
        match exporter.as_deref() {
            Some("none") => return Ok(None),
            Some("otlp") | None => {}
            Some(other) => return Err(unsupported("OTEL_TRACES_EXPORTER", other, "otlp or none")),
        }
        if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        for name in ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"] {
            match variable(name).as_deref() {
                Some("http/protobuf") => break,
                Some(other) => return Err(unsupported(name, other, "http/protobuf")),
                None => {}
            }
        }
        let url =
            match (variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), variable("OTEL_EXPORTER_OTLP_ENDPOINT")) {
                (Some(endpoint), _) => address(&endpoint)?,
                (None, None) if exporter.is_none() => return Ok(None),
                (None, endpoint) => {
                    let endpoint = endpoint.unwrap_or_else(|| LOCAL.to_owned());
                    address(&format!("{}{PATH}", endpoint.trim_end_matches('/')))?
                }
            };
        let mut resource = resource();
        if let Some(service) = variable("OTEL_SERVICE_NAME") {
            resource = resource.with_service_name(service);
        }
        Self::to(&url, resource.build()).map(Some)
    }

    /// The layer for `tracing` that hands spans to the exporter: all spans of prowess, and those of other crates from the
    /// level `INFO` on. Log events are left out, because they may say more than a trace should contain.
    pub fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let wanted = |metadata: &Metadata<'_>| {
            let is_ours = metadata.target().starts_with("prowess");
            metadata.is_span() && (is_ours || *metadata.level() <= Level::INFO)
        };
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("prowess"))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_level(false)
            .with_target(false)
            .with_filter(FilterFn::new(wanted).with_max_level_hint(LevelFilter::DEBUG))
    }

    /// Sends the remaining spans, and stops.
    ///
    /// # Errors
    ///
    /// Some spans were not sent, now or before.
    pub fn shutdown(self) -> Result<(), ExportError> {
        let ended = self.provider.shutdown_with_timeout(LAST_SPANS);
        match self.lost.load(Ordering::Relaxed) {
            0 if ended.is_ok() => Ok(()),
            0 => Err(ExportError::TooSlow),
            lost => Err(ExportError::Lost(lost)),
        }
    }

    fn to(url: &Url, resource: Resource) -> Result<Self, ExportError> {
        let timeout = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"]
            .into_iter()
            .find_map(|name| variable(name)?.parse().ok())
            .map_or(TIMEOUT, Duration::from_millis);
        let setup = |error: &dyn fmt::Display| ExportError::Setup(error.to_string());
        // A blocking client cannot be created inside of a runtime.
        let client = std::thread::spawn(move || {
            Client::builder().timeout(timeout).redirect(reqwest::redirect::Policy::none()).build()
        });
        let client = client.join().map_err(|_| setup(&"the HTTP client could not be created"))?;
        let inner = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_http_client(client.map_err(|error| setup(&error))?)
            .with_endpoint(url.as_str())
            .with_timeout(timeout)
            .build()
            .map_err(|error| setup(&error))?;
        let lost = Arc::new(AtomicU64::new(0));
        let sender = Sender { inner, lost: Arc::clone(&lost) };
        let provider =
            SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(sender).build();
        Ok(Self { provider, lost })
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").field("lost", &self.lost).finish_non_exhaustive()
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // After `shutdown` there is nothing left to do, and this returns at once.
        let _ = self.provider.shutdown_with_timeout(LAST_SPANS);
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

fn unsupported(name: &'static str, value: &str, instead: &'static str) -> ExportError {
    ExportError::Unsupported { name, value: value.to_owned(), instead }
}

fn address(text: &str) -> Result<Url, ExportError> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    url.ok_or_else(|| ExportError::Endpoint(text.to_owned()))
}

/// The name of the sender: `prowess`, unless the environment says otherwise.
fn resource() -> opentelemetry_sdk::resource::ResourceBuilder {
    Resource::builder_empty()
        .with_service_name(SERVICE)
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_detector(Box::new(EnvResourceDetector::new()))
}

/// Sends batches, and counts lost spans.
#[derive(Debug)]
struct Sender {
    inner: opentelemetry_otlp::SpanExporter,
    lost: Arc<AtomicU64>,
}

impl SpanExporter for Sender {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len() as u64;
        batch.iter_mut().for_each(normalise);
        let sent = self.inner.export(batch).await;
        if sent.is_err() {
            self.lost.fetch_add(count, Ordering::Relaxed);
        }
        sent
    }

    fn shutdown(&self) -> OTelSdkResult {
        self.inner.shutdown()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// Brings a span into the form of the conventions. Fields of `tracing` are single values, and some attributes are lists. If
/// an attribute was recorded twice, the last value counts.
fn normalise(span: &mut SpanData) {
    let mut known = BTreeSet::new();
    span.attributes.reverse();
    span.attributes.retain(|attribute| known.insert(attribute.key.clone()));
    span.attributes.reverse();
    for attribute in &mut span.attributes {
        if attribute.key.as_str() == "gen_ai.response.finish_reasons"
            && let Value::String(reason) = &attribute.value
        {
            let reasons: Vec<StringValue> = vec![reason.clone()];
            attribute.value = Value::Array(Array::String(reasons));
        }
    }
}
