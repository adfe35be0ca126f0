//! Forks and removals: what a thread has in the store comes and goes with it.
//!
//! A removal ends with a note. A day later a sweep looks again: by then no worker that lost the thread can write any more,
//! and content that only removed threads of a family had is gone.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::contents::{Attempt, INVENTORY, UPLOAD, retry};
use super::transfer::all;
use super::{ContentDigest, Contents, FamilyContents, InventoryError, StoredContent};
use crate::digest::short;

/// How long content without an inventory is kept: a worker may be about to store the inventory.
pub(super) const GRACE: Duration = Duration::from_secs(24 * 3600);
/// The object that says that a thread is of a family. Its name begins like no other.
const MEMBER: &str = "member";
/// How much memory the copy of an inventory may take.
const ROOM_OF_INVENTORY: u64 = 8 << 20;
/// The most bytes of a note.
const MAX_NOTE: u64 = 4096;

impl FamilyContents {
    /// Lets another thread have these inventories and uploads of a thread. The files themselves are shared.
    ///
    /// # Errors
    ///
    /// The store failed, or the thread has none of these, or no longer. Then the other thread may have a part: remove it.
    pub async fn fork(&self, from: &str, to: &str, named: &[ContentDigest]) -> Result<(), InventoryError> {
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
        let there = names(self.list(&source).await?);
        let is_named = |name: &String| {
            let last = name.rsplit('/').next().unwrap_or_default();
            let digest = last.strip_prefix(INVENTORY).or_else(|| last.strip_prefix(UPLOAD));
            digest.and_then(|digest| digest.parse().ok()).is_some_and(|digest| named.contains(&digest))
        };
        let copied: Vec<String> = there.into_iter().filter(is_named).collect();
        let (own, to) = (self.clone(), target);
        all(copied.clone(), move |name| {
            let (own, to) = (own.clone(), to.clone());
            async move {
                let _room = own.room(ROOM_OF_INVENTORY).await;
                let read = retry(|| copy.to_owned(), || own.store().get(&name, u64::MAX));
                let bytes = read.await?.ok_or_else(|| removed(copy))?;
                let last = name.rsplit('/').next().unwrap_or_default();
                own.put_named(&format!("{to}/{last}"), bytes, copy).await?;
                Ok(None::<()>)
            }
        })
        .await?;
        // A removal begins with these. If all are still there, it sees the new ones.
        let after = names(self.list(&source).await?);
        let is_whole = named.iter().all(|digest| {
            let digest = digest.to_string();
            let is_it = |name: &String| name.ends_with(&digest);
            copied.iter().any(is_it) && after.iter().any(is_it)
        });
        if is_whole { Ok(()) } else { Err(removed(copy)) }
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

    /// Removes everything of a list, some at once.
    async fn remove_all(&self, found: &[StoredContent]) -> Result<(), InventoryError> {
        let own = self.clone();
        let removed = all(found.to_vec(), move |stored| {
            let own = own.clone();
            async move {
                own.forget_stored(&stored.name);
                own.remove_one(&stored.name).await.map(Some)
            }
        });
        removed.await.map(drop)
    }

    async fn remove_one(&self, name: &str) -> Result<(), InventoryError> {
        let remove = || -> Attempt<'_, ()> { Box::pin(async { self.store().remove(name).await.map(Some) }) };
        retry(|| "removing files".to_owned(), remove).await.map(drop)
    }

    /// Removes one of these contents, unless somebody wrote it since it was listed. Returns whether it did.
    async fn remove_unwritten(&self, stored: &StoredContent) -> Result<bool, InventoryError> {
        let look = || -> Attempt<'_, Option<SystemTime>> {
            Box::pin(async { self.store().written(&stored.name).await.map(Some) })
        };
        let written = retry(|| "looking at a file".to_owned(), look).await?.flatten();
        if written != Some(stored.written) {
            return Ok(false);
        }
        self.forget_stored(&stored.name);
        self.remove_one(&stored.name).await.map(|()| true)
    }

