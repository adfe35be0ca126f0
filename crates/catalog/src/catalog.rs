//! The catalog: an immutable snapshot of the skills in all roots, with diagnostics.

use std::sync::{Arc, OnceLock};

use crate::diagnostic::Diagnostic;
use crate::published::Published;
use crate::root::{Root, Storage, Trust};
use crate::scan::{Links, Manifest, RootScan, ScanOptions, Stamp};
use crate::search::{Index, IndexCache};
use crate::skill::Skill;
use crate::trusted::TrustedEntries;
use crate::walk::scan_local;

/// A skill with its root.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SkillEntry {
    /// The skill's metadata.
    pub skill: Arc<Skill>,
    /// The root in which it was found.
    pub root: Arc<Root>,
    /// Whether a model may see it, because its root or the skill itself is trusted.
    pub trust: Trust,
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) directory: Arc<str>,
    pub(crate) link: Arc<str>,
    pub(crate) stamp: Option<Stamp>,
    /// How the scan that found it follows links.
    pub(crate) links: Links,
}

impl SkillEntry {
    /// The files that its server lists. `None` if the skill is not from a server.
    pub fn published(&self) -> Option<&Arc<Published>> {
        self.manifest.published.as_ref()
    }

    /// The frontmatter that its server lists, as JSON. The fetched manifest must match it. `None` if the skill is not from a
    /// server.
    pub fn published_frontmatter(&self) -> Option<&str> {
        self.manifest.published.is_some().then_some(&*self.manifest.frontmatter)
    }

    /// The diagnostics of its manifest.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.manifest.diagnostics
    }

    /// Whether both are the same manifest in the same version. A snapshot shares unchanged entries with its refreshed
    /// successor; entries of independent scans are compared.
    fn is_same(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        Arc::ptr_eq(self, other)
            || (self.stamp.is_some()
                && self.stamp == other.stamp
                && self.link == other.link
                && self.trust == other.trust
                && self.skill == other.skill
                && self.root == other.root)
    }
}

/// A skill that another skill of the same name shadows.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Shadowed {
    /// The shadowed skill.
    pub entry: Arc<SkillEntry>,
    /// The skill that shadows it.
    pub by: Arc<SkillEntry>,
}

/// An immutable snapshot of the skills found in all roots. Clones are cheap.
///
/// ```
/// use prowess_catalog::{Catalog, Root, ScanOptions};
///
/// let catalog = Catalog::discover(&[Root::explicit("examples/skills")], &ScanOptions::default());
/// for entry in catalog.entries() {
///     println!("{}: {}", entry.skill.name, entry.skill.description);
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Catalog(Arc<CatalogInner>);

#[derive(Clone, Debug, Default)]
pub(crate) struct CatalogInner {
    pub(crate) scans: Vec<Arc<RootScan>>,
    /// The trusted entries of untrusted roots.
    pub(crate) trusted: TrustedEntries,
    /// Sorted by name.
    pub(crate) entries: Vec<Arc<SkillEntry>>,
    pub(crate) shadowed: Vec<Shadowed>,
    pub(crate) untrusted: Vec<Arc<SkillEntry>>,
    /// Diagnostics about several skills together. Each scan has its own diagnostics.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// The number of all diagnostics, including those of the scans.
    pub(crate) diagnostic_count: usize,
    /// Built when the first search needs it.
    pub(crate) index: OnceLock<Index>,
    /// Where the index is kept for the next process.
    pub(crate) index_cache: Option<Arc<IndexCache>>,
}

/// The changes between two catalogs, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CatalogDiff {
    /// New names.
    pub added: Vec<String>,
    /// Names whose skill or manifest changed.
    pub changed: Vec<String>,
    /// Removed names.
    pub removed: Vec<String>,
}

impl CatalogDiff {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

impl Catalog {
    /// A catalog without skills.
    pub fn empty() -> Self {
        Self(Arc::default())
    }

    /// Finds the skills in `roots`, given from least to most precedence.
    pub fn discover(roots: &[Root], options: &ScanOptions) -> Self {
        Self::empty().refreshed(roots, options)
    }

    /// Scans `roots` again. Manifests that did not change are not read again. If nothing changed, this returns the same
    /// snapshot.
    ///
    /// A root in a backend or of a server keeps its scan, because only your program can scan it again: with `scan_backend`
    /// or [`scan_published`](crate::published::scan_published), and [`Catalog::assembled`].
    ///
    /// Entries that are trusted by name stay trusted, whatever their contents. If your program trusts contents, check them
    /// first and call [`Catalog::refreshed_trusting`].
    pub fn refreshed(&self, roots: &[Root], options: &ScanOptions) -> Self {
        self.refreshed_trusting(roots, options, self.0.trusted.clone())
    }

