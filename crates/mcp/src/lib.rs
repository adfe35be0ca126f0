//! Serves skills to every MCP client: tools, prompts, resources, and the official Skills extension.
//!
//! ```
//! use prowess_catalog::{Catalog, Root, ScanOptions};
//! use prowess_mcp::{LiveSkills, SkillServer, session_options};
//! use prowess_skills::{Dialect, SkillSession};
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
//! let session = SkillSession::builder(catalog.clone()).options(session_options(Dialect::DeepAgents));
//! let server = SkillServer::new(LiveSkills::new(catalog), session.start().await);
//! assert!(server.unserved().await.is_empty());
//! // `prowess_mcp::serve_stdio(server).await?` serves it until standard input ends.
//! # Ok(())
//! # }
//! ```
//!
//! A [`SkillServer`] is one client's: it has one [`SkillSession`](prowess_skills::SkillSession), and no skill logic of
//! its own. [`LiveSkills`] are the skills that all of them share; when they change, every client is told. Protocol
//! revisions 2025-06-18, 2025-11-25 and 2026-07-28 are spoken: questions of the permission gate go to the client as
//! elicitation with the older ones, as results that require input with the newest, and are refusals where the client
//! can do neither.
//!
//! With the feature `http`, `serve_http` serves many clients at once over streamable HTTP; with `run`, commands of skills
//! can be run.
//!
//! Files of skills are read by the catalog, beneath the skill's own directory and without following links. What is
//! untrusted or denied is neither listed nor read.

#[cfg(feature = "run")]
mod addressed;
#[cfg(feature = "client")]
pub mod client;
mod consent;
mod fields;
#[cfg(feature = "http")]
mod http;
mod incoming;
mod lasting;
mod live;
mod mime;
mod outputs;
mod overview;
mod progress;
mod prompts;
mod publication;
mod resources;
mod server;
mod size;
mod stdio;
mod tools;
mod uri;

pub use rmcp;

#[cfg(feature = "run")]
pub use addressed::AddressedArtifacts;
#[cfg(feature = "http")]
pub use http::{HttpLimits, HttpOptions, Token, TokenError, serve_http};
pub use live::{LiveSkills, Watching};
pub use publication::{MAX_SERVED_BYTES, MAX_SERVED_FILES, SKILLS_EXTENSION, Unserved};
pub use server::{SkillServer, session_options};
pub use size::MAX_ANSWER_BYTES;
pub use stdio::{ServeError, serve_stdio};
