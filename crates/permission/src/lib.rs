//! One gate for everything that an agent may do: rules, questions, replies and approvals.
//!
//! Rules allow, deny or ask. If the decision is "ask", a front end shows the question to a person, and the reply decides. The
//! reply "always" is remembered as an approval.
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
//!     Permissions::new(broker.clone(), "session-1", Policy::new().rules(RuleSource::User, config.rules));
//!
//! // Rules decide about the actions that they match.
//! let grant = permissions.request(Question::new(Kind::RUN, "git status -s")).await?;
//! assert_eq!(grant.how(), Granted::Rule);
//! assert!(permissions.request(Question::new(Kind::RUN, "rm -r docs")).await.is_err());
//!
//! // A front end asks a person about all others.
//! let mut front_end = broker.subscribe();
//! let replying = async {
//!     let Some(PermissionEvent::Asked(pending)) = front_end.next().await else { return Ok(()) };
//!     broker.reply(pending.id, Reply::Once).await
//! };
//! let (grant, replied) = tokio::join!(permissions.request(Question::new(Kind::RUN, "make")), replying);
//! replied?;
//! assert_eq!(grant?.how(), Granted::Once);
//! # Ok(())
//! # }
//! ```
//!
//! # The five types to know
//!
//! - [`Question`]: an action that needs permission, with its [`Kind`] and its subjects.
//! - [`Policy`]: the [`Rule`]s of all [`RuleSource`]s. The last match wins for each subject, and the strictest [`Decision`]
//!   over all subjects. [`PermissionConfig`] reads rules from TOML.
//! - [`Permissions`]: the permissions of one session. They return a [`Grant`] or a [`Refusal`].
//! - [`Broker`]: brings questions to front ends, and keeps approvals in an [`ApprovalStore`].
//! - [`Reply`]: what the person says: once, always or reject.
//!
//! # Promises
//!
//! - Gates fail closed. Without a rule, a subject, a person, a reply in time or a readable file, nothing is allowed.
//! - A configured "deny" overrides every approval, even one that a person gives while the rule is added.
//! - A [`Grant`] is only for the action in the question, with exactly its arguments.
//! - "Always" records patterns that the caller chooses; by default exactly the subject.
//!
//! This crate has no user interface. It needs a Tokio runtime, with a time driver if questions have a timeout.
//!
//! The feature `testing`, off by default, adds a test suite for your own [`ApprovalStore`].

pub mod action;
pub mod approval;
mod asker;
pub mod broker;
pub mod config;
pub mod decision;
mod evaluation;
pub mod fingerprint;
mod grant;
pub mod kind;
mod name;
pub mod nearest;
mod path_pattern;
pub mod pattern;
mod permissions;
mod policy;
pub mod protected;
pub mod question;
pub mod real_path;
mod refusal;
mod rule;
pub mod secrets;
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
pub use name::{owned_subject, quote_name};
pub use path_pattern::PathBase;
pub use pattern::Pattern;
pub use permissions::Permissions;
pub use policy::{Policy, Verdict};
pub use question::Question;
pub use real_path::RealPath;
pub use refusal::{Refusal, Stopped};
pub use rule::{Rule, RuleSource};
pub use wording::Wording;
