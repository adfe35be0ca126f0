//! The client of other MCP servers: their skills for a session, and their tools for an agent.
//!
//! - [`Servers`] connects to all configured servers ([`ServerOptions`]), and adds their skills to a catalog.
//! - [`ServerFiles`] reads the files of their skills, and verifies each file against its entry.
//! - [`ServerTools`] is the middleware that gives their tools to an agent.
//!
//! Everything that a server sends is bounded in size, number and time. The configured label identifies a server, never what
//! the server reports about itself.

mod cache;
mod command;
mod custom_answer;
mod entry;
mod error;
mod handler;
mod held_entry;
mod http;
mod label;
mod options;
mod pages;
mod patience;
mod read;
mod server;
mod server_files;
mod server_tools;
mod servers;
mod short_line;
mod skill_list;
#[cfg(feature = "run")]
mod stage;
mod stdio;
mod tool_answer;
mod tool_list;
mod verify;

pub use cache::{Cache, CacheError};
pub use error::{Mismatch, ServerError, Unverified};
pub use held_entry::HeldEntry;
pub use label::{LabelError, ServerLabel};
pub use options::{BearerToken, Connection, ServerLimits, ServerOptions, ServerUrl, UrlError};
pub use patience::Patience;
pub use server::Server;
pub use server_files::ServerFiles;
pub use server_tools::ServerTools;
pub use servers::{FoundSkills, Servers};
pub use skill_list::SkillList;
pub use tool_list::{ServerTool, ToolList};
