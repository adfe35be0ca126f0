//! One gate for everything an agent may do: rules, requests, replies and remembered approvals.
//!
//! ```
//! use prowess_permission::{
//!     Broker, Granted, Kind, RuleSource, PermissionConfig, PermissionEvent, Permissions, Policy, Reply, Question,
//! };
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

mod action;
mod approval;
mod asker;
mod broker;
mod config;
mod decision;
mod fingerprint;
mod grant;
mod judgement;
mod kind;
mod name;
mod nearest;
mod pattern;
mod permissions;
mod policy;
mod question;
mod reading;
mod real_path;
mod refusal;
mod rule;
mod secrets;
mod shape;
mod suggest;
#[cfg(feature = "testing")]
pub mod testing;
mod text;
mod wording;

pub use action::{Action, Channel, RunAction, RunActionInput};
pub use approval::{
    Approval, ApprovalStore, FileApprovals, MAX_APPROVALS_BYTES, MemoryApprovals, StoreError,
};
pub use asker::{Asker, NoAsker, Replies};
pub use broker::{
    Broker, BrokerOptions, PendingQuestion, PermissionEvent, QuestionId, QuestionIdError, QuestionOutcome,
    Reply, ReplyError, Subscription,
};
pub use config::{ConfigError, MAX_CONFIG_BYTES, PermissionConfig};
pub use decision::{Decision, DecisionError};
pub use fingerprint::{Fingerprint, FingerprintError};
pub use grant::{Grant, Granted};
pub use kind::{Kind, KindError, MAX_KIND_CHARS};
pub use name::{joined, quoted};
pub use nearest::nearest;
pub use pattern::{MAX_WILDCARD_CHARS, MAX_WILDCARDS, Pattern, PatternError};
pub use permissions::Permissions;
pub use policy::{Policy, Verdict};
pub use question::{Note, QUESTION_VERSION, Question, RUN_BINDING};
pub use reading::PathBase;
pub use real_path::{RealPath, has_case, ignores_case, real_path};
pub use refusal::{Refusal, Stopped};
pub use rule::{Rule, RuleSource};
pub use secrets::{SECRET_FILES, secret_files};
pub use wording::{Detail, DetailStyle, Wording};
