//! One session's skills: an overview in the prompt, instructions on demand, documents beside them, within
//! budgets and behind a permission gate.
//!
//! ```
//! use prowess_catalog::{Catalog, Root, ScanOptions};
//! use prowess_skills::SkillSession;
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let scratch = tempfile::tempdir()?;
//! # let skills = scratch.path();
//! std::fs::create_dir_all(skills.join("greet"))?;
//! std::fs::write(
//!     skills.join("greet/SKILL.md"),
//!     "---\nname: greet\ndescription: Says hello. Use at the door.\n---\nWave.\n",
//! )?;
//! let catalog = Catalog::discover(&[Root::explicit(skills)], &ScanOptions::default());
//! let session = SkillSession::builder(catalog).start().await;
//!
//! // For every model call: the prompt's section, and the tools.
//! assert!(session.prompt().text.contains("- **greet**: Says hello. Use at the door."));
//! assert_eq!(session.tools()[0].name, "load_skill");
//!
//! // For every tool call of the model: an answer, whatever it asks.
//! let reply = session.call("load_skill", json!({"skill_name": "greet"})).await;
//! assert!(reply.text.contains("Wave."));
//! let reply = session.call("load_skill", json!({"skill_name": "dance"})).await;
//! assert_eq!(reply.text, "Error: Skill 'dance' not found. Available skills: greet");
//! assert!(session.prompt().text.contains("- **greet** [Loaded]: Says hello."));
//! # Ok(())
//! # }
//! ```
//!
//! What an operation changes are [`SkillDelta`]s, which it returns, and which every watcher of
//! [`SkillSession::events`] sees. Applying them in order to a [`SkillState`] gives the same state. Limits are
//! checked where deltas are applied, so that calls at the same time cannot exceed them together.
//!
//! [`prowess_catalog`] and [`prowess_permission`], whose types are used here, are re-exported.
//!
//! Text of a skill reaches a model only in a frame that it cannot close. There is no agent loop here, no
//! model and no process; reading goes through [`SkillFiles`]. The feature `backend` reads skills from a
//! `prowess_backend::Backend`; the feature `run` hands commands of skills to a `prowess_workspace::Runner`.

mod arguments;
mod call;
mod context;
mod delta;
mod dialect;
mod documents;
mod engine;
mod error;
mod event;
#[cfg(feature = "run")]
mod exec;
mod files;
mod gate;
#[cfg(feature = "run")]
mod host_files;
mod invoke;
mod known;
mod load;
mod options;
mod overview;
mod owner;
pub mod parameters;
mod refresh;
mod render;
#[cfg(feature = "run")]
mod run;
mod run_summary;
mod saved;
mod secret;
mod service;
mod session;
#[cfg(all(feature = "backend", feature = "run"))]
mod stage;
mod state;
mod step;
mod stub;
mod sync;
mod tools;
mod view;

pub use prowess_catalog;
pub use prowess_permission;

pub use call::{ForkedSkill, PreparedCall};
pub use context::LoadedSection;
pub use delta::{
    LoadedFrom, LoadedSkill, ResourceMetadata, SelectMode, SelectedDocument, SkillDelta, UnloadReason,
};
pub use dialect::{
    Capabilities, Dialect, LoadToolNames, MAX_ENUM_NAMES, SkillToolAnswer, SkillToolKind, ToolSpec,
};
pub use documents::{DocumentChoice, MAX_CHOSEN_BYTES, PreparedSelection};
pub use engine::SkillEngine;
pub use error::SkillError;
pub use event::{SkillEvent, Stale, Staleness};
#[cfg(feature = "run")]
pub use exec::{ExecRequest, PollRequest, WriteRequest};
#[cfg(feature = "backend")]
pub use files::BackendFiles;
pub use files::{LocalFiles, SkillFiles};
pub use invoke::SkillCommand;
pub use known::{denial, known_view};
pub use load::{OverBudget, PreparedLoad, loaded_tokens};
pub use options::{
    Budgets, DEFAULT_MAX_LOADED_SKILLS, Discovery, Guidance, Lifetime, Placement, SessionOptions,
    TokenCounter, UnloadedText,
};
pub use overview::ModelView;
pub use owner::{FileOwner, WithheldFile};
pub use refresh::Refreshed;
#[cfg(feature = "run")]
pub use run::{MAX_SHOWN_FILES, MAX_SHOWN_OUTPUT, RunSetup, SkillRunner, report_text};
pub use run_summary::{RunSummary, RunSummaryArtifact, RunSummaryFile};
pub use saved::{STATE_VERSION, SavedState, SkillMetadata, StateError};
pub use secret::Secret;
pub use service::SkillService;
pub use session::{SessionBuilder, SkillAnswer, SkillSession};
pub use state::{Conflict, Selection, SkillState};
pub use step::{Fed, Operation, Outcome, Step, Want};
pub use tools::{AllowedTools, ToolCall, ToolNames, ToolVerdict};
pub use view::SkillView;
