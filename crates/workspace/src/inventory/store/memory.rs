//! Contents in memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;

use super::{ContentStore, StoredContent, too_large};
use crate::inventory::error::BoxError;

/// Contents in memory, gone with this value.
///
/// ```
/// use prowess_workspace::inventory::{ContentStore, MemoryContents};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let store = MemoryContents::default();
/// store.put("one", "low tide".into()).await?;
/// assert_eq!(store.get("one", 8).await?.as_deref(), Some(&b"low tide"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct MemoryContents(Mutex<BTreeMap<String, (Bytes, SystemTime)>>);

impl MemoryContents {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, (Bytes, SystemTime)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ContentStore for MemoryContents {
    async fn put(&self, name: &str, bytes: Bytes) -> Result<(), BoxError> {
        self.all().insert(name.to_owned(), (bytes, SystemTime::now()));
        Ok(())
    }

    async fn get(&self, name: &str, most: u64) -> Result<Option<Bytes>, BoxError> {
        let found = self.all().get(name).map(|(bytes, _)| bytes.clone());
        match found {
            Some(bytes) if bytes.len() as u64 > most => Err(too_large(most)),
            found => Ok(found),
        }
    }

    async fn size(&self, name: &str) -> Result<Option<u64>, BoxError> {
        Ok(self.all().get(name).map(|(bytes, _)| bytes.len() as u64))
    }

    async fn written(&self, name: &str) -> Result<Option<SystemTime>, BoxError> {
        Ok(self.all().get(name).map(|(_, written)| *written))
    }

    async fn remove(&self, name: &str) -> Result<(), BoxError> {
        self.all().remove(name);
        Ok(())
    }

    async fn list(&self, directory: &str) -> Result<Vec<StoredContent>, BoxError> {
        let below = format!("{directory}/");
        let all = self.all();
        let found = all.iter().filter(|(name, _)| name.starts_with(&below));
        Ok(found
            .map(|(name, (_, written))| StoredContent { name: name.clone(), written: *written })
            .collect())
    }
}
