//! Approvals in memory.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::{Approval, ApprovalStore, StoreError, merge};

/// Approvals in memory, for tests and for programs that do not keep approvals.
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
    approvals: Mutex<Vec<Approval>>,
}

impl MemoryApprovals {
    /// A store without approvals.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Approval>> {
        self.approvals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ApprovalStore for MemoryApprovals {
    async fn load(&self, project: &str) -> Result<Vec<Approval>, StoreError> {
        Ok(self.lock().iter().filter(|approval| approval.project == project).cloned().collect())
    }

    async fn add(&self, approvals: &[Approval]) -> Result<(), StoreError> {
        merge(&mut self.lock(), approvals);
        Ok(())
    }

    async fn remove(&self, approval: &Approval) -> Result<(), StoreError> {
        self.lock().retain(|known| known != approval);
        Ok(())
    }
}
