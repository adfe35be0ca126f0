//! Finds Agent Skills, understands and checks every SKILL.md, and renders what a model sees.
//!
//! ```
//! use prowess_catalog::{Catalog, OverviewOptions, Root, ScanOptions};
//!
//! # let scratch = tempfile::tempdir().unwrap();
//! # let root = scratch.path();
//! std::fs::create_dir_all(root.join("greet")).unwrap();
//! std::fs::write(
//!     root.join("greet/SKILL.md"),
//!     "---\nname: greet\ndescription: Says hello. Use at the door.\n---\nWave.\n",
//! )
//! .unwrap();
//!
//! let catalog = Catalog::discover(&[Root::explicit(root)], &ScanOptions::default());
//! let overview = catalog.view_all().overview(&OverviewOptions::default());
//! assert_eq!(
//!     overview.text,
//!     "- **greet**: Says hello. Use at the door.\n  -> Use `load_skill(\"greet\")` to read full instructions"
//! );
//!
//! let text = catalog.get("greet").unwrap().read_text().unwrap();
//! assert_eq!(text.body(), "Wave.");
//! ```
//!
//! Nothing here fails because of one bad file: what cannot be read is a [`Diagnostic`], and the rest
//! is there. [`Skill::parse`] does no I/O, nor do [`scan_given`] and the functions that end in `_from`, such as
//! [`SkillEntry::text_from`]: they take what a caller has read. Reading from the disk goes through directory descriptors,
//! so that links and races cannot lead out of a root. There is no network, no permission and no
//! async here; discovery from a `prowess_backend::Backend` is the feature `backend`.

mod advice;
#[cfg(feature = "backend")]
mod backend;
mod catalog;
mod check;
mod contents;
mod diagnostic;
mod digest;
mod document;
mod fields;
mod frame;
mod frontmatter;
#[cfg(feature = "gitignore")]
mod gitignore;
mod given;
mod json_cost;
mod listing;
mod live;
mod local;
mod name;
mod overview;
#[cfg(feature = "package")]
mod package;
mod plain;
mod progress;
mod published;
mod repair;
mod resource;
mod root;
mod scan;
mod search;
mod section;
mod skill;
mod text;
mod tokens;
mod tools;
mod trusted;
mod typed_value;
mod untrusted;
mod view;
mod walk;
#[cfg(feature = "watch")]
mod watch;
mod yaml;

#[cfg(feature = "backend")]
pub use backend::scan_backend;
pub use catalog::{Catalog, CatalogDiff, Shadowed, SkillEntry};
pub use check::{CheckReport, Profile, check, check_directory};
pub use contents::{ContentFile, ContentLimits, Contents, ContentsError, FileError};
pub use diagnostic::{Code, CodeClass, Diagnostic, Fix, MAX_FINDINGS, Severity, Span};
pub use digest::{Digest, DigestError, Digester};
pub use document::{
    DOCUMENT_DEPTH, Document, DocumentError, DocumentText, Documents, MAX_DOCUMENT_BYTES, MAX_DOCUMENTS,
    PathRefusal,
};
pub use fields::{EXTENSION_FIELDS, MAX_COMPATIBILITY_CHARS, MAX_DESCRIPTION_CHARS, SPEC_FIELDS};
pub use frame::{Frame, Framed};
pub use frontmatter::MAX_FRONTMATTER;
pub use given::scan_given;
pub use json_cost::{JsonCost, JsonRoom, JsonTooLarge};
pub use live::{LiveCatalog, RefreshPolicy};
pub use name::{MAX_NAME_CHARS, NameError, SkillName};
pub use overview::{Activation, ManualSkills, OverviewOptions, Rendered};
#[cfg(feature = "package")]
pub use package::{PackageError, Packaged, package};
pub use published::{Offer, Published, PublishedFile, scan_published};
pub use resource::{MAX_RESOURCES, Resource, ResourceCounts, ResourceKind, Resources};
pub use root::{Environment, Root, RootDirectory, RootKind, RootLayout, Storage, Trust};
pub use scan::{Links, RootScan, ScanOptions};
pub use search::SearchHit;
pub use section::{SectionTemplate, TemplateError};
pub use skill::{Extensions, Location, MANIFEST, MAX_MANIFEST, MissingName, Parsed, Skill, SkillContext};
pub use text::{ReadError, SkillIdentity, SkillText};
pub use tokens::estimate_tokens;
pub use trusted::TrustedEntries;
pub use typed_value::TypedValue;
pub use untrusted::{code_text, exact_line, is_unprintable, one_line};
pub use view::CatalogView;
pub use walk::scan_local;
#[cfg(feature = "watch")]
pub use watch::{WatchError, Watcher};
pub use yaml::Value;