    /// Removes content that no thread of the family names. Returns how many.
    async fn sweep(&self, now: SystemTime) -> Result<usize, InventoryError> {
        // The contents first: one that comes later is not looked at.
        let contents = self.list(&format!("{}/content", self.name())).await?;
        let unused = self.unused(contents, now).await?;
        if unused.is_empty() {
            return Ok(0);
        }
        // Whoever stores an inventory writes its contents before. So the second look finds either of them.
        let unused = self.unused(unused, now).await?;
        let own = self.clone();
        let removed = all(unused, move |stored| {
            let own = own.clone();
            async move { Ok(own.remove_unwritten(&stored).await?.then_some(())) }
        });
        Ok(removed.await?.len())
    }

    /// Those of these contents that are old, and that no thread of the family names.
    async fn unused(
        &self,
        contents: Vec<StoredContent>,
        now: SystemTime,
    ) -> Result<Vec<StoredContent>, InventoryError> {
        let named = self.named().await?;
        let is_unused = |stored: &StoredContent| {
            let digest = stored.name.rsplit('/').next().and_then(|name| name.parse().ok());
            let is_old = now.duration_since(stored.written).is_ok_and(|age| age > GRACE);
            is_old && digest.is_some_and(|digest: ContentDigest| !named.contains(&digest))
        };
        Ok(contents.into_iter().filter(is_unused).collect())
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
    /// The contents of the family of a thread, also if nothing else is known about the thread. If it is no fork, it is the first
    /// of its family, which is called `own`: a name that no other thread has or had, also none with the same id.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn family_of(
        &self,
        owner: &str,
        thread: &str,
        own: &str,
    ) -> Result<FamilyContents, InventoryError> {
        let note = family_note(&short(owner), &short(thread));
        // Without a note, the thread is the first of its family.
        let read = || -> Attempt<'_, Option<Bytes>> {
            Box::pin(async { self.store().get(&note, MAX_NOTE).await.map(Some) })
        };
        let note = retry(|| "looking for the family of a thread".to_owned(), read).await?.flatten();
        let first = note.map(|note| String::from_utf8_lossy(&note).into_owned());
        Ok(self.family(owner, first.as_deref().unwrap_or(own)))
    }

    /// Finishes removals that are older than a day. Returns how many contents were removed. Any number of processes can
    /// do this at the same time. A removal that cannot be finished is reported, and does not hold up the others.
    ///
    /// # Errors
    ///
    /// The store cannot be listed.
    pub async fn sweep(&self) -> Result<usize, InventoryError> {
        self.sweep_at(SystemTime::now()).await
    }

    pub(super) async fn sweep_at(&self, now: SystemTime) -> Result<usize, InventoryError> {
        let mut swept = 0;
        for note in list(self.store(), "removed").await? {
            let is_due = now.duration_since(note.written).is_ok_and(|age| age > GRACE);
            if !is_due {
                continue;
            }
            match self.finish_removal(&note, now).await {
                Ok(more) => swept += more,
                // The next sweep tries again.
                Err(error) => tracing::warn!(note = note.name, %error, "Could not finish a removal of files"),
            }
        }
        Ok(swept)
    }

    async fn finish_removal(&self, note: &StoredContent, now: SystemTime) -> Result<usize, InventoryError> {
        let [_, owner, family, thread] = note.name.split('/').collect::<Vec<_>>()[..] else { return Ok(0) };
        let family = self.named(owner, family);
        // What a worker wrote that did not know of the removal.
        let late = format!("{}/threads/{thread}", family.name());
        family.remove_all(&family.list(&late).await?).await?;
        let swept = if family.list(&format!("{}/threads", family.name())).await?.is_empty() {
            let rest = family.list(&family.name()).await?;
            family.remove_all(&rest).await?;
            rest.len()
        } else {
            family.sweep(now).await?
        };
        family.remove_one(&note.name).await?;
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

    use super::super::error::BoxError;
    use super::super::{ContentStore, Inventory, InventoryFile, MemoryContents};
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
        contents.fork("first", "fork", &[]).await.unwrap();
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

    /// A store in which somebody writes a content again after the sweep listed it.
    #[derive(Debug)]
    struct Rewritten {
        inner: MemoryContents,
        /// The content that is written, and its bytes, once.
        again: std::sync::Mutex<Option<(String, Bytes)>>,
    }

    #[async_trait::async_trait]
    impl ContentStore for Rewritten {
        async fn put(&self, name: &str, bytes: Bytes) -> Result<(), BoxError> {
            self.inner.put(name, bytes).await
        }

        async fn get(&self, name: &str, most: u64) -> Result<Option<Bytes>, BoxError> {
            self.inner.get(name, most).await
        }

        async fn size(&self, name: &str) -> Result<Option<u64>, BoxError> {
            self.inner.size(name).await
        }

        async fn written(&self, name: &str) -> Result<Option<SystemTime>, BoxError> {
            self.inner.written(name).await
        }

        async fn remove(&self, name: &str) -> Result<(), BoxError> {
            self.inner.remove(name).await
        }

        async fn list(&self, directory: &str) -> Result<Vec<StoredContent>, BoxError> {
            let found = self.inner.list(directory).await?;
            // The contents are listed now.
            if directory.ends_with("/content") {
                let again = self.again.lock().unwrap().take();
                if let Some((name, bytes)) = again {
                    self.inner.put(&name, bytes).await?;
                }
            }
            Ok(found)
        }
    }

    #[tokio::test]
    async fn a_content_that_is_stored_again_during_a_sweep_stays() {
        let rewritten = Arc::new(Rewritten { inner: MemoryContents::default(), again: Default::default() });
        let all = Contents::new(rewritten.clone());
        let contents = all.family("ada", "first");
        store(&contents, "first", "text").await;
        contents.fork("first", "fork", &[]).await.unwrap();
        let own = store(&contents, "fork", "own").await;
        contents.remove("fork").await.unwrap();
        let name = contents.content_name(&own.digest);
        *rewritten.again.lock().unwrap() = Some((name.clone(), "own".into()));
        let later = SystemTime::now() + GRACE + Duration::from_secs(10);
        assert_eq!(all.sweep_at(later).await.unwrap(), 0);
        contents.file(&own).await.unwrap();
    }

    #[tokio::test]
    async fn an_inventory_that_cannot_be_read_holds_up_no_other_removal() {
        let all = Contents::new(Arc::new(MemoryContents::default()));
        for first in ["a", "b", "c"] {
            let contents = all.family("ada", first);
            store(&contents, first, "text").await;
            contents.fork(first, "fork", &[]).await.unwrap();
            store(&contents, "fork", "own").await;
            contents.remove("fork").await.unwrap();
        }
        let bad = all.family("ada", "a");
        for stored in list(all.store(), &bad.thread_name("a")).await.unwrap() {
            all.store().put(&stored.name, "{}".into()).await.unwrap();
        }
        let later = SystemTime::now() + GRACE + Duration::from_secs(10);
        assert_eq!(all.sweep_at(later).await.unwrap(), 2);
        let left = all.store().list("removed").await.unwrap();
        assert_eq!(left.len(), 1, "it is tried again: {left:?}");
    }

    #[tokio::test]
    async fn a_thread_that_is_made_again_keeps_its_files() {
        let all = Contents::new(Arc::new(MemoryContents::default()));
        let first = all.family_of("ada", "thread", "thread made first").await.unwrap();
        store(&first, "thread", "text").await;
        first.remove("thread").await.unwrap();
        let again = all.family_of("ada", "thread", "thread made again").await.unwrap();
        let file = store(&again, "thread", "text").await;
        again.file(&file).await.unwrap();
        let later = SystemTime::now() + GRACE + Duration::from_secs(10);
        all.sweep_at(later).await.unwrap();
        again.file(&file).await.unwrap();
    }

    #[tokio::test]
    async fn what_was_removed_is_stored_again() {
        let all = Contents::new(Arc::new(MemoryContents::default()));
        let contents = all.family("ada", "thread");
        let file = store(&contents, "thread", "text").await;
        contents.remove("thread").await.unwrap();
        assert_eq!(store(&contents, "thread", "text").await, file);
        contents.file(&file).await.unwrap();
    }
}
