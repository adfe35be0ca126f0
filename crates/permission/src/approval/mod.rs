//! Approvals: remembered replies of "always", and their stores.

mod file;
mod memory;

use std::error::Error;
use std::io;
use std::path::PathBuf;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use file::{FileApprovals, MAX_APPROVALS_BYTES};
pub use memory::MemoryApprovals;

use crate::{Kind, Pattern, Question};

/// One remembered "always".
///
/// ```
/// use prowess_permission::{Broker, Kind, Question};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), prowess_permission::approval::StoreError> {
/// let broker = Broker::in_memory();
/// broker.remember(&Question::new(Kind::RUN, "make")).await?;
/// let approval = broker.remembered().remove(0);
/// assert_eq!((approval.kind.as_str(), approval.pattern.as_str()), ("run", "make"));
/// broker.forget(&approval).await?;
/// assert!(broker.remembered().is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
// An unknown field might narrow the approval, so it must not be ignored.
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// The project in which the person replied.
    pub project: String,
    /// The kind of action.
    pub kind: Kind,
    /// The subjects.
    pub pattern: Pattern,
    /// What the approval is bound to. It covers only questions with an equal binding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
}

impl Approval {
    pub(crate) fn covers(&self, question: &Question, subject: &str) -> bool {
        self.kind == question.kind && self.binding == question.binding && self.pattern.matches(subject)
    }
}

/// A store of approvals.
///
/// An implementation promises:
///
/// - After [`add`](ApprovalStore::add) returns `Ok`, every later [`load`](ApprovalStore::load) finds the approvals, from
///   any process.
/// - Concurrent additions lose nothing.
/// - If it cannot read the approvals, `load` returns an error, never an empty list.
///
/// ```
/// use prowess_permission::{Approval, ApprovalStore, Kind, MemoryApprovals, Pattern};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MemoryApprovals::new();
/// let make = Approval {
///     project: "atlas".into(),
///     kind: Kind::RUN,
///     pattern: Pattern::parse("make *")?,
///     binding: None,
/// };
/// store.add(&[make.clone(), make.clone()]).await?;
/// assert_eq!(store.load("atlas").await?, [make.clone()]);
/// store.remove(&make).await?;
/// assert!(store.load("atlas").await?.is_empty());
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait ApprovalStore: Send + Sync {
    /// The approvals of `project`, oldest first.
    async fn load(&self, project: &str) -> Result<Vec<Approval>, StoreError>;

    /// Adds those that the store does not have yet.
    async fn add(&self, approvals: &[Approval]) -> Result<(), StoreError>;

    /// Removes one. It is no error if the store does not have it.
    async fn remove(&self, approval: &Approval) -> Result<(), StoreError>;
}

/// Why approvals could not be read or saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file is damaged.
    #[error("cannot read the approvals in {}: {reason}; repair the file, or move it away to start without approvals", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The file has an unknown version.
    #[error("the approvals in {} have version {found}, but this prowess reads version {known}; update prowess, or move the file away to start without approvals", .path.display())]
    UnknownVersion {
        /// The file.
        path: PathBuf,
        /// The version in the file.
        found: u64,
        /// The version that this program reads.
        known: u64,
    },
    /// Other users can write the file, so they could add approvals.
    #[error("{} can be written by others (mode {mode:03o}), so prowess does not use its approvals; check the file, then run `chmod go-w` on it", .path.display())]
    WritableByOthers {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file has reached its size limit.
    #[error("{} would exceed {limit} bytes; remove approvals that you no longer need", .path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// The limit, in bytes.
        limit: u64,
    },
    /// An operation on the file failed.
    #[error("could not {operation} {}: {source}", .path.display())]
    Io {
        /// The operation.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Another kind of store failed.
    #[error("{0}")]
    Other(#[source] Box<dyn Error + Send + Sync>),
}

/// Adds approvals that `approvals` does not have yet. Returns whether there were any.
pub(crate) fn merge(approvals: &mut Vec<Approval>, added: &[Approval]) -> bool {
    let before = approvals.len();
    for approval in added {
        if !approvals.contains(approval) {
            approvals.push(approval.clone());
        }
    }
    approvals.len() > before
}
