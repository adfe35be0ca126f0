//! The skills that users upload, and who decides whether models see them.

use async_trait::async_trait;
use bytes::Bytes;
use serde::Serialize;
use utoipa::ToSchema;

use crate::agents::{BoxError, SkillFile};

/// Who decides whether models see a skill that a user uploaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OwnSkillsDecider {
    /// Nobody: users cannot upload skills.
    Off,
    /// An administrator.
    Admin,
    /// The user.
    User,
}

/// The skills that users uploaded. A skill is known by the digest of all its files. Models see a skill only if somebody has
/// trusted exactly this digest, and see no skill of another user.
#[async_trait]
pub trait OwnSkills: Send + Sync + 'static {
    /// Who decides.
    fn decider(&self) -> OwnSkillsDecider;

    /// The skills of a user.
    ///
    /// # Errors
    ///
    /// They cannot be read.
    async fn list(&self, owner: &str) -> Result<Vec<OwnSkillCard>, OwnSkillRefusal>;

    /// The skills of all users that no administrator trusts, each with the id of its owner.
    ///
    /// # Errors
    ///
    /// They cannot be read.
    async fn waiting(&self, limit: usize) -> Result<Vec<(String, OwnSkillCard)>, OwnSkillRefusal>;

    /// Adds the skill in an archive. Nobody trusts it yet.
    ///
    /// # Errors
    ///
    /// The skill is refused, or cannot be stored.
    async fn add(&self, owner: &str, archive: Bytes) -> Result<OwnSkillLook, OwnSkillRefusal>;

    /// Everything that a person should know before they trust a skill.
    ///
    /// # Errors
    ///
    /// The user has no such skill, or it cannot be read.
    async fn look(&self, owner: &str, digest: &str) -> Result<OwnSkillLook, OwnSkillRefusal>;

    /// Trusts a skill. `as_admin` says that an administrator does it, and `by` who.
    ///
    /// # Errors
    ///
    /// The user has no such skill, it is refused, or the change cannot be stored.
    async fn trust(
        &self,
        owner: &str,
        digest: &str,
        by: &str,
        as_admin: bool,
    ) -> Result<OwnSkillCard, OwnSkillRefusal>;

    /// Trusts a skill no more.
    ///
    /// # Errors
    ///
    /// The user has no such skill, or the change cannot be stored.
    async fn distrust(&self, owner: &str, digest: &str) -> Result<OwnSkillCard, OwnSkillRefusal>;

    /// Removes a skill and its bytes. Returns what it was.
    ///
    /// # Errors
    ///
    /// The user has no such skill, or it cannot be removed.
    async fn remove(&self, owner: &str, digest: &str) -> Result<OwnSkillCard, OwnSkillRefusal>;
}

/// Why something cannot be done with a user's own skill.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnSkillRefusal {
    /// The user has no such skill.
    #[error("there is no such skill")]
    NotFound,
    /// The archive or its skill cannot be used. The text says why, without paths of the server.
    #[error("{0}")]
    Unusable(String),
    /// The skill does not fit what the server or the user has. The text says why.
    #[error("{0}")]
    Conflict(String),
    /// The server failed.
    #[error(transparent)]
    Failed(BoxError),
}

/// Whether models see a skill that a user uploaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OwnSkillState {
    /// Nobody who may decide trusts it.
    Waiting,
    /// The user's agents see it.
    InUse,
    /// It is trusted, but something else hides it.
    Hidden,
}

/// A skill that a user uploaded, in a list.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct OwnSkillCard {
    /// The digest of all its files, by which it is known.
    pub digest: String,
    /// Its name.
    pub name: String,
    /// What it does, in its author's words.
    pub description: String,
    /// How many files it has.
    pub files: u64,
    /// How many bytes it takes, with its archive.
    pub bytes: u64,
    /// When it was uploaded.
    pub uploaded: String,
    /// Whether models see it.
    pub state: OwnSkillState,
    /// What hides it.
    pub hidden_by: Option<String>,
    /// When somebody trusted it.
    pub trusted: Option<String>,
}

/// Everything that a person should know before they trust a skill.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct OwnSkillLook {
    /// The skill.
    #[serde(flatten)]
    pub card: OwnSkillCard,
    /// Its licence, in its author's words.
    pub license: Option<String>,
    /// The tools that it lists.
    pub allowed_tools: Vec<String>,
    /// Its hooks.
    pub hooks: Vec<OwnSkillHook>,
    /// What it needs from its environment, in its author's words.
    pub needs: Option<String>,
    /// Other fields about what it needs, such as hosts on the network.
    pub requirements: Vec<OwnSkillRequirement>,
    /// Its scripts.
    pub scripts: Vec<SkillFile>,
    /// Its other files.
    pub other_files: Vec<SkillFile>,
    /// What of the archive is not part of the skill.
    pub left_out: Vec<String>,
    /// What the checks and the scan for hidden text found, the gravest first.
    pub findings: Vec<String>,
    /// The text of its SKILL.md after the frontmatter.
    pub instructions: String,
}

/// A hook of a skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct OwnSkillHook {
    /// When it happens.
    pub event: String,
    /// What happens then: commands and texts.
    pub does: Vec<String>,
}

/// A field about what a skill needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct OwnSkillRequirement {
    /// The name of the field.
    pub field: String,
    /// Its value, as JSON.
    pub value: String,
}
