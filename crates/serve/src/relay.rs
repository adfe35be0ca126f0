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
/// After what time it is known who watches, if a process asks.
const TOLD: Duration = Duration::from_secs(2);
/// After what time without word nobody watches any more.
const FORGOTTEN: Duration = Duration::from_secs(35);
/// The most watched threads of other processes that are remembered.
const MAX_WATCHED: usize = 400_000;
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
    /// A process that just began to hear signals asks who watches threads.
    Who { by: String },
    /// Somebody still watches these threads, in the process `by`.
    Still {
        t: Vec<ThreadId>,
        #[serde(default)]
        by: String,
    },
    /// What happens in a thread, in the process `by`, for the process `to` or for all. It has the lease of the number `n`.
    Live {
        t: ThreadId,
        by: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<String>,
        #[serde(default)]
        n: u64,
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

impl Signal {
    /// Whether it means more if it is said twice. Other signals only say when to look.
    fn says_more_twice(&self) -> bool {
        matches!(self, Self::Live { p, .. } if !matches!(p, LiveSignal::Stored | LiveSignal::Status))
    }
}

/// The connection of a process to the others.
#[derive(Debug)]
pub(crate) struct Relay {
    signals: Signals,
    /// The name of this process among the others.
    own: String,
    /// The threads that other processes watch.
    watched: Mutex<WatchedElsewhere>,
    /// Since when this process hears what others watch. Before all of them have said it, every thread counts as watched.
    hears_since: Mutex<Instant>,
    has_others: AtomicBool,
}

impl Relay {
    pub(crate) fn new(signals: Signals) -> Self {
        Self {
            signals,
            own: uuid::Uuid::now_v7().simple().to_string(),
            watched: Mutex::new(WatchedElsewhere { until: HashMap::new(), cleared: Instant::now() }),
            hears_since: Mutex::new(Instant::now()),
            has_others: AtomicBool::new(false),
        }
    }

    /// Whether signals arrive. If not, look more often.
    pub(crate) fn hears(&self) -> bool {
        self.signals.are_heard()
    }

    fn send(&self, audience: Audience, signal: &Signal) {
        let Ok(text) = serde_json::to_string(signal) else { return };
        if signal.says_more_twice() {
            self.signals.send(audience, text);
        } else {
            self.signals.send_once(audience, text);
        }
    }

    /// Says that somebody posted to a thread.
    pub(crate) fn posted(&self, thread: &ThreadId) {
        self.send(Audience::Workers, &Signal::Posted { t: thread.clone() });
    }

    /// Asks other processes what they watch.
    fn ask(&self) {
        self.send(Audience::Watchers, &Signal::Who { by: self.own.clone() });
    }

    /// Says that somebody begins to watch a thread here.
    pub(crate) fn watch(&self, thread: &ThreadId) {
        self.send(Audience::Workers, &Signal::Watch { t: thread.clone(), by: self.own.clone() });
    }

    /// Says that somebody still watches these threads.
    fn still(&self, threads: &[ThreadId]) {
        // A name has up to 128 bytes.
        for some in threads.chunks(48) {
            self.send(Audience::Workers, &Signal::Still { t: some.to_vec(), by: self.own.clone() });
        }
    }

    /// Notes that other processes watch these threads.
    fn note_watched(&self, threads: &[ThreadId]) {
        self.has_others.store(true, Ordering::Relaxed);
        lock(&self.watched).note(threads, Instant::now());
    }

    fn is_watched(&self, thread: &ThreadId) -> bool {
        if lock(&self.hears_since).elapsed() < TOLD {
            return true;
        }
        // Most servers have one process.
        if !self.has_others.load(Ordering::Relaxed) {
            return false;
        }
        lock(&self.watched).until.get(thread).is_some_and(|until| *until > Instant::now())
    }

    /// Tells other processes what happens in a thread that this process works on with the lease of this number, if they watch it.
    pub(crate) fn tell(&self, thread: &ThreadId, lease: u64, piece: &Piece) {
        if self.is_watched(thread) {
            self.tell_to(&Told { thread, lease, to: None }, piece);
        }
    }

    fn live(&self, told: &Told<'_>, p: LiveSignal) {
        let (t, by, to) = (told.thread.clone(), self.own.clone(), told.to.map(str::to_owned));
        self.send(Audience::Watchers, &Signal::Live { t, by, to, n: told.lease, p });
    }

    fn tell_to(&self, told: &Told<'_>, piece: &Piece) {
        let live = |p| self.live(told, p);
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

    /// Tells the process `to` what was said so far.
    pub(crate) fn catch_up(&self, thread: &ThreadId, lease: u64, to: &str, so_far: &SoFar) {
        let (told, e) = (Told { thread, lease, to: Some(to) }, so_far.ends);
        self.live(&told, LiveSignal::Begin { e });
        let last =
            |text: &str| text[text.ceil_char_boundary(text.len().saturating_sub(MAX_SO_FAR))..].to_owned();
        self.tell_to(&told, &Piece::Reasoning(e, last(&so_far.reasoning)));
        self.tell_to(&told, &Piece::Text(e, last(&so_far.text)));
        for (call, text) in &so_far.progress {
            self.tell_to(&told, &Piece::Progress(e, call.clone(), last(text)));
        }
    }
}

/// What a signal is about, and for whom it is.
struct Told<'a> {
    thread: &'a ThreadId,
    lease: u64,
    to: Option<&'a str>,
}

/// The threads that other processes watch, and until when.
#[derive(Debug)]
struct WatchedElsewhere {
    until: HashMap<ThreadId, Instant>,
    cleared: Instant,
}

impl WatchedElsewhere {
    fn note(&mut self, threads: &[ThreadId], now: Instant) {
        if self.cleared + FORGOTTEN < now {
            self.until.retain(|_, until| *until > now);
            self.cleared = now;
        }
        for thread in threads {
            if let Some(until) = self.until.get_mut(thread) {
                *until = now + FORGOTTEN;
            } else if self.until.len() < MAX_WATCHED {
                self.until.insert(thread.clone(), now + FORGOTTEN);
            }
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
                    live.catch_up(&by);
                }
            }
            Signal::Who { by } if by == relay.own => {}
            Signal::Who { .. } => relay.still(&self.live.watched()),
            Signal::Still { by, .. } if by == relay.own => {}
            Signal::Still { t, .. } => relay.note_watched(&t),
            Signal::Live { by, .. } if by == relay.own => {}
            Signal::Live { to: Some(to), .. } if to != relay.own => {}
            Signal::Live { t, n, p, .. } => {
                let Some(live) = self.live.watched_one(&t) else { return };
                let piece = match p {
                    LiveSignal::Begin { e } => Piece::Again(e),
                    LiveSignal::Stored => Piece::Stored,
                    LiveSignal::Status => Piece::Status,
                    LiveSignal::Text { e, x } => Piece::Text(e, x),
                    LiveSignal::Reasoning { e, x } => Piece::Reasoning(e, x),
                    LiveSignal::Progress { e, c, x } => Piece::Progress(e, c, x),
                    LiveSignal::Notice { x } => Piece::Notice(x),
                };
                live.take_in(n, piece);
            }
        }
    }

    /// Looks at everything that a lost signal could have been about.
    fn missed(&self) {
        *lock(&self.relay.hears_since) = Instant::now();
        self.relay.ask();
        self.posted.notify_one();
        self.look_after_all();
        for thread in self.live.watched() {
            self.relay.watch(&thread);
            if let Some(live) = self.live.watched_one(&thread) {
                live.take_in(0, Piece::Stored);
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
            let signal = Signal::Live { t, by: by.clone(), to: Some(by), n: u64::MAX, p };
            let text = serde_json::to_string(&signal).unwrap();
            assert!(text.len() <= Signals::MAX_BYTES, "{}", text.len());
            assert_eq!(serde_json::from_str::<Signal>(&text).unwrap(), signal);
        }
        assert_eq!(parts("").count(), 0);
    }

    #[test]
    fn who_still_watches_is_remembered_and_others_are_forgotten() {
        let (one, other, now) = (ThreadId::new(), ThreadId::new(), Instant::now());
        let mut watched = WatchedElsewhere { until: HashMap::new(), cleared: now };
        watched.note(&[one.clone(), other.clone()], now);
        let later = now + FORGOTTEN - Duration::from_secs(1);
        watched.note(std::slice::from_ref(&one), later);
        watched.note(&[], later + Duration::from_secs(2));
        assert_eq!(watched.until.into_iter().collect::<Vec<_>>(), [(one, later + FORGOTTEN)]);
    }

    #[test]
    fn a_signal_of_a_newer_version_is_no_error() {
        assert!(serde_json::from_str::<Signal>(r#"{"s":"unheard of","t":"a"}"#).is_err());
        // An older one says less.
        let less = r#"{"s":"live","t":"a","by":"b","p":{"p":"stored"}}"#;
        assert!(serde_json::from_str::<Signal>(less).is_ok());
        let more = r#"{"s":"posted","t":"a","more":1}"#;
        assert_eq!(serde_json::from_str::<Signal>(more).unwrap(), Signal::Posted { t: "a".parse().unwrap() });
    }
}
