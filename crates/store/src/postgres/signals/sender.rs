//! Sends signals. Those that come together go together.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deadpool_postgres::Object;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_postgres::types::Type;

use super::super::PostgresStore;
use super::channel_of;
use crate::error::DatabaseError;
use crate::signals::{Audience, Signals};

/// The pause after each time that signals were sent. What comes meanwhile goes together.
const PAUSE: Duration = Duration::from_millis(10);
/// The most bytes of signals that wait. Further ones are dropped.
const MAX_WAITING: usize = 4 << 20;
/// How many of the signals that wait last are compared with a new one.
const COMPARED: usize = 32;

#[derive(Debug)]
pub(crate) struct Sender {
    waiting: Arc<Waiting>,
    sends: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Waiting {
    signals: Mutex<(VecDeque<(Audience, String)>, usize)>,
    more: Notify,
}

impl Sender {
    pub(crate) fn start(store: PostgresStore, channel: &str) -> Self {
        let (waiting, channel) = (Arc::new(Waiting::default()), channel.to_owned());
        let own = Arc::clone(&waiting);
        let sends = tokio::spawn(async move {
            loop {
                own.more.notified().await;
                for (audience, payload) in own.take() {
                    if let Err(error) = store.notify(&channel_of(&channel, audience), &payload).await {
                        // Whoever waits for it looks at the database soon.
                        tracing::warn!(%error, "Could not send a signal");
                    }
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
        Self { waiting, sends }
    }

    pub(crate) fn send(&self, audience: Audience, signal: String) {
        self.waiting.add(audience, signal, false);
    }

    pub(crate) fn send_once(&self, audience: Audience, signal: String) {
        self.waiting.add(audience, signal, true);
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.sends.abort();
    }
}

impl Waiting {
    fn add(&self, audience: Audience, signal: String, once: bool) {
        if signal.len() > Signals::MAX_BYTES || signal.contains('\n') {
            tracing::warn!(bytes = signal.len(), "A signal cannot be sent");
            return;
        }
        let mut waiting = self.signals.lock().unwrap_or_else(PoisonError::into_inner);
        let (signals, bytes) = &mut *waiting;
        let waits =
            || signals.iter().rev().take(COMPARED).any(|(to, known)| *to == audience && *known == signal);
        if (once && waits()) || *bytes + signal.len() > MAX_WAITING {
            return;
        }
        *bytes += signal.len();
        signals.push_back((audience, signal));
        drop(waiting);
        self.more.notify_one();
    }

    /// What waits, as few payloads. The signals for an audience keep their order.
    fn take(&self) -> Vec<(Audience, String)> {
        let (signals, _) = std::mem::take(&mut *self.signals.lock().unwrap_or_else(PoisonError::into_inner));
        payloads(signals)
    }
}

fn payloads(signals: impl IntoIterator<Item = (Audience, String)>) -> Vec<(Audience, String)> {
    let mut payloads: Vec<(Audience, String)> = Vec::new();
    for (audience, signal) in signals {
        let last = payloads.iter_mut().rev().find(|(other, _)| *other == audience);
        match last.filter(|(_, payload)| payload.len() + 1 + signal.len() <= Signals::MAX_BYTES) {
            Some((_, payload)) => {
                payload.push('\n');
                payload.push_str(&signal);
            }
            None => payloads.push((audience, signal)),
        }
    }
    payloads
}

impl PostgresStore {
    /// Sends a payload. It is a transaction of its own: in that of an event, all appends would wait for each other.
    pub(super) async fn notify(&self, channel: &str, payload: &str) -> Result<(), DatabaseError> {
        let client = self.client().await?;
        self.0.counters.sent(1);
        let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
            [(&channel, Type::TEXT), (&payload, Type::TEXT)];
        let sent = self.in_time(client.query_typed("SELECT pg_notify($1, $2)", &values)).await;
        if sent.is_err() {
            drop(Object::take(client));
        }
        sent.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_signals_that_say_nothing_more_go_once() {
        let waiting = Waiting::default();
        for _ in 0..2 {
            waiting.add(Audience::Watchers, "ha".to_owned(), false);
            waiting.add(Audience::Watchers, "stored".to_owned(), true);
        }
        assert_eq!(waiting.take(), [(Audience::Watchers, "ha\nstored\nha".to_owned())]);
    }

    #[test]
    fn signals_that_wait_go_together_in_their_order() {
        use Audience::{Watchers, Workers};
        // There is room for one more byte behind the newline, and not for two before it.
        let long = "x".repeat(Signals::MAX_BYTES - 2);
        let signals = [(Workers, "a"), (Watchers, "bb"), (Workers, "c"), (Watchers, &long), (Watchers, "d")];
        let sent = payloads(signals.map(|(audience, signal)| (audience, signal.to_owned())));
        let expected =
            [(Workers, "a\nc".to_owned()), (Watchers, "bb".to_owned()), (Watchers, format!("{long}\nd"))];
        assert_eq!(sent, expected);
    }
}
