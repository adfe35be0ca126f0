//! The skills of one session: the overview in the prompt, instructions on demand, documents, runs and budgets.
//!
//! A session lists skills in the system prompt, loads and unloads them through tools, and asks for permission where rules
//! say so. The text of a skill reaches a model only in a frame that the text cannot close. The crate has no agent loop and
//! no model, and it starts no process.
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
//! let session = SkillSession::builder(catalog).build().await;
//!
//! // For every model call: the section of the system prompt, and the tools.
//! assert!(session.prompt().text.contains("- **greet**: Says hello. Use at the door."));
//! assert_eq!(session.tools()[0].name, "load_skill");
//!
//! // Every tool call of the model gets an answer, even a wrong call.
//! let answer = session.call("load_skill", json!({"skill_name": "greet"})).await;
//! assert!(answer.text.contains("Wave."));
//! let answer = session.call("load_skill", json!({"skill_name": "dance"})).await;
//! assert_eq!(answer.text, "Error: Skill 'dance' not found. Available skills: greet");
//! assert!(session.prompt().text.contains("- **greet** [Loaded]: Says hello."));
//! # Ok(())
//! # }
//! ```
//!
//! # The five types to know
//!
//! - [`SkillSession`]: skills and the state of what is loaded, for programs that keep no log of their own.
//! - [`SkillService`]: the same without the state, for programs that own it, such as an agent with a log.
//! - [`SkillState`]: what is loaded. Only [`SkillDelta`]s change it. Applying the same deltas in the same order gives the
//!   same state, and enforces the budgets.
//! - [`SkillView`]: what a model sees and what it can do in one state.
//! - [`Dialect`]: the names and texts of the tools.
//!
//! The crate re-exports [`prowess_catalog`] and [`prowess_permission`], whose types it uses. The feature `backend` reads
//! skills from a `prowess_backend::Backend`. The feature `run` runs commands of skills with a `prowess_workspace::Runner`.

pub mod allowed_tools;
mod answer;
mod arguments;
pub mod call;
mod conflict;
pub mod context;
pub mod delta;
pub mod dialect;
pub mod documents;
pub mod embeddings;
mod engine;
mod error;
pub mod event;
mod evict;
mod files;
mod framing;
pub mod frozen;
mod gate;
mod invoke;
pub mod load;
pub mod load_limits;
mod lock;
mod look_up;
pub mod modes;
mod operation;
pub mod options;
mod overview;
pub mod owner;
pub mod parameters;
mod paths;
pub mod refresh;
#[cfg(feature = "run")]
pub mod run;
pub mod run_summary;
pub mod saved;
mod search;
pub mod secret;
mod service;
mod session;
mod skill_paths;
pub mod state;
pub mod told;
mod unload;
mod unloaded_text;
pub mod uses;
mod view;
pub mod visibility;

pub use prowess_catalog;
pub use prowess_permission;

pub use allowed_tools::AllowedTools;
pub use answer::{SkillAnswer, SkillToolAnswer};
pub use call::PreparedCall;
pub use delta::{LoadedSkill, SkillDelta};
pub use dialect::{Capabilities, Dialect, SkillToolKind, ToolSpec};
pub use engine::SkillEngine;
pub use error::SkillError;
pub use event::SkillEvent;
#[cfg(feature = "backend")]
pub use files::BackendFiles;
pub use files::{LocalFiles, SkillFiles};
pub use invoke::SkillCommand;
pub use load_limits::Budgets;
pub use operation::{Fed, Operation, Outcome, Step, Want};
pub use options::{Discovery, Guidance, Lifetime, SessionOptions};
pub use overview::ModelView;
#[cfg(feature = "run")]
pub use run::{RunSetup, SkillRunner};
pub use run_summary::RunSummary;
pub use saved::SavedState;
pub use service::SkillService;
pub use session::{SkillSession, SkillSessionBuilder};
pub use state::SkillState;
pub use view::SkillView;
