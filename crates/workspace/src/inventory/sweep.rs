//! Forks and removals: what a thread has in the store comes and goes with it.
//!
//! A removal ends with a note. A day later a sweep looks again: by then no worker that lost the thread can write any more,
//! and content that only removed threads of a family had is gone.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::contents::{Attempt, INVENTORY, UPLOAD, retry};
use super::{ContentDigest, Contents, FamilyContents, InventoryError, StoredContent};
use crate::digest::short;

/// How long content without an inventory is kept: a worker may be about to store the inventory.
pub(super) const GRACE: Duration = Duration::from_secs(24 * 3600);
/// The object that says that a thread is of a family. Its name begins like no other.
const MEMBER: &str = "member";
/// The most bytes of a note.
const MAX_NOTE: u64 = 4096;

impl FamilyContents {
    /// Lets another thread have everything that a thread has. The files themselves are shared.
    ///
    /// # Errors
    ///
    /// The store failed, or the thread was removed meanwhile. Then the other thread may have a part: remove it.
    pub async fn fork(&self, from: &str, to: &str) -> Result<(), InventoryError> {
        let (source, target) = (self.thread_name(from), self.thread_name(to));
        let copy = "copying the list of files";
        // The other thread may be removed when its log is gone.
        self.put_named(&family_note(&self.owner, &short(to)), Bytes::from(self.first.clone()), copy).await?;
        // From now on, the removal of the other thread leaves the files.
        let member = format!("{target}/{MEMBER}");
        self.put_named(&member, Bytes::from(to.to_owned()), copy).await?;
        let names = |found: Vec<StoredContent>| -> Vec<String> {
            found.into_iter().map(|stored| stored.name).collect()
        };
        let before = names(self.list(&source).await?);
        for name in &before {
            let read = retry(|| copy.to_owned(), || self.store().get(name, u64::MAX));
            let bytes = read.await?.ok_or_else(|| removed(copy))?;
            let Some((_, last)) = name.rsplit_once('/').filter(|(_, last)| *last != MEMBER) else { continue };
            self.put_named(&format!("{target}/{last}"), bytes, copy).await?;
        }
        // A removal begins with these. If all are still there, it sees the new ones.
        let after = names(self.list(&source).await?);
        if before.iter().all(|name| after.contains(name)) { Ok(()) } else { Err(removed(copy)) }
    }

    /// Removes what a thread has. Content that other threads of the family have stays.
    ///
    /// # Errors
    ///
    /// The store failed. The removal can be repeated.
    pub async fn remove(&self, thread: &str) -> Result<(), InventoryError> {
        let note = Bytes::from(thread.to_owned());
        self.put_named(&self.removed_name(thread), note, "the note of a removal").await?;
        self.remove_all(&self.list(&self.thread_name(thread)).await?).await?;
        if self.list(&format!("{}/threads", self.name())).await?.is_empty() {
            self.remove_all(&self.list(&self.name()).await?).await?;
        }
        let family =
            StoredContent { name: family_note(&self.owner, &short(thread)), written: SystemTime::now() };
        self.remove_all(&[family]).await
    }

    async fn list(&self, directory: &str) -> Result<Vec<StoredContent>, InventoryError> {
        list(self.store(), directory).await
    }

    async fn remove_all(&self, found: &[StoredContent]) -> Result<(), InventoryError> {
        for stored in found {
            let remove = || -> Attempt<'_, ()> {
                Box::pin(async { self.store().remove(&stored.name).await.map(Some) })
            };
            retry(|| "removing files".to_owned(), remove).await?;
        }
        Ok(())
    }

    /// Removes content that no thread of the family names. Returns how many.
    async fn sweep(&self, now: SystemTime) -> Result<usize, InventoryError> {
        // The contents first: one that comes later is not looked at.
        let contents = self.list(&format!("{}/content", self.name())).await?;
        let named = self.named().await?;
        let is_unused = |stored: &&StoredContent| {
            let digest = stored.name.rsplit('/').next().and_then(|name| name.parse().ok());
            let is_old = now.duration_since(stored.written).is_ok_and(|age| age > GRACE);
            is_old && digest.is_some_and(|digest: ContentDigest| !named.contains(&digest))
        };
        let unused: Vec<StoredContent> = contents.iter().filter(is_unused).cloned().collect();
        self.remove_all(&unused).await?;
        Ok(unused.len())
    }

    /// The contents that the threads of the family name.
    async fn named(&self) -> Result<HashSet<ContentDigest>, InventoryError> {
        let mut named = HashSet::new();
        for stored in self.list(&format!("{}/threads", self.name())).await? {
            let last = stored.name.rsplit('/').next().unwrap_or_default();
            if let Some(digest) = last.strip_prefix(UPLOAD) {
                named.extend(digest.parse::<ContentDigest>());
            } else if let Some(Ok(digest)) = last.strip_prefix(INVENTORY).map(str::parse) {
                let inventory = self.inventory_named(&stored.name, digest).await?;
                named.extend(inventory.files().iter().map(|file| file.digest));
            }
        }
        Ok(named)
    }
}

