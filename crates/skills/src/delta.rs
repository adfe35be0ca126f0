//! Deltas: the changes of a session's state, as values.

use prowess_catalog::resource::ResourceKind;
use prowess_catalog::skill::Location;
use prowess_catalog::{Digest, Resources, SkillEntry};
use prowess_permission::quote_name;
use serde::{Deserialize, Serialize};

use crate::options::Lifetime;

/// A resource of a skill, as the state keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ResourceMetadata {
    /// Its full path.
    pub path: String,
    /// Its kind, which follows from its directory.
    #[serde(rename = "type")]
    pub kind: ResourceKind,
    /// The name of its skill.
    pub skill_name: String,
}

impl ResourceMetadata {
    /// The resources of a skill. Those that could not be listed are left out, with a warning.
    pub(crate) fn of_skill(entry: &SkillEntry, resources: &Resources) -> Vec<Self> {
        let skill = entry.skill.name.as_str();
        for diagnostic in &resources.diagnostics {
            tracing::warn!(
                skill,
                path = %diagnostic.file,
                "Failed to list resources for skill {}: {diagnostic}",
                quote_name(skill)
            );
        }
        let directory = entry.skill.location.directory().trim_end_matches('/');
        let metadata = |path: String, kind| Self { path, kind, skill_name: skill.to_owned() };
        resources.files.iter().map(|file| metadata(format!("{directory}/{}", file.path), file.kind)).collect()
    }
}

/// The server of a loaded skill, and what the server published when the skill was loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LoadedFrom {
    /// Our label for the server.
    pub server: String,
    /// The digest of the server's list of files.
    pub digest: Digest,
}

/// A loaded skill, without its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LoadedSkill {
    /// Its name.
    pub name: String,
    /// Where its manifest is.
    pub location: Location,
    /// The digest of its manifest.
    pub digest: Digest,
    /// The estimated tokens of its instructions.
    pub tokens: usize,
    /// The nonce of its frame.
    pub nonce: String,
    /// How long it stays loaded.
    pub lifetime: Lifetime,
    /// The `allowed-tools` of its manifest when it was loaded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// Its MCP server, if it comes from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Box<LoadedFrom>>,
}

/// A selected document of a skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SelectedDocument {
    /// Its path in the skill.
    pub path: String,
    /// The number of its bytes in context.
    pub bytes: usize,
    /// The estimated number of its tokens.
    pub tokens: usize,
    /// The nonce of its frame.
    pub nonce: String,
}

/// How a selection of documents changes the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SelectMode {
    /// Adds to the previous selection.
    Add,
    /// Replaces the previous selection.
    Replace,
    /// Removes the previous selection.
    Clear,
}

/// Why a skill was unloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UnloadReason {
    /// The model unloaded it.
    Asked,
    /// A person unloaded it.
    Person,
    /// Another skill needed its slot or its tokens.
    Evicted,
    /// Its lifetime ended.
    Expired,
    /// A budget had no room for it.
    Budget,
    /// It no longer exists, or a rule denies it now.
    Gone,
    /// Its text has changed, and nobody has approved the change.
    Changed,
    /// It is a server's skill, and the messages with its text were summarised.
    Summarised,
}

/// One change of a session's state. The state changes only by applying deltas in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SkillDelta {
    /// A skill was loaded, after all others.
    Loaded {
        /// The skill.
        skill: LoadedSkill,
        /// Its resources.
        resources: Vec<ResourceMetadata>,
    },
    /// The text of a loaded skill changed: it got other arguments, or its manifest changed.
    Reloaded {
        /// The skill as it is now. Its position in the order stays.
        skill: LoadedSkill,
        /// Its resources now.
        resources: Vec<ResourceMetadata>,
    },
    /// A skill was unloaded, with its resources and documents.
    Unloaded {
        /// The skill.
        name: String,
        /// The reason.
        reason: UnloadReason,
    },
    /// The selection of a loaded skill changed.
    Selected {
        /// The skill.
        name: String,
        /// How the previous selection changes.
        mode: SelectMode,
        /// Whether the model selected all documents.
        all: bool,
        /// The documents.
        documents: Vec<SelectedDocument>,
    },
    /// A selected document changed, or is no longer selected.
    DocumentChanged {
        /// The skill.
        name: String,
        /// Its previous nonce.
        before: String,
        /// The document now; `None` if it is no longer selected.
        document: Option<SelectedDocument>,
    },
    /// The model got text that a server's skill may have influenced: the answer of a sub-agent, a task, or the output of a
    /// run.
    Led {
        /// The skill.
        name: String,
        /// Its server.
        server: String,
    },
    /// A file matched the `paths` of a skill, so the skill is listed from now on.
    Offered {
        /// The skill.
        name: String,
    },
    /// A loaded skill was used again, so that it is not the next one to be evicted.
    Used {
        /// The skill.
        name: String,
    },
}

impl SkillDelta {
    /// The skill that changes.
    pub fn skill(&self) -> &str {
        match self {
            Self::Loaded { skill, .. } | Self::Reloaded { skill, .. } => &skill.name,
            Self::Unloaded { name, .. }
            | Self::Selected { name, .. }
            | Self::DocumentChanged { name, .. }
            | Self::Led { name, .. }
            | Self::Offered { name }
            | Self::Used { name } => name,
        }
    }
}
