//! A session's state as it is saved.

use std::collections::{BTreeMap, BTreeSet};

use prowess_catalog::skill::Location;
use prowess_catalog::{CatalogView, Digest, Skill, SkillName};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::delta::{LoadedSkill, ResourceMetadata};
use crate::secret::Secret;
use crate::state::{Selection, SkillState};

/// The version that this crate writes. It reads this one and those before it.
pub const STATE_VERSION: u32 = 1;

/// A session's state, for a checkpoint: private to its agent, and never shown to a model.
///
/// As JSON it has the names `skills_metadata`, `skills_loaded` and `skill_resources`. Reading checks the
/// version and mends what cannot be: a skill that is loaded twice, resources of one that is not loaded.
///
/// ```
/// use prowess_skills::{SavedState, SkillSession};
///
/// # use prowess_catalog::{Catalog, Root, ScanOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # std::fs::create_dir(scratch.path().join("greet"))?;
/// # let manifest = "---\nname: greet\ndescription: Says hello.\n---\nWave.\n";
/// # std::fs::write(scratch.path().join("greet/SKILL.md"), manifest)?;
/// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// let session = SkillSession::builder(catalog.clone()).start().await;
/// session.load("greet", None).await?;
/// let checkpoint = serde_json::to_string(&session.save())?;
///
/// let saved: SavedState = serde_json::from_str(&checkpoint)?;
/// let later = SkillSession::builder(catalog).restore(saved).start().await;
/// assert_eq!(later.state().loaded()[0].name, "greet");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Document", try_from = "Document")]
pub struct SavedState {
    pub(crate) metadata: Vec<SkillMetadata>,
    pub(crate) state: SkillState,
    pub(crate) secret: Option<Secret>,
    /// Resources of skills that are not loaded, as eager discovery finds them.
    pub(crate) eager: BTreeMap<String, Vec<ResourceMetadata>>,
}

impl SavedState {
    /// The state that a log of deltas comes to, with the secret of its conversation: what a host has that
    /// keeps changes instead of documents.
    pub fn new(state: SkillState, secret: Secret) -> Self {
        Self { metadata: Vec::new(), state, secret: Some(secret), eager: BTreeMap::new() }
    }

    /// What is loaded.
    pub fn state(&self) -> &SkillState {
        &self.state
    }

    /// The skills that were known, by name.
    pub fn known(&self) -> &[SkillMetadata] {
        &self.metadata
    }
}

/// What state keeps of a skill that is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SkillMetadata {
    /// What it is called.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// Where its document is.
    pub path: String,
    /// Its licence.
    #[serde(default)]
    pub license: Option<String>,
    /// What it needs from its environment.
    #[serde(default)]
    pub compatibility: Option<String>,
    /// Properties that the specification leaves to clients.
    #[serde(default)]
    pub metadata: serde_json::Map<String, Value>,
    /// The tools it expects.
    #[serde(default)]
    pub allowed_tools: Vec<String>,
}

impl SkillMetadata {
    fn of(skill: &Skill) -> Self {
        let value = |value| serde_json::to_value(value).unwrap_or_default();
        Self {
            name: skill.name.to_string(),
            description: skill.description.clone(),
            path: skill.location.as_str().to_owned(),
            license: skill.license.clone(),
            compatibility: skill.compatibility.clone(),
            metadata: skill.metadata.iter().map(|(key, found)| (key.clone(), value(found))).collect(),
            allowed_tools: skill.allowed_tools.clone(),
        }
    }

    pub(crate) fn of_view(view: &CatalogView) -> Vec<Self> {
        view.entries().iter().map(|entry| Self::of(&entry.skill)).collect()
    }
}

