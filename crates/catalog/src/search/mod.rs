//! Searches skills by words, and ranks the hits.
//!
//! [`CatalogView::search`] is all that most programs need. The index is built when the first search needs it.

mod cache;
mod file_names;
mod fuse;
mod index;
mod query;
mod related;
mod stem;
mod stored;
mod vocabulary;
mod words;

use std::collections::HashMap;
use std::sync::Arc;

use crate::catalog::{Catalog, SkillEntry};
use crate::view::CatalogView;

pub use cache::{IndexCache, LEAST_SKILLS};
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
    /// How much of the query the skill covers, from 0 to 1: the share of the query's words that the skill has, weighted by how
    /// rare each word is. Function words do not count, so "thanks" or "go on" covers nothing.
    pub coverage: f64,
    /// How many words of the query the skill has, without function words.
    pub words: usize,
}

/// A count as a number of the index. The limits of scans and of [`MAX_WORDS`] keep all counts far below 32 bits.
fn number_of(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// How far a skill whose name is the query ranks above the best of the others.
const EXACT_NAME: f64 = 1.0;

/// How many skills a ranking by meaning adds. Every skill is similar to every query, but only the first are meant.
const MEANING_HITS: usize = 50;

impl CatalogView {
    /// The skills that match `query`, best first. A skill whose name is the query ranks first.
    ///
    /// A word of the query also matches other forms of the word, mistyped words, its beginning, and words that mean nearly the
    /// same, also from other languages. The search uses names, descriptions, `when_to_use`, headings, file names and metadata.
    ///
    /// The first search in a catalog builds its [`Index`], or loads it from an [`IndexCache`]. Building it lists the directories of skills on local disks.
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
    ///     assert!(hits[0].coverage > 0.2, "{}", hits[0].coverage);
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn search(&self, query: &str) -> Vec<SearchHit> {
        let mut hits = self.search_words(query);
        self.put_name_first(query, &mut hits);
        hits
    }

    /// Like [`CatalogView::search`], but joins the ranking by words with a ranking by meaning ([`fuse`]).
    ///
    /// `similarity` says how similar the meaning of a skill is to that of the query, such as the cosine of two vectors of an
    /// embedding model. Only the order of the numbers counts. `None` means that it is not known; such a skill is found by its
    /// words alone. The most similar 50 skills become hits, even if they have no word of the query; then their coverage is 0.
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
    /// let hits = catalog.view_all().search_with("what do we owe the state?", |entry| {
    ///     Some(if entry.skill.name.as_str() == "invoices" { 0.8 } else { 0.1 })
    /// });
    /// assert_eq!(hits[0].entry.skill.name.as_str(), "invoices");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn search_with(
        &self,
        query: &str,
        similarity: impl Fn(&SkillEntry) -> Option<f32>,
    ) -> Vec<SearchHit> {
        let by_words = self.search_words(query);
        let mut by_meaning: Vec<(f32, &Arc<SkillEntry>)> = self
            .entries()
            .iter()
            .filter_map(|entry| similarity(entry).filter(|found| !found.is_nan()).map(|found| (found, entry)))
            .collect();
        by_meaning.sort_by(|a, b| b.0.total_cmp(&a.0));
        by_meaning.truncate(MEANING_HITS);
        // Entries are shared, so an entry is known by its address.
        let rankings = [
            by_words.iter().map(|hit| Arc::as_ptr(&hit.entry)).collect::<Vec<_>>(),
            by_meaning.iter().map(|(_, entry)| Arc::as_ptr(entry)).collect(),
        ];
        let mut known: HashMap<*const SkillEntry, SearchHit> = by_meaning
            .into_iter()
            .map(|(_, entry)| SearchHit { entry: Arc::clone(entry), score: 0.0, coverage: 0.0, words: 0 })
            .chain(by_words)
            .map(|hit| (Arc::as_ptr(&hit.entry), hit))
            .collect();
        let mut hits: Vec<SearchHit> = fuse::fuse_with_points(rankings)
            .into_iter()
            .filter_map(|(entry, score)| known.remove(&entry).map(|hit| SearchHit { score, ..hit }))
            .collect();
        self.put_name_first(query, &mut hits);
        hits
    }

    fn search_words(&self, query: &str) -> Vec<SearchHit> {
        let index = self.catalog().index();
        let members = self.members(index);
        let entry = |place: u32| self.entries().get(place as usize);
        query::rank(index, members, query)
            .into_iter()
            .filter_map(|ranked| {
                Some(SearchHit {
                    entry: Arc::clone(entry(ranked.place)?),
                    score: ranked.score.into(),
                    coverage: ranked.coverage.into(),
                    words: ranked.words,
                })
            })
            .collect()
    }

    /// Puts the skill whose name is the query before all others.
    fn put_name_first(&self, query: &str, hits: &mut Vec<SearchHit>) {
        let name = query.split_whitespace().collect::<Vec<_>>().join("-").to_lowercase();
        let is_exact = |entry: &SkillEntry| entry.skill.name.as_str().to_lowercase() == name;
        let exact: Vec<SearchHit> = self
            .entries()
            .iter()
            .filter(|entry| entry.skill.name.as_str().len() == name.len() && is_exact(entry))
            .map(|entry| {
                let best = hits.first().map_or(0.0, |hit| hit.score);
                let words = query.split_whitespace().count();
                SearchHit { entry: Arc::clone(entry), score: best + EXACT_NAME, coverage: 1.0, words }
            })
            .collect();
        if !exact.is_empty() {
            hits.retain(|hit| !exact.iter().any(|other| Arc::ptr_eq(&other.entry, &hit.entry)));
            hits.splice(0..0, exact);
        }
    }
}

impl Catalog {
    /// The search index of this catalog. The first call builds it, or loads it if the catalog has an [`IndexCache`].
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
        self.index_cell().get_or_init(|| self.new_index())
    }
}
