//! Approvals in PostgreSQL.

use async_trait::async_trait;
use prowess_permission::approval::StoreError;
use prowess_permission::{Approval, ApprovalStore};

use super::error::database_error;
use super::{PostgresStore, prepared};
use crate::approval::{failed, project_key, read, row, rows};
use crate::sql;

#[async_trait]
impl ApprovalStore for PostgresStore {
    async fn load(&self, project: &str) -> Result<Vec<Approval>, StoreError> {
        let rows = self.rows(sql::APPROVALS, &[&project_key(project)]).await.map_err(failed)?;
        let rows: Result<Vec<_>, tokio_postgres::Error> =
            rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect();
        read(&self.0.place, project, rows.map_err(|error| failed(database_error(&self.0.place, error)))?)
    }

    async fn add(&self, approvals: &[Approval]) -> Result<(), StoreError> {
        let rows = rows(approvals)?;
        let said = |error| failed(database_error(&self.0.place, error));
        let mut client = self.client().await.map_err(failed)?;
        let transaction = client.transaction().await.map_err(said)?;
        let add = prepared!(transaction, sql::ADD_APPROVAL).map_err(said)?;
        for row in &rows {
            transaction.execute(&add, &[&row.project, &row.digest, &row.body]).await.map_err(said)?;
        }
        transaction.commit().await.map_err(said)
    }

    async fn remove(&self, approval: &Approval) -> Result<(), StoreError> {
        let row = row(approval)?;
        self.rows(sql::REMOVE_APPROVAL, &[&row.project, &row.digest]).await.map_err(failed)?;
        Ok(())
    }
}
