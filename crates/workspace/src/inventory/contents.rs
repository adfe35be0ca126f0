//! The contents of files and inventories, each under its digest.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::error::BoxError;
use super::list::MAX_INVENTORY_BYTES;
use super::store::TooLarge;
use super::{ContentDigest, ContentStore, Inventory, InventoryError, InventoryFile};
use crate::digest::short;

/// How often an operation of the store is tried.
const ATTEMPTS: u32 = 8;
/// How long the second attempt waits. Each later one waits twice as long, but not longer than [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long one attempt may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// After so long no attempt is made again.
const MAX_TIME: Duration = Duration::from_secs(30);
/// How long this process remembers what it stored. Longer than this, and shorter than [`super::sweep::GRACE`], content
/// without an inventory is safe from a sweep.
const REMEMBERED: Duration = Duration::from_secs(3600);
/// How many stored contents are remembered.
const MAX_REMEMBERED: usize = 100_000;
/// How many MiB are on their way at once.
const ROOM: u32 = 128;

/// The families of contents in one store. Clones share what they remember.
///
/// ```
/// use std::sync::Arc;
/// use prowess_workspace::inventory::{ContentDigest, Contents, InventoryFile, MemoryContents};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), prowess_workspace::inventory::InventoryError> {
/// let contents = Contents::new(Arc::new(MemoryContents::default())).family("ada", "thread-1");
/// let digest = contents.put("low tide".into(), "the notes").await?;
/// assert_eq!(contents.get(digest, 8, "the notes").await?, "low tide");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Contents(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    store: Arc<dyn ContentStore>,
    /// What this process stored, by name.
    stored: Mutex<HashMap<String, Instant>>,
    room: Semaphore,
}

/// The contents of the threads of one user that were forked from one thread.
///
/// ```
/// use std::sync::Arc;
/// use prowess_workspace::inventory::{Contents, Inventory, MemoryContents};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), prowess_workspace::inventory::InventoryError> {
/// let contents = Contents::new(Arc::new(MemoryContents::default())).family("ada", "thread-1");
/// let stored = contents.put_inventory("thread-1", &Inventory::default()).await?;
/// contents.fork("thread-1", "thread-2", &[stored]).await?;
/// contents.remove("thread-1").await?;
/// assert_eq!(contents.inventory("thread-2", stored).await?, Inventory::default());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct FamilyContents {
    shared: Arc<Shared>,
    /// The names of the owner and of the family in the store.
    pub(super) owner: String,
    family: String,
    /// The first thread of the family.
    pub(super) first: String,
}

impl Contents {
    /// Contents in this store.
    pub fn new(store: Arc<dyn ContentStore>) -> Self {
        let room = Semaphore::new(ROOM as usize);
        Self(Arc::new(Shared { store, stored: Mutex::default(), room }))
    }

    /// Contents in a bucket of Amazon S3, or of a compatible store. Missing settings come from the environment, as for
    /// [`Artifacts::in_s3`](crate::Artifacts::in_s3).
    ///
    /// # Errors
    ///
    /// The settings contradict each other or are not a valid address.
    #[cfg(feature = "s3")]
    pub fn in_s3(bucket: crate::artifact::S3Config) -> Result<Self, InventoryError> {
        let prefix = bucket.prefix.clone();
        let store = bucket.store(prowess_backend::object::S3Defaults::Environment);
        let store = store.map_err(|error| InventoryError::Store {
            action: "opening the bucket".to_owned(),
            attempts: 1,
            source: error.into(),
        })?;
        Ok(Self::new(Arc::new(super::ObjectContents::new(store, prefix.as_str()))))
    }

    /// The contents of one family: of the user `owner`, and of the threads that were forked from the thread `family`.
    pub fn family(&self, owner: &str, family: &str) -> FamilyContents {
        FamilyContents {
            shared: Arc::clone(&self.0),
            owner: short(owner),
            family: short(family),
            first: family.to_owned(),
        }
    }

    /// A family by its names in the store.
    pub(super) fn named(&self, owner: &str, family: &str) -> FamilyContents {
        let (owner, family, first) = (owner.to_owned(), family.to_owned(), String::new());
        FamilyContents { shared: Arc::clone(&self.0), owner, family, first }
    }

    pub(super) fn store(&self) -> &dyn ContentStore {
        &*self.0.store
    }
}

impl Shared {
    fn stored(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, name: String) {
        let mut stored = self.stored();
        if stored.len() >= MAX_REMEMBERED {
            stored.retain(|_, at| at.elapsed() < REMEMBERED);
        }
        if stored.len() < MAX_REMEMBERED {
            stored.insert(name, Instant::now());
        }
    }

    fn forget(&self, name: &str) {
        self.stored().remove(name);
    }

