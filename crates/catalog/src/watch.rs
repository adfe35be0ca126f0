//! Watches roots and refreshes a host when something in them changes.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode};
use notify_debouncer_full::{DebounceEventResult, Debouncer, RecommendedCache, new_debouncer};

use crate::catalog::CatalogDiff;
use crate::host::CatalogHost;

/// Keeps a [`CatalogHost`] up to date for as long as it lives.
#[derive(Debug)]
pub struct Watcher {
    messages: Sender<Message>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Message {
    Changed,
    Stop,
}

/// Why the roots cannot be watched.
#[derive(Debug)]
pub struct WatchError {
    path: Option<PathBuf>,
    error: notify::Error,
}

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "cannot watch {}: {}", path.display(), self.error),
            None => write!(f, "cannot watch for changes: {}", self.error),
        }
    }
}

impl std::error::Error for WatchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl Watcher {
    /// Watches the host's roots. Once nothing happened for `quiet`, the host looks again, and
    /// `changed` is called if there is something new.
    ///
    /// A root that does not exist yet is waited for through the nearest directory above it. Whatever
    /// the event was, the whole of the roots is looked at: events tell that something changed, and
    /// not reliably what.
    pub fn start(
        host: Arc<CatalogHost>,
        quiet: Duration,
        changed: impl Fn(&CatalogDiff) + Send + 'static,
    ) -> Result<Self, WatchError> {
        let (messages, inbox) = channel();
        let events = messages.clone();
        let on_event = move |result: DebounceEventResult| {
            // An overflowing queue is an error here, and as good a reason to look as any event.
            if result.map_or(true, |events| events.iter().any(|event| !event.kind.is_access())) {
                // Nobody listens any more when the watcher is being dropped.
                let _ = events.send(Message::Changed);
            }
        };
        let debouncer =
            new_debouncer(quiet, None, on_event).map_err(|error| WatchError { path: None, error })?;
        let mut watches = Watches { debouncer, watched: HashMap::new() };
        watches.arm(&host)?;
        let thread = std::thread::spawn(move || {
            let look = |watches: &mut Watches| {
                if let Err(error) = watches.arm(&host) {
                    tracing::warn!(%error, "A root cannot be watched");
                }
                // After arming, so that what came before the watch is seen too.
                let diff = host.refresh();
                if !diff.is_empty() {
                    changed(&diff);
                }
            };
            look(&mut watches);
            while let Ok(Message::Changed) = inbox.recv() {
                look(&mut watches);
            }
        });
        Ok(Self { messages, thread: Some(thread) })
    }
}

impl Drop for Watcher {
    /// Stops watching, and waits for a refresh under way.
    fn drop(&mut self) {
        let _ = self.messages.send(Message::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic in `changed` was reported where it happened.
            let _ = thread.join();
        }
    }
}

struct Watches {
    debouncer: Debouncer<RecommendedWatcher, RecommendedCache>,
    watched: HashMap<PathBuf, RecursiveMode>,
}

impl Watches {
    /// Watches the roots that exist, and waits for those that do not.
    fn arm(&mut self, host: &CatalogHost) -> Result<(), WatchError> {
        let wanted: HashMap<PathBuf, RecursiveMode> =
            host.roots().iter().map(|root| watchable(&root.path)).collect();
        let gone: Vec<PathBuf> =
            self.watched.keys().filter(|path| !wanted.contains_key(*path)).cloned().collect();
        for path in gone {
            // It may be gone from the disk as well.
            let _ = self.debouncer.unwatch(&path);
            self.watched.remove(&path);
        }
        for (path, mode) in wanted {
            if self.watched.get(&path) != Some(&mode) {
                self.debouncer
                    .watch(&path, mode)
                    .map_err(|error| WatchError { path: Some(path.clone()), error })?;
                self.watched.insert(path, mode);
            }
        }
        Ok(())
    }
}

/// The root itself, or the nearest directory above it, in which it may appear.
fn watchable(root: &Path) -> (PathBuf, RecursiveMode) {
    if root.is_dir() {
        return (root.to_owned(), RecursiveMode::Recursive);
    }
    let above = root.ancestors().skip(1).find(|path| path.is_dir()).unwrap_or(Path::new("/"));
    (above.to_owned(), RecursiveMode::NonRecursive)
}
