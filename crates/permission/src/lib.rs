//! One gate for everything an agent may do: rules, requests, replies and remembered approvals.
//!
//! ```
//! use prowess_permission::broker::PermissionEvent;
//! use prowess_permission::{Broker, Granted, Kind, PermissionConfig, Permissions, Policy, Question, Reply, RuleSource};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = PermissionConfig::parse(
//!     "[permission.run]\n\
//!      \"git status *\" = \"allow\"\n\
//!      \"rm *\" = \"deny\"\n",
//!     "prowess.toml",
//! )?;
//! let broker = Broker::in_memory();
//! let permissions =
//!     Permissions::new(broker.clone(), "session-1", Policy::new().with(RuleSource::User, config.rules));
//!
//! // Rules settle what they speak about.
//! let grant = permissions.request(Question::new(Kind::RUN, "git status -s")).await?;
//! assert_eq!(grant.how(), Granted::Rule);
//! assert!(permissions.request(Question::new(Kind::RUN, "rm -r docs")).await.is_err());
//!
//! // Somebody is asked about the rest, by whatever front end has subscribed.
//! let mut front_end = broker.subscribe();
//! let answering = async {
//!     let Some(PermissionEvent::Asked(asked)) = front_end.next().await else { return Ok(()) };
//!     broker.reply(asked.id, Reply::Once).await
//! };
//! let (grant, answered) = tokio::join!(permissions.request(Question::new(Kind::RUN, "make")), answering);
//! answered?;
//! assert_eq!(grant?.how(), Granted::Once);
//! # Ok(())
//! # }
//! ```
//!
//! A [`Question`] names a [`Kind`] of act and its subjects. A [`Policy`] holds [`Rule`]s in [`RuleSource`]s and
//! decides without any I/O: the last match wins for each subject, the strictest [`Decision`] over all of
//! them. [`Permissions`] are one session's: they answer from the rules, from what was approved before, or
//! by asking through a [`Broker`], which keeps approvals in an [`ApprovalStore`]. Rules are read from TOML
//! by [`PermissionConfig`].
//!
//! Promises:
//!
//! - Gates fail closed. No rule, no subject, nobody to ask, no answer in time, an unreadable file: none of
//!   them allows anything.
//! - A configured "deny" stands over every approval, also over one that is given while it is added.
//! - A [`Grant`] is for the act that was asked about, argument for argument.
//! - What "always" records is a pattern chosen by the host; by default it is the subject and nothing else.
//!
//! The crate shows nothing to anybody. It needs a Tokio runtime, with its time driver where asks time out.
//!
//! The feature `testing`, off by default, has the suite that every [`ApprovalStore`] passes, for your own.

pub mod action;
pub mod approval;
mod asker;
pub mod broker;
pub mod config;
pub mod decision;
pub mod fingerprint;
mod grant;
mod judgement;
pub mod kind;
mod name;
pub mod nearest;
pub mod pattern;
mod permissions;
mod policy;
pub mod question;
mod reading;
pub mod real_path;
mod refusal;
mod rule;
pub mod secrets;
mod shape;
mod suggest;
#[cfg(feature = "testing")]
pub mod testing;
mod text;
pub mod wording;

pub use action::Action;
pub use approval::{Approval, ApprovalStore, FileApprovals, MemoryApprovals};
pub use asker::{Asker, NoAsker, Replies};
pub use broker::{Broker, BrokerOptions, PendingQuestion, QuestionId, Reply};
pub use config::PermissionConfig;
pub use decision::Decision;
pub use fingerprint::Fingerprint;
pub use grant::{Grant, Granted};
pub use kind::Kind;
pub use name::{joined, quoted};
pub use pattern::Pattern;
pub use permissions::Permissions;
pub use policy::{Policy, Verdict};
pub use question::Question;
pub use reading::PathBase;
pub use real_path::RealPath;
pub use refusal::{Refusal, Stopped};
pub use rule::{Rule, RuleSource};
pub use wording::Wording;
