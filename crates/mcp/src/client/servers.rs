//! All servers of a host, by their labels.

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

/// The most skills of a server that were looked up and are kept in mind.
const MAX_LOOKED_UP: usize = 64;
/// How long a change is waited with.
const CALM: Duration = Duration::from_secs(1);
/// The most servers that are connected to at the same time.
const AT_ONCE: usize = 8;

/// All servers of a host. Those that cannot be reached are told, and the others work.
///
/// ```
/// use prowess_catalog::Catalog;
/// use prowess_mcp::client::{Connection, ServerOptions, Servers};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let missing = ServerOptions::new("docs".parse()?, Connection::command("/no/such/program", [""; 0]));
/// let (servers, failed) = Servers::connect([missing], None).await;
/// assert!(failed[0].to_string().starts_with("server `docs` cannot be reached"));
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
    /// How the servers stood when they were last looked at.
    seen: Mutex<Vec<Standing>>,
    offers: Mutex<BTreeMap<ServerLabel, Offers>>,
}

/// How often a server said that something of it changed, and whether it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standing {
    version: u64,
    is_gone: bool,
}

/// What is known of a server's skills.
#[derive(Clone, Debug, Default)]
struct Offers {
    listed: Vec<Offer>,
    /// Those that it does not list and that somebody asked for.
    looked_up: Vec<Offer>,
}

impl Offers {
    fn all(&self) -> Vec<Offer> {
        let is_listed =
            |offer: &&Offer| !self.listed.iter().any(|listed| listed.published.uri == offer.published.uri);
        self.listed.iter().chain(self.looked_up.iter().filter(is_listed)).cloned().collect()
    }
}

/// What servers offer, for a catalog, and what a user should know of it.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct FoundSkills {
    /// One for each server.
    pub scans: Vec<RootScan>,
    /// What cannot be used, and why.
    pub notices: Vec<ServerError>,
}

impl Servers {
    /// Connects to all servers, several at a time, and gives what went wrong with those that cannot be reached. Nothing
    /// is retrieved. Of two with one label the first counts.
    pub async fn connect(
        all: impl IntoIterator<Item = ServerOptions>,
        cache: Option<Arc<Cache>>,
    ) -> (Arc<Self>, Vec<ServerError>) {
        Self::connect_with(all, cache, Patience::endless()).await
    }

    /// [`Servers::connect`] for somebody who wants to know which servers keep them waiting.
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
                    let (server, why) =
                        (place.key().clone(), "there is another server with this label".to_owned());
                    failed.push(ServerError::Unreachable { server, why });
                }
            }
        }
        let mut waiting = waiting.into_values();
        let connect = |options: ServerOptions| {
            let label = options.label.clone();
            async move { patience.during(&label, Server::connect(options)).await }
        };
        let mut connecting: FuturesUnordered<_> = waiting.by_ref().take(AT_ONCE).map(connect).collect();
        while let Some(connected) = connecting.next().await {
            match connected {
                Ok(server) => drop(by_label.insert(server.label().clone(), Arc::new(server))),
                Err(error) => failed.push(error),
            }
            connecting.extend(waiting.next().map(connect));
        }
        // Nobody has looked yet.
        let seen = Mutex::new(vec![Standing { version: u64::MAX, is_gone: false }; by_label.len()]);
        (Arc::new(Self { by_label, cache, seen, offers: Mutex::default() }), failed)
    }

    fn seen(&self) -> MutexGuard<'_, Vec<Standing>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unknown(&self, label: &str) -> ServerError {
        ServerError::Unknown { label: super::printable::printable(label) }
    }

    /// The server with this label, if it is connected.
    pub fn get(&self, label: &str) -> Option<&Arc<Server>> {
        self.by_label.get(&label.parse().ok()?)
    }

    /// All that are connected, by their labels.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Server>> {
        self.by_label.values()
    }

    fn standings(&self) -> Vec<Standing> {
        let standing = |server: &Arc<Server>| Standing {
            version: *server.changes().borrow(),
            is_gone: server.is_gone(),
        };
        self.all().map(standing).collect()
    }

    /// Whether a server said, since it was last looked at, that its skills are others now, or went away.
    pub fn has_changed(&self) -> bool {
        self.standings() != *self.seen()
    }

    /// Waits until there is one, and a moment longer: who says so all the time is looked at once a second.
    pub async fn changed(&self) {
        let seen = self.seen().clone();
        let news = |(server, seen): (&Arc<Server>, Standing)| {
            let mut changes = server.changes();
            async move { changes.wait_for(|now| *now != seen.version).await.map(drop) }
        };
        let mut changes: FuturesUnordered<_> = self.all().zip(seen).map(news).collect();
        loop {
            tokio::select! {
                Some(Ok(())) = changes.next() => return tokio::time::sleep(CALM).await,
                // Nobody tells that they go.
                () = tokio::time::sleep(CALM) => if self.has_changed() { return },
            }
        }
    }

    /// The skills that all servers list now, and those that were looked up. None of their files is retrieved. What
    /// `previous` knows unchanged stays the very same entries.
    ///
    /// A list is no proof of absence: of a server that does not answer what it said before stands.
    pub async fn scans(&self, previous: &Catalog) -> FoundSkills {
        self.scans_with(previous, Patience::endless()).await
    }

    /// [`Servers::scans`] for somebody who wants to know which servers keep them waiting.
    pub async fn scans_with(&self, previous: &Catalog, patience: Patience<'_>) -> FoundSkills {
        *self.seen() = self.standings();
        let lists = self.all().map(|server| async move {
            (server, patience.during(server.label(), self.look_at(server)).await)
        });
        let mut found = FoundSkills::default();
        for (server, mut notices) in futures_util::future::join_all(lists).await {
            found.notices.append(&mut notices);
            found.scans.push(self.scan(server.label(), previous));
        }
        found
    }

    /// Asks a server for its skills, and gives what a user should know of the answer.
    async fn look_at(&self, server: &Server) -> Vec<ServerError> {
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
            self.change_offers(server.label(), |offers| *offers = Offers::default());
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

    fn change_offers<T>(&self, label: &ServerLabel, change: impl FnOnce(&mut Offers) -> T) -> T {
        let mut offers = self.offers.lock().unwrap_or_else(PoisonError::into_inner);
        change(offers.entry(label.clone()).or_default())
    }

    fn scan(&self, label: &ServerLabel, previous: &Catalog) -> RootScan {
        let root = Arc::new(Root::server(label.as_str()));
        let offers = self.change_offers(label, |offers| offers.all());
        scan_published(&root, offers, previous.scan_of(&root))
    }

    /// The catalog with a skill in it that its server need not list, by the name that it has here or would have:
    /// `label:path`, or `label:` and its address. `None` when that is no name of a skill at a server that is connected.
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
            // What is listed at this address is what it was then.
            offers.listed.retain(others);
            offers.looked_up.push(offer);
        });
        Ok(Some(catalog.with(self.scan(server.label(), catalog))))
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
            let uri = super::printable::printable(&published.uri);
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
        let bytes = server.read(held, path).await.inspect_err(|error| {
            if matches!(error, ServerError::Unverified(failed) if failed.mismatch.may_be_outdated()) {
                server.note_outdated();
            }
        })?;
        if let Some(cache) = &self.cache {
            let (cache, kept) = (Arc::clone(cache), bytes.clone());
            let _ = tokio::task::spawn_blocking(move || cache.put(&label, &file, &kept)).await;
        }
        Ok(bytes)
    }
}
