//! Hears signals, on a connection of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Config};
use uuid::Uuid;

use super::super::{PostgresStore, configuration, tls};
use super::channel_of;
use crate::error::DatabaseError;
use crate::signals::{Audience, Heard};

/// How many signals wait for the process. If there are more, it is told that it missed some.
const ROOM: usize = 4096;
/// How often the connection is tested, and how long that may take. The test sends a signal through the connections of the store: behind
/// a pooler, or in another database, the connection would answer and hear nothing.
const TEST_EVERY: Duration = Duration::from_secs(10);
const TEST_TIME: Duration = Duration::from_secs(5);
/// How long it may take to connect and to begin to listen.
const LISTEN_TIME: Duration = Duration::from_secs(20);
/// The pause before a new connection, and the longest one.
const RETRY: Duration = Duration::from_millis(200);
const LONGEST_RETRY: Duration = Duration::from_secs(10);
/// The channel for tests, before the name of the connection.
const TEST: &str = "prowess_test_";

#[derive(Debug)]
pub(crate) struct Listener {
    heard: Mutex<mpsc::Receiver<String>>,
    missed: Arc<AtomicBool>,
    hears: Arc<AtomicBool>,
    listens: JoinHandle<()>,
}

/// Where a listener listens.
struct Place {
    store: PostgresStore,
    config: Config,
    name: String,
    channels: Vec<String>,
    heard: mpsc::Sender<String>,
    missed: Arc<AtomicBool>,
    hears: Arc<AtomicBool>,
}

impl Listener {
    pub(crate) fn start(
        store: &PostgresStore,
        url: Option<&str>,
        channel: &str,
        audiences: &[Audience],
    ) -> Result<Self, DatabaseError> {
        let mut config = match url {
            Some(url) => configuration(url)?,
            None => store.0.config.clone(),
        };
        config.application_name("prowess listens");
        let (heard, waiting) = mpsc::channel(ROOM);
        let (missed, hears) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let place = Place {
            store: store.clone(),
            name: super::super::place(&config),
            config,
            channels: audiences.iter().map(|audience| channel_of(channel, *audience)).collect(),
            heard,
            missed: Arc::clone(&missed),
            hears: Arc::clone(&hears),
        };
        let listens = tokio::spawn(async move { place.listen().await });
        Ok(Self { heard: Mutex::new(waiting), missed, hears, listens })
    }

    pub(crate) async fn hear(&self) -> Heard {
        let mut heard = self.heard.lock().await;
        loop {
            if self.missed.swap(false, Ordering::Relaxed) {
                return Heard::Missed;
            }
            match heard.recv().await {
                Some(signal) if signal.is_empty() => {}
                Some(signal) => return Heard::Signal(signal),
                // The process stops.
                None => std::future::pending().await,
            }
        }
    }

    pub(crate) fn hears(&self) -> bool {
        self.hears.load(Ordering::Relaxed)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.listens.abort();
    }
}

impl Place {
    /// Listens as long as the process runs.
    async fn listen(&self) {
        let mut pause = RETRY;
        loop {
            let ended = self.listen_once().await;
            if self.hears.swap(false, Ordering::Relaxed) {
                pause = RETRY;
            }
            tracing::warn!(error = %ended, "No signals arrive. The process looks at the database more often");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_RETRY);
        }
    }

    /// Listens until the connection is lost, and says why.
    async fn listen_once(&self) -> DatabaseError {
        let own = format!("{TEST}{}", Uuid::now_v7().simple());
        let failed = |error| super::super::error::database_error(&self.name, error);
        let begin = async {
            let (client, messages) = tls::connect(&self.config, &self.name).await?;
            let channels = self.channels.iter().chain([&own]);
            let listen: String = channels.map(|channel| format!("LISTEN \"{channel}\";")).collect();
            client.batch_execute(&listen).await.map_err(failed)?;
            Ok::<_, DatabaseError>((client, messages))
        };
        // The connection ends with its client.
        let (_client, mut messages) = match tokio::time::timeout(LISTEN_TIME, begin).await {
            Ok(Ok(connected)) => connected,
            Ok(Err(error)) => return error,
            Err(_) => return unanswered(&self.name),
        };
        // What happened before is not told.
        let mut was_heard = true;
        let mut next_test = tokio::time::Instant::now();
        loop {
            let message = tokio::select! {
                message = messages.recv() => message,
                () = tokio::time::sleep_until(next_test) => {
                    if !std::mem::take(&mut was_heard) {
                        return unheard(&self.name);
                    }
                    next_test = tokio::time::Instant::now() + TEST_TIME;
                    // Signals do not wait for it.
                    let (store, own) = (self.store.clone(), own.clone());
                    tokio::spawn(async move {
                        if let Err(error) = store.notify(&own, "").await {
                            tracing::warn!(%error, "Could not test whether signals arrive");
                        }
                    });
                    continue;
                }
            };
            match message {
                Some(Ok(AsyncMessage::Notification(notice))) if notice.channel() == own => {
                    was_heard = true;
                    next_test = tokio::time::Instant::now() + TEST_EVERY;
                    if !self.hears.swap(true, Ordering::Relaxed) {
                        self.missed.store(true, Ordering::Relaxed);
                        // Wakes whoever waits.
                        self.tell("");
                    }
                }
                Some(Ok(AsyncMessage::Notification(notice))) => {
                    for signal in notice.payload().split('\n') {
                        self.tell(signal);
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return failed(error),
                None => {
                    return super::super::error::unreachable_because(
                        &self.name,
                        "the connection was closed".to_owned(),
                    );
                }
            }
        }
    }

    fn tell(&self, signal: &str) {
        if self.heard.try_send(signal.to_owned()).is_err() {
            self.missed.store(true, Ordering::Relaxed);
        }
    }
}

fn unanswered(place: &str) -> DatabaseError {
    let problem = format!("it did not answer within {} s", LISTEN_TIME.as_secs());
    super::super::error::unreachable_because(place, problem)
}

fn unheard(place: &str) -> DatabaseError {
    let problem = "it answers, but no signals arrive there: it is a pooler or another database; \
        name a direct connection to the database of the threads with --listen-database";
    super::super::error::unreachable_because(place, problem.to_owned())
}
