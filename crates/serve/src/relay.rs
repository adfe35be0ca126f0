//! Tells other processes of the same server what happens in threads, and hears it from them.
//!
//! Nothing here is stored, and everything may be lost. Stored events have their numbers, so a watcher that misses a signal finds
//! them by looking. Pieces of text go only to processes that said that somebody watches the thread.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prowess_agent::ThreadId;
use prowess_store::signals::{Audience, Heard, Signals};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::app::{App, lock};
use crate::live::{Piece, SoFar};

/// How often a process says that somebody still watches a thread.
const STILL: Duration = Duration::from_secs(10);
/// After what time without word nobody watches any more.
const FORGOTTEN: Duration = Duration::from_secs(35);
/// The most watched threads of other processes that are remembered.
const MAX_WATCHED: usize = 100_000;
/// The most bytes of text in a signal. Each can take six bytes in JSON.
const MAX_TEXT: usize = 1000;
/// The most bytes of what was said so far that a newcomer in another process gets: the last ones.
const MAX_SO_FAR: usize = 256 << 10;

/// What processes tell each other, in short words because there is much of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "s", rename_all = "snake_case")]
enum Signal {
    /// Somebody posted to the thread, or queued it.
    Posted { t: ThreadId },
    /// Somebody watches the thread now, in the process `by`. Whoever works on it says what was said so far.
    Watch { t: ThreadId, by: String },
    /// Somebody still watches these threads.
    Still { t: Vec<ThreadId> },
    /// What happens in a thread, in the process `by`, for the process `to` or for all.
    Live {
        t: ThreadId,
        by: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<String>,
        p: LiveSignal,
    },
}

/// What happens in a thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "p", rename_all = "snake_case")]
enum LiveSignal {
    Stored,
    Status,
    /// What was said before counts no more. The log has so many ends.
    Begin {
        e: u64,
    },
    Text {
        e: u64,
        x: String,
    },
    Reasoning {
        e: u64,
        x: String,
    },
    Progress {
        e: u64,
        c: String,
        x: String,
    },
    Notice {
        x: String,
    },
}

/// The connection of a process to the others.
#[derive(Debug)]
pub(crate) struct Relay {
    signals: Signals,
    /// The name of this process among the others.
    own: String,
    /// The threads that other processes watch, and until when.
    watched: Mutex<HashMap<ThreadId, Instant>>,
    has_others: AtomicBool,
}

impl Relay {
    pub(crate) fn new(signals: Signals) -> Self {
        Self {
            signals,
            own: uuid::Uuid::now_v7().simple().to_string(),
            watched: Mutex::default(),
            has_others: AtomicBool::new(false),
        }
    }

    /// Whether signals arrive. If not, look more often.
    pub(crate) fn hears(&self) -> bool {
        self.signals.are_heard()
    }

    fn send(&self, audience: Audience, signal: &Signal) {
        if let Ok(text) = serde_json::to_string(signal) {
            self.signals.send(audience, text);
        }
    }

    /// Says that somebody posted to a thread.
    pub(crate) fn posted(&self, thread: &ThreadId) {
        self.send(Audience::Workers, &Signal::Posted { t: thread.clone() });
    }

    /// Says that somebody begins to watch a thread here.
    pub(crate) fn watch(&self, thread: &ThreadId) {
        self.send(Audience::Workers, &Signal::Watch { t: thread.clone(), by: self.own.clone() });
    }

    /// Says that somebody still watches these threads.
    fn still(&self, threads: &[ThreadId]) {
        // A name has up to 128 bytes.
        for some in threads.chunks(48) {
            self.send(Audience::Workers, &Signal::Still { t: some.to_vec() });
        }
    }

    /// Notes that other processes watch these threads.
    fn note_watched(&self, threads: &[ThreadId]) {
        self.has_others.store(true, Ordering::Relaxed);
        let (mut watched, now) = (lock(&self.watched), Instant::now());
        if watched.len() + threads.len() > MAX_WATCHED {
            watched.retain(|_, until| *until > now);
        }
        for thread in threads {
            if watched.len() < MAX_WATCHED {
                watched.insert(thread.clone(), now + FORGOTTEN);
            }
        }
    }

    fn is_watched(&self, thread: &ThreadId) -> bool {
        // Most servers have one process.
        if !self.has_others.load(Ordering::Relaxed) {
            return false;
        }
        lock(&self.watched).get(thread).is_some_and(|until| *until > Instant::now())
    }

    /// Tells other processes what happens in a thread that this process works on, if they watch it.
    pub(crate) fn tell(&self, thread: &ThreadId, piece: &Piece) {
        if self.is_watched(thread) {
            self.tell_to(thread, None, piece);
        }
    }

    /// Tells them that the work on a thread begins: what was said before counts no more.
    pub(crate) fn begin(&self, thread: &ThreadId, ends: u64) {
        if self.is_watched(thread) {
            self.live(thread, None, LiveSignal::Begin { e: ends });
        }
    }

    fn live(&self, thread: &ThreadId, to: Option<&str>, p: LiveSignal) {
        let (by, to) = (self.own.clone(), to.map(str::to_owned));
        self.send(Audience::Watchers, &Signal::Live { t: thread.clone(), by, to, p });
    }

