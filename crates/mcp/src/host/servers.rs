//! All servers of a host, by their labels.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use super::cache::Cache;
use super::error::{ServerError, Unverified};
use super::held::HeldEntry;
use super::label::ServerLabel;
use super::options::ServerOptions;
use super::server::Server;
use super::verify;

/// The most servers that are connected to at the same time.
const AT_ONCE: usize = 8;

/// All servers of a host. Those that cannot be reached are told, and the others work.
#[derive(Debug)]
pub struct Servers {
    by_label: BTreeMap<ServerLabel, Arc<Server>>,
    cache: Option<Arc<Cache>>,
    /// What the servers had said of changes when they were last looked at.
    seen: Mutex<Vec<u64>>,
}

impl Servers {
    /// Connects to all servers, several at a time, and gives what went wrong with those that cannot be reached. Nothing
    /// is retrieved. Of two with one label the first counts.
    pub async fn connect(
        all: impl IntoIterator<Item = ServerOptions>,
        cache: Option<Arc<Cache>>,
    ) -> (Arc<Self>, Vec<ServerError>) {
        let (mut by_label, mut failed) = (BTreeMap::new(), Vec::new());
        let mut waiting: BTreeMap<ServerLabel, ServerOptions> = BTreeMap::new();
        for options in all {
            match waiting.entry(options.label.clone()) {
                Entry::Vacant(place) => {
                    place.insert(options);
                }
                Entry::Occupied(place) => {
                    let (server, why) =
                        (place.key().clone(), "there is another server with this label".to_owned());
                    failed.push(ServerError::Unreachable { server, why });
                }
            }
        }
        let mut waiting = waiting.into_values();
        let mut connecting: FuturesUnordered<_> =
            waiting.by_ref().take(AT_ONCE).map(Server::connect).collect();
        while let Some(connected) = connecting.next().await {
            match connected {
                Ok(server) => drop(by_label.insert(server.label().clone(), Arc::new(server))),
                Err(error) => failed.push(error),
            }
            connecting.extend(waiting.next().map(Server::connect));
        }
        let seen = Mutex::new(vec![0; by_label.len()]);
        (Arc::new(Self { by_label, cache, seen }), failed)
    }

    fn seen(&self) -> MutexGuard<'_, Vec<u64>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unknown(&self, label: &str) -> ServerError {
        ServerError::Unknown { label: super::shown::shown(label) }
    }

    /// The server with this label, if it is connected.
    pub fn get(&self, label: &str) -> Option<&Arc<Server>> {
        self.by_label.get(&label.parse().ok()?)
    }

    /// All that are connected, by their labels.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Server>> {
        self.by_label.values()
    }

    /// How often each said that something of it changed.
    pub(crate) fn versions(&self) -> Vec<u64> {
        self.all().map(|server| *server.changes().borrow()).collect()
    }

    /// Whether a server said, since it was last looked at, that its skills are others now.
    pub fn has_changed(&self) -> bool {
        self.versions() != *self.seen()
    }

    /// Waits until there is one.
    pub async fn changed(&self) {
        let seen = self.seen().clone();
        let news = |(server, seen): (&Arc<Server>, u64)| {
            let mut changes = server.changes();
            async move { changes.wait_for(|now| *now != seen).await.map(drop) }
        };
        let mut changes: FuturesUnordered<_> = self.all().zip(seen).map(news).collect();
        while let Some(changed) = changes.next().await {
            if changed.is_ok() {
                return;
            }
        }
        // Nobody is left who could say anything.
        std::future::pending().await
    }

    /// A file of a skill, as the entry that is held lists it: from the cache if it is there, and else from its server.
    /// Either is checked before it is used.
    ///
    /// # Errors
    ///
    /// As [`Server::read`]; and when the skill's server is not connected.
    pub async fn read(&self, held: &HeldEntry, path: &str) -> Result<Vec<u8>, ServerError> {
        let published = held.published();
        let label: ServerLabel = published.server.parse().map_err(|_| self.unknown(&published.server))?;
        let fails = |mismatch| {
            let uri = super::shown::shown(&published.uri);
            ServerError::from(Unverified { server: label.clone(), uri, mismatch })
        };
        let file = verify::listed(held, path).map_err(fails)?.clone();
        let kept = match &self.cache {
            Some(cache) => {
                let (cache, label, file) = (Arc::clone(cache), label.clone(), file.clone());
                tokio::task::spawn_blocking(move || cache.get(&label, &file)).await.ok().flatten()
            }
            None => None,
        };
        if let Some(bytes) = kept {
            verify::check(held, &file, &bytes).map_err(fails)?;
            return Ok(bytes);
        }
        let server = self.by_label.get(&label).ok_or_else(|| self.unknown(&published.server))?;
        let bytes = server.read(held, path).await?;
        if let Some(cache) = &self.cache {
            let (cache, kept) = (Arc::clone(cache), bytes.clone());
            let _ = tokio::task::spawn_blocking(move || cache.put(&label, &file, &kept)).await;
        }
        Ok(bytes)
    }
}
