//! What an operation wants to read, and what it is fed.

use std::sync::Arc;

use prowess_catalog::document::{DocumentError, DocumentText};
use prowess_catalog::{Catalog, Documents, ReadError, Resources, SkillEntry, SkillText};

/// Something that an operation needs to read. An operation wants only what the catalog lists, and shows no text before it
/// has passed the gate.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Want {
    /// A skill's manifest.
    Text {
        /// The skill.
        entry: Arc<SkillEntry>,
    },
    /// A skill's resources.
    Resources {
        /// The skill.
        entry: Arc<SkillEntry>,
        /// The depth, in levels of directories.
        depth: usize,
    },
    /// Both, which a load needs.
    TextAndResources {
        /// The skill.
        entry: Arc<SkillEntry>,
        /// The depth, in levels of directories.
        depth: usize,
    },
    /// The list of a skill's documents.
    Documents {
        /// The skill.
        entry: Arc<SkillEntry>,
    },
    /// One document of a skill.
    Document {
        /// The skill.
        entry: Arc<SkillEntry>,
        /// The document's path in the skill.
        path: String,
    },
    /// A skill that a server has but does not list.
    LookUp {
        /// The name that the model uses.
        name: String,
        /// The catalog to which it would be added.
        catalog: Catalog,
    },
}

/// What you feed to an operation: the same variant as its [`Want`].
#[derive(Debug)]
#[non_exhaustive]
pub enum Fed {
    /// A skill's manifest.
    Text(Result<SkillText, ReadError>),
    /// A skill's resources.
    Resources(Resources),
    /// Both.
    TextAndResources(Result<(SkillText, Resources), ReadError>),
    /// The list of a skill's documents.
    Documents(Documents),
    /// One document of a skill.
    Document(Result<DocumentText, DocumentError>),
    /// The catalog with the skill; `None` if the server has no such skill.
    LookUp(Option<Catalog>),
}
