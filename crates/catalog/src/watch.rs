//! Watches roots and refreshes a catalog when something in them changes.

use std::collections::HashMap;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode};
use notify_debouncer_full::{DebounceEventResult, Debouncer, RecommendedCache, new_debouncer};

use crate::catalog::CatalogDiff;
use crate::live::LiveCatalog;
use crate::local;

/// Keeps a [`LiveCatalog`] up to date until it is dropped.
///
/// ```
/// use std::sync::{Arc, mpsc};
/// use std::time::Duration;
/// use prowess_catalog::watch::RootWatcher;
/// use prowess_catalog::{LiveCatalog, RefreshPolicy, Root, ScanOptions};
///
/// # let scratch = tempfile::tempdir()?;
/// # let root = scratch.path();
/// let roots = vec![Root::explicit(root)];
/// let catalog = Arc::new(LiveCatalog::new(roots, ScanOptions::default(), RefreshPolicy::OnRequest));
/// let (tell, told) = mpsc::channel();
/// let watcher = RootWatcher::start(Arc::clone(&catalog), Duration::from_millis(20), move |diff| {
///     let _ = tell.send(diff.added.len());
/// })?;
/// std::fs::create_dir(root.join("greet"))?;
/// std::fs::write(root.join("greet/SKILL.md"), "---\nname: greet\ndescription: Says hello.\n---\nWave.\n")?;
/// assert_eq!(told.recv_timeout(Duration::from_secs(30))?, 1);
/// assert!(catalog.snapshot().get("greet").is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RootWatcher {
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

impl RootWatcher {
    /// Watches the catalog's roots. After a change and a quiet time of `quiet`, it refreshes the catalog, and calls `changed` if
    /// the skills changed.
    ///
    /// For a root that does not exist yet, this watches the nearest directory above it. After any event it scans all roots,
    /// because events do not say reliably what changed.
    pub fn start(
        catalog: Arc<LiveCatalog>,
        quiet: Duration,
        changed: impl Fn(&CatalogDiff) + Send + 'static,
    ) -> Result<Self, WatchError> {
        Self::start_attentive(catalog, quiet, move |diff| {
            if !diff.is_empty() {
                changed(diff);
            }
        })
    }

    /// Like [`RootWatcher::start`], but calls `scanned` after each scan, even if the catalog did not change. Other files of skills
    /// may have changed.
    ///
    /// # Errors
    ///
    /// The roots cannot be watched.
    pub fn start_attentive(
        catalog: Arc<LiveCatalog>,
        quiet: Duration,
        scanned: impl Fn(&CatalogDiff) + Send + 'static,
    ) -> Result<Self, WatchError> {
        let (messages, inbox) = channel();
        let events = messages.clone();
        let on_event = move |result: DebounceEventResult| {
            // An error, such as a full queue, is also a reason to scan.
            if result.map_or(true, |events| events.iter().any(|event| !event.kind.is_access())) {
                // Nobody receives this while the watcher is dropped.
                let _ = events.send(Message::Changed);
            }
        };
        let debouncer =
            new_debouncer(quiet, None, on_event).map_err(|error| WatchError { path: None, error })?;
        let mut watches = Watches { debouncer, watched: HashMap::new() };
        watches.arm(&catalog)?;
        let thread = std::thread::spawn(move || {
            let scan = |watches: &mut Watches| {
                if let Err(error) = watches.arm(&catalog) {
                    tracing::warn!(%error, "Cannot watch a root");
                }
                // Scan after arming, so that earlier changes are also seen.
                scanned(&catalog.refresh());
            };
            scan(&mut watches);
            while let Ok(Message::Changed) = inbox.recv() {
                scan(&mut watches);
            }
        });
        Ok(Self { messages, thread: Some(thread) })
    }
}

impl Drop for RootWatcher {
    /// Stops watching, and waits for a refresh in progress.
    fn drop(&mut self) {
        let _ = self.messages.send(Message::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic in `changed` was reported already.
            let _ = thread.join();
        }
    }
}

/// How often the watcher arms again while roots appear and disappear.
const MAX_ROUNDS: usize = 8;

struct Watches {
    debouncer: Debouncer<RecommendedWatcher, RecommendedCache>,
    watched: HashMap<PathBuf, Watch>,
}

/// How a directory is watched, and which directory it is: another one may replace it.
struct Watch {
    mode: RecursiveMode,
    device: u64,
    inode: u64,
    /// Kept open, so that its inode number is not reused after it is deleted.
    _directory: OwnedFd,
}

impl Watch {
    fn of(path: &Path, mode: RecursiveMode) -> Option<Self> {
        let directory = local::open_directory(path).ok()?;
        let stamp = local::stamp_of(&directory).ok()?;
        Some(Self { mode, device: stamp.device, inode: stamp.inode, _directory: directory })
    }
}

impl PartialEq for Watch {
    fn eq(&self, other: &Self) -> bool {
        (self.mode, self.device, self.inode) == (other.mode, other.device, other.inode)
    }
}

impl Watches {
    /// Watches the roots that exist, and the directories in which the others may appear.
    fn arm(&mut self, catalog: &LiveCatalog) -> Result<(), WatchError> {
        let mut failed = None;
        // The next round sees what appeared or disappeared meanwhile.
        for _ in 0..MAX_ROUNDS {
            let wanted = wanted(catalog);
            if wanted == self.watched {
                return Ok(());
            }
            failed = self.change_to(wanted).err();
        }
        failed.map_or(Ok(()), Err)
    }

    fn change_to(&mut self, wanted: HashMap<PathBuf, Watch>) -> Result<(), WatchError> {
        let stale =
            |(path, watch): (&PathBuf, &Watch)| (wanted.get(path) != Some(watch)).then(|| path.clone());
        let stale: Vec<PathBuf> = self.watched.iter().filter_map(stale).collect();
        for path in stale {
            // It may also be gone from the disk.
            let _ = self.debouncer.unwatch(&path);
            self.watched.remove(&path);
        }
        let mut result = Ok(());
        for (path, watch) in wanted {
            if self.watched.contains_key(&path) {
                continue;
            }
            match self.debouncer.watch(&path, watch.mode) {
                Ok(()) => {
                    self.watched.insert(path, watch);
                }
                // Go on with the others.
                Err(error) => result = Err(WatchError { path: Some(path), error }),
            }
        }
        result
    }
}

/// The roots, or the nearest directories above them in which they may appear.
fn wanted(catalog: &LiveCatalog) -> HashMap<PathBuf, Watch> {
    let mut wanted: HashMap<PathBuf, Watch> = HashMap::new();
    for root in catalog.roots() {
        let found = root.path.ancestors().zip(0..).find_map(|(path, above)| {
            // The nearest directory above a relative path is the working directory.
            let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
            let mode = if above == 0 { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
            Some((path.to_owned(), Watch::of(path, mode)?))
        });
        // Watch a root recursively, even if another root may appear in it.
        if let Some((path, watch)) = found
            && (watch.mode == RecursiveMode::Recursive || !wanted.contains_key(&path))
        {
            wanted.insert(path, watch);
        }
    }
    wanted
}