    /// Like [`Catalog::refreshed`], but trusts exactly these entries of untrusted roots.
    pub fn refreshed_trusting(&self, roots: &[Root], options: &ScanOptions, trusted: TrustedEntries) -> Self {
        // A root that is given twice counts where it has the most precedence.
        let once = |at: usize, root: &Root| {
            !roots[at + 1..].iter().any(|later| (&later.path, later.storage) == (&root.path, root.storage))
        };
        let scans = roots.iter().enumerate().filter(|(at, root)| once(*at, root)).filter_map(|(_, root)| {
            let previous = self.shared_scan_of(root);
            match root.storage {
                Storage::Backend | Storage::Server => previous.cloned(),
                Storage::Local => {
                    let root = previous.map_or_else(|| Arc::new(root.clone()), |scan| Arc::clone(&scan.root));
                    Some(Arc::new(scan_local(&root, options, previous.map(Arc::as_ref))))
                }
            }
        });
        self.assembled_trusting(scans.collect(), trusted)
    }

    /// This catalog's scan of `root`.
    pub fn scan_of(&self, root: &Root) -> Option<&RootScan> {
        self.shared_scan_of(root).map(Arc::as_ref)
    }

    pub(crate) fn shared_scan_of(&self, root: &Root) -> Option<&Arc<RootScan>> {
        self.0.scans.iter().find(|scan| *scan.root == *root)
    }

    /// A catalog of `scans`, given from least to most precedence. Entries that are trusted by name stay trusted.
    pub fn assembled(&self, scans: impl IntoIterator<Item = impl Into<Arc<RootScan>>>) -> Self {
        self.assembled_trusting(scans.into_iter().map(Into::into).collect(), self.0.trusted.clone())
    }

    fn assembled_trusting(&self, scans: Vec<Arc<RootScan>>, trusted: TrustedEntries) -> Self {
        let unchanged = trusted == self.0.trusted
            && scans.len() == self.0.scans.len()
            && scans.iter().zip(&self.0.scans).all(|(new, old)| new.is_same(old));
        if unchanged {
            tracing::debug!(skills = self.0.entries.len(), "Skills are unchanged");
            return self.clone();
        }
        let inner = CatalogInner::assemble(&self.0, scans, trusted);
        let sources = inner.scans.iter().filter(|scan| scan.exists).count();
        let skills = inner.entries.len();
        tracing::info!(
            skills,
            sources,
            shadowed = inner.shadowed.len(),
            untrusted = inner.untrusted.len(),
            diagnostics = inner.diagnostic_count,
            "Discovered {skills} skills from {sources} sources"
        );
        Self(Arc::new(inner))
    }

    /// The catalog with this scan in place of its scan of the same root. A new root gets the least precedence.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use prowess_catalog::published::{Offer, Published, scan_published};
    /// use prowess_catalog::{Catalog, Root};
    ///
    /// let published = Published { server: "docs".into(), uri: "skill://pdf/SKILL.md".into(), files: Vec::new() };
    /// let frontmatter = r#"{"name":"pdf","description":"Reads PDFs."}"#.into();
    /// let offer = Offer { frontmatter, published, is_granted: false };
    /// let root = Arc::new(Root::server("docs"));
    /// let catalog = Catalog::empty().with(scan_published(&root, vec![offer], None));
    /// assert!(catalog.get("docs:pdf").is_some());
    /// assert!(catalog.with(scan_published(&root, Vec::new(), None)).get("docs:pdf").is_none());
    /// ```
    pub fn with(&self, scan: RootScan) -> Self {
        let scan = Arc::new(scan);
        let mut scans = self.0.scans.clone();
        match scans.iter_mut().find(|known| known.root == scan.root) {
            Some(known) => *known = scan,
            None => scans.insert(0, scan),
        }
        self.assembled(scans)
    }

