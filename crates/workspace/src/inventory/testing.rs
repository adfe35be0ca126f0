//! For tests: the suite of content stores, and a store that does everything wrong that a store can do.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;

use super::error::BoxError;
use super::{ContentStore, StoredContent};

/// Checks that a store keeps its promises, and panics if it does not. Each call of `open` returns a new handle to the same
/// store.
///
/// ```
/// use std::sync::Arc;
/// use prowess_workspace::inventory::MemoryContents;
/// use prowess_workspace::testing::content_store_suite;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let store = Arc::new(MemoryContents::default());
/// content_store_suite(|| store.clone()).await;
/// # }
/// ```
///
/// # Panics
///
/// If a promise is broken.
pub async fn content_store_suite(open: impl Fn() -> Arc<dyn ContentStore>) {
    let get = async |name: &str, most| open().get(name, most).await;
    let names = async |directory: &str| -> Vec<String> {
        let listed = open().list(directory).await.expect("listing works");
        listed.into_iter().map(|stored| stored.name).collect()
    };
    assert_eq!(get("suite/a/one", 10).await.expect("it can be asked"), None);
    assert_eq!(open().size("suite/a/one").await.expect("it can be asked"), None);
    open().remove("suite/a/one").await.expect("nothing to remove is no error");
    assert!(names("suite").await.is_empty());
    for (name, text) in [("suite/a/one", "low tide"), ("suite/a/two", ""), ("suite/ab/one", "high tide")] {
        open().put(name, text.into()).await.expect("writing works");
        assert_eq!(open().size(name).await.expect("it is there"), Some(text.len() as u64));
        let read = get(name, text.len() as u64).await.expect("reading works");
        assert_eq!(read.as_deref(), Some(text.as_bytes()), "{name}");
    }
    assert!(get("suite/a/one", 7).await.is_err(), "more than was asked for is an error");
    assert_eq!(names("suite/a").await, ["suite/a/one", "suite/a/two"]);
    for stored in open().list("suite").await.expect("listing works") {
        let written = open().written(&stored.name).await.expect("it can be asked");
        assert_eq!(written, Some(stored.written), "{}", stored.name);
    }
    assert_eq!(open().written("suite/a/none").await.expect("it can be asked"), None);
    assert_eq!(names("suite").await, ["suite/a/one", "suite/a/two", "suite/ab/one"]);
    open().put("suite/a/one", "neap".into()).await.expect("replacing works");
    assert_eq!(get("suite/a/one", 10).await.expect("reading works").as_deref(), Some(&b"neap"[..]));
    let large = Bytes::from(vec![7; 3 << 20]);
    open().put("suite/large", large.clone()).await.expect("writing works");
    assert_eq!(get("suite/large", 3 << 20).await.expect("reading works"), Some(large));
    for name in names("suite").await {
        open().remove(&name).await.expect("removing works");
    }
    assert!(names("suite").await.is_empty());
}

/// A store in memory that fails calls, loses writes that it confirmed, makes them late, in another order and again. What it
/// does follows from a seed.
///
/// ```
/// use prowess_workspace::inventory::ContentStore;
/// use prowess_workspace::testing::UnreliableContents;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let store = UnreliableContents::new(1);
/// store.calm(true);
/// store.put("one", "low tide".into()).await?;
/// assert_eq!(store.size("one").await?, Some(8));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct UnreliableContents {
    inner: super::MemoryContents,
    seed: AtomicU64,
    is_calm: std::sync::atomic::AtomicBool,
    /// Writes that come later, maybe after newer ones.
    late: Mutex<Vec<(String, Bytes)>>,
    /// The last write of each name, to make again.
    earlier: Mutex<HashMap<String, Bytes>>,
    /// How often each kind of trouble happened.
    troubles: Mutex<HashMap<&'static str, u64>>,
    /// How many calls there were.
    calls: AtomicU64,
}

