//! Assembles scans into a catalog, and decides which skill wins when several have the same name.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::catalog::{CatalogInner, Shadowed, SkillEntry};
use crate::diagnostic::{Code, Diagnostic};
use crate::root::{Root, Storage, Trust};
use crate::scan::{FoundManifest, RootScan};
use crate::symlinks::{link_duplicate, link_outside_root};
use crate::trusted::TrustedEntries;

/// The entries of the last snapshot, by root and directory.
type KnownEntries<'a> = HashMap<(*const Root, &'a str), &'a Arc<SkillEntry>>;

impl CatalogInner {
    /// Assembles `scans`, given from least to most precedence. Entries that did not change are shared with `previous`, so
    /// that comparing two snapshots is comparing pointers.
    pub(crate) fn assemble(previous: &Self, scans: Vec<Arc<RootScan>>, trusted: TrustedEntries) -> Self {
        let known = previous.known_entries();
        let labels = server_labels(&scans);
        let [of_others, of_project] = [false, true].map(|of_project| own_manifests(&scans, of_project));
        let mut inner = Self { trusted, index_cache: previous.index_cache.clone(), ..Self::default() };
        let mut candidates = Vec::new();
        for (order, scan) in scans.iter().enumerate() {
            let is_of_project = scan.root.kind.belongs_to_project();
            inner.report_outside_links(scan, if is_of_project { &of_project } else { &of_others });
            for found in &scan.found {
                let is_linked = !found.link.is_empty() && is_of_project;
                if is_linked && found.inode().is_some_and(|inode| of_project.contains(&inode)) {
                    inner.diagnostics.push(link_duplicate(&scan.root, &found.directory));
                    continue;
                }
                let trust = inner.trusted.trust(&scan.root, &found.directory);
                let known = known.get(&(Arc::as_ptr(&scan.root), &*found.directory)).copied();
                let Some(entry) = entry_of(found, scan, trust, known) else { continue };
                let is_reserved = |label: &&String| entry.skill.name.as_str().starts_with(*label);
                let label = labels.iter().find(is_reserved).filter(|_| entry.published().is_none());
                match (label, trust) {
                    (Some(label), _) => inner.diagnostics.push(reserved(&entry, label)),
                    (None, Trust::Untrusted) => inner.untrusted.push(entry),
                    (None, Trust::Trusted) => candidates.push(Candidate::new(entry, order)),
                }
            }
        }
        inner.choose(candidates);
        inner.scans = scans;
        inner.report();
        let of_scans: usize = inner.scans.iter().map(|scan| scan.all_diagnostics().count()).sum();
        inner.diagnostic_count = inner.diagnostics.len() + of_scans;
        inner
    }

    fn known_entries(&self) -> KnownEntries<'_> {
        let shadowed = self.shadowed.iter().map(|shadowed| &shadowed.entry);
        let entries = self.entries.iter().chain(&self.untrusted).chain(shadowed);
        entries.map(|entry| ((Arc::as_ptr(&entry.root), &*entry.directory), entry)).collect()
    }

    /// Reports the links that lead out of their root. Only here is it known whether another root has their target.
    fn report_outside_links(&mut self, scan: &RootScan, own_manifests: &HashSet<(u64, u64)>) {
        self.diagnostics.extend(scan.outside_links.iter().map(|outside| {
            let is_known = outside.manifest.is_some_and(|manifest| own_manifests.contains(&manifest));
            let describe = if is_known { link_duplicate } else { link_outside_root };
            describe(&scan.root, &outside.link)
        }));
    }

    /// Decides which skill wins each name. A later root beats an earlier one. Inside a root, a skill in a directory of its own
    /// name wins, then the first in path order, which a stable sort keeps.
    fn choose(&mut self, mut candidates: Vec<Candidate>) {
        candidates.sort_by(|a, b| {
            a.key().cmp(b.key()).then(b.root_order.cmp(&a.root_order)).then(a.misnamed.cmp(&b.misnamed))
        });
        let mut winner: Option<Candidate> = None;
        for candidate in candidates {
            match &winner {
                Some(winner) if winner.key() == candidate.key() => {
                    self.shadowed.push(Shadowed { entry: candidate.entry, by: Arc::clone(&winner.entry) });
                }
                _ => {
                    self.entries.push(Arc::clone(&candidate.entry));
                    winner = Some(candidate);
                }
            }
        }
        self.entries.sort_by(|a, b| a.skill.name.cmp(&b.skill.name));
    }

    /// Reports the skills that are shadowed or untrusted.
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

/// The labels of all servers, with their colon. A name that begins with one is reserved for that server.
fn server_labels(scans: &[Arc<RootScan>]) -> Vec<String> {
    let servers = scans.iter().filter(|scan| scan.root.storage == Storage::Server);
    servers.map(|scan| scan.root.path.to_string_lossy().into_owned()).collect()
}

/// The diagnostic of a skill whose name is reserved for a server.
fn reserved(entry: &SkillEntry, label: &str) -> Diagnostic {
    let message = format!(
        "`{}` is left out: names that begin with `{label}` belong to an MCP server",
        entry.skill.name
    );
    let diagnostic = Diagnostic::new(Code::Shadowed, entry.skill.location.shared(), message);
    diagnostic.hint("rename it, or give the server another label")
}

/// A skill that another one of the same name may shadow.
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

    /// The key that names share if they collide.
    fn key(&self) -> &str {
        self.folded.as_deref().unwrap_or(self.entry.skill.name.as_str())
    }
}

/// The manifests that the roots of a project, or all other roots, have without a link, by device and inode. A link from one of
/// these roots to another leads to a skill that is found already.
fn own_manifests(scans: &[Arc<RootScan>], of_project: bool) -> HashSet<(u64, u64)> {
    let own = || scans.iter().filter(|scan| scan.root.kind.belongs_to_project() == of_project);
    let has_link = |scan: &Arc<RootScan>| {
        !scan.outside_links.is_empty() || scan.found.iter().any(|found| !found.link.is_empty())
    };
    if !own().any(has_link) {
        return HashSet::new();
    }
    let found = own().flat_map(|scan| &scan.found).filter(|found| found.link.is_empty());
    found.filter_map(FoundManifest::inode).collect()
}

fn entry_of(
    found: &FoundManifest,
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
