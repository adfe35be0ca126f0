//! How many skills, tokens and documents can be loaded at once.

use crate::documents::DEFAULT_MAX_DOCUMENT_BYTES;

/// The default maximum number of loaded skills.
pub const DEFAULT_MAX_LOADED_SKILLS: usize = 10;

/// The limits of what is loaded at once.
///
/// ```
/// use prowess_skills::{Budgets, SessionOptions, SkillSession};
///
/// # use prowess_catalog::{Catalog, Root, ScanOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # std::fs::create_dir(scratch.path().join("greet"))?;
/// # let manifest = "---\nname: greet\ndescription: Says hello.\n---\nWave.\n";
/// # std::fs::write(scratch.path().join("greet/SKILL.md"), manifest)?;
/// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// let mut options = SessionOptions::default();
/// options.budgets = Budgets::new(0, None);
/// let session = SkillSession::builder(catalog).options(options).build().await;
/// assert!(session.load("greet", None).await.is_err(), "the limit is 0");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Budgets {
    /// The maximum number of loaded skills.
    pub max_loaded_skills: usize,
    /// The maximum number of tokens of all instructions and documents; `None` for no limit.
    pub max_loaded_tokens: Option<usize>,
    /// The maximum size of one skill's documents in context, in bytes.
    pub max_document_bytes: usize,
}

impl Default for Budgets {
    fn default() -> Self {
        Self::new(DEFAULT_MAX_LOADED_SKILLS, None)
    }
}

impl Budgets {
    /// Budgets with these limits, and the default limit for documents.
    pub fn new(max_loaded_skills: usize, max_loaded_tokens: Option<usize>) -> Self {
        Self { max_loaded_skills, max_loaded_tokens, max_document_bytes: DEFAULT_MAX_DOCUMENT_BYTES }
    }
}