    fn remembers(&self, name: &str) -> bool {
        self.stored().get(name).is_some_and(|at| at.elapsed() < REMEMBERED)
    }

    /// Waits until so many bytes may be in memory.
    async fn room(&self, bytes: u64) -> Option<SemaphorePermit<'_>> {
        let mebibytes = u32::try_from(bytes >> 20).unwrap_or(ROOM).clamp(1, ROOM);
        self.room.acquire_many(mebibytes).await.ok()
    }
}

/// One attempt. `None` means that the store may answer otherwise later.
pub(super) type Attempt<'a, T> = Pin<Box<dyn Future<Output = Result<Option<T>, BoxError>> + Send + 'a>>;

/// Tries something again while it fails, or while there is nothing.
pub(super) async fn retry<'a, T>(
    action: impl Fn() -> String,
    mut attempt: impl FnMut() -> Attempt<'a, T>,
) -> Result<Option<T>, InventoryError> {
    let begun = Instant::now();
    let mut pause = PAUSE;
    for number in 1.. {
        let tried = match tokio::time::timeout(PATIENCE, attempt()).await {
            Ok(Ok(Some(done))) => return Ok(Some(done)),
            Ok(tried) => tried,
            Err(_) => Err(format!("no answer within {} seconds", PATIENCE.as_secs()).into()),
        };
        if number >= ATTEMPTS || begun.elapsed() > MAX_TIME {
            let failed = |source| InventoryError::Store { action: action(), attempts: number, source };
            return tried.map_err(failed);
        }
        tokio::time::sleep(pause).await;
        pause = LONGEST_PAUSE.min(pause * 2);
    }
    Ok(None)
}

impl FamilyContents {
    /// The first thread of the family.
    pub fn first(&self) -> &str {
        &self.first
    }

    /// The name of everything of this family in the store.
    pub(super) fn name(&self) -> String {
        format!("threads/{}/{}", self.owner, self.family)
    }

    pub(super) fn content_name(&self, digest: &ContentDigest) -> String {
        format!("{}/content/{digest}", self.name())
    }

    /// The name of what one thread of the family has.
    pub(super) fn thread_name(&self, thread: &str) -> String {
        format!("{}/threads/{}", self.name(), short(thread))
    }

    /// The name of the note that a thread was removed.
    pub(super) fn removed_name(&self, thread: &str) -> String {
        format!("removed/{}/{}/{}", self.owner, self.family, short(thread))
    }

    pub(super) fn store(&self) -> &dyn ContentStore {
        &*self.shared.store
    }

    /// Forgets that this process stored something, because it is about to be removed.
    pub(super) fn forget_stored(&self, name: &str) {
        self.shared.forget(name);
    }

    /// Whether this process stored a content so recently that it must be there.
    pub(super) fn is_known(&self, digest: &ContentDigest) -> bool {
        self.shared.remembers(&self.content_name(digest))
    }

    /// Stores the bytes of a file. `what` is named if this fails.
    ///
    /// # Errors
    ///
    /// The store failed, or does not have what it took.
    pub async fn put(&self, bytes: Bytes, what: &str) -> Result<ContentDigest, InventoryError> {
        let _room = self.room(bytes.len() as u64).await;
        self.put_within(bytes, what).await
    }

    /// The same, by a caller that waited for [`FamilyContents::room`].
    pub(super) async fn put_within(&self, bytes: Bytes, what: &str) -> Result<ContentDigest, InventoryError> {
        let digest = ContentDigest::of(&bytes);
        // The digest says everything about no bytes.
        if !bytes.is_empty() && !self.is_known(&digest) {
            let name = self.content_name(&digest);
            self.put_named(&name, bytes, what).await?;
            self.shared.remember(name);
        }
        Ok(digest)
    }

