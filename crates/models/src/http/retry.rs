//! Retries: how long to wait before the next attempt.

use std::time::{Duration, SystemTime};

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use reqwest::header::{HeaderMap, RETRY_AFTER};

use super::client::HttpOptions;
use super::failure::Failure;

/// How often a failed request is sent again by default.
pub(super) const DEFAULT_RETRIES: u32 = 4;
/// The wait before the first retry, by default.
pub(super) const DEFAULT_FIRST_WAIT: Duration = Duration::from_millis(500);
/// The longest wait before a retry, by default.
pub(super) const DEFAULT_LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The waits before each retry.
#[derive(Debug)]
pub(super) struct RetryWaits {
    delays: ExponentialBackoff,
    longest: Duration,
}

impl RetryWaits {
    pub(super) fn new(options: &HttpOptions) -> Self {
        let delays = ExponentialBuilder::default()
            .with_min_delay(options.first_wait)
            .with_max_delay(options.longest_wait)
            .with_max_times(options.retries as usize)
            // Clients that failed together must not retry together.
            .with_jitter()
            .build();
        Self { delays, longest: options.longest_wait }
    }

    /// How long to wait after a failure. `None`: do not retry.
    pub(super) fn after(&mut self, failure: &Failure) -> Option<Duration> {
        let asked_for = failure.retry_after.unwrap_or_default();
        if !failure.is_passing || asked_for > self.longest {
            return None;
        }
        self.delays.next().map(|delay| delay.min(self.longest).max(asked_for))
    }
}

/// How long a provider asks to wait: in seconds, as a date, or in milliseconds in a header that some providers use.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let number = |text: &str| text.parse::<f64>().ok();
    if let Some(milliseconds) = text("retry-after-ms").and_then(number) {
        return Duration::try_from_secs_f64(milliseconds / 1_000.0).ok();
    }
    let value = text(RETRY_AFTER.as_str())?;
    match number(value) {
        Some(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        // A date in the past asks for no wait.
        None => {
            httpdate::parse_http_date(value).ok().map(|date| date.duration_since(now).unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use prowess_agent::model::ModelErrorKind;
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    fn read(name: &'static str, value: &'static str) -> Option<Duration> {
        let headers =
            HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_static(value))]);
        retry_after(&headers, SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777))
    }

    #[test]
    fn three_forms_of_retry_after() {
        assert_eq!(read("retry-after", "2"), Some(Duration::from_secs(2)));
        assert_eq!(read("retry-after", " 1.5 "), Some(Duration::from_millis(1_500)));
        assert_eq!(read("retry-after", "Sun, 06 Nov 1994 08:49:40 GMT"), Some(Duration::from_secs(3)));
        assert_eq!(read("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(read("retry-after-ms", "250"), Some(Duration::from_millis(250)));
        for nonsense in ["", "soon", "-1", "NaN", "1e400", "inf"] {
            assert_eq!(read("retry-after", nonsense), None, "{nonsense:?}");
        }
    }

    #[test]
    fn waits_grow_and_end() {
        let mut options = HttpOptions::default();
        (options.retries, options.first_wait) = (3, Duration::from_millis(100));
        let overloaded = Failure::new(ModelErrorKind::Overloaded, "");
        let mut waits = RetryWaits::new(&options);
        let all: Vec<Duration> = std::iter::from_fn(|| waits.after(&overloaded)).collect();
        assert_eq!(all.len(), 3);
        assert!(all[0] >= Duration::from_millis(100) && all[2] >= Duration::from_millis(400), "{all:?}");
    }

    #[test]
    fn a_long_wait_is_an_error_instead() {
        let options = HttpOptions::default();
        let failed = |kind, seconds| {
            let mut failure = Failure::new(kind, "");
            failure.retry_after = Some(Duration::from_secs(seconds));
            RetryWaits::new(&options).after(&failure)
        };
        assert_eq!(failed(ModelErrorKind::RateLimited, 20), Some(Duration::from_secs(20)));
        assert_eq!(failed(ModelErrorKind::RateLimited, 3_600), None);
        assert_eq!(failed(ModelErrorKind::Auth, 1), None);
    }
}
