//! The catalog: every skill that was found, which of them counts, and what was met on the way.

use std::sync::Arc;

use crate::diagnostic::Diagnostic;
use crate::published::Published;
use crate::root::{Root, Storage, Trust};
use crate::scan::{Links, Manifest, RootScan, ScanOptions, Stamp};
use crate::skill::Skill;
use crate::trusted::TrustedEntries;
use crate::walk::scan_local;

/// A skill with the root that it came from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SkillEntry {
    /// Its metadata.
    pub skill: Arc<Skill>,
    /// Where it was found.
    pub root: Arc<Root>,
    /// Whether a model may see it: its root is trusted, or it is by itself.
    pub trust: Trust,
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) directory: Arc<str>,
    pub(crate) link: Arc<str>,
    pub(crate) stamp: Option<Stamp>,
    /// How the scan that found it follows links.
    pub(crate) links: Links,
}

impl SkillEntry {
    /// What its server says of its files, if it is a server's.
    pub fn published(&self) -> Option<&Arc<Published>> {
        self.manifest.published.as_ref()
    }

    /// What its server says that its frontmatter is, as JSON, if it is a server's. What is fetched is held to it.
    pub fn published_frontmatter(&self) -> Option<&str> {
        self.manifest.published.is_some().then_some(&*self.manifest.frontmatter)
    }

    /// What its document has wrong with it.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.manifest.diagnostics
    }

    /// Whether both are the same document in the same version. Entries of one snapshot and its refreshed
    /// successor are shared where nothing changed; those of independent scans are compared.
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

/// A skill that another one of the same name takes precedence over.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Shadowed {
    /// The one that does not count.
    pub entry: Arc<SkillEntry>,
    /// The one that does.
    pub by: Arc<SkillEntry>,
}

/// An immutable snapshot of all skills, shared cheaply.
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

#[derive(Debug, Default)]
pub(crate) struct CatalogInner {
    pub(crate) scans: Vec<Arc<RootScan>>,
    /// What is trusted in roots that are not.
    pub(crate) trusted: TrustedEntries,
    /// Sorted by name.
    pub(crate) entries: Vec<Arc<SkillEntry>>,
    pub(crate) shadowed: Vec<Shadowed>,
    pub(crate) untrusted: Vec<Arc<SkillEntry>>,
    /// About skills in relation to each other; what a scan met is in the scan.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// How many there are, those of the scans included.
    pub(crate) diagnostic_count: usize,
}

/// What changed between two catalogs, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct CatalogDiff {
    /// Names that are new.
    pub added: Vec<String>,
    /// Names whose skill is another one, or whose document was written since.
    pub changed: Vec<String>,
    /// Names that are gone.
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

    /// The catalog of `roots` now. Documents in the version that this catalog knows are not read
    /// again, and when nothing changed it is this very snapshot.
    ///
    /// A root in a backend or of a server keeps the scan that this catalog has of it: only its host can look
    /// again, with `scan_backend` or [`scan_published`](crate::published::scan_published), and [`Catalog::assembled`].
    ///
    /// Entries that are trusted by their name stay trusted, whatever they hold now. A host that trusts contents looks at
    /// them first, and calls [`Catalog::refreshed_trusting`].
    pub fn refreshed(&self, roots: &[Root], options: &ScanOptions) -> Self {
        self.refreshed_trusting(roots, options, self.0.trusted.clone())
    }

    /// [`Catalog::refreshed`], where of untrusted roots these entries are trusted and no others.
    pub fn refreshed_trusting(&self, roots: &[Root], options: &ScanOptions, trusted: TrustedEntries) -> Self {
        // A root given twice counts once, where it has the most precedence.
        let once = |at: usize, root: &Root| {
            !roots[at + 1..].iter().any(|later| (&later.path, later.place) == (&root.path, root.place))
        };
        let scans = roots.iter().enumerate().filter(|(at, root)| once(*at, root)).filter_map(|(_, root)| {
            let previous = self.shared_scan_of(root);
            match root.place {
                Storage::Backend | Storage::Server => previous.cloned(),
                Storage::Local => {
                    let root = previous.map_or_else(|| Arc::new(root.clone()), |scan| Arc::clone(&scan.root));
                    Some(Arc::new(scan_local(&root, options, previous.map(Arc::as_ref))))
                }
            }
        });
        self.assembled_trusting(scans.collect(), trusted)
    }

    /// The scan of `root` that this catalog was made of.
    pub fn scan_of(&self, root: &Root) -> Option<&RootScan> {
        self.shared_scan_of(root).map(Arc::as_ref)
    }

    pub(crate) fn shared_scan_of(&self, root: &Root) -> Option<&Arc<RootScan>> {
        self.0.scans.iter().find(|scan| *scan.root == *root)
    }

    /// The catalog of `scans`, given from least to most precedence, whatever they scanned. Entries that are trusted by
    /// their name stay trusted.
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

    /// The catalog with this scan in place of the one that it has of the same root, or below all others.
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

    /// The skills that count, by name.
    pub fn entries(&self) -> &[Arc<SkillEntry>] {
        &self.0.entries
    }

    /// The skill called `name`.
    pub fn get(&self, name: &str) -> Option<&Arc<SkillEntry>> {
        let at = self.0.entries.binary_search_by(|entry| entry.skill.name.as_str().cmp(name)).ok()?;
        self.0.entries.get(at)
    }

    /// The skills that others take precedence over.
    pub fn shadowed(&self) -> &[Shadowed] {
        &self.0.shadowed
    }

    /// The skills that are not trusted. They shadow nothing.
    pub fn untrusted(&self) -> &[Arc<SkillEntry>] {
        &self.0.untrusted
    }

    /// Everything that was found wrong or was passed over.
    pub fn diagnostics(&self) -> impl Iterator<Item = &Diagnostic> {
        self.0.scans.iter().flat_map(|scan| scan.all_diagnostics()).chain(&self.0.diagnostics)
    }

    /// The roots, from least to most precedence, that exist.
    pub fn roots(&self) -> impl Iterator<Item = &Arc<Root>> {
        self.0.scans.iter().filter(|scan| scan.exists).map(|scan| &scan.root)
    }

    /// Whether both are the same snapshot.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// What changed from this catalog to `newer`.
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
