//! All connected servers, by their labels.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use prowess_catalog::published::{Offer, scan_published};
use prowess_catalog::skill::MANIFEST;
use prowess_catalog::{Catalog, Root, RootScan};

use super::cache::Cache;
use super::error::{ServerError, Unverified};
use super::held_entry::HeldEntry;
use super::label::ServerLabel;
use super::options::ServerOptions;
use super::patience::Patience;
use super::server::Server;
use super::verify;

/// How many looked-up skills of a server are remembered.
const MAX_LOOKED_UP: usize = 64;
/// How long to wait after a change, so that a burst of changes causes one search.
const QUIET: Duration = Duration::from_secs(1);
/// How many servers are connected at the same time.
const MAX_CONNECTING: usize = 8;

/// All connected servers. If some cannot be reached, the others still work.
///
/// ```
/// use prowess_catalog::Catalog;
/// use prowess_mcp::client::{Connection, ServerOptions, Servers};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let missing = ServerOptions::new("docs".parse()?, Connection::command("/no/such/program", [""; 0]));
/// let (servers, failed) = Servers::connect([missing], None).await;
/// assert!(failed[0].to_string().starts_with("cannot reach server `docs`"));
/// let catalog = Catalog::empty();
/// let found = servers.scans(&catalog).await;
/// let catalog = found.scans.into_iter().fold(catalog, |catalog, scan| catalog.with(scan));
/// assert!(catalog.entries().is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Servers {
    by_label: BTreeMap<ServerLabel, Arc<Server>>,
    cache: Option<Arc<Cache>>,
    /// The states of the servers when their skills were last listed.
    seen: Mutex<Vec<ServerState>>,
    offers: Mutex<BTreeMap<ServerLabel, ServerOffers>>,
}

/// How often a server announced a change, and whether its connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ServerState {
    version: u64,
    is_gone: bool,
}

/// The known skills of one server.
#[derive(Clone, Debug, Default)]
struct ServerOffers {
    listed: Vec<Offer>,
    /// Skills that were looked up by name. The server may not list them.
    looked_up: Vec<Offer>,
}

impl ServerOffers {
    fn all(&self) -> Vec<Offer> {
        let is_listed =
            |offer: &&Offer| !self.listed.iter().any(|listed| listed.published.uri == offer.published.uri);
        self.listed.iter().chain(self.looked_up.iter().filter(is_listed)).cloned().collect()
    }
}

/// The skills that servers offer, for a catalog, and the problems that a user should know about.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct FoundSkills {
    /// One scan for each server.
    pub scans: Vec<RootScan>,
    /// The problems with servers and their entries.
    pub notices: Vec<ServerError>,
}

impl Servers {
    /// Connects to all servers, several at a time. Also returns the errors of servers that cannot be reached. Retrieves
    /// nothing. If two servers have the same label, the first one counts.
    pub async fn connect(
        all: impl IntoIterator<Item = ServerOptions>,
        cache: Option<Arc<Cache>>,
    ) -> (Arc<Self>, Vec<ServerError>) {
        Self::connect_with(all, cache, Patience::endless()).await
    }

