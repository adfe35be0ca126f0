//! Approvals in PostgreSQL.

use async_trait::async_trait;
use prowess_permission::approval::StoreError;
use prowess_permission::{Approval, ApprovalStore};

use super::PostgresStore;
use crate::approval::{failed, project_key, read, row, rows};
use crate::rows::Statement;
use crate::sql;

#[async_trait]
impl ApprovalStore for PostgresStore {
    async fn load(&self, project: &str) -> Result<Vec<Approval>, StoreError> {
        let load = Statement::new(sql::APPROVALS, [project_key(project).into()]);
        let rows = self.query(load).await.map_err(failed)?;
        let rows = rows.iter().map(|row| Ok((row.bytes(0)?, row.bytes(1)?))).collect::<Result<Vec<_>, _>>();
        read(&self.0.place, project, rows.map_err(failed)?)
    }

    async fn add(&self, approvals: &[Approval]) -> Result<(), StoreError> {
        let rows = rows(approvals)?.into_iter();
        let add = rows.map(|row| {
            Statement::new(sql::ADD_APPROVAL, [row.project.into(), row.digest.into(), row.body.into()])
        });
        self.transact(add.collect()).await.map(drop).map_err(failed)
    }

    async fn remove(&self, approval: &Approval) -> Result<(), StoreError> {
        let row = row(approval)?;
        let remove = Statement::new(sql::REMOVE_APPROVAL, [row.project.into(), row.digest.into()]);
        self.query(remove).await.map(drop).map_err(failed)
    }
}
