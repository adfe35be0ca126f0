//! The age of a thread, as lists show it.

use std::time::SystemTime;

/// A number of seconds, roughly.
pub(crate) fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// How long ago a time was, roughly.
pub(crate) fn ago(at: SystemTime) -> String {
    match at.elapsed().unwrap_or_default().as_secs() {
        0..60 => "now".to_owned(),
        seconds => span(seconds),
    }
}
