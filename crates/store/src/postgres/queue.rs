//! Claims in PostgreSQL.

use prowess_agent::queue::{ClaimLimits, MAX_ATTEMPTS, WORKER_VANISHED};

use super::PostgresStore;
use crate::error::DatabaseError;
use crate::event::signed;
use crate::queue::ClaimRow;
use crate::rows::{Cell, Statement};
use crate::sql::queue as sql;

impl PostgresStore {
    /// Claims the next thread, and takes its lease.
    pub(crate) async fn claim(
        &self,
        owner: &str,
        lasts: i64,
        limits: ClaimLimits,
    ) -> Result<Option<ClaimRow>, DatabaseError> {
        let values: [Cell; 6] = [
            owner.as_bytes().into(),
            lasts.into(),
            signed(limits.per_user).into(),
            signed(limits.in_all).into(),
            WORKER_VANISHED.as_bytes().into(),
            i64::from(MAX_ATTEMPTS).into(),
        ];
        let rows = self.query(Statement::new(sql::CLAIM, values)).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let (thread, attempt) = (row.text(0)?, row.number(1)?);
        Ok(Some(ClaimRow { thread, attempt, takes_over: row.number(2)? != 0, epoch: row.number(3)? }))
    }
}
