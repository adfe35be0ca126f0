//! Skills that an MCP server publishes, known by the server's entries before any file is fetched.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::diagnostic::{Code, Diagnostic};
use crate::digest::Digest;
use crate::fields::{MAX_COMPATIBILITY_CHARS, MAX_DESCRIPTION_CHARS};
use crate::name::SkillName;
use crate::root::Root;
use crate::scan::{FoundManifest, Manifest, RootScan, ScanOptions, Stamp};
use crate::skill::{Extensions, Location, MANIFEST, Skill};

/// The most characters of the licence and the argument hint of a server's skill. Longer ones are dropped.
const MAX_LICENSE_CHARS: usize = 200;
const MAX_HINT_CHARS: usize = 100;

/// The files of a skill, as its server lists them. The entry keeps this list, and every fetched file must match it.
///
/// ```
/// use prowess_catalog::published::{Published, PublishedFile};
/// use prowess_catalog::Digest;
///
/// let file = |text: &str| PublishedFile {
///     path: "SKILL.md".into(),
///     uri: "skill://pdf/SKILL.md".into(),
///     digest: Digest::of(text.as_bytes()),
///     size: text.len() as u64,
/// };
/// let skill = |text| Published {
///     server: "docs".into(),
///     uri: "skill://pdf/SKILL.md".into(),
///     files: vec![file(text)],
/// };
/// assert_eq!(skill("Read.").name(), "docs:pdf");
/// assert_ne!(skill("Read.").digest(), skill("Write.").digest(), "what an approval is bound to");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The configured label of the server, never the server's own name.
    pub server: String,
    /// The address of its SKILL.md. Together with the label, this identifies the skill.
    pub uri: String,
    /// All its files.
    pub files: Vec<PublishedFile>,
}

/// A file that a server publishes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PublishedFile {
    /// Its path in the skill.
    pub path: String,
    /// Its address.
    pub uri: String,
    /// The digest that it must have.
    pub digest: Digest,
    /// The size that it must have, in bytes.
    pub size: u64,
}

/// A skill that a server offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Its whole frontmatter as one line of JSON.
    pub frontmatter: String,
    /// Its files.
    pub published: Published,
    /// Whether the user accepted its permissive fields: `allowed-tools`, `model`, `effort` and `shell`. Otherwise these
    /// fields are ignored. `hooks`, `context` and `agent` are always ignored.
    pub is_granted: bool,
}

impl Published {
    /// The unique name of the skill for people and models: the server's label and the skill's path.
    pub fn name(&self) -> String {
        Self::name_of(&self.server, &self.uri)
    }

    /// The name of the skill at an address of a server. The address is that of its SKILL.md or of its directory.
    ///
    /// ```
    /// use prowess_catalog::published::Published;
    ///
    /// assert_eq!(Published::name_of("docs", "skill://team/pdf/SKILL.md"), "docs:team/pdf");
    /// assert_eq!(Published::name_of("docs", "repo://a/pdf"), "docs:repo://a/pdf");
    /// ```
    pub fn name_of(server: &str, uri: &str) -> String {
        let path = uri.strip_prefix("skill://").unwrap_or(uri);
        let path = path.strip_suffix(MANIFEST).unwrap_or(path).trim_end_matches('/');
        format!("{server}:{path}")
    }

    /// The digest of the identity and of all files. It changes if any of them changes.
    pub fn digest(&self) -> Digest {
        let files: BTreeSet<&PublishedFile> = self.files.iter().collect();
        let mut all = format!("{}\n{}\n", self.server, self.uri);
        for file in files {
            all.push_str(&format!("{} {} {}\n", file.digest, file.size, file.uri));
        }
        Digest::of(all.as_bytes())
    }

    /// The file at a path in the skill, if it is listed.
    pub fn file(&self, path: &str) -> Option<&PublishedFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.size))
    }

    fn location(&self) -> Location {
        Location::new(format!("{}:{}", self.server, self.uri))
    }
}

