//! The saved state of a session, as JSON.

use std::collections::{BTreeMap, BTreeSet};

use prowess_catalog::skill::Location;
use prowess_catalog::{CatalogView, Digest, Skill, SkillName};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::delta::{LoadedSkill, ResourceMetadata};
use crate::secret::Secret;
use crate::state::{Selection, SkillState};

/// The version of saved states that this crate writes. It also reads earlier versions.
pub const STATE_VERSION: u32 = 1;

/// The state of a session for a checkpoint. It is private to its agent; never show it to a model.
///
/// The JSON has the fields `skills_metadata`, `skills_loaded` and `skill_resources`. Reading checks the version and repairs
/// contradictions: a skill that is loaded twice, or resources of a skill that is not loaded.
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
/// let session = SkillSession::builder(catalog.clone()).build().await;
/// session.load("greet", None).await?;
/// let checkpoint = serde_json::to_string(&session.save())?;
///
/// let saved: SavedState = serde_json::from_str(&checkpoint)?;
/// let later = SkillSession::builder(catalog).saved_state(saved).build().await;
/// assert_eq!(later.state().loaded()[0].name, "greet");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "StateJson", try_from = "StateJson")]
pub struct SavedState {
    pub(crate) metadata: Vec<SkillMetadata>,
    pub(crate) state: SkillState,
    pub(crate) secret: Option<Secret>,
    /// The resources of skills that are not loaded, from eager discovery.
    pub(crate) eager: BTreeMap<String, Vec<ResourceMetadata>>,
}

impl SavedState {
    /// A saved state from a state and the secret of its conversation, for programs that store deltas.
    pub fn new(state: SkillState, secret: Secret) -> Self {
        Self { metadata: Vec::new(), state, secret: Some(secret), eager: BTreeMap::new() }
    }

    /// The state.
    pub fn state(&self) -> &SkillState {
        &self.state
    }

    /// The skills that were visible.
    pub fn known(&self) -> &[SkillMetadata] {
        &self.metadata
    }
}

/// A visible skill, as the saved state describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SkillMetadata {
    /// Its name.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// The path of its manifest.
    pub path: String,
    /// Its licence.
    #[serde(default)]
    pub license: Option<String>,
    /// Its requirements.
    #[serde(default)]
    pub compatibility: Option<String>,
    /// Additional properties of its frontmatter.
    #[serde(default)]
    pub metadata: serde_json::Map<String, Value>,
    /// Its `allowed-tools`.
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

/// The JSON of a saved state.
#[derive(Clone, Serialize, Deserialize)]
struct StateJson {
    /// States of other implementations have none.
    #[serde(default)]
    version: Option<u32>,
    /// Without this and the next field, the JSON is not a saved state.
    #[serde(default)]
    skills_metadata: Option<Vec<SkillMetadata>>,
    /// States of implementations that load no skills have none.
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
    /// The loaded skills by use, if that is not the order of loading.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    skills_by_use: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    frame_secret: Option<String>,
}

impl From<SavedState> for StateJson {
    fn from(saved: SavedState) -> Self {
        let SavedState { metadata, state, secret, eager } = saved;
        let mut skill_resources = eager;
        let is_in_order = state.names().eq(state.by_use().iter().map(String::as_str));
        skill_resources.extend(state.all_resources().clone());
        Self {
            version: Some(STATE_VERSION),
            skills_metadata: Some(metadata),
            skills_loaded: Some(state.names().map(str::to_owned).collect()),
            skill_resources,
            skill_docs: state.all_selections().clone(),
            skill_details: state.loaded().iter().map(|skill| (skill.name.clone(), skill.clone())).collect(),
            skills_offered: state.offered().clone(),
            skills_lingering: state.lingering().clone(),
            skills_by_use: if is_in_order { Vec::new() } else { state.by_use().to_vec() },
            frame_secret: secret.as_ref().map(Secret::to_hex),
        }
    }
}

/// Why JSON is not a saved state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// A later version of prowess wrote it.
    #[error(
        "the saved state has version {0}, but this prowess reads up to version {STATE_VERSION}; update prowess"
    )]
    Newer(u32),
    /// It is not a saved state.
    #[error("this is not the saved state of a session: it has neither `skills_metadata` nor `skills_loaded`")]
    NotAState,
    /// The secret is damaged.
    #[error("the saved state is damaged: `frame_secret` must have 32 hexadecimal digits")]
    Secret,
}

impl TryFrom<StateJson> for SavedState {
    type Error = StateError;

    fn try_from(json: StateJson) -> Result<Self, StateError> {
        if let Some(newer) = json.version.filter(|version| *version > STATE_VERSION) {
            return Err(StateError::Newer(newer));
        }
        if json.skills_metadata.is_none() && json.skills_loaded.is_none() {
            return Err(StateError::NotAState);
        }
        let secret = match &json.frame_secret {
            Some(text) => Some(Secret::from_hex(text).ok_or(StateError::Secret)?),
            None => None,
        };
        let mut loaded: Vec<LoadedSkill> = Vec::new();
        let mut seen = BTreeSet::new();
        for name in json.skills_loaded.iter().flatten() {
            // Ignore a text that cannot be the name of a skill.
            let is_name = SkillName::parse(name).is_ok_and(|parsed| parsed.as_str() == name);
            if !is_name || !seen.insert(name) {
                continue;
            }
            let details = json.skill_details.get(name).filter(|details| details.name == *name);
            loaded.push(details.cloned().unwrap_or_else(|| without_details(name, &json)));
        }
        let is_loaded = |name: &String| seen.contains(name);
        let (resources, eager) = json.skill_resources.into_iter().partition(|(name, _)| is_loaded(name));
        let documents = json.skill_docs.into_iter().filter(|(name, _)| is_loaded(name)).collect();
        let (offered, lingering) = (json.skills_offered, json.skills_lingering);
        let mut state = SkillState::from_parts(loaded, resources, documents, offered, lingering);
        state.set_use(&json.skills_by_use);
        Ok(Self { metadata: json.skills_metadata.unwrap_or_default(), state, secret, eager })
    }
}

/// A loaded skill of which only the name is saved, as other implementations do. Its manifest is read again before it is
/// used.
fn without_details(name: &str, json: &StateJson) -> LoadedSkill {
    let known = json.skills_metadata.iter().flatten().find(|known| known.name == name);
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
