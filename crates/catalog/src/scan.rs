//! The rules of a scan, whatever it scans, and what it brings back.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::diagnostic::{Code, Diagnostic};
use crate::given::GivenStamp;
use crate::listing::Listing;
use crate::local::FileStamp;
use crate::published::Published;
use crate::root::Root;
use crate::skill::{MissingName, Parsed, Skill};

/// What to do with symbolic links to directories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// They are not followed.
    Never,
    /// They are followed as long as they stay in their root.
    #[default]
    WithinRoot,
    /// They are followed wherever they lead. A SKILL.md must still lie in its skill's directory.
    Anywhere,
}

/// How to look for skills. A cap that bites is a diagnostic.
///
/// ```
/// use prowess_catalog::{Catalog, Code, Root, ScanOptions};
///
/// # let scratch = tempfile::tempdir()?;
/// # let root = scratch.path();
/// for name in ["a", "b"] {
///     std::fs::create_dir(root.join(name))?;
///     std::fs::write(root.join(name).join("SKILL.md"), format!("---\nname: {name}\ndescription: d\n---\n"))?;
/// }
/// let mut options = ScanOptions::default();
/// options.max_skills = 1;
/// let catalog = Catalog::discover(&[Root::explicit(root)], &options);
/// assert_eq!(catalog.entries().len(), 1);
/// assert!(catalog.diagnostics().any(|found| found.code == Code::SkillCap));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanOptions {
    /// How deep below a root a skill's directory may lie; a direct child lies at depth 1.
    pub max_depth: usize,
    /// The most directories that are looked at in one root.
    pub max_directories: usize,
    /// The most skills that are taken from one root.
    pub max_skills: usize,
    /// The most time that is spent in one root.
    pub time_budget: Duration,
    /// What to do with links.
    pub links: Links,
    /// Whether directories whose name begins with a dot are scanned.
    pub hidden: bool,
    /// Whether skills inside another skill's directory are looked for.
    pub nested: bool,
    /// Whether `.gitignore` files are honoured.
    #[cfg(feature = "gitignore")]
    pub gitignore: bool,
    /// Directories that are never scanned, by name.
    pub ignored: Vec<String>,
    /// What to do with documents that have no name.
    pub missing_name: MissingName,
    /// How many threads may scan one root.
    pub threads: usize,
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self {
            max_depth: 6,
            max_directories: 50_000,
            max_skills: 20_000,
            time_budget: Duration::from_secs(30),
            links: Links::default(),
            hidden: false,
            nested: false,
            #[cfg(feature = "gitignore")]
            gitignore: false,
            ignored: [".git", "node_modules", "__pycache__", ".venv", "venv", "target"]
                .map(String::from)
                .to_vec(),
            missing_name: MissingName::default(),
            threads: std::thread::available_parallelism().map_or(1, usize::from).min(2),
        }
    }
}

impl ScanOptions {
    /// Whether `.gitignore` files decide what is listed.
    pub(crate) fn reads_gitignore(&self) -> bool {
        #[cfg(feature = "gitignore")]
        return self.gitignore;
        #[cfg(not(feature = "gitignore"))]
        false
    }

    /// Why a directory of this name is not entered, if it is not.
    pub(crate) fn excludes(&self, name: &str) -> Option<Code> {
        if self.ignored.iter().any(|ignored| ignored == name) {
            Some(Code::IgnoredDirectory)
        } else if !self.hidden && name.starts_with('.') {
            Some(Code::HiddenDirectory)
        } else {
            None
        }
    }
}

/// What tells one version of a manifest from another without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stamp {
    File(FileStamp),
    /// A backend's own word for a version, or the digest of all that a server publishes.
    Version(String),
    /// What stands for the bytes that a caller brought.
    Given(GivenStamp),
}

