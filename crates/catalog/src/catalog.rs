//! The catalog: every skill that was found, which of them counts, and what was met on the way.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::diagnostic::{Code, Diagnostic};
use crate::published::Published;
use crate::root::{Root, Storage, Trust};
use crate::scan::{Found, Links, Manifest, RootScan, ScanOptions, Stamp};
use crate::skill::Skill;
use crate::trusted::TrustedEntries;
use crate::walk::{led_elsewhere, link_duplicate, scan_local};

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
pub struct Catalog(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    scans: Vec<Arc<RootScan>>,
    /// What is trusted in roots that are not.
    trusted: TrustedEntries,
    /// Sorted by name.
    entries: Vec<Arc<SkillEntry>>,
    shadowed: Vec<Shadowed>,
    untrusted: Vec<Arc<SkillEntry>>,
    /// About skills in relation to each other; what a scan met is in the scan.
    diagnostics: Vec<Diagnostic>,
    /// How many there are, those of the scans included.
    diagnostic_count: usize,
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
        let inner = self.assemble(scans, trusted);
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

    fn assemble(&self, scans: Vec<Arc<RootScan>>, trusted: TrustedEntries) -> Inner {
        // An entry is kept from the last snapshot when nothing about it changed, so that comparing
        // two snapshots is comparing pointers.
        let mut known: HashMap<(*const Root, &str), &Arc<SkillEntry>> = HashMap::new();
        let old = self
            .0
            .entries
            .iter()
            .chain(&self.0.untrusted)
            .chain(self.0.shadowed.iter().map(|shadowed| &shadowed.entry));
        known.extend(old.map(|entry| ((Arc::as_ptr(&entry.root), &*entry.directory), entry)));

        // Names that begin with a server's label are that server's, and nobody else's.
        let labels: Vec<String> = scans
            .iter()
            .filter(|scan| scan.root.place == Storage::Server)
            .map(|scan| scan.root.path.to_string_lossy().into_owned())
            .collect();
        let mut inner = Inner { trusted, ..Inner::default() };
        let own_places = own_places(&scans);
        let mut candidates = Vec::new();
        for (order, scan) in scans.iter().enumerate() {
            inner.diagnostics.extend(scan.elsewhere.iter().map(|elsewhere| {
                let is_known = elsewhere.manifest.is_some_and(|manifest| own_places.contains(&manifest));
                let describe = if is_known { link_duplicate } else { led_elsewhere };
                describe(&scan.root, &elsewhere.link)
            }));
            for found in &scan.found {
                let is_led_to = !found.link.is_empty() && scan.root.kind.belongs_to_project();
                if is_led_to && found.inode().is_some_and(|inode| own_places.contains(&inode)) {
                    inner.diagnostics.push(link_duplicate(&scan.root, &found.directory));
                    continue;
                }
                let trust = inner.trusted.trust(&scan.root, &found.directory);
                let known = known.get(&(Arc::as_ptr(&scan.root), &*found.directory)).copied();
                let Some(entry) = entry_of(found, scan, trust, known) else { continue };
                if entry.published().is_none()
                    && let Some(label) =
                        labels.iter().find(|label| entry.skill.name.as_str().starts_with(*label))
                {
                    inner.diagnostics.push(reserved(&entry, label));
                    continue;
                }
                match trust {
                    Trust::Untrusted => inner.untrusted.push(entry),
                    Trust::Trusted => candidates.push(Candidate::new(entry, order)),
                }
            }
        }
        // Among skills of one name the later root comes first, inside a root those in a directory of
        // that name, and then the first in path order, in which a stable sort leaves them.
        candidates.sort_by(|a, b| {
            a.key().cmp(b.key()).then(b.root_order.cmp(&a.root_order)).then(a.misnamed.cmp(&b.misnamed))
        });
        let mut winner: Option<Candidate> = None;
        for candidate in candidates {
            match &winner {
                Some(winner) if winner.key() == candidate.key() => {
                    inner.shadowed.push(Shadowed { entry: candidate.entry, by: Arc::clone(&winner.entry) });
                }
                _ => {
                    inner.entries.push(Arc::clone(&candidate.entry));
                    winner = Some(candidate);
                }
            }
        }
        inner.entries.sort_by(|a, b| a.skill.name.cmp(&b.skill.name));
        inner.scans = scans;
        inner.report();
        let of_scans: usize = inner.scans.iter().map(|scan| scan.all_diagnostics().count()).sum();
        inner.diagnostic_count = inner.diagnostics.len() + of_scans;
        inner
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

impl Inner {
    fn report(&mut self) {
        for Shadowed { entry, by } in &self.shadowed {
            let message = format!("`{}` is shadowed by {}", entry.skill.name, by.skill.location);
            let diagnostic = Diagnostic::new(Code::Shadowed, entry.skill.location.shared(), message);
            self.diagnostics.push(diagnostic.hint("rename one of them, or remove the one you do not want"));
        }
        for entry in &self.untrusted {
            let message = format!("`{}` is not trusted; models do not see it", entry.skill.name);
            self.diagnostics.push(Diagnostic::new(Code::Untrusted, entry.skill.location.shared(), message));
        }
    }
}

/// What is wrong with a skill that calls itself as if it were a server's.
fn reserved(entry: &SkillEntry, label: &str) -> Diagnostic {
    let message = format!(
        "`{}` is left out: names that begin with `{label}` are those of an MCP server",
        entry.skill.name
    );
    let diagnostic = Diagnostic::new(Code::Shadowed, entry.skill.location.shared(), message);
    diagnostic.hint("rename it, or give the server another label")
}

/// A skill that may be shadowed by another one of its name.
struct Candidate {
    entry: Arc<SkillEntry>,
    folded: Option<Box<str>>,
    root_order: usize,
    misnamed: bool,
}

impl Candidate {
    fn new(entry: Arc<SkillEntry>, root_order: usize) -> Self {
        let misnamed = entry.diagnostics().iter().any(|found| found.code == Code::NameDirMismatch);
        Self { folded: entry.skill.name.collision_key(), entry, root_order, misnamed }
    }

    /// What the names that collide share.
    fn key(&self) -> &str {
        self.folded.as_deref().unwrap_or(self.entry.skill.name.as_str())
    }
}

/// The manifests that were found in a project's directories without a link, by device and inode. A link from one of them
/// into another leads to a skill that is there already.
fn own_places(scans: &[Arc<RootScan>]) -> HashSet<(u64, u64)> {
    let of_project = || scans.iter().filter(|scan| scan.root.kind.belongs_to_project());
    let has_link = |scan: &Arc<RootScan>| {
        !scan.elsewhere.is_empty() || scan.found.iter().any(|found| !found.link.is_empty())
    };
    if !of_project().any(has_link) {
        return HashSet::new();
    }
    let found = of_project().flat_map(|scan| &scan.found).filter(|found| found.link.is_empty());
    found.filter_map(Found::inode).collect()
}

fn entry_of(
    found: &Found,
    scan: &RootScan,
    trust: Trust,
    known: Option<&Arc<SkillEntry>>,
) -> Option<Arc<SkillEntry>> {
    let skill = found.manifest.skill.as_ref()?;
    if let Some(known) = known
        && known.trust == trust
        && known.stamp == found.stamp
        && known.link == found.link
        && known.links == scan.options.links
        && Arc::ptr_eq(&known.manifest, &found.manifest)
    {
        return Some(Arc::clone(known));
    }
    Some(Arc::new(SkillEntry {
        skill: Arc::clone(skill),
        root: Arc::clone(&scan.root),
        trust,
        manifest: Arc::clone(&found.manifest),
        directory: Arc::clone(&found.directory),
        link: Arc::clone(&found.link),
        stamp: found.stamp.clone(),
        links: scan.options.links,
    }))
}