impl UnreliableContents {
    /// An empty store.
    pub fn new(seed: u64) -> Self {
        Self {
            inner: super::MemoryContents::default(),
            seed: AtomicU64::new(seed),
            is_calm: std::sync::atomic::AtomicBool::new(false),
            late: Mutex::default(),
            earlier: Mutex::default(),
            troubles: Mutex::default(),
            calls: AtomicU64::new(0),
        }
    }

    /// Whether the store works as it should from now on.
    pub fn calm(&self, is_calm: bool) {
        self.is_calm.store(is_calm, Ordering::Relaxed);
    }

    /// How often the store made this trouble: `fails`, `lost`, `late` or `again`.
    pub fn troubles(&self, kind: &str) -> u64 {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner).get(kind).copied().unwrap_or_default()
    }

    /// How many calls there were.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// A number below `most`.
    fn draw(&self, most: u64) -> u64 {
        // SplitMix64.
        let seed = self.seed.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let mut mixed = seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % most
    }

    fn makes(&self, kind: &'static str, one_in: u64) -> bool {
        let makes = !self.is_calm.load(Ordering::Relaxed) && self.draw(one_in) == 0;
        if makes {
            *self.troubles.lock().unwrap_or_else(PoisonError::into_inner).entry(kind).or_default() += 1;
        }
        makes
    }

    /// Fails a tenth of the calls, and lets writes of before happen.
    async fn begin(&self) -> Result<(), BoxError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.makes("again", 7) {
            let earlier = {
                let all = self.earlier.lock().unwrap_or_else(PoisonError::into_inner);
                let mut names: Vec<_> = all.keys().cloned().collect();
                names.sort();
                let chosen = names.get(usize::try_from(self.draw(names.len().max(1) as u64))?);
                chosen.and_then(|name| Some((name.clone(), all.get(name)?.clone())))
            };
            if let Some((name, bytes)) = earlier {
                self.inner.put(&name, bytes).await?;
            }
        }
        if !self.is_calm.load(Ordering::Relaxed) && self.draw(3) == 0 {
            // The last one first.
            let late = self.late.lock().unwrap_or_else(PoisonError::into_inner).pop();
            if let Some((name, bytes)) = late {
                self.inner.put(&name, bytes).await?;
            }
        }
        if self.makes("fails", 10) { Err("the store failed".into()) } else { Ok(()) }
    }
}

#[async_trait]
impl ContentStore for UnreliableContents {
    async fn put(&self, name: &str, bytes: Bytes) -> Result<(), BoxError> {
        self.begin().await?;
        if self.makes("lost", 8) {
            return Ok(());
        }
        if self.makes("late", 8) {
            self.late.lock().unwrap_or_else(PoisonError::into_inner).push((name.to_owned(), bytes));
            return Ok(());
        }
        let remember = || {
            let mut earlier = self.earlier.lock().unwrap_or_else(PoisonError::into_inner);
            earlier.insert(name.to_owned(), bytes.clone());
        };
        remember();
        self.inner.put(name, bytes).await?;
        // The answer is lost, and the write is not.
        if self.makes("fails", 20) { Err("the answer was lost".into()) } else { Ok(()) }
    }

    async fn get(&self, name: &str, most: u64) -> Result<Option<Bytes>, BoxError> {
        self.begin().await?;
        self.inner.get(name, most).await
    }

    async fn size(&self, name: &str) -> Result<Option<u64>, BoxError> {
        self.begin().await?;
        self.inner.size(name).await
    }

    async fn written(&self, name: &str) -> Result<Option<SystemTime>, BoxError> {
        self.begin().await?;
        self.inner.written(name).await
    }

    async fn remove(&self, name: &str) -> Result<(), BoxError> {
        self.begin().await?;
        self.inner.remove(name).await
    }

    async fn list(&self, directory: &str) -> Result<Vec<StoredContent>, BoxError> {
        self.begin().await?;
        self.inner.list(directory).await
    }
}