/// A SKILL.md that was read: the skill, or why there is none.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) skill: Option<Arc<Skill>>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// What a server says of the skill's files.
    pub(crate) published: Option<Arc<Published>>,
    /// What a server says that the skill's frontmatter is, as JSON.
    pub(crate) frontmatter: String,
    /// Whether the user granted what a published skill asks for.
    pub(crate) is_granted: bool,
}

impl Manifest {
    /// What a document that was read comes to.
    pub(crate) fn of(parsed: Parsed) -> Self {
        Self { skill: parsed.skill.map(Arc::new), diagnostics: parsed.diagnostics, ..Self::default() }
    }

    /// A manifest that gave no skill, and why.
    pub(crate) fn refused(diagnostic: Diagnostic) -> Self {
        Self { diagnostics: vec![diagnostic], ..Self::default() }
    }
}

/// A directory with a SKILL.md.
#[derive(Clone, Debug)]
pub(crate) struct FoundManifest {
    /// The directory's path below the root; empty for the root itself.
    pub(crate) directory: Arc<str>,
    /// The part of it that is a followed link; empty when there is none.
    pub(crate) link: Arc<str>,
    /// The manifest's version; none when it cannot be told.
    pub(crate) stamp: Option<Stamp>,
    /// Whether a later version is sure to have another stamp.
    pub(crate) settled: bool,
    pub(crate) manifest: Arc<Manifest>,
}

impl FoundManifest {
    /// The manifest's device and inode, on a local disk.
    pub(crate) fn inode(&self) -> Option<(u64, u64)> {
        match &self.stamp {
            Some(Stamp::File(stamp)) => Some((stamp.device, stamp.inode)),
            _ => None,
        }
    }
}

/// A link that leads out of its root.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OutsideLink {
    /// Its path below the root.
    pub(crate) link: Arc<str>,
    /// The manifest that it leads to, by device and inode, if that lies in the root's project.
    pub(crate) manifest: Option<(u64, u64)>,
}

/// What one root holds.
#[derive(Debug)]
pub struct RootScan {
    pub(crate) root: Arc<Root>,
    pub(crate) exists: bool,
    /// In the order of their paths; those reached through links come last.
    pub(crate) found: Vec<FoundManifest>,
    /// What was met on the way, apart from the manifests' own findings.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Links out of the root. Only who knows the project's other roots can tell whether what they lead to is found there.
    pub(crate) outside_links: Vec<OutsideLink>,
    /// The directories that were listed, for the next scan.
    pub(crate) listings: HashMap<Arc<str>, Arc<Listing>>,
    pub(crate) options: ScanOptions,
}

impl RootScan {
    pub(crate) fn new(root: &Arc<Root>, options: &ScanOptions) -> Self {
        Self {
            root: Arc::clone(root),
            exists: true,
            found: Vec::new(),
            diagnostics: Vec::new(),
            outside_links: Vec::new(),
            listings: HashMap::new(),
            options: options.clone(),
        }
    }

    /// The root that was scanned.
    pub fn root(&self) -> &Arc<Root> {
        &self.root
    }

    /// What was met on the way and what the manifests have wrong with them.
    pub(crate) fn all_diagnostics(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().chain(self.found.iter().flat_map(|found| &found.manifest.diagnostics))
    }

    /// Whether `other` found the same manifests in the same versions, and met the same on the way.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let same = |a: &FoundManifest, b: &FoundManifest| {
            Arc::ptr_eq(&a.manifest, &b.manifest)
                && a.settled == b.settled
                && a.link == b.link
                && (Arc::ptr_eq(&a.directory, &b.directory) || a.directory == b.directory)
        };
        self.root == other.root
            && self.exists == other.exists
            && self.found.len() == other.found.len()
            && self.found.iter().zip(&other.found).all(|(a, b)| same(a, b))
            && self.diagnostics == other.diagnostics
            && self.outside_links == other.outside_links
    }
}

/// `parent/child`, where the root is the empty path.
pub(crate) fn join(parent: &str, child: &str) -> String {
    if parent.is_empty() { child.to_owned() } else { format!("{parent}/{child}") }
}
