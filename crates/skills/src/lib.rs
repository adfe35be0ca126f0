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
pub mod call;
pub mod context;
pub mod delta;
pub mod dialect;
pub mod documents;
mod engine;
mod error;
pub mod event;
#[cfg(feature = "run")]
pub mod exec;
mod files;
mod gate;
#[cfg(feature = "run")]
mod host_files;
mod invoke;
pub mod known;
pub mod load;
pub mod options;
mod overview;
pub mod owner;
pub mod parameters;
pub mod refresh;
mod render;
#[cfg(feature = "run")]
pub mod run;
pub mod run_summary;
pub mod saved;
pub mod secret;
mod service;
mod session;
#[cfg(all(feature = "backend", feature = "run"))]
mod stage;
pub mod state;
mod step;
mod stub;
mod sync;
pub mod tools;
mod view;

pub use prowess_catalog;
pub use prowess_permission;

pub use call::PreparedCall;
pub use delta::{LoadedSkill, SkillDelta};
pub use dialect::{Capabilities, Dialect, SkillToolAnswer, SkillToolKind, ToolSpec};
pub use engine::SkillEngine;
pub use error::SkillError;
pub use event::SkillEvent;
#[cfg(feature = "backend")]
pub use files::BackendFiles;
pub use files::{LocalFiles, SkillFiles};
pub use invoke::SkillCommand;
pub use options::{Budgets, Discovery, Guidance, Lifetime, SessionOptions};
pub use overview::ModelView;
#[cfg(feature = "run")]
pub use run::{RunSetup, SkillRunner};
pub use run_summary::RunSummary;
pub use saved::SavedState;
pub use service::SkillService;
pub use session::{SessionBuilder, SkillAnswer, SkillSession};
pub use state::SkillState;
pub use step::{Fed, Operation, Outcome, Step, Want};
pub use tools::AllowedTools;
pub use view::SkillView;
