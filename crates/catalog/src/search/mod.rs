//! Searches skills by words, and ranks the hits.
//!
//! [`CatalogView::search`] is all that most programs need. The index is built when the first search needs it.

mod file_names;
mod fuse;
mod index;
mod query;
mod related;
mod stem;
mod stored;
mod vocabulary;
mod words;

use std::sync::Arc;

use crate::catalog::{Catalog, SkillEntry};
use crate::view::CatalogView;

pub use file_names::MAX_FILE_NAMES;
pub use fuse::fuse;
pub use index::{Index, MAX_FIELD_BYTES, MAX_VOCABULARY, MAX_WORDS};
pub use query::MAX_QUERY_WORDS;
pub(crate) use query::Members;

/// A skill, and how well it matches a query.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SearchHit {
    /// The skill.
    pub entry: Arc<SkillEntry>,
    /// Higher is better. Only the order has a meaning.
    pub score: f64,
}

/// A count as a number of the index. The limits of scans and of [`MAX_WORDS`] keep all counts far below 32 bits.
fn number_of(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// How far a skill whose name is the query ranks above the best of the others.
const EXACT_NAME: f64 = 1.0;

impl CatalogView {
    /// The skills that match `query`, best first. A skill whose name is the query ranks first.
    ///
    /// A word of the query also matches other forms of the word, mistyped words, its beginning, and words that mean nearly the
    /// same, also from other languages. The search uses names, descriptions, `when_to_use`, headings, file names and metadata.
    ///
    /// The first search in a catalog builds its [`Index`]. That lists the directories of skills on local disks.
    ///
    /// ```
    /// use prowess_catalog::{Catalog, Root, ScanOptions};
    ///
    /// # let scratch = tempfile::tempdir()?;
    /// # let root = scratch.path();
    /// for (name, description) in [("greet", "Says hello."), ("invoices", "Adds up invoices and taxes.")] {
    ///     std::fs::create_dir(root.join(name))?;
    ///     let manifest = format!("---\nname: {name}\ndescription: {description}\n---\n");
    ///     std::fs::write(root.join(name).join("SKILL.md"), manifest)?;
    /// }
    /// let catalog = Catalog::discover(&[Root::explicit(root)], &ScanOptions::default());
    /// for query in ["the taxes of June", "add the invoice up", "invoces", "Rechnungen"] {
    ///     let hits = catalog.view_all().search(query);
    ///     assert_eq!(hits[0].entry.skill.name.as_str(), "invoices");
    ///     assert_eq!(hits.len(), 1);
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn search(&self, query: &str) -> Vec<SearchHit> {
        let index = self.catalog().index();
        let members = self.members(index);
        let entry = |place: u32| self.entries().get(place as usize);
        let mut hits: Vec<SearchHit> = query::rank(index, members, query)
            .into_iter()
            .filter_map(|(place, score)| {
                Some(SearchHit { entry: Arc::clone(entry(place)?), score: score.into() })
            })
            .collect();
        let name = query.split_whitespace().collect::<Vec<_>>().join("-").to_lowercase();
        let is_exact = |entry: &SkillEntry| entry.skill.name.as_str().to_lowercase() == name;
        let exact: Vec<SearchHit> = self
            .entries()
            .iter()
            .filter(|entry| entry.skill.name.as_str().len() == name.len() && is_exact(entry))
            .map(|entry| {
                let best = hits.first().map_or(0.0, |hit| hit.score);
                SearchHit { entry: Arc::clone(entry), score: best + EXACT_NAME }
            })
            .collect();
        if !exact.is_empty() {
            hits.retain(|hit| !exact.iter().any(|other| Arc::ptr_eq(&other.entry, &hit.entry)));
            hits.splice(0..0, exact);
        }
        hits
    }
}

impl Catalog {
    /// The search index of this catalog. The first call builds it.
    ///
    /// ```
    /// use prowess_catalog::{Catalog, Root, ScanOptions};
    ///
    /// # let scratch = tempfile::tempdir()?;
    /// # let root = scratch.path();
    /// # std::fs::create_dir(root.join("greet"))?;
    /// # std::fs::write(root.join("greet/SKILL.md"), "---\nname: greet\ndescription: Says hello.\n---\nWave.\n")?;
    /// let catalog = Catalog::discover(&[Root::explicit(root)], &ScanOptions::default());
    /// assert_eq!(catalog.index().words(), 3, "greet, says, hello");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn index(&self) -> &Index {
        self.index_cell().get_or_init(|| Index::of(&self.everything()))
    }
}
