//! The options of a scan, and its result.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::diagnostic::{Code, Diagnostic};
use crate::given::GivenStamp;
use crate::headings::headings;
use crate::listing::Listing;
use crate::local::FileStamp;
use crate::published::Published;
use crate::root::Root;
use crate::skill::{MissingName, Parsed, Skill};

/// Whether a scan follows symbolic links to directories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Links {
    /// It follows no links.
    Never,
    /// It follows links that stay in their root.
    #[default]
    WithinRoot,
    /// It follows all links. A SKILL.md must still be in its skill's directory.
    Anywhere,
}

/// How to search for skills. A limit that takes effect is a diagnostic.
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
    /// How deep below a root a skill's directory may be. A direct child has depth 1.
    pub max_depth: usize,
    /// How many directories of one root are scanned.
    pub max_directories: usize,
    /// How many skills of one root are used.
    pub max_skills: usize,
    /// How long the scan of one root may take.
    pub time_budget: Duration,
    /// Which links to follow.
    pub links: Links,
    /// Whether to scan directories whose name begins with a dot.
    pub hidden: bool,
    /// Whether to search for skills inside another skill's directory.
    pub nested: bool,
    /// Whether `.gitignore` files have effect.
    #[cfg(feature = "gitignore")]
    pub gitignore: bool,
    /// The names of directories that are never scanned.
    pub ignored: Vec<String>,
    /// What to do with manifests that have no name.
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

    /// Why a directory with this name is skipped, if it is.
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

/// Tells versions of a manifest apart without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stamp {
    File(FileStamp),
    /// A backend's own version, or the digest of everything that a server publishes about the skill.
    Version(String),
    /// A hash of the bytes that a caller supplied.
    Given(GivenStamp),
}

/// A SKILL.md that was read: the skill, or why it cannot be loaded.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) skill: Option<Arc<Skill>>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// The headings of the instructions that were read with the frontmatter, one per line.
    pub(crate) headings: Box<str>,
    /// The files that a server lists for the skill.
    pub(crate) published: Option<Arc<Published>>,
    /// The frontmatter that a server lists for the skill, as JSON.
    pub(crate) frontmatter: String,
    /// Whether the user accepted the permissive fields of a published skill.
    pub(crate) is_granted: bool,
}

impl Manifest {
    /// The manifest from its parsed text. `source` is what was read of it.
    pub(crate) fn of(parsed: Parsed, source: &[u8]) -> Self {
        let headings = if parsed.skill.is_some() { headings(source, &parsed.body) } else { Box::default() };
        Self {
            skill: parsed.skill.map(Arc::new),
            diagnostics: parsed.diagnostics,
            headings,
            ..Self::default()
        }
    }

    /// A manifest that cannot be loaded, and why.
    pub(crate) fn refused(diagnostic: Diagnostic) -> Self {
        Self { diagnostics: vec![diagnostic], ..Self::default() }
    }
}

/// A directory with a SKILL.md.
#[derive(Clone, Debug)]
pub(crate) struct FoundManifest {
    /// The path of the directory below the root. Empty for the root itself.
    pub(crate) directory: Arc<str>,
    /// The beginning of that path up to a followed link. Empty without a link.
    pub(crate) link: Arc<str>,
    /// The version of the manifest. `None` if it is unknown.
    pub(crate) stamp: Option<Stamp>,
    /// Whether a later version certainly has another stamp.
    pub(crate) settled: bool,
    pub(crate) manifest: Arc<Manifest>,
}

impl FoundManifest {
    /// The device and inode of the manifest, on a local disk.
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
    /// The manifest at its target, by device and inode, if that is in the root's project.
    pub(crate) manifest: Option<(u64, u64)>,
}

/// The result of scanning one root.
#[derive(Debug)]
pub struct RootScan {
    pub(crate) root: Arc<Root>,
    pub(crate) exists: bool,
    /// In the order of their paths. Those behind links come last.
    pub(crate) found: Vec<FoundManifest>,
    /// The diagnostics of the scan itself. Each manifest has its own.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Links that lead out of the root. The catalog knows whether another root of the project has their target.
    pub(crate) outside_links: Vec<OutsideLink>,
    /// The listed directories, for the next scan.
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

    /// The scanned root.
    pub fn root(&self) -> &Arc<Root> {
        &self.root
    }

    /// The diagnostics of the scan and of all manifests.
    pub(crate) fn all_diagnostics(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().chain(self.found.iter().flat_map(|found| &found.manifest.diagnostics))
    }

    /// Whether `other` has the same manifests in the same versions, and the same diagnostics.
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

/// Joins two paths. The root is the empty path.
pub(crate) fn join(parent: &str, child: &str) -> String {
    if parent.is_empty() { child.to_owned() } else { format!("{parent}/{child}") }
}
