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
pub mod catalog;
pub mod check;
pub mod contents;
pub mod diagnostic;
pub mod digest;
pub mod document;
pub mod fields;
pub mod frame;
pub mod frontmatter;
#[cfg(feature = "gitignore")]
mod gitignore;
mod given;
pub mod json_cost;
mod listing;
mod live;
mod local;
pub mod name;
pub mod overview;
#[cfg(feature = "package")]
pub mod package;
mod plain;
mod progress;
pub mod published;
mod repair;
pub mod resource;
mod root;
pub mod scan;
mod search;
pub mod section;
pub mod skill;
pub mod text;
mod tools;
pub mod trusted;
pub mod typed_value;
pub mod untrusted;
mod view;
mod walk;
#[cfg(feature = "watch")]
pub mod watch;
pub mod yaml;

#[cfg(feature = "backend")]
pub use backend::scan_backend;
pub use catalog::{Catalog, CatalogDiff, SkillEntry};
pub use check::check;
pub use diagnostic::{Code, Diagnostic, Fix, Severity, Span};
pub use digest::Digest;
pub use document::{Document, Documents};
pub use frame::Frame;
pub use given::scan_given;
pub use live::{LiveCatalog, RefreshPolicy};
pub use name::{NameError, SkillName};
pub use overview::OverviewOptions;
pub use prowess_base::tokens::estimate_tokens;
pub use resource::{Resource, Resources};
pub use root::{Environment, Root, RootDirectory, RootKind, RootLayout, Storage, Trust};
pub use scan::{RootScan, ScanOptions};
pub use search::SearchHit;
pub use skill::{Parsed, Skill};
pub use text::{ReadError, SkillText};
pub use view::CatalogView;
pub use walk::scan_local;
