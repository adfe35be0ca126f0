//! Changes of a session's state, as values.

use prowess_catalog::Digest;
use prowess_catalog::resource::ResourceKind;
use prowess_catalog::skill::Location;
use serde::{Deserialize, Serialize};

use crate::options::Lifetime;

/// A file of a loaded skill, in the form that state keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ResourceMetadata {
    /// Its whole path, where the skill lives.
    pub path: String,
    /// What it is, by the directory it lies in.
    #[serde(rename = "type")]
    pub kind: ResourceKind,
    /// Whose it is.
    pub skill_name: String,
}

/// Which server's skill was loaded, and as what: what it may be held to until its words are out of sight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LoadedFrom {
    /// Our label for the server.
    pub server: String,
    /// The digest of all that the server said of its files.
    pub digest: Digest,
}

/// A skill that is loaded: everything about it but its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LoadedSkill {
    /// What it is called.
    pub name: String,
    /// Where its document is.
    pub location: Location,
    /// What the document said.
    pub digest: Digest,
    /// About how many tokens its instructions take.
    pub tokens: usize,
    /// The nonce of the frame that its text stands in.
    pub nonce: String,
    /// How long it stays.
    pub lifetime: Lifetime,
    /// The tools that its document listed when it was loaded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// What it was given to work on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// The server that it came from, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Box<LoadedFrom>>,
}

/// A document that is in context with its skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SelectedDocument {
    /// Its path in the skill.
    pub path: String,
    /// How many bytes of it are in context.
    pub bytes: usize,
    /// About how many tokens it takes.
    pub tokens: usize,
    /// The nonce of the frame that its text stands in.
    pub nonce: String,
}

/// What a selection of documents does to the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SelectMode {
    /// Adds to it.
    Add,
    /// Takes its place.
    Replace,
    /// Empties it.
    Clear,
}

/// Why a skill was unloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UnloadReason {
    /// The model or a person asked for it.
    Asked,
    /// Its lifetime was over.
    Expired,
    /// A budget left no room for it after compaction.
    Budget,
    /// It is not there any more, or denied to this agent now.
    Gone,
    /// It says something else now, which nobody has approved.
    Changed,
    /// It is a server's, and the messages that it was loaded in are out of sight.
    Summarised,
}

/// One change of a session's state. Applying them in order is the only way state changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SkillDelta {
    /// A skill was loaded, after all others.
    Loaded {
        /// The skill.
        skill: LoadedSkill,
        /// The files it brings along.
        resources: Vec<ResourceMetadata>,
    },
    /// A loaded skill's text is another one: it was given other arguments, or its document changed.
    Reloaded {
        /// The skill as it is now; its place in the order stays.
        skill: LoadedSkill,
        /// The files it brings along now.
        resources: Vec<ResourceMetadata>,
    },
    /// A skill was unloaded; its resources and documents go with it.
    Unloaded {
        /// Which.
        name: String,
        /// Why.
        reason: UnloadReason,
    },
    /// The documents of a loaded skill were chosen.
    Selected {
        /// Whose documents.
        name: String,
        /// What happens to those that were chosen before.
        mode: SelectMode,
        /// Whether these are all that there were.
        all: bool,
        /// The documents.
        documents: Vec<SelectedDocument>,
    },
    /// A chosen document's text is another one, or it cannot be had any more.
    DocumentChanged {
        /// Whose document.
        name: String,
        /// The nonce that it had.
        before: String,
        /// What it is now; `None` when it is no longer chosen.
        document: Option<SelectedDocument>,
    },
    /// The model has words that a server's skill led to: a sub-agent's answer, or the task that it was given.
    Led {
        /// Which skill.
        name: String,
        /// Whose it is.
        server: String,
    },
    /// A file came into play that a skill's `paths` name: it is listed from now on.
    Offered {
        /// Which skill.
        name: String,
    },
}

impl SkillDelta {
    /// The skill that it is about.
    pub fn skill(&self) -> &str {
        match self {
            Self::Loaded { skill, .. } | Self::Reloaded { skill, .. } => &skill.name,
            Self::Unloaded { name, .. }
            | Self::Selected { name, .. }
            | Self::DocumentChanged { name, .. }
            | Self::Led { name, .. }
            | Self::Offered { name } => name,
        }
    }
}
