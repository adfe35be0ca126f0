//! Search by meaning: the vectors of an embedding model, joined with the search by words.
//!
//! An embedding model turns a text into a vector: numbers such that texts of similar meaning have similar vectors. The vectors
//! of skills are made once and kept on the disk. A search then costs one request for the vector of its query. If the model
//! fails or takes too long, a search uses words alone.

mod fill;
mod vector;
mod vectors;

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use prowess_base::private_files::PrivateFiles;
use prowess_catalog::{CatalogView, SearchHit, SkillEntry, Storage, Trust};
use tokio::time::Instant;

pub use self::vector::{MAX_DIMENSIONS, Vector};
use self::vectors::Vectors;
use crate::files::on_blocking_thread;
use crate::lock::Lock;

/// How many characters of a skill's or a query's text are sent.
pub const MAX_TEXT_CHARS: usize = 2_000;
/// How long a model that failed is not asked again.
const REST: Duration = Duration::from_secs(60);

/// A model that turns texts into vectors.
///
/// `prowess_models::OpenAiEmbeddings` is one. Implement this trait for a model inside of your program.
#[async_trait]
pub trait EmbeddingModel: Send + Sync + fmt::Debug {
    /// The name of the model, with its address. Vectors are kept under this name. Vectors of another name are not comparable.
    fn name(&self) -> &str;

    /// The vector of each text, in the same order. [`Embeddings`] checks them: their number, their length and every number.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbeddingError>;
}

/// Why there are no vectors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EmbeddingError {
    message: String,
}

impl EmbeddingError {
    /// An error with this message, for a person.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

/// Searches by words and by meaning.
///
/// It sends these texts to the model: the name, the description and `when_to_use` of trusted skills, and each query. It never
/// sends the text of an untrusted skill or of a skill from a server: those are found by their words alone.
///
/// ```
/// use std::sync::Arc;
/// use prowess_skills::embeddings::{EmbeddingError, EmbeddingModel, Embeddings};
/// use prowess_skills::SkillSession;
///
/// /// A model of two dimensions: money and greetings.
/// #[derive(Debug)]
/// struct Tiny;
///
/// #[async_trait::async_trait]
/// impl EmbeddingModel for Tiny {
///     fn name(&self) -> &str {
///         "tiny"
///     }
///
///     async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbeddingError> {
///         let has = |text: &str, words: &[&str]| words.iter().filter(|word| text.contains(*word)).count() as f32;
///         let vector = |text: &String| vec![0.1 + has(text, &["invoice", "owe", "pay"]), 0.1 + has(text, &["hello"])];
///         Ok(texts.iter().map(vector).collect())
///     }
/// }
///
/// # use prowess_catalog::{Catalog, Root, ScanOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # for (name, description) in [("greet", "Says hello."), ("books", "Adds up invoices.")] {
/// #     std::fs::create_dir(scratch.path().join(name))?;
/// #     let manifest = format!("---\nname: {name}\ndescription: {description}\n---\n");
/// #     std::fs::write(scratch.path().join(name).join("SKILL.md"), manifest)?;
/// # }
/// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// let embeddings = Arc::new(Embeddings::new(Arc::new(Tiny)));
/// let view = catalog.view_all();
/// let hits = embeddings.search(&view, &view, "what do we owe?").await;
/// assert_eq!(hits[0].entry.skill.name.as_str(), "books");
///
/// // A session uses it for the tool `search_skills`.
/// let session = SkillSession::builder(catalog).embeddings(Some(embeddings)).build().await;
/// # Ok(())
/// # }
/// ```
pub struct Embeddings {
    model: Arc<dyn EmbeddingModel>,
    files: Option<PrivateFiles>,
    patience: Option<Duration>,
    #[expect(clippy::type_complexity, reason = "a type of its own would say no more")]
    tell: Option<Box<dyn Fn(&str) + Send + Sync>>,
    /// The vectors, while they are not being made.
    vectors: tokio::sync::Mutex<Option<Vectors>>,
    cache: Lock<Remembered>,
}

/// What is remembered between two searches.
#[derive(Default)]
struct Remembered {
    /// The skills of the last search, and their vectors.
    of: Option<(CatalogView, Arc<SkillVectors>)>,
    /// Until when the model is not asked, and why.
    rest: Option<(Instant, EmbeddingError)>,
    /// Whether a search did not wait for the end of the work on the vectors.
    is_late: bool,
    /// The last problem that a person was told about.
    told: Option<String>,
}

/// The vectors of the skills of a view, by name.
type SkillVectors = HashMap<String, Arc<Vector>>;

impl Embeddings {
    /// Searches with this model. Nothing is kept on the disk, and a search waits for all vectors.
    pub fn new(model: Arc<dyn EmbeddingModel>) -> Self {
        Self {
            model,
            files: None,
            patience: None,
            tell: None,
            vectors: tokio::sync::Mutex::new(None),
            cache: Lock::new(Remembered::default()),
        }
    }

    /// Keeps the vectors in this directory, which must belong to the user alone.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.files = Some(PrivateFiles::new(directory));
        self
    }

    /// How long a search waits. After that it uses words alone; the vectors of the skills are still made.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// Calls `tell` with a message for a person if a search cannot use the model. It does not repeat a message until the model
    /// works again.
    #[must_use]
    pub fn tell(mut self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.tell = Some(Box::new(tell));
        self
    }

