//! stub
mod advice; mod catalog; mod check; mod diagnostic; mod digest; mod fields; mod frontmatter; #[cfg(feature = "gitignore")] mod gitignore; mod local; mod name; mod repair; mod root; mod scan; mod skill; mod text; mod tokens; mod tools; mod untrusted; mod walk; mod yaml;
pub use diagnostic::{Code, CodeClass, Diagnostic, Fix, MAX_FINDINGS, Severity, Span};
pub use digest::Digest;
pub use fields::{EXTENSION_FIELDS, MAX_COMPATIBILITY_CHARS, MAX_DESCRIPTION_CHARS, SPEC_FIELDS};
pub use frontmatter::MAX_FRONTMATTER;
pub use name::{MAX_NAME_CHARS, NameError, SkillName};
pub use skill::{Extensions, Location, MANIFEST, MAX_MANIFEST, MissingName, Parsed, Skill, SkillContext};
pub use tokens::estimate_tokens;
pub use untrusted::one_line;
pub use yaml::Value;
pub use catalog::{Catalog, CatalogDiff, Entry, Shadowed};
pub use root::{Layer, Layers, Root, RootKind, Surroundings, Trust};
pub use scan::{Links, RootScan, ScanOptions};
pub use text::{ReadError, SkillIdentity, SkillText};
pub use walk::scan_local;
pub use check::{CheckReport, Profile, check, check_directory};
