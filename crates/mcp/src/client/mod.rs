//! Skills and tools of other servers.
//!
//! What a server says is foreign: it is bounded in size, number and time, what it says of itself tells it from no other
//! server, and what it gives is used when it is what its entry promised.

mod answer;
mod cache;
mod command;
mod entry;
mod error;
mod files;
mod handler;
mod held;
mod http;
mod label;
mod list;
mod options;
mod patience;
mod pipes;
mod read;
mod server;
mod server_tools;
mod servers;
mod shown;
#[cfg(feature = "run")]
mod stage;
mod tool_answer;
mod tools;
mod verify;

pub use cache::{Cache, CacheError};
pub use error::{Mismatch, ServerError, Unverified};
pub use files::ServerFiles;
pub use held::HeldEntry;
pub use label::{LabelError, ServerLabel};
pub use list::SkillList;
pub use options::{BearerToken, Connection, ServerLimits, ServerOptions, ServerUrl, UrlError};
pub use patience::Patience;
pub use server::Server;
pub use server_tools::ServerTools;
pub use servers::{FoundSkills, Servers};
pub use tools::{ServerTool, ToolList};
