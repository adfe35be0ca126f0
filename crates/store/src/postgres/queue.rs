//! Claims in PostgreSQL.

use prowess_agent::queue::{ClaimLimits, MAX_VANISHED, WORKER_VANISHED};

use super::PostgresStore;
use crate::error::DatabaseError;
use crate::event::signed;
use crate::queue::{ClaimLook, ClaimRow};
use crate::rows::{Cell, Statement};
use crate::sql::queue as sql;

impl PostgresStore {
    /// Claims the next thread, and takes its lease.
    pub(crate) async fn claim(
        &self,
        owner: &str,
        lasts: i64,
        limits: ClaimLimits,
    ) -> Result<ClaimLook, DatabaseError> {
        let values: [Cell; 6] = [
            owner.as_bytes().into(),
            lasts.into(),
            signed(limits.per_user).into(),
            signed(limits.in_all).into(),
            WORKER_VANISHED.as_bytes().into(),
            i64::from(MAX_VANISHED).into(),
        ];
        let rows = self.query(Statement::new(sql::CLAIM, values)).await?;
        let mut look = ClaimLook::default();
        for row in rows {
            let thread = row.text(0)?;
            match row.maybe_number(1)? {
                None => look.died.push(thread),
                Some(attempt) => {
                    let (takes_over, epoch) = (row.number(2)? != 0, row.number(3)?);
                    look.claim = Some(ClaimRow { thread, attempt, takes_over, epoch });
                }
            }
        }
        Ok(look)
    }
}
