//! Claims in SQLite.

use prowess_agent::queue::{ClaimLimits, MAX_VANISHED, WORKER_VANISHED};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::SqliteStore;
use crate::error::DatabaseError;
use crate::event::signed;
use crate::queue::{ClaimLook, ClaimRow};
use crate::rows::{Cell, Statement};
use crate::sql;

impl SqliteStore {
    /// Claims the next thread, and takes its lease.
    pub(crate) async fn claim(
        &self,
        owner: &str,
        lasts: i64,
        limits: ClaimLimits,
    ) -> Result<ClaimLook, DatabaseError> {
        let most = [signed(limits.per_user), signed(limits.in_all)];
        // Workers look often. A read does not disturb those who write.
        let can_claim = Statement::new(sql::queue::CAN_CLAIM, most.map(Cell::from));
        if self.query_briefly(can_claim).await?.is_empty() {
            return Ok(ClaimLook::default());
        }
        let owner = owner.as_bytes().to_owned();
        let done = self.write(move |connection| {
            let died = lose_claims(connection)?;
            connection.prepare_cached(sql::queue::END_DELAYS)?.execute([])?;
            let mut next = connection.prepare_cached(sql::queue::NEXT)?;
            let Some(thread) = next.query_row(most, |row| row.get::<_, String>(0)).optional()? else {
                return Ok(Ok::<_, ()>(ClaimLook { claim: None, died }));
            };
            let (attempt, lost) = connection
                .prepare_cached(sql::queue::CLAIM_NEXT)?
                .query_row(params![thread, owner, lasts], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)))?;
            // Nobody has the lease, so this returns a row.
            let epoch = connection
                .prepare_cached(sql::LEASE)?
                .query_row(params![thread, owner, lasts], |row| row.get(0))?;
            let claim = Some(ClaimRow { thread, attempt, takes_over: lost != 0, epoch });
            Ok(Ok(ClaimLook { claim, died }))
        });
        Ok(done.await?.unwrap_or_default())
    }
}

/// Ends the claims of workers that vanished. Returns the threads that became dead letters.
fn lose_claims(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let now: i64 = connection.prepare_cached(sql::NOW)?.query_row([], |row| row.get(0))?;
    let mut lose = connection.prepare_cached(sql::queue::LOSE_CLAIMS)?;
    let values = params![WORKER_VANISHED.as_bytes(), MAX_VANISHED, now];
    let lost = lose.query_map(values, |row| Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?)))?;
    let lost: Vec<_> = lost.collect::<rusqlite::Result<_>>()?;
    Ok(lost.into_iter().filter(|(_, died)| *died).map(|(thread, _)| thread).collect())
}