/// The state's document.
#[derive(Clone, Serialize, Deserialize)]
struct Document {
    /// Documents of other implementations have none.
    #[serde(default)]
    version: Option<u32>,
    #[serde(default)]
    skills_metadata: Vec<SkillMetadata>,
    /// Without it a document is something else.
    #[serde(default)]
    skills_loaded: Option<Vec<String>>,
    #[serde(default)]
    skill_resources: BTreeMap<String, Vec<ResourceMetadata>>,
    #[serde(default)]
    skill_docs: BTreeMap<String, Selection>,
    #[serde(default)]
    skill_details: BTreeMap<String, LoadedSkill>,
    #[serde(default)]
    skills_offered: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    skills_lingering: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    frame_secret: Option<String>,
}

impl From<SavedState> for Document {
    fn from(saved: SavedState) -> Self {
        let SavedState { metadata, state, secret, eager } = saved;
        let mut skill_resources = eager;
        skill_resources.extend(state.all_resources().clone());
        Self {
            version: Some(STATE_VERSION),
            skills_metadata: metadata,
            skills_loaded: Some(state.names().map(str::to_owned).collect()),
            skill_resources,
            skill_docs: state.all_selections().clone(),
            skill_details: state.loaded().iter().map(|skill| (skill.name.clone(), skill.clone())).collect(),
            skills_offered: state.offered().clone(),
            skills_lingering: state.lingering().clone(),
            frame_secret: secret.as_ref().map(Secret::to_hex),
        }
    }
}

/// Why a document is no state of a session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// A later version of this crate wrote it.
    #[error("the state has version {0}, and this program knows {STATE_VERSION}: update the program")]
    Newer(u32),
    /// It is something else.
    #[error("this is no state of a session: it has no `skills_loaded`")]
    NotAState,
    /// The secret is not one.
    #[error("`frame_secret` is not 32 hexadecimal digits: the state was damaged")]
    Secret,
}

impl TryFrom<Document> for SavedState {
    type Error = StateError;

    fn try_from(document: Document) -> Result<Self, StateError> {
        if let Some(newer) = document.version.filter(|version| *version > STATE_VERSION) {
            return Err(StateError::Newer(newer));
        }
        let names = document.skills_loaded.as_ref().ok_or(StateError::NotAState)?;
        let secret = match &document.frame_secret {
            Some(text) => Some(Secret::from_hex(text).ok_or(StateError::Secret)?),
            None => None,
        };
        let mut loaded: Vec<LoadedSkill> = Vec::new();
        let mut seen = BTreeSet::new();
        for name in names {
            // What is no name of a skill was never loaded.
            let is_name = SkillName::parse(name).is_ok_and(|parsed| parsed.as_str() == name);
            if !is_name || !seen.insert(name) {
                continue;
            }
            let details = document.skill_details.get(name).filter(|details| details.name == *name);
            loaded.push(details.cloned().unwrap_or_else(|| without_details(name, &document)));
        }
        let is_loaded = |name: &String| seen.contains(name);
        let (resources, eager) = document.skill_resources.into_iter().partition(|(name, _)| is_loaded(name));
        let documents = document.skill_docs.into_iter().filter(|(name, _)| is_loaded(name)).collect();
        let (offered, lingering) = (document.skills_offered, document.skills_lingering);
        let state = SkillState::from_parts(loaded, resources, documents, offered, lingering);
        Ok(Self { metadata: document.skills_metadata, state, secret, eager })
    }
}

/// A skill of which only the name is known, as another implementation would have saved it. Its text is
/// read again before it is used, and then it is the document that counts.
fn without_details(name: &str, document: &Document) -> LoadedSkill {
    let known = document.skills_metadata.iter().find(|known| known.name == name);
    LoadedSkill {
        name: name.to_owned(),
        location: Location::new(known.map(|known| known.path.as_str()).unwrap_or_default()),
        digest: Digest::of(b""),
        tokens: 0,
        nonce: String::new(),
        lifetime: crate::options::Lifetime::Session,
        allowed_tools: Vec::new(),
        arguments: None,
        from: None,
    }
}