    /// The skills that match `query`, best first: by words and by meaning. If the model fails or is late, by words alone.
    /// Needs a Tokio runtime with its time driver.
    ///
    /// Only texts of the skills in `sent` reach the model. The others of `view` are found by words alone.
    pub async fn search(
        self: &Arc<Self>,
        view: &CatalogView,
        sent: &CatalogView,
        query: &str,
    ) -> Vec<SearchHit> {
        let wanted = match self.patience {
            // A blank query means nothing.
            _ if query.trim().is_empty() => Ok(None),
            // An earlier search waited long enough, and the vectors are still being made.
            Some(_) if self.is_late() => Err(EmbeddingError::new("it is still at work on the skills")),
            Some(patience) => match tokio::time::timeout(patience, self.vectors_for(sent, query)).await {
                Ok(found) => found.map(Some),
                Err(_) => {
                    self.cache.lock().is_late = true;
                    Err(EmbeddingError::new(format!("it took more than {} seconds", patience.as_secs())))
                }
            },
            None => self.vectors_for(sent, query).await.map(Some),
        };
        let (view, query) = (view.clone(), query.to_owned());
        match wanted {
            Ok(None) => on_blocking_thread(move || view.search(&query)).await,
            Ok(Some((skills, wanted))) => {
                self.cache.lock().told = None;
                // The first search makes the index, which reads directories.
                on_blocking_thread(move || {
                    view.search_with(&query, |entry| {
                        is_sent(entry)
                            .then(|| skills.get(entry.skill.name.as_str()))
                            .flatten()?
                            .similarity(&wanted)
                    })
                })
                .await
            }
            Err(error) => {
                self.tell_once(&error);
                on_blocking_thread(move || view.search(&query)).await
            }
        }
    }

    /// The vectors of the skills, and that of the query.
    async fn vectors_for(
        self: &Arc<Self>,
        view: &CatalogView,
        query: &str,
    ) -> Result<(Arc<SkillVectors>, Vector), EmbeddingError> {
        if let Some((until, error)) = &self.cache.lock().rest
            && *until > Instant::now()
        {
            return Err(error.clone());
        }
        // The task goes on if nobody waits for it any more, so that the next search finds more vectors.
        let (this, view, query) = (Arc::clone(self), view.clone(), cut(query));
        let found = tokio::spawn(async move {
            let found = this.ask(&view, query).await;
            let mut cache = this.cache.lock();
            cache.is_late = false;
            if let Err(error) = &found {
                cache.rest = Some((Instant::now() + REST, error.clone()));
            }
            drop(cache);
            found
        });
        found.await.unwrap_or_else(|_| Err(EmbeddingError::new("the search by meaning crashed")))
    }

    async fn ask(
        &self,
        view: &CatalogView,
        query: String,
    ) -> Result<(Arc<SkillVectors>, Vector), EmbeddingError> {
        let mut skills = self.skill_vectors(view).await?;
        let wanted = self.embed(&[query]).await?.pop().ok_or_else(|| EmbeddingError::new(NO_VECTOR))?;
        if skills.values().next().is_some_and(|known| known.dimensions() != wanted.dimensions()) {
            // Another model answers under the same name. Its vectors cannot be compared with the stored ones.
            self.forget().await;
            skills = self.skill_vectors(view).await?;
        }
        Ok((skills, wanted))
    }

    /// Asks the model, and checks what it answers.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vector>, EmbeddingError> {
        let answer = self.model.embed(texts).await?;
        if answer.len() != texts.len() {
            return Err(EmbeddingError::new(format!(
                "it sent {} vectors for {} texts",
                answer.len(),
                texts.len()
            )));
        }
        let vectors: Option<Vec<Vector>> = answer.iter().map(|numbers| Vector::new(numbers)).collect();
        let vectors = vectors.ok_or_else(|| EmbeddingError::new(NO_VECTOR))?;
        if vectors.windows(2).any(|pair| pair[0].dimensions() != pair[1].dimensions()) {
            return Err(EmbeddingError::new("it sent vectors of different lengths"));
        }
        Ok(vectors)
    }

    /// Whether vectors are being made for which an earlier search did not wait.
    fn is_late(&self) -> bool {
        self.cache.lock().is_late && self.vectors.try_lock().is_err()
    }

    fn tell_once(&self, error: &EmbeddingError) {
        let message =
            format!("search uses words alone: the embedding model {} failed: {error}", self.model.name());
        let is_new = self.cache.lock().told.replace(message.clone()).is_none_or(|told| told != message);
        tracing::debug!(model = self.model.name(), %error, "The embedding model failed");
        if let Some(tell) = self.tell.as_ref().filter(|_| is_new) {
            tell(&message);
        }
    }
}

/// A message about a vector that cannot be used.
const NO_VECTOR: &str = "it sent something that is not a vector";

impl fmt::Debug for Embeddings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embeddings").field("model", &self.model.name()).finish_non_exhaustive()
    }
}

/// Whether the text of this skill may be sent to the model.
fn is_sent(entry: &SkillEntry) -> bool {
    entry.trust == Trust::Trusted && entry.root.storage != Storage::Server
}

/// The text of a skill that is sent to the model.
fn text_of(entry: &SkillEntry) -> String {
    let skill = &entry.skill;
    let when = skill.extensions.when_to_use.as_deref().unwrap_or_default();
    cut(format!("{}: {} {when}", skill.name.as_str().replace(['-', '_'], " "), skill.description).trim_end())
}

fn cut(text: &str) -> String {
    text.chars().take(MAX_TEXT_CHARS).collect()
}
