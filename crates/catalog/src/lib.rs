//! Finds Agent Skills, parses and checks every SKILL.md, and renders the overview that a model sees.
//!
//! It reads skills from the local disk, from files that your program supplies, from MCP servers' lists and, with the feature
//! `backend`, from a `prowess_backend::Backend`. It has no network, no permissions and, without that feature, no async code.
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
//! # The five types to know
//!
//! - [`Root`]: a place in which to look for skills. [`RootLayout`] finds the usual ones.
//! - [`Catalog`]: an immutable snapshot of the skills in all roots, with diagnostics. [`LiveCatalog`] keeps one up to date.
//! - [`SkillEntry`]: one skill of a catalog, with its metadata ([`Skill`]). It reads the instructions and documents.
//! - [`CatalogView`]: the skills that one agent may know. It renders the overview, and searches.
//! - [`Diagnostic`]: one finding about a skill or a root.
//!
//! # Errors and I/O
//!
//! One bad file never fails a whole scan: it becomes a [`Diagnostic`]. [`Skill::parse`], [`scan_given`] and the functions that
//! end in `_from`, such as [`SkillEntry::text_from`], do no I/O; they check bytes that a caller has read. Everything that reads
//! the disk uses directory descriptors, so that links and races cannot lead out of a root.

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
mod headings;
pub mod json_cost;
mod listing;
mod live;
mod local;
mod manifest_errors;
pub mod name;
pub mod overview;
#[cfg(feature = "package")]
pub mod package;
mod plain;
mod precedence;
mod progress;
pub mod published;
mod references;
mod repair;
pub mod resource;
mod root;
mod root_layout;
pub mod scan;
pub mod search;
pub mod section;
pub mod skill;
mod symlinks;
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
pub use root::{Root, RootKind, Storage, Trust};
pub use root_layout::{Environment, RootDirectory, RootLayout};
pub use scan::{RootScan, ScanOptions};
pub use search::SearchHit;
pub use skill::{Parsed, Skill};
pub use text::{ReadError, SkillText};
pub use view::CatalogView;
pub use walk::scan_local;
