//! The index of artifacts in PostgreSQL.

use async_trait::async_trait;
use prowess_workspace::artifact::ArtifactRecord;
use prowess_workspace::{ArtifactError, ArtifactIndex, ArtifactKey, Scope};

use super::PostgresStore;
use super::rows::query;
use crate::artifact::{ArtifactRow, body, failed, record, records, scopes};
use crate::error::DatabaseError;
use crate::event::{signed, unsigned};
use crate::rows::{Cell, Row, Statement, first};
use crate::sql;

fn artifact_row(row: &Row) -> Result<ArtifactRow, DatabaseError> {
    Ok((row.text(0)?, row.number(1)?, row.number(2)?, row.bytes(3)?))
}

fn artifact_rows(rows: &[Row]) -> Result<Vec<ArtifactRow>, ArtifactError> {
    rows.iter().map(artifact_row).collect::<Result<_, _>>().map_err(failed)
}

/// A key as the first two values of a statement.
fn named(key: &ArtifactKey) -> [Cell; 2] {
    [key.scope.as_str().into(), key.name.as_str().into()]
}

fn numbered(key: &ArtifactKey, number: i64) -> [Cell; 3] {
    let [scope, name] = named(key);
    [scope, name, number.into()]
}

/// The statement that adds a version.
fn add(key: &ArtifactKey, version: i64, record: &ArtifactRecord) -> Result<Statement, ArtifactError> {
    let (checksum, body) = body(record)?;
    let [scope, name] = named(key);
    Ok(Statement::new(sql::ADD_VERSION, [scope, name, version.into(), checksum.into(), body.into()]))
}

impl PostgresStore {
    async fn artifact_rows(&self, statement: Statement) -> Result<Vec<ArtifactRow>, ArtifactError> {
        artifact_rows(&self.query(statement).await.map_err(failed)?)
    }
}

#[async_trait]
impl ArtifactIndex for PostgresStore {
    async fn add(&self, key: &ArtifactKey, record: ArtifactRecord) -> Result<u64, ArtifactError> {
        let next = Statement::new(sql::NEXT_VERSION, named(key));
        let (open, answers) = self.begin(&[query(&next)]).await.map_err(failed)?;
        let rows = self.rows_of(answers).map_err(failed)?;
        let next = first(&[rows], 0).and_then(|row| row.number(0)).map_err(failed)?;
        let version = unsigned(&self.0.place, next).map_err(failed)?;
        let add = add(key, next, &ArtifactRecord { version, ..record })?;
        open.commit(&[query(&add)]).await.map_err(failed)?;
        Ok(version)
    }

    async fn add_as(&self, key: &ArtifactKey, record: ArtifactRecord) -> Result<bool, ArtifactError> {
        let version = signed(record.version);
        let take = Statement::required(sql::TAKE_VERSION, numbered(key, version + 1));
        let done = self.transact(vec![take, add(key, version, &record)?]).await;
        Ok(done.map_err(failed)?.is_ok())
    }

    async fn get(&self, key: &ArtifactKey, version: u64) -> Result<Option<ArtifactRecord>, ArtifactError> {
        let version = Statement::new(sql::VERSION, numbered(key, signed(version)));
        self.artifact_rows(version).await?.into_iter().next().map(record).transpose()
    }

    async fn latest(&self, key: &ArtifactKey) -> Result<Option<ArtifactRecord>, ArtifactError> {
        let latest = Statement::new(sql::LATEST, named(key));
        self.artifact_rows(latest).await?.into_iter().next().map(record).transpose()
    }

    async fn versions(&self, key: &ArtifactKey) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        records(self.artifact_rows(Statement::new(sql::VERSIONS, named(key))).await?)
    }

    async fn list(&self, scope: &Scope) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        records(self.artifact_rows(Statement::new(sql::ARTIFACTS, [scope.as_str().into()])).await?)
    }

    async fn scopes(&self) -> Result<Vec<Scope>, ArtifactError> {
        let rows = self.query(Statement::new(sql::SCOPES, [])).await.map_err(failed)?;
        let texts: Result<_, _> = rows.iter().map(|row| row.text(0)).collect();
        scopes(texts.map_err(failed)?)
    }

    async fn remove(&self, key: &ArtifactKey) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        let remove = Statement::new(sql::REMOVE_ARTIFACT, named(key));
        let (open, answers) = self.begin(&[query(&remove)]).await.map_err(failed)?;
        let rows = self.rows_of(answers).map_err(failed)?;
        // Records that cannot be read are not removed.
        let removed = records(artifact_rows(&rows)?)?;
        open.commit(&[]).await.map_err(failed)?;
        Ok(removed)
    }
}