/// The name of the note that says to which family a fork belongs.
fn family_note(owner: &str, thread: &str) -> String {
    format!("families/{owner}/{thread}")
}

impl Contents {
    /// The contents of the family of a thread, also if nothing else is known about the thread.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn family_of(&self, owner: &str, thread: &str) -> Result<FamilyContents, InventoryError> {
        let note = family_note(&short(owner), &short(thread));
        // Without a note, the thread is the first of its family.
        let read = || -> Attempt<'_, Option<Bytes>> {
            Box::pin(async { self.store().get(&note, MAX_NOTE).await.map(Some) })
        };
        let note = retry(|| "looking for the family of a thread".to_owned(), read).await?.flatten();
        let first = note.map(|note| String::from_utf8_lossy(&note).into_owned());
        Ok(self.family(owner, first.as_deref().unwrap_or(thread)))
    }

    /// Finishes removals that are older than a day. Returns how many contents were removed. Any number of processes can
    /// do this at the same time.
    ///
    /// # Errors
    ///
    /// The store failed. What was not finished waits for the next sweep.
    pub async fn sweep(&self) -> Result<usize, InventoryError> {
        self.sweep_at(SystemTime::now()).await
    }

    pub(super) async fn sweep_at(&self, now: SystemTime) -> Result<usize, InventoryError> {
        let mut swept = 0;
        for note in list(self.store(), "removed").await? {
            let is_due = now.duration_since(note.written).is_ok_and(|age| age > GRACE);
            let [_, owner, family, thread] = note.name.split('/').collect::<Vec<_>>()[..] else { continue };
            if !is_due {
                continue;
            }
            let family = self.named(owner, family);
            // What a worker wrote that did not know of the removal.
            let late = format!("{}/threads/{thread}", family.name());
            family.remove_all(&family.list(&late).await?).await?;
            if family.list(&format!("{}/threads", family.name())).await?.is_empty() {
                let rest = family.list(&family.name()).await?;
                swept += rest.len();
                family.remove_all(&rest).await?;
            } else {
                swept += family.sweep(now).await?;
            }
            family.remove_all(&[note]).await?;
        }
        Ok(swept)
    }
}

async fn list(
    store: &dyn super::ContentStore,
    directory: &str,
) -> Result<Vec<StoredContent>, InventoryError> {
    let list =
        || -> Attempt<'_, Vec<StoredContent>> { Box::pin(async { store.list(directory).await.map(Some) }) };
    let listed = retry(|| "listing files".to_owned(), list);
    Ok(listed.await?.unwrap_or_default())
}

fn removed(action: &str) -> InventoryError {
    let source = "the thread was removed meanwhile".into();
    InventoryError::Store { action: action.to_owned(), attempts: 1, source }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Inventory, InventoryFile, MemoryContents};
    use super::*;

    async fn store(contents: &FamilyContents, thread: &str, text: &'static str) -> InventoryFile {
        let digest = contents.put(text.into(), text).await.unwrap();
        let bytes = text.len() as u64;
        let file = InventoryFile { path: format!("project/{text}"), bytes, digest, executable: false };
        contents.put_inventory(thread, &Inventory::default().with(file.clone())).await.unwrap();
        file
    }

    #[tokio::test]
    async fn a_sweep_finishes_removals_and_touches_nothing_that_a_thread_names() {
        let all = Contents::new(Arc::new(MemoryContents::default()));
        let (contents, alone) = (all.family("ada", "first"), all.family("ada", "alone"));
        let shared = store(&contents, "first", "shared").await;
        contents.fork("first", "fork").await.unwrap();
        let own = store(&contents, "fork", "own").await;
        let upload = contents.put_upload("first", "upload".into(), "a file").await.unwrap();
        store(&alone, "alone", "text").await;
        contents.remove("fork").await.unwrap();
        alone.remove("alone").await.unwrap();
        // A worker that lost the thread did not know of the removal.
        let late = store(&alone, "alone", "late").await;

        let now = SystemTime::now();
        assert_eq!(all.sweep_at(now).await.unwrap(), 0, "nothing is old enough");
        contents.file(&own).await.unwrap();
        let later = now + GRACE + Duration::from_secs(10);
        assert_eq!(all.sweep_at(later).await.unwrap(), 2);
        contents.file(&shared).await.unwrap();
        contents.get(upload, 6, "a file").await.unwrap();
        for (contents, gone) in [(&contents, own), (&alone, late)] {
            assert!(all.store().size(&contents.content_name(&gone.digest)).await.unwrap().is_none());
        }
        assert!(all.store().list("removed").await.unwrap().is_empty());
        assert_eq!(all.sweep_at(later).await.unwrap(), 0);
    }
}