/// Turns a server's offers into a scan for [`Catalog::assembled`](crate::Catalog::assembled). Fetches nothing. Offers that did
/// not change since `previous` keep their entries.
///
/// ```
/// use std::sync::Arc;
/// use prowess_catalog::published::{Offer, Published, scan_published};
/// use prowess_catalog::{Catalog, Root};
///
/// let published = Published { server: "docs".into(), uri: "skill://pdf/SKILL.md".into(), files: Vec::new() };
/// let frontmatter = r#"{"name":"pdf","description":"Reads PDFs.","allowed-tools":"Bash"}"#.into();
/// let offer = Offer { frontmatter, published, is_granted: false };
/// let scan = scan_published(&Arc::new(Root::server("docs")), vec![offer], None);
/// let catalog = Catalog::empty().assembled([scan]);
/// let skill = &catalog.get("docs:pdf").unwrap().skill;
/// assert_eq!(skill.description, "Reads PDFs.");
/// assert!(skill.allowed_tools.is_empty(), "the user did not accept them");
/// ```
pub fn scan_published(root: &Arc<Root>, offers: Vec<Offer>, previous: Option<&RootScan>) -> RootScan {
    // Share the root with the previous scan, because entries are compared by its pointer.
    let root = previous.map(|scan| &scan.root).filter(|known| *known == root).unwrap_or(root);
    let mut scan = RootScan::new(root, &ScanOptions::default());
    let known: HashMap<&str, &FoundManifest> = previous
        .map(|scan| scan.found.iter().map(|found| (&*found.directory, found)).collect())
        .unwrap_or_default();
    for offer in offers {
        let version = format!("{} {} {}", offer.published.digest(), offer.is_granted, offer.frontmatter);
        let stamp = Some(Stamp::Version(Digest::of(version.as_bytes()).to_string()));
        let found = match known.get(offer.published.uri.as_str()) {
            Some(found) if found.stamp == stamp => (*found).clone(),
            _ => FoundManifest {
                directory: offer.published.uri.as_str().into(),
                link: "".into(),
                stamp,
                settled: true,
                manifest: Arc::new(manifest(offer)),
            },
        };
        scan.found.push(found);
    }
    scan
}

fn manifest(offer: Offer) -> Manifest {
    let Offer { frontmatter, published, is_granted } = offer;
    let location = published.location();
    let refused =
        |message: String| Manifest::refused(Diagnostic::new(Code::Unreadable, location.shared(), message));
    // An address must have one spelling, so that the name made from it has one too.
    if !published.uri.bytes().all(|byte| byte.is_ascii_graphic()) {
        return refused("its address has characters other than printable ASCII".to_owned());
    }
    let name = match SkillName::parse(&published.name()) {
        Ok(name) => name,
        Err(error) => return refused(format!("its address gives no valid name: {error}")),
    };
    if frontmatter.contains(['\n', '\r']) {
        return refused("its frontmatter is not one line of JSON".to_owned());
    }
    // JSON is YAML.
    let parsed = Skill::parse(format!("---\n{frontmatter}\n---\n").as_bytes(), &location);
    // All of this is in every prompt, before a person is asked.
    let is_over = |text: &str, most: usize| text.chars().count() > most;
    if parsed.skill.as_ref().is_some_and(|skill| {
        is_over(&skill.description, MAX_DESCRIPTION_CHARS)
            || skill.compatibility.as_deref().is_some_and(|text| is_over(text, MAX_COMPATIBILITY_CHARS))
    }) {
        return refused(
            "its description or compatibility is longer than the specification allows".to_owned(),
        );
    }
    let skill = parsed.skill.map(|skill| Arc::new(skill.into_published(name, is_granted)));
    let published = Some(Arc::new(published));
    let headings = Box::default();
    Manifest { skill, diagnostics: parsed.diagnostics, headings, published, frontmatter, is_granted }
}

impl Skill {
    /// The skill under its name in the catalog, without permissive fields. Fields that the user accepted stay.
    pub(crate) fn into_published(mut self, name: SkillName, is_granted: bool) -> Self {
        self.name = name;
        self.license = self.license.filter(|license| license.chars().count() <= MAX_LICENSE_CHARS);
        let given = &*self.extensions;
        let mut kept = Extensions {
            disable_model_invocation: given.disable_model_invocation,
            user_invocable: given.user_invocable,
            argument_hint: given.argument_hint.clone().filter(|hint| hint.chars().count() <= MAX_HINT_CHARS),
            arguments: given.arguments.clone(),
            paths: given.paths.clone(),
            ..Extensions::default()
        };
        if is_granted {
            kept.model.clone_from(&given.model);
            kept.effort.clone_from(&given.effort);
            kept.shell.clone_from(&given.shell);
        } else {
            self.allowed_tools.clear();
        }
        self.extensions = Arc::new(kept);
        self
    }
}
