//! What a program tells the server about its agents.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use prowess_agent::middleware::FollowedFiles;
use prowess_agent::model::ModelUsage;
use prowess_agent::thread_state::StateChange;
use prowess_agent::{Agent, ThreadId, Usage};
use prowess_backend::{Backend, VirtualPath};
use prowess_workspace::Artifacts;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::own_skills::OwnSkills;
use crate::view::Places;

/// Any error of the program.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Builds the agents of a server, and knows the skills of its users. A thread always has the same owner.
#[async_trait]
pub trait ServedAgents: Send + Sync + 'static {
    /// The agent as clients see it. Its name and its model never change.
    fn card(&self) -> AgentCard;

    /// The agent and the files of a thread. The server calls it for each piece of work, so it should be cheap.
    ///
    /// # Errors
    ///
    /// The agent cannot be built.
    async fn thread(&self, owner: &str, thread: &ThreadId) -> Result<ServedThread, BoxError>;

    /// The files of threads that follow them to other machines. `None`: the files of a thread are [`ServedThread::files`].
    fn followed_files(&self) -> Option<&dyn ServedFiles> {
        None
    }

    /// Copies the files of a thread to its fork. If files follow their threads, `files` is what the log of the fork says about
    /// them, and `named` are the digests of all inventories and contents that it names.
    ///
    /// # Errors
    ///
    /// The files cannot be copied.
    async fn fork(
        &self,
        owner: &str,
        from: &ThreadId,
        to: &ThreadId,
        files: &FollowedFiles,
        named: &[String],
    ) -> Result<(), BoxError>;

    /// Removes everything of a thread except its log: files, workspace and artifacts.
    ///
    /// # Errors
    ///
    /// Something cannot be removed.
    async fn remove(&self, owner: &str, thread: &ThreadId) -> Result<(), BoxError>;

    /// The skills that a user's agents may see: all, or the best matches of a search.
    async fn skills(&self, owner: &str, search: Option<&str>, part: SkillsPart<'_>) -> SkillList;

    /// One of these skills.
    async fn skill(&self, owner: &str, name: &str) -> Option<SkillDetail>;

    /// The skills that users uploaded. `None`: users cannot upload skills.
    fn own_skills(&self) -> Option<Arc<dyn OwnSkills>> {
        None
    }

    /// What model calls cost. `None` if a price is not known.
    fn cost(&self, spent: &ModelUsage) -> Option<ServedCost>;

    /// Whether the price of a model is known.
    fn has_price(&self, model: &str) -> bool {
        self.cost(&ModelUsage::on(model, Usage::new(1, 1))).is_some()
    }
}

/// The files of threads that follow them to the worker that takes a thread. They are those of the thread's log.
#[async_trait]
pub trait ServedFiles: Send + Sync {
    /// The files at the paths of the tree, for reading.
    ///
    /// # Errors
    ///
    /// The files cannot be found.
    async fn files(
        &self,
        owner: &str,
        thread: &ThreadId,
        followed: &FollowedFiles,
    ) -> Result<Arc<dyn Backend>, BoxError>;

    /// Whether this process has files of a thread from before files followed threads, which a worker here must store first.
    async fn has_files_from_before(&self, thread: &ThreadId) -> bool;

    /// Stores a file that a person uploaded, and returns the change for the thread. `None` if it does not fit.
    ///
    /// # Errors
    ///
    /// The file cannot be stored.
    async fn write(
        &self,
        owner: &str,
        thread: &ThreadId,
        followed: &FollowedFiles,
        path: &VirtualPath,
        bytes: Bytes,
    ) -> Result<Option<StateChange>, BoxError>;

    /// The change for the thread that removes a file.
    ///
    /// # Errors
    ///
    /// The change cannot be made.
    async fn remove(
        &self,
        owner: &str,
        thread: &ThreadId,
        followed: &FollowedFiles,
        path: &VirtualPath,
    ) -> Result<StateChange, BoxError>;
}

/// Which part of a list of skills is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkillsPart<'a> {
    /// The name of the skill before the first one.
    pub after: Option<&'a str>,
    /// The most skills.
    pub limit: usize,
}

/// A part of a list of skills.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SkillList {
    /// The skills.
    pub skills: Vec<SkillCard>,
    /// Whether there are more.
    pub has_more: bool,
}

/// What model calls cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedCost {
    /// In millionths of a dollar.
    pub micros: u64,
    /// For a person, in dollars.
    pub text: String,
}

/// Everything that the server needs for one thread.
#[derive(Debug)]
pub struct ServedThread {
    /// The agent.
    pub agent: Agent,
    /// The files that the model sees, at the paths of the tree.
    pub files: Arc<dyn Backend>,
    /// The artifacts of the thread.
    pub artifacts: Artifacts,
    /// The real paths of the thread, which clients do not see.
    pub places: Places,
}

/// An agent, as clients see it.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct AgentCard {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Its model.
    pub model: String,
    /// The context window of the model, if it is known.
    pub window: Option<u64>,
    /// How much skills may take.
    pub budgets: Value,
    /// How much one turn may take.
    pub limits: Value,
    /// Where commands run.
    pub sandbox: String,
    /// The rules, in order, each with its `kind`, `pattern` and `decision`. The last one that matches wins. Rules about paths that
    /// only the server has are left out.
    pub rules: Vec<Value>,
    /// Who may reply to its questions.
    pub approvers: String,
}

/// A skill in a list.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct SkillCard {
    /// Its name.
    pub name: String,
    /// What it does, in its author's words.
    pub description: String,
    /// Where it comes from.
    pub origin: String,
    /// Whether it is trusted.
    pub trusted: bool,
    /// How visible it is to a model.
    pub mode: String,
    /// Its licence, in its author's words.
    pub license: Option<String>,
    /// Whether a person can start it with `/NAME`.
    pub startable: bool,
}

/// Everything about a skill.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct SkillDetail {
    /// The skill.
    #[serde(flatten)]
    pub card: SkillCard,
    /// The text of its SKILL.md after the frontmatter.
    pub instructions: String,
    /// The digest of its SKILL.md.
    pub digest: String,
    /// The tools that it lists.
    pub allowed_tools: Vec<String>,
    /// Its files.
    pub files: Vec<SkillFile>,
}

/// A file of a skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SkillFile {
    /// Its path in the skill.
    pub path: String,
    /// Its size, if it is known.
    pub bytes: Option<u64>,
}