    /// Like [`Servers::connect`], and reports slow servers.
    pub async fn connect_with(
        all: impl IntoIterator<Item = ServerOptions>,
        cache: Option<Arc<Cache>>,
        patience: Patience<'_>,
    ) -> (Arc<Self>, Vec<ServerError>) {
        let (mut by_label, mut failed) = (BTreeMap::new(), Vec::new());
        let mut waiting: BTreeMap<ServerLabel, ServerOptions> = BTreeMap::new();
        for options in all {
            match waiting.entry(options.label.clone()) {
                Entry::Vacant(place) => {
                    place.insert(options);
                }
                Entry::Occupied(place) => {
                    let (server, why) = (place.key().clone(), "another server has this label".to_owned());
                    failed.push(ServerError::Unreachable { server, why });
                }
            }
        }
        let mut waiting = waiting.into_values();
        let connect = |options: ServerOptions| {
            let label = options.label.clone();
            async move { patience.during(&label, Server::connect(options)).await }
        };
        let mut connecting: FuturesUnordered<_> =
            waiting.by_ref().take(MAX_CONNECTING).map(connect).collect();
        while let Some(connected) = connecting.next().await {
            match connected {
                Ok(server) => drop(by_label.insert(server.label().clone(), Arc::new(server))),
                Err(error) => failed.push(error),
            }
            connecting.extend(waiting.next().map(connect));
        }
        // No skills have been listed yet.
        let seen = Mutex::new(vec![ServerState { version: u64::MAX, is_gone: false }; by_label.len()]);
        (Arc::new(Self { by_label, cache, seen, offers: Mutex::default() }), failed)
    }

