//! The index of artifacts in SQLite.

use async_trait::async_trait;
use prowess_workspace::{ArtifactError, ArtifactIndex, ArtifactName, ArtifactRecord};
use rusqlite::{Params, Row, params};

use super::SqliteStore;
use crate::artifact::{ArtifactRow, body, failed, record, records};
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
    async fn add(&self, name: &ArtifactName, record: ArtifactRecord) -> Result<u64, ArtifactError> {
        let (name, place) = (name.clone(), self.0.place.clone());
        let done = self.write(move |connection| {
            let mut statement = connection.prepare_cached(sql::NEXT_VERSION)?;
            let next: i64 = statement.query_row([name.as_str()], |row| row.get(0))?;
            let version = match unsigned(&place, next) {
                Ok(version) => version,
                Err(error) => return Ok(Err(failed(error))),
            };
            let (checksum, body) = match body(&ArtifactRecord { version, ..record.clone() }) {
                Ok(body) => body,
                Err(error) => return Ok(Err(error)),
            };
            let mut statement = connection.prepare_cached(sql::ADD_VERSION)?;
            statement.execute(params![name.as_str(), next, checksum, body])?;
            Ok(Ok(version))
        });
        done.await.map_err(failed)?
    }

    async fn get(&self, name: &ArtifactName, version: u64) -> Result<Option<ArtifactRecord>, ArtifactError> {
        let rows = self.artifacts(sql::VERSION, (name.to_string(), signed(version))).await?;
        rows.into_iter().next().map(record).transpose()
    }

    async fn latest(&self, name: &ArtifactName) -> Result<Option<ArtifactRecord>, ArtifactError> {
        let rows = self.artifacts(sql::LATEST, (name.to_string(),)).await?;
        rows.into_iter().next().map(record).transpose()
    }

    async fn versions(&self, name: &ArtifactName) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        records(self.artifacts(sql::VERSIONS, (name.to_string(),)).await?)
    }

    async fn list(&self) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        records(self.artifacts(sql::ARTIFACTS, ()).await?)
    }

    async fn remove(&self, name: &ArtifactName) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        let name = name.clone();
        let done = self.write(move |connection| {
            let mut statement = connection.prepare_cached(sql::REMOVE_ARTIFACT)?;
            let rows = statement.query_map([name.as_str()], artifact_row)?;
            // What cannot be read is not forgotten.
            Ok(records(rows.collect::<rusqlite::Result<Vec<_>>>()?))
        });
        done.await.map_err(failed)?
    }
}
