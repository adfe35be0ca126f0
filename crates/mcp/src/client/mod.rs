//! Skills and tools of other servers.
//!
//! What a server says is foreign: it is bounded in size, number and time, what it says of itself tells it from no other
//! server, and what it gives is used when it is what its entry promised.

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
mod patience;
mod printable;
mod read;
mod server;
mod server_files;
mod server_tools;
mod servers;
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
