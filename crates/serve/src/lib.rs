//! Serves agents over HTTP: threads, turns, events, questions, skills and files, for several users.
//!
//! A program implements [`ServedAgents`], which says how the agent of a thread is built. [`Server`] does the rest:
//!
//! - Only the worker that has claimed a thread writes to it. Requests *post* to the thread's inbox
//!   ([`TurnQueue`](prowess_agent::queue::TurnQueue)), so a message or a reply survives a crash.
//! - A stream of events has the numbers of the log as ids. Whoever resumes it misses nothing that was stored.
//! - Clients that speak AG-UI or OpenAI's protocols use the same threads, by faces of their own.
//! - Everything about a thread is looked up with its owner. What belongs to somebody else does not exist.
//! - What clients see has its own stable form, in [`view`], without paths of the server.
//!
//! With its feature `oidc`, people can also sign in with OpenID Connect, by [`Server::sign_in_with`].
//!
//! The five types to know: [`Server`], [`ServedAgents`], [`ServedThread`], [`ServeLimits`] and [`AccessSecret`].

mod agents;
mod agui;
mod allowance;
mod api;
mod app;
mod auth;
mod elsewhere;
mod follow;
mod limits;
mod live;
mod metrics;
mod openai;
mod own_skills;
mod page;
mod process;
mod queue;
mod relay;
mod replays;
mod server;
mod stalls;
mod token_watch;
pub mod view;
mod worker;

pub use agents::{
    AgentCard, BoxError, ServedAgents, ServedCost, ServedFiles, ServedThread, SkillCard, SkillDetail,
    SkillFile, SkillList, SkillsPart,
};
pub use allowance::{dollars, micro_dollars};
pub use auth::{AccessSecret, login_link};
#[cfg(feature = "oidc")]
pub use auth::{Admits, Oidc, OidcError, OidcOptions, identity_link};
pub use limits::ServeLimits;
pub use own_skills::{
    OwnSkillCard, OwnSkillHook, OwnSkillLook, OwnSkillRefusal, OwnSkillRequirement, OwnSkillState, OwnSkills,
    OwnSkillsDecider,
};
pub use process::{Process, Role};
pub use queue::{QueueAdmin, QueueAdminError};
pub use server::Server;
