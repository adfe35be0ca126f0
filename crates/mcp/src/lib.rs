//! Serves skills to MCP clients as tools, prompts and resources, and through the official Skills extension. With the
//! feature `client`, it also uses the skills and tools of other MCP servers.
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
//! let server = SkillServer::new(LiveSkills::new(catalog), session.build().await);
//! assert!(server.unserved().await.is_empty());
//! // `prowess_mcp::serve_stdio(server).await?` serves the client until standard input ends.
//! # Ok(())
//! # }
//! ```
//!
//! # The five types to know
//!
//! - [`SkillServer`]: the server for one client, with one [`SkillSession`](prowess_skills::SkillSession).
//! - [`LiveSkills`]: the skills that all servers share. If they change, every client hears of it.
//! - [`serve_stdio`]: serves one client on standard input and output.
//! - `serve_http`, with `HttpServerOptions`: serves many clients at once over streamable HTTP (feature `http`).
//! - `client::Servers`: the connections to other MCP servers, with their skills and tools (feature `client`).
//!
//! # Questions
//!
//! The server speaks the protocol revisions 2025-06-18, 2025-11-25 and 2026-07-28. It asks the client when the permission
//! gate has a question: by elicitation in the older revisions, and by a result that requires input in the newest. If the
//! client supports neither, the call is refused.
//!
//! # Files
//!
//! The catalog reads the files of skills, beneath each skill's own directory and without following links. Untrusted and
//! denied skills are neither listed nor read. With the feature `run`, clients can run the commands of skills.

mod answer_size;
mod artifacts;
mod carry_over;
mod changes;
#[cfg(feature = "client")]
pub mod client;
mod consent;
mod handler;
#[cfg(feature = "http")]
mod http;
mod incoming;
mod json_fields;
mod live;
mod mime;
mod outputs;
mod overview;
mod progress;
mod prompts;
mod resources;
mod server;
mod skills_extension;
mod stdio;
mod tools;
mod unanswered_calls;
mod uri;

pub use rmcp;

pub use answer_size::MAX_ANSWER_BYTES;
#[cfg(feature = "run")]
pub use artifacts::AddressedArtifacts;
#[cfg(feature = "http")]
pub use http::{HttpLimits, HttpServerOptions, Token, TokenError, serve_http};
pub use live::{LiveSkills, Watching};
pub use server::{SkillServer, session_options};
pub use skills_extension::{MAX_SERVED_BYTES, MAX_SERVED_FILES, SKILLS_EXTENSION, Unserved};
pub use stdio::{ServeError, serve_stdio};