    fn tell_to(&self, thread: &ThreadId, to: Option<&str>, piece: &Piece) {
        let live = |p| self.live(thread, to, p);
        match piece {
            Piece::Stored => live(LiveSignal::Stored),
            Piece::Status => live(LiveSignal::Status),
            Piece::Again(ends) => live(LiveSignal::Begin { e: *ends }),
            Piece::Notice(text) => {
                live(LiveSignal::Notice { x: text[..text.floor_char_boundary(MAX_TEXT)].to_owned() });
            }
            Piece::Text(e, text) => parts(text).for_each(|x| live(LiveSignal::Text { e: *e, x })),
            Piece::Reasoning(e, text) => parts(text).for_each(|x| live(LiveSignal::Reasoning { e: *e, x })),
            Piece::Progress(e, call, text) if call.len() <= MAX_TEXT => {
                parts(text).for_each(|x| live(LiveSignal::Progress { e: *e, c: call.clone(), x }));
            }
            Piece::Progress(..) => {}
        }
    }

    /// Tells a process what was said so far.
    fn catch_up(&self, thread: &ThreadId, to: &str, so_far: &SoFar) {
        let (to, e) = (Some(to), so_far.ends);
        self.live(thread, to, LiveSignal::Begin { e });
        let last =
            |text: &str| text[text.ceil_char_boundary(text.len().saturating_sub(MAX_SO_FAR))..].to_owned();
        self.tell_to(thread, to, &Piece::Reasoning(e, last(&so_far.reasoning)));
        self.tell_to(thread, to, &Piece::Text(e, last(&so_far.text)));
        for (call, text) in &so_far.progress {
            self.tell_to(thread, to, &Piece::Progress(e, call.clone(), last(text)));
        }
    }
}

/// A text in parts that fit into a signal.
fn parts(text: &str) -> impl Iterator<Item = String> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (part, after) = rest.split_at(rest.floor_char_boundary(MAX_TEXT));
        rest = after;
        (!part.is_empty()).then(|| part.to_owned())
    })
}

/// Hears what other processes say, until the server stops.
pub(crate) async fn run(app: Arc<App>) {
    let mut stop = app.stop.subscribe();
    let mut still = tokio::time::interval(STILL);
    loop {
        tokio::select! {
            _ = stop.wait_for(|stops| *stops) => return,
            _ = still.tick() => app.relay.still(&app.live.watched()),
            heard = app.relay.signals.hear() => match heard {
                Heard::Signal(text) => app.heard(&text),
                Heard::Missed => app.missed(),
            },
        }
    }
}

impl App {
    fn heard(&self, text: &str) {
        let Ok(signal) = serde_json::from_str(text) else {
            // A newer process may have more to say.
            tracing::debug!("A signal cannot be read");
            return;
        };
        let relay = &self.relay;
        match signal {
            Signal::Posted { t } => self.note_posted(&t),
            Signal::Watch { by, .. } if by == relay.own => {}
            Signal::Watch { t, by } => {
                relay.note_watched(std::slice::from_ref(&t));
                if let Some(live) = self.live.working(&t) {
                    live.flush();
                    relay.catch_up(&t, &by, &live.watch().0);
                }
            }
            Signal::Still { t } => relay.note_watched(&t),
            Signal::Live { by, .. } if by == relay.own => {}
            Signal::Live { to: Some(to), .. } if to != relay.own => {}
            Signal::Live { t, p, .. } => {
                let Some(live) = self.live.watched_one(&t) else { return };
                match p {
                    LiveSignal::Begin { e } => live.begin(e),
                    LiveSignal::Stored => live.take_in(Piece::Stored),
                    LiveSignal::Status => live.take_in(Piece::Status),
                    LiveSignal::Text { e, x } => live.take_in(Piece::Text(e, x)),
                    LiveSignal::Reasoning { e, x } => live.take_in(Piece::Reasoning(e, x)),
                    LiveSignal::Progress { e, c, x } => live.take_in(Piece::Progress(e, c, x)),
                    LiveSignal::Notice { x } => live.take_in(Piece::Notice(x)),
                }
            }
        }
    }

    /// Looks at everything that a lost signal could have been about.
    fn missed(&self) {
        self.posted.notify_one();
        self.look_after_all();
        for thread in self.live.watched() {
            self.relay.watch(&thread);
            if let Some(live) = self.live.watched_one(&thread) {
                live.take_in(Piece::Stored);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_text_fits_into_a_signal() {
        let text = "\u{1}é🦀\"".repeat(5000);
        assert_eq!(parts(&text).collect::<String>(), text);
        for x in parts(&text) {
            let (t, by) = (ThreadId::new(), "x".repeat(32));
            let p = LiveSignal::Progress { e: u64::MAX, c: "c".repeat(MAX_TEXT), x };
            let signal = Signal::Live { t, by: by.clone(), to: Some(by), p };
            let text = serde_json::to_string(&signal).unwrap();
            assert!(text.len() <= Signals::MAX_BYTES, "{}", text.len());
            assert_eq!(serde_json::from_str::<Signal>(&text).unwrap(), signal);
        }
        assert_eq!(parts("").count(), 0);
    }

    #[test]
    fn a_signal_of_a_newer_version_is_no_error() {
        assert!(serde_json::from_str::<Signal>(r#"{"s":"unheard of","t":"a"}"#).is_err());
        let more = r#"{"s":"posted","t":"a","more":1}"#;
        assert_eq!(serde_json::from_str::<Signal>(more).unwrap(), Signal::Posted { t: "a".parse().unwrap() });
    }
}
