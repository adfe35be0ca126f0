//! Makes the vectors of skills that have none, and keeps them on the disk.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prowess_base::hex;
use prowess_base::private_files::Room;
use prowess_catalog::{CatalogView, Digest};

use super::vectors::{MAX_BYTES, MAX_VECTORS, Vectors};
use super::{EmbeddingError, Embeddings, SkillVectors, is_sent, text_of};
use crate::files::on_blocking_thread;

/// How many texts one request has.
pub(super) const BATCH: usize = 64;
/// How often the vectors are stored while they are made, so that a process that ends soon does not lose them.
const STORE_EVERY: Duration = Duration::from_secs(2);
/// How much the directory keeps: the vectors of a few models.
const ROOM: Room = Room::new(4, 256 * 1024 * 1024).unused_for(Duration::from_secs(30 * 24 * 60 * 60));
/// How the name of a file begins. The rest is a digest of the model's name.
const PREFIX: &str = "vectors-";

impl Embeddings {
    /// The vectors of the skills of this view. Makes those that are missing.
    pub(super) async fn skill_vectors(
        &self,
        view: &CatalogView,
    ) -> Result<Arc<SkillVectors>, EmbeddingError> {
        // Only one search at a time makes vectors.
        let mut guard = self.vectors.lock().await;
        if let Some(known) = self.remembered(view) {
            return Ok(known);
        }
        let mut vectors = match guard.take() {
            Some(vectors) => vectors,
            None => self.stored().await,
        };
        let had_vectors = vectors.dimensions().is_some();
        let mut filled = self.fill(&mut vectors, view).await;
        if had_vectors && filled == Err(Unfilled::OtherLength) {
            // Another model answers under the same name. Its vectors cannot be compared with the stored ones.
            vectors = Vectors::default();
            filled = self.fill(&mut vectors, view).await;
        }
        let by_name = filled.is_ok().then(|| Arc::new(by_name(&vectors, view)));
        *guard = Some(vectors);
        filled?;
        let by_name = by_name.unwrap_or_default();
        self.cache.lock().of = Some((view.clone(), Arc::clone(&by_name)));
        Ok(by_name)
    }

    /// The vectors of the last search, if its view had the same skills.
    fn remembered(&self, view: &CatalogView) -> Option<Arc<SkillVectors>> {
        let cache = self.cache.lock();
        let (of, vectors) = cache.of.as_ref()?;
        let is_same = of.catalog().is_same(view.catalog())
            && of.entries().len() == view.entries().len()
            && of.entries().iter().zip(view.entries()).all(|(a, b)| Arc::ptr_eq(a, b));
        is_same.then(|| Arc::clone(vectors))
    }

    async fn fill(&self, vectors: &mut Vectors, view: &CatalogView) -> Result<(), Unfilled> {
        let texts: Vec<(Digest, String)> = texts(view).collect();
        let used: Vec<Digest> = texts.iter().map(|(digest, _)| *digest).collect();
        let mut seen = HashSet::new();
        let mut missing = texts;
        missing.retain(|(digest, _)| vectors.get(digest).is_none() && seen.insert(*digest));
        let mut made = Ok(());
        let mut stored = Instant::now();
        for batch in missing.chunks(BATCH) {
            made = self.add(vectors, batch).await;
            if made.is_err() {
                break;
            }
            if stored.elapsed() >= STORE_EVERY {
                self.store(vectors, &used).await;
                stored = Instant::now();
            }
        }
        if !missing.is_empty() && made != Err(Unfilled::OtherLength) {
            self.store(vectors, &used).await;
        }
        made
    }

    async fn add(&self, vectors: &mut Vectors, batch: &[(Digest, String)]) -> Result<(), Unfilled> {
        let texts: Vec<String> = batch.iter().map(|(_, text)| text.clone()).collect();
        let answer = self.embed(&texts).await?;
        let fit = batch.iter().zip(answer).all(|((digest, _), vector)| vectors.insert(*digest, vector));
        if fit { Ok(()) } else { Err(Unfilled::OtherLength) }
    }

    /// Forgets all vectors, because the model makes others now.
    pub(super) async fn forget(&self) {
        *self.vectors.lock().await = Some(Vectors::default());
        self.cache.lock().of = None;
    }

    async fn stored(&self) -> Vectors {
        let Some(files) = self.files.clone() else { return Vectors::default() };
        let name = self.file_name();
        let read = move || files.read(&name, MAX_BYTES).and_then(|bytes| Vectors::from_bytes(&bytes));
        on_blocking_thread(read).await.unwrap_or_default()
    }

    async fn store(&self, vectors: &mut Vectors, used: &[Digest]) {
        vectors.keep(used);
        let Some(files) = self.files.clone() else { return };
        let (name, bytes) = (self.file_name(), vectors.to_bytes());
        let written = on_blocking_thread(move || files.write(&name, &bytes, ROOM)).await;
        if let Err(error) = written {
            tracing::debug!(%error, "Cannot store the vectors of skills");
        }
    }

    fn file_name(&self) -> String {
        format!("{PREFIX}{}", hex::encode(Digest::of(self.model.name().as_bytes()).as_bytes()))
    }
}

/// Why vectors are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Unfilled {
    Failed(EmbeddingError),
    /// The model sends vectors of another length than before.
    OtherLength,
}

impl From<EmbeddingError> for Unfilled {
    fn from(error: EmbeddingError) -> Self {
        Self::Failed(error)
    }
}

impl From<Unfilled> for EmbeddingError {
    fn from(unfilled: Unfilled) -> Self {
        match unfilled {
            Unfilled::Failed(error) => error,
            Unfilled::OtherLength => Self::new("it sent vectors of different lengths"),
        }
    }
}

/// The texts of the skills that may be sent, with their digests.
fn texts(view: &CatalogView) -> impl Iterator<Item = (Digest, String)> {
    let sent = view.entries().iter().filter(|entry| is_sent(entry)).take(MAX_VECTORS);
    sent.map(|entry| text_of(entry)).map(|text| (Digest::of(text.as_bytes()), text))
}

fn by_name(vectors: &Vectors, view: &CatalogView) -> SkillVectors {
    let sent = view.entries().iter().filter(|entry| is_sent(entry)).take(MAX_VECTORS);
    let names = sent.map(|entry| entry.skill.name.to_string());
    let found = names
        .zip(texts(view))
        .filter_map(|(name, (digest, _))| vectors.get(&digest).map(|vector| (name, Arc::clone(vector))));
    found.collect()
}
