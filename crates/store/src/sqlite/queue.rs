//! Claims in SQLite.

use prowess_agent::queue::{ClaimLimits, MAX_ATTEMPTS, WORKER_VANISHED};
use rusqlite::{OptionalExtension as _, params};

use super::SqliteStore;
use crate::error::DatabaseError;
use crate::event::signed;
use crate::queue::ClaimRow;
use crate::rows::Statement;
use crate::sql;

impl SqliteStore {
    /// Claims the next thread, and takes its lease.
    pub(crate) async fn claim(
        &self,
        owner: &str,
        lasts: i64,
        limits: ClaimLimits,
    ) -> Result<Option<ClaimRow>, DatabaseError> {
        // Workers look often. A read does not disturb those who write.
        if self.query_briefly(Statement::new(sql::queue::CAN_CLAIM, [])).await?.is_empty() {
            return Ok(None);
        }
        let owner = owner.as_bytes().to_owned();
        let done = self.write(move |connection| {
            let lose = params![WORKER_VANISHED.as_bytes(), MAX_ATTEMPTS];
            connection.prepare_cached(sql::queue::LOSE_CLAIMS)?.execute(lose)?;
            let most = params![signed(limits.per_user), signed(limits.in_all)];
            let mut next = connection.prepare_cached(sql::queue::NEXT)?;
            let Some(thread) = next.query_row(most, |row| row.get::<_, String>(0)).optional()? else {
                return Ok(Ok::<_, ()>(None));
            };
            let (attempt, lost) = connection
                .prepare_cached(sql::queue::CLAIM_NEXT)?
                .query_row(params![thread, owner, lasts], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)))?;
            // Nobody has the lease, so this returns a row.
            let epoch = connection
                .prepare_cached(sql::LEASE)?
                .query_row(params![thread, owner, lasts], |row| row.get(0))?;
            Ok(Ok(Some(ClaimRow { thread, attempt, takes_over: lost != 0, epoch })))
        });
        Ok(done.await?.unwrap_or_default())
    }
}
