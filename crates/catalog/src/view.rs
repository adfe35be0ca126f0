//! The skills of a catalog that one agent may know.

use std::sync::{Arc, OnceLock};

use crate::catalog::{Catalog, SkillEntry};
use crate::search::{Index, Members};

/// The skills of a catalog that one agent may know, in the catalog's order.
///
/// Everything that a model reads is rendered from a view, so that a denied skill is neither listed nor named. Clones are cheap.
///
/// ```
/// use prowess_catalog::Catalog;
///
/// let catalog = Catalog::empty();
/// let view = catalog.view(|entry| entry.skill.name.as_str() != "secret-plans");
/// assert_eq!(view.names().count(), 0);
/// ```
#[derive(Clone, Debug)]
pub struct CatalogView {
    catalog: Catalog,
    entries: Arc<[Arc<SkillEntry>]>,
    /// The numbers of the entries in the search index, for all searches in this view.
    members: OnceLock<Arc<Members>>,
}

impl Catalog {
    /// The skills that `visible` accepts.
    pub fn view(&self, visible: impl Fn(&SkillEntry) -> bool) -> CatalogView {
        let entries = self.entries().iter().filter(|entry| visible(entry)).cloned().collect();
        CatalogView::of(self.clone(), entries)
    }

    /// All skills that win their names, and the untrusted skills. For people, never for a model.
    pub fn view_for_people(&self) -> CatalogView {
        CatalogView::of(self.clone(), self.everything())
    }

    /// All skills that win their names.
    pub fn view_all(&self) -> CatalogView {
        self.view(|_| true)
    }
}

impl CatalogView {
    fn of(catalog: Catalog, entries: Vec<Arc<SkillEntry>>) -> Self {
        Self { catalog, entries: entries.into(), members: OnceLock::new() }
    }

    /// The numbers of the visible skills in the catalog's index.
    pub(crate) fn members(&self, index: &Index) -> &Members {
        self.members.get_or_init(|| {
            // Both are in the same order, so one pass finds each entry of the view.
            let mut visible = (0..).zip(self.entries.iter()).peekable();
            let everything = self.catalog.everything();
            let places = everything.iter().map(|entry| {
                let place = visible.next_if(|(_, seen)| Arc::ptr_eq(seen, entry));
                place.map_or(Members::ABSENT, |(place, _)| place)
            });
            Arc::new(Members::new(index, places.collect()))
        })
    }

    /// The visible skills.
    pub fn entries(&self) -> &[Arc<SkillEntry>] {
        &self.entries
    }

    /// The visible skill called `name`.
    pub fn get(&self, name: &str) -> Option<&Arc<SkillEntry>> {
        let at = self.entries.binary_search_by(|entry| entry.skill.name.as_str().cmp(name)).ok()?;
        self.entries.get(at)
    }

    /// The names of the visible skills.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.skill.name.as_str())
    }

    /// The visible skills that `wanted` accepts.
    pub fn filtered(&self, wanted: impl Fn(&SkillEntry) -> bool) -> Self {
        let entries = self.entries.iter().filter(|entry| wanted(entry)).cloned().collect();
        Self::of(self.catalog.clone(), entries)
    }

    /// The catalog of this view.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }
}