    /// Waits until so many bytes may be in memory.
    pub(super) async fn room(&self, bytes: u64) -> Option<SemaphorePermit<'_>> {
        self.shared.room(bytes).await
    }

    /// Writes, and looks whether it is there. It is written also if it was there before: this repairs damage, and a sweep
    /// takes it for new.
    pub(super) async fn put_named(&self, name: &str, bytes: Bytes, what: &str) -> Result<(), InventoryError> {
        let size = bytes.len() as u64;
        let action = || format!("storing {what}");
        let written = retry(action, || {
            let bytes = bytes.clone();
            Box::pin(async move {
                self.store().put(name, bytes).await?;
                Ok((self.store().size(name).await? == Some(size)).then_some(()))
            })
        });
        let lost = || InventoryError::Store {
            action: action(),
            attempts: ATTEMPTS,
            source: "the object store does not have what it took".into(),
        };
        written.await?.ok_or_else(lost)
    }

    /// Reads the content of a file. `what` is named if this fails.
    ///
    /// # Errors
    ///
    /// The store failed, or does not have exactly these bytes.
    pub async fn get(&self, digest: ContentDigest, bytes: u64, what: &str) -> Result<Bytes, InventoryError> {
        let damaged = || InventoryError::Damaged { what: what.to_owned(), digest };
        if bytes == 0 {
            return if ContentDigest::of(b"") == digest { Ok(Bytes::new()) } else { Err(damaged()) };
        }
        let found = self.get_named(&self.content_name(&digest), bytes, digest, what).await?;
        if found.len() as u64 == bytes { Ok(found) } else { Err(damaged()) }
    }

    async fn get_named(
        &self,
        name: &str,
        most: u64,
        digest: ContentDigest,
        what: &str,
    ) -> Result<Bytes, InventoryError> {
        let is_damaged = AtomicBool::new(false);
        let read = retry(
            || format!("reading {what}"),
            || {
                Box::pin(async {
                    let found = match self.store().get(name, most).await {
                        Err(error) if error.is::<TooLarge>() => {
                            is_damaged.store(true, Ordering::Relaxed);
                            return Ok(None);
                        }
                        found => found?,
                    };
                    let other = found.as_ref().is_some_and(|bytes| ContentDigest::of(bytes) != digest);
                    is_damaged.store(other, Ordering::Relaxed);
                    Ok(found.filter(|_| !other))
                })
            },
        );
        let what = || what.to_owned();
        match read.await? {
            Some(bytes) => Ok(bytes),
            None if is_damaged.load(Ordering::Relaxed) => {
                Err(InventoryError::Damaged { what: what(), digest })
            }
            None => Err(InventoryError::Gone { what: what(), digest }),
        }
    }

    /// Reads a file of an inventory.
    ///
    /// # Errors
    ///
    /// The store failed, or does not have exactly these bytes.
    pub async fn file(&self, file: &InventoryFile) -> Result<Bytes, InventoryError> {
        let _room = self.room(file.bytes).await;
        self.file_within(file).await
    }

    /// The same, by a caller that waited for [`FamilyContents::room`].
    pub(super) async fn file_within(&self, file: &InventoryFile) -> Result<Bytes, InventoryError> {
        self.get(file.digest, file.bytes, &quoted(&file.path)).await
    }

    /// Stores an inventory of a thread. The contents of its files must be stored before.
    ///
    /// # Errors
    ///
    /// The store failed, or does not have what it took. Or the inventory is too large to be read again.
    pub async fn put_inventory(
        &self,
        thread: &str,
        inventory: &Inventory,
    ) -> Result<ContentDigest, InventoryError> {
        let bytes = Bytes::from(inventory.to_bytes());
        let digest = ContentDigest::of(&bytes);
        if bytes.len() as u64 > MAX_INVENTORY_BYTES {
            let problem = format!("it has more than {MAX_INVENTORY_BYTES} bytes");
            return Err(InventoryError::Unusable { digest, problem });
        }
        self.put_named(&self.inventory_name(thread, digest), bytes, "the list of files").await?;
        Ok(digest)
    }

    fn inventory_name(&self, thread: &str, digest: ContentDigest) -> String {
        format!("{}/{INVENTORY}{digest}", self.thread_name(thread))
    }

    /// Reads an inventory of a thread.
    ///
    /// # Errors
    ///
    /// The store failed, or does not have exactly this inventory, or a newer prowess made it.
    pub async fn inventory(&self, thread: &str, digest: ContentDigest) -> Result<Inventory, InventoryError> {
        self.inventory_named(&self.inventory_name(thread, digest), digest).await
    }

    pub(super) async fn inventory_named(
        &self,
        name: &str,
        digest: ContentDigest,
    ) -> Result<Inventory, InventoryError> {
        let bytes = self.get_named(name, MAX_INVENTORY_BYTES, digest, "the list of files").await?;
        Inventory::from_bytes(&bytes).map_err(|problem| InventoryError::Unusable { digest, problem })
    }

    /// Stores a file that a person uploaded to a thread, before the thread's log names it.
    ///
    /// # Errors
    ///
    /// The store failed, or does not have what it took.
    pub async fn put_upload(
        &self,
        thread: &str,
        bytes: Bytes,
        what: &str,
    ) -> Result<ContentDigest, InventoryError> {
        let digest = self.put(bytes, what).await?;
        // No inventory names it yet.
        let note = format!("{}/{UPLOAD}{digest}", self.thread_name(thread));
        self.put_named(&note, Bytes::from(thread.to_owned()), what).await?;
        Ok(digest)
    }
}

/// The beginnings of the names of what a thread has.
pub(super) const INVENTORY: &str = "inventory-";
pub(super) const UPLOAD: &str = "upload-";

/// A path of an inventory, for a message.
pub(super) fn quoted(path: &str) -> String {
    format!("`/{}`", prowess_base::text::escaped_start(path))
}