    fn seen(&self) -> MutexGuard<'_, Vec<ServerState>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unknown(&self, label: &str) -> ServerError {
        ServerError::Unknown { label: super::short_line::short_line(label) }
    }

    /// The connected server with this label.
    pub fn get(&self, label: &str) -> Option<&Arc<Server>> {
        self.by_label.get(&label.parse().ok()?)
    }

    /// All connected servers, sorted by label.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Server>> {
        self.by_label.values()
    }

    fn states(&self) -> Vec<ServerState> {
        let state = |server: &Arc<Server>| ServerState {
            version: *server.changes().borrow(),
            is_gone: server.is_gone(),
        };
        self.all().map(state).collect()
    }

    /// Whether a server announced a change, or went away, since its skills were last listed.
    pub fn has_changed(&self) -> bool {
        self.states() != *self.seen()
    }

    /// Waits for a change and a moment longer, so that frequent changes cause at most one search per second.
    pub async fn changed(&self) {
        let seen = self.seen().clone();
        let news = |(server, seen): (&Arc<Server>, ServerState)| {
            let mut changes = server.changes();
            async move { changes.wait_for(|now| *now != seen.version).await.map(drop) }
        };
        let mut changes: FuturesUnordered<_> = self.all().zip(seen).map(news).collect();
        loop {
            tokio::select! {
                Some(Ok(())) = changes.next() => return tokio::time::sleep(QUIET).await,
                // A server does not announce that it goes away.
                () = tokio::time::sleep(QUIET) => if self.has_changed() { return },
            }
        }
    }

    /// Lists the skills of all servers, with those that were looked up. Retrieves none of their files. Skills that did not
    /// change keep their entries from `previous`.
    ///
    /// If a server does not answer, its earlier list stays valid.
    pub async fn scans(&self, previous: &Catalog) -> FoundSkills {
        self.scans_with(previous, Patience::endless()).await
    }

    /// Like [`Servers::scans`], and reports slow servers.
    pub async fn scans_with(&self, previous: &Catalog, patience: Patience<'_>) -> FoundSkills {
        *self.seen() = self.states();
        let lists = self.all().map(|server| async move {
            (server, patience.during(server.label(), self.list_skills(server)).await)
        });
        let mut found = FoundSkills::default();
        for (server, mut notices) in futures_util::future::join_all(lists).await {
            found.notices.append(&mut notices);
            found.scans.push(self.scan(server.label(), previous));
        }
        found
    }

    /// Asks a server for its skills, and returns the problems that a user should know about.
    async fn list_skills(&self, server: &Server) -> Vec<ServerError> {
        let mut notices = Vec::new();
        match server.skills().await {
            Ok(list) => {
                notices.extend(list.refused);
                notices.extend(list.stopped);
                self.change_offers(server.label(), |offers| offers.listed = list.offers);
            }
            Err(error) => notices.push(error),
        }
        if server.is_gone() {
            self.change_offers(server.label(), |offers| *offers = ServerOffers::default());
            return notices;
        }
        let looked_up = self.change_offers(server.label(), |offers| offers.looked_up.clone());
        for offer in looked_up {
            let uri = offer.published.uri;
            let now = server.skill(&uri).await;
            self.change_offers(server.label(), |offers| {
                offers.looked_up.retain(|known| known.published.uri != uri);
                offers.looked_up.extend(now);
            });
        }
        notices
    }

    fn change_offers<T>(&self, label: &ServerLabel, change: impl FnOnce(&mut ServerOffers) -> T) -> T {
        let mut offers = self.offers.lock().unwrap_or_else(PoisonError::into_inner);
        change(offers.entry(label.clone()).or_default())
    }

    fn scan(&self, label: &ServerLabel, previous: &Catalog) -> RootScan {
        let root = Arc::new(Root::server(label.as_str()));
        let offers = self.change_offers(label, |offers| offers.all());
        scan_published(&root, offers, previous.scan_of(&root))
    }

    /// Looks up a skill by name, even if its server does not list it, and adds it to the catalog. The name is `label:path`,
    /// or `label:` and the skill's address. `None` if the name does not belong to a connected server.
    ///
    /// # Errors
    ///
    /// As [`Server::skill`].
    pub async fn look_up(&self, name: &str, catalog: &Catalog) -> Result<Option<Catalog>, ServerError> {
        let Some((server, path)) =
            name.split_once(':').and_then(|(label, path)| Some((self.get(label)?, path)))
        else {
            return Ok(None);
        };
        let uri = match path.split_once("://") {
            Some(_) if path.ends_with("/SKILL.md") => path.to_owned(),
            Some(_) => format!("{path}/{MANIFEST}"),
            None => format!("skill://{path}/{MANIFEST}"),
        };
        let offer = server.skill(&uri).await?;
        self.change_offers(server.label(), |offers| {
            let others = |known: &Offer| known.published.uri != uri;
            offers.looked_up.retain(others);
            if offers.looked_up.len() == MAX_LOOKED_UP {
                offers.looked_up.remove(0);
            }
            // The listed entry at this address is older.
            offers.listed.retain(others);
            offers.looked_up.push(offer);
        });
        Ok(Some(catalog.with(self.scan(server.label(), catalog))))
    }

    /// Reads a file that the held entry lists, from the cache or from its server. Verifies it in both cases.
    ///
    /// # Errors
    ///
    /// As [`Server::read`], and if the skill's server is not connected.
    pub async fn read(&self, held: &HeldEntry, path: &str) -> Result<Vec<u8>, ServerError> {
        let published = held.published();
        let label: ServerLabel = published.server.parse().map_err(|_| self.unknown(&published.server))?;
        let fails = |mismatch| {
            let uri = super::short_line::short_line(&published.uri);
            ServerError::from(Unverified { server: label.clone(), uri, mismatch })
        };
        let file = verify::listed(held, path).map_err(fails)?.clone();
        let cached = match &self.cache {
            Some(cache) => {
                let (cache, label, file) = (Arc::clone(cache), label.clone(), file.clone());
                tokio::task::spawn_blocking(move || cache.get(&label, &file)).await.ok().flatten()
            }
            None => None,
        };
        if let Some(bytes) = cached {
            verify::check(held, &file, &bytes).map_err(fails)?;
            return Ok(bytes);
        }
        let server = self.by_label.get(&label).ok_or_else(|| self.unknown(&published.server))?;
        let bytes = server.read(held, path).await.inspect_err(|error| {
            if matches!(error, ServerError::Unverified(failed) if failed.mismatch.may_be_outdated()) {
                server.note_outdated();
            }
        })?;
        if let Some(cache) = &self.cache {
            let (cache, bytes) = (Arc::clone(cache), bytes.clone());
            let _ = tokio::task::spawn_blocking(move || cache.put(&label, &file, &bytes)).await;
        }
        Ok(bytes)
    }
}
