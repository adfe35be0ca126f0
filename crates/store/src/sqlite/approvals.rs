//! Approvals in SQLite.

#[cfg(unix)]
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use async_trait::async_trait;
use prowess_permission::approval::StoreError;
use prowess_permission::{Approval, ApprovalStore};
use rusqlite::params;

use super::SqliteStore;
use crate::approval::{failed, project_key, read, row, rows};
use crate::sql;

/// Checks that only this user can write the file: other writers could give approvals in the user's name.
fn check_mode(path: &Path) -> Result<(), StoreError> {
    #[cfg(unix)]
    {
        let metadata = std::fs::metadata(path).map_err(|source| StoreError::Io {
            operation: "inspect",
            path: path.to_owned(),
            source,
        })?;
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o022 != 0 {
            return Err(StoreError::WritableByOthers { path: path.to_owned(), mode });
        }
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

#[async_trait]
impl ApprovalStore for SqliteStore {
    async fn load(&self, project: &str) -> Result<Vec<Approval>, StoreError> {
        let key = project_key(project);
        let path = self.0.file.as_ref().map(|file| file.path.clone());
        let rows = self.read(move |connection| {
            if let Some(Err(refused)) = path.as_deref().map(check_mode) {
                return Ok(Err(refused));
            }
            let mut statement = connection.prepare_cached(sql::APPROVALS)?;
            let rows = statement.query_map([&key], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<rusqlite::Result<Vec<_>>>().map(Ok)
        });
        read(&self.0.place, project, rows.await.map_err(failed)??)
    }

    async fn add(&self, approvals: &[Approval]) -> Result<(), StoreError> {
        let rows = rows(approvals)?;
        let done = self.write(move |connection| {
            let mut statement = connection.prepare_cached(sql::ADD_APPROVAL)?;
            for row in &rows {
                statement.execute(params![row.project, row.digest, row.body])?;
            }
            Ok(Ok(()))
        });
        done.await.map_err(failed)?
    }

    async fn remove(&self, approval: &Approval) -> Result<(), StoreError> {
        let row = row(approval)?;
        let done = self.write(move |connection| {
            let mut statement = connection.prepare_cached(sql::REMOVE_APPROVAL)?;
            statement.execute(params![row.project, row.digest])?;
            Ok(Ok(()))
        });
        done.await.map_err(failed)?
    }
}
