//! Approvals that last as long as a value.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::{Approval, ApprovalStore, StoreError, merge};

/// Approvals in memory: for tests, and for hosts that forget on purpose.
///
/// ```
/// use std::sync::Arc;
/// use prowess_permission::{Broker, MemoryApprovals};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), prowess_permission::approval::StoreError> {
/// let broker = Broker::open(Arc::new(MemoryApprovals::new()), "atlas").await?;
/// assert!(broker.remembered().is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct MemoryApprovals {
    kept: Mutex<Vec<Approval>>,
}

impl MemoryApprovals {
    /// A store without approvals.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Approval>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ApprovalStore for MemoryApprovals {
    async fn load(&self, project: &str) -> Result<Vec<Approval>, StoreError> {
        Ok(self.kept().iter().filter(|approval| approval.project == project).cloned().collect())
    }

    async fn add(&self, approvals: &[Approval]) -> Result<(), StoreError> {
        merge(&mut self.kept(), approvals);
        Ok(())
    }

    async fn remove(&self, approval: &Approval) -> Result<(), StoreError> {
        self.kept().retain(|kept| kept != approval);
        Ok(())
    }
}
