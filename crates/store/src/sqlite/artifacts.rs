//! The index of artifacts in SQLite.

use async_trait::async_trait;
use prowess_workspace::artifact::ArtifactRecord;
use prowess_workspace::{ArtifactError, ArtifactIndex, ArtifactKey, Scope};
use rusqlite::{OptionalExtension as _, Params, Row, params};

use super::SqliteStore;
use crate::artifact::{ArtifactRow, body, failed, record, records, scopes};
use crate::event::{signed, unsigned};
use crate::sql;

fn artifact_row(row: &Row<'_>) -> rusqlite::Result<ArtifactRow> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
}

impl SqliteStore {
    async fn artifacts(
        &self,
        statement: &'static str,
        values: impl Params + Clone + Send + 'static,
    ) -> Result<Vec<ArtifactRow>, ArtifactError> {
        let rows = self.read(move |connection| {
            let mut statement = connection.prepare_cached(statement)?;
            statement.query_map(values.clone(), artifact_row)?.collect::<rusqlite::Result<Vec<_>>>()
        });
        rows.await.map_err(failed)
    }
}

#[async_trait]
impl ArtifactIndex for SqliteStore {
    async fn add(&self, key: &ArtifactKey, record: ArtifactRecord) -> Result<u64, ArtifactError> {
        let (key, place) = (key.clone(), self.0.place.clone());
        let done = self.write(move |connection| {
            let mut statement = connection.prepare_cached(sql::NEXT_VERSION)?;
            let next: i64 = statement.query_row([key.scope.as_str(), key.name.as_str()], |row| row.get(0))?;
            let version = match unsigned(&place, next) {
                Ok(version) => version,
                Err(error) => return Ok(Err(failed(error))),
            };
            let (checksum, body) = match body(&ArtifactRecord { version, ..record.clone() }) {
                Ok(body) => body,
                Err(error) => return Ok(Err(error)),
            };
            let mut statement = connection.prepare_cached(sql::ADD_VERSION)?;
            statement.execute(params![key.scope.as_str(), key.name.as_str(), next, checksum, body])?;
            Ok(Ok(version))
        });
        done.await.map_err(failed)?
    }

    async fn add_as(&self, key: &ArtifactKey, record: ArtifactRecord) -> Result<bool, ArtifactError> {
        let (key, version) = (key.clone(), signed(record.version));
        let (checksum, body) = body(&record)?;
        let done = self.write(move |connection| {
            let (scope, name) = (key.scope.as_str(), key.name.as_str());
            let mut statement = connection.prepare_cached(sql::TAKE_VERSION)?;
            let taken = statement.query_row(params![scope, name, version + 1], |row| row.get::<_, i64>(0));
            if taken.optional()?.is_none() {
                return Ok(Ok(false));
            }
            let mut statement = connection.prepare_cached(sql::ADD_VERSION)?;
            statement.execute(params![scope, name, version, checksum, body])?;
            Ok(Ok(true))
        });
        done.await.map_err(failed)?
    }

    async fn get(&self, key: &ArtifactKey, version: u64) -> Result<Option<ArtifactRecord>, ArtifactError> {
        let rows = self
            .artifacts(sql::VERSION, (key.scope.to_string(), key.name.to_string(), signed(version)))
            .await?;
        rows.into_iter().next().map(record).transpose()
    }

    async fn latest(&self, key: &ArtifactKey) -> Result<Option<ArtifactRecord>, ArtifactError> {
        let rows = self.artifacts(sql::LATEST, (key.scope.to_string(), key.name.to_string())).await?;
        rows.into_iter().next().map(record).transpose()
    }

    async fn versions(&self, key: &ArtifactKey) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        records(self.artifacts(sql::VERSIONS, (key.scope.to_string(), key.name.to_string())).await?)
    }

    async fn list(&self, scope: &Scope) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        records(self.artifacts(sql::ARTIFACTS, (scope.to_string(),)).await?)
    }

    async fn scopes(&self) -> Result<Vec<Scope>, ArtifactError> {
        let found = self.read(|connection| {
            let mut statement = connection.prepare_cached(sql::SCOPES)?;
            statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()
        });
        scopes(found.await.map_err(failed)?)
    }

    async fn remove(&self, key: &ArtifactKey) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        let key = key.clone();
        let done = self.write(move |connection| {
            let mut statement = connection.prepare_cached(sql::REMOVE_ARTIFACT)?;
            let rows = statement.query_map([key.scope.as_str(), key.name.as_str()], artifact_row)?;
            // Records that cannot be read are not removed.
            Ok(records(rows.collect::<rusqlite::Result<Vec<_>>>()?))
        });
        done.await.map_err(failed)?
    }
}
