//! What "always" leaves behind, and where it is kept.

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
// A field that this version does not know might narrow the approval, so it must not be read over.
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// The project that it was given in.
    pub project: String,
    /// The sort of act.
    pub kind: Kind,
    /// The subjects.
    pub pattern: Pattern,
    /// What it was given for besides: it covers only requests with an equal binding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
}

impl Approval {
    pub(crate) fn covers(&self, request: &Question, subject: &str) -> bool {
        self.kind == request.kind && self.binding == request.binding && self.pattern.matches(subject)
    }
}

/// Where approvals are kept between runs.
///
/// Implementations promise that what [`add`](ApprovalStore::add) has returned `Ok` for is found by
/// every later [`load`](ApprovalStore::load), from any process; that adding at the same time loses
/// nothing; and that what cannot be read is an error, never an empty list.
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

    /// Adds those that are not there yet.
    async fn add(&self, approvals: &[Approval]) -> Result<(), StoreError>;

    /// Removes one. That it is not there is no error.
    async fn remove(&self, approval: &Approval) -> Result<(), StoreError>;
}

/// Why approvals could not be read or kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file is not what was written to it.
    #[error("the approvals in {} cannot be read: {reason}; repair the file, or move it away to start without approvals", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The file is of a version that this program does not know.
    #[error("the approvals in {} are of version {found}, and this program reads version {known}; use a newer prowess, or move the file away to start without approvals", .path.display())]
    UnknownVersion {
        /// The file.
        path: PathBuf,
        /// What it says that it is.
        found: u64,
        /// What can be read.
        known: u64,
    },
    /// Somebody else may write the file, and could give approvals in the user's name.
    #[error("{} can be written by others (mode {mode:03o}), so its approvals are not used; check what it says, then run `chmod go-w` on it", .path.display())]
    WritableByOthers {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// There is no room for more.
    #[error("{} would grow over {limit} bytes; remove approvals that are no longer needed", .path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The system refused.
    #[error("could not {operation} {}: {source}", .path.display())]
    Io {
        /// What was being done.
        operation: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another kind of store failed.
    #[error("{0}")]
    Other(#[source] Box<dyn Error + Send + Sync>),
}

/// Adds to `kept` what is not in it yet, and says whether anything was.
pub(crate) fn merge(kept: &mut Vec<Approval>, added: &[Approval]) -> bool {
    let before = kept.len();
    for approval in added {
        if !kept.contains(approval) {
            kept.push(approval.clone());
        }
    }
    kept.len() > before
}
