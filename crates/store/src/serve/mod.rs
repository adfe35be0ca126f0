//! What a server for several people keeps: users, their access tokens and who they are elsewhere, whose each thread is, the
//! skills that users uploaded, and the audit log.
//!
//! [`Database::accounts`](crate::Database::accounts), [`Database::owned_threads`](crate::Database::owned_threads),
//! [`Database::own_skills`](crate::Database::own_skills) and [`Database::audit`](crate::Database::audit) return the parts. Each
//! works on SQLite and on PostgreSQL.
//!
//! ```
//! use prowess_agent::ThreadId;
//! use prowess_store::serve::{NewToken, Scope, Scopes, TokenKind};
//! use prowess_store::{Database, SqliteStore};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let database = Database::from(SqliteStore::in_memory()?);
//! let (accounts, threads) = (database.accounts(), database.owned_threads());
//! let anna = accounts.add_user("anna", false).await?;
//! let ben = accounts.add_user("ben", false).await?;
//!
//! let digest = [7; 32]; // the SHA-256 of a secret
//! let scopes = Scopes::from([Scope::Read, Scope::Write]);
//! let token =
//!     NewToken { kind: TokenKind::Token, name: "laptop".to_owned(), scopes, digest, expires: None };
//! accounts.add_token(&anna.id, token).await?;
//! assert_eq!(accounts.who(&digest).await?.expect("a valid token").0.name, "anna");
//!
//! let thread = threads.create(&anna.id, &ThreadId::new(), "default", "Tides").await?;
//! assert_eq!(threads.list(&anna.id, Some("TIDE"), None, 10).await?.0[0].0.id, thread.id);
//! assert!(threads.get(&ben.id, &thread.id).await?.is_none(), "it is not his");
//! # Ok(())
//! # }
//! ```

mod accounts;
mod audit;
mod identities;
mod own_skills;
mod processes;
mod scopes;
mod threads;
mod usage;

pub use self::accounts::{AccountError, Accounts, DailyLimits, NewToken, TokenInfo, TokenKind, User};
pub use self::audit::{Audit, AuditEntry, AuditError};
pub use self::identities::{Identity, IdentityInfo};
pub use self::own_skills::{
    NewOwnSkill, OwnSkill, OwnSkillError, OwnSkillLimits, OwnSkillRows, OwnSkillTrust, SkillDigest,
};
pub use self::processes::{NewProcess, ProcessInfo, ProcessOrders, Processes};
pub use self::scopes::{Scope, ScopeError, Scopes};
pub use self::threads::{OwnedThread, OwnedThreadError, OwnedThreads, Summary, WaitingPosts, WorkerLook};
pub use self::usage::{Usage, UsageSum};

use std::borrow::Cow;

use uuid::Uuid;

use crate::acts_for::ActsFor;
use crate::rows::Cell;

/// A new id. It sorts after all earlier ones.
fn new_id() -> String {
    Uuid::now_v7().simple().to_string()
}

/// Whether a text can be an id. Others reach no statement: a text of PostgreSQL holds no NUL.
fn is_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// An id that came from elsewhere. One that cannot exist is empty, which no id is.
pub(crate) fn possible_id(text: &str) -> &str {
    if is_id(text) { text } else { "" }
}

fn id(text: &str) -> Cell {
    possible_id(text).into()
}

/// Statements run for this user.
fn user(id: &str) -> ActsFor {
    ActsFor::User(possible_id(id).to_owned())
}

/// A text that PostgreSQL can hold as a text.
fn without_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}