    /// This catalog with the roots of another one, which get the least precedence: if both have a skill of one name, this
    /// catalog's wins. Skills are shared, not copied. The search index is in memory only.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use prowess_catalog::{Catalog, Root, ScanOptions, scan_given};
    ///
    /// let catalog = |root: &str, name: &str| {
    ///     let manifest = format!("---\nname: {name}\ndescription: Says hello.\n---\n");
    ///     let root = Arc::new(Root::explicit(root).in_backend());
    ///     Catalog::empty().assembled([scan_given(&root, [("SKILL.md", manifest)], &ScanOptions::default(), None)])
    /// };
    /// let (shared, own) = (catalog("/shared", "greet"), catalog("/own", "Greet"));
    /// assert_eq!(shared.over(&own).entries()[0].skill.name.as_str(), "greet");
    /// assert_eq!(shared.over(&own).shadowed().len(), 1);
    /// assert_eq!(shared.over(&catalog("/own", "wave")).entries().len(), 2);
    /// ```
    #[must_use]
    pub fn over(&self, lower: &Self) -> Self {
        let scans = lower.0.scans.iter().chain(&self.0.scans).cloned().collect();
        let inner = CatalogInner::assemble(&self.0, scans, self.0.trusted.clone());
        Self(Arc::new(CatalogInner { index_cache: None, ..inner }))
    }

    /// The skills that win their names, sorted by name.
    pub fn entries(&self) -> &[Arc<SkillEntry>] {
        &self.0.entries
    }

    /// The skill called `name`.
    pub fn get(&self, name: &str) -> Option<&Arc<SkillEntry>> {
        let at = self.0.entries.binary_search_by(|entry| entry.skill.name.as_str().cmp(name)).ok()?;
        self.0.entries.get(at)
    }

    /// The skills that others shadow.
    pub fn shadowed(&self) -> &[Shadowed] {
        &self.0.shadowed
    }

    /// The untrusted skills. They shadow nothing.
    pub fn untrusted(&self) -> &[Arc<SkillEntry>] {
        &self.0.untrusted
    }

    /// All skills that a view can contain, sorted by name. A view has them in the same order.
    pub(crate) fn everything(&self) -> Vec<Arc<SkillEntry>> {
        let mut entries: Vec<_> = self.entries().iter().chain(self.untrusted()).cloned().collect();
        entries.sort_by(|a, b| a.skill.name.cmp(&b.skill.name));
        entries
    }

    pub(crate) fn index_cell(&self) -> &OnceLock<Index> {
        &self.0.index
    }

    pub(crate) fn index_cache(&self) -> Option<&IndexCache> {
        self.0.index_cache.as_deref()
    }

    pub(crate) fn keeping_index_in(&self, cache: Arc<IndexCache>) -> Self {
        Self(Arc::new(CatalogInner { index_cache: Some(cache), ..CatalogInner::clone(&self.0) }))
    }

    /// All diagnostics.
    pub fn diagnostics(&self) -> impl Iterator<Item = &Diagnostic> {
        self.0.scans.iter().flat_map(|scan| scan.all_diagnostics()).chain(&self.0.diagnostics)
    }

    /// The existing roots, from least to most precedence.
    pub fn roots(&self) -> impl Iterator<Item = &Arc<Root>> {
        self.0.scans.iter().filter(|scan| scan.exists).map(|scan| &scan.root)
    }

    /// All roots, also those that do not exist yet, from least to most precedence.
    ///
    /// ```
    /// use prowess_catalog::{Catalog, Root, ScanOptions};
    ///
    /// let missing = Root::explicit("/nowhere/skills");
    /// let catalog = Catalog::discover(&[missing], &ScanOptions::default());
    /// assert_eq!((catalog.roots().count(), catalog.all_roots().count()), (0, 1));
    /// ```
    pub fn all_roots(&self) -> impl Iterator<Item = &Arc<Root>> {
        self.0.scans.iter().map(|scan| &scan.root)
    }

    /// Whether both are the same snapshot.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The changes from this catalog to `newer`.
    pub fn diff(&self, newer: &Self) -> CatalogDiff {
        let mut diff = CatalogDiff::default();
        if self.is_same(newer) {
            return diff;
        }
        let (mut old, mut new) = (self.entries().iter().peekable(), newer.entries().iter().peekable());
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => return diff,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(a), Some(b)) => a.skill.name.cmp(&b.skill.name),
            };
            match order {
                std::cmp::Ordering::Less => {
                    diff.removed.extend(old.next().map(|entry| entry.skill.name.to_string()))
                }
                std::cmp::Ordering::Greater => {
                    diff.added.extend(new.next().map(|entry| entry.skill.name.to_string()))
                }
                std::cmp::Ordering::Equal => {
                    if let (Some(a), Some(b)) = (old.next(), new.next())
                        && !a.is_same(b)
                    {
                        diff.changed.push(b.skill.name.to_string());
                    }
                }
            }
        }
    }
}
