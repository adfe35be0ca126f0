//! The index of artifacts in PostgreSQL.

use async_trait::async_trait;
use prowess_workspace::{ArtifactError, ArtifactIndex, ArtifactName, ArtifactRecord};
use tokio_postgres::{Error, Row};

use super::error::explained;
use super::{PostgresStore, prepared};
use crate::artifact::{ArtifactRow, body, failed, record, records};
use crate::error::DatabaseError;
use crate::event::{signed, unsigned};
use crate::sql;

fn artifact_row(row: &Row) -> Result<ArtifactRow, Error> {
    Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?))
}

impl PostgresStore {
    fn artifact_rows(
        &self,
        rows: Result<Vec<Row>, DatabaseError>,
    ) -> Result<Vec<ArtifactRow>, ArtifactError> {
        let rows: Result<_, Error> = rows.map_err(failed)?.iter().map(artifact_row).collect();
        rows.map_err(|error| failed(explained(&self.0.place, error)))
    }
}

#[async_trait]
impl ArtifactIndex for PostgresStore {
    async fn add(&self, name: &ArtifactName, record: ArtifactRecord) -> Result<u64, ArtifactError> {
        let said = |error| failed(explained(&self.0.place, error));
        let mut client = self.client().await.map_err(failed)?;
        let transaction = client.transaction().await.map_err(said)?;
        let next = prepared!(transaction, sql::NEXT_VERSION).map_err(said)?;
        let next = transaction.query_one(&next, &[&name.as_str()]).await.map_err(said)?;
        let next: i64 = next.try_get(0).map_err(said)?;
        let version = unsigned(&self.0.place, next).map_err(failed)?;
        let (checksum, body) = body(&ArtifactRecord { version, ..record })?;
        let add = prepared!(transaction, sql::ADD_VERSION).map_err(said)?;
        transaction.execute(&add, &[&name.as_str(), &next, &checksum, &body]).await.map_err(said)?;
        transaction.commit().await.map_err(said)?;
        Ok(version)
    }

    async fn get(&self, name: &ArtifactName, version: u64) -> Result<Option<ArtifactRecord>, ArtifactError> {
        let rows = self.rows(sql::VERSION, &[&name.as_str(), &signed(version)]).await;
        self.artifact_rows(rows)?.into_iter().next().map(record).transpose()
    }

    async fn latest(&self, name: &ArtifactName) -> Result<Option<ArtifactRecord>, ArtifactError> {
        let rows = self.rows(sql::LATEST, &[&name.as_str()]).await;
        self.artifact_rows(rows)?.into_iter().next().map(record).transpose()
    }

    async fn versions(&self, name: &ArtifactName) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        let rows = self.rows(sql::VERSIONS, &[&name.as_str()]).await;
        records(self.artifact_rows(rows)?)
    }

    async fn list(&self) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        let rows = self.rows(sql::ARTIFACTS, &[]).await;
        records(self.artifact_rows(rows)?)
    }

    async fn remove(&self, name: &ArtifactName) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        let said = |error| failed(explained(&self.0.place, error));
        let mut client = self.client().await.map_err(failed)?;
        let transaction = client.transaction().await.map_err(said)?;
        let remove = prepared!(transaction, sql::REMOVE_ARTIFACT).map_err(said)?;
        let rows = transaction.query(&remove, &[&name.as_str()]).await.map_err(said)?;
        // What cannot be read is not forgotten.
        let removed = records(self.artifact_rows(Ok(rows))?)?;
        transaction.commit().await.map_err(said)?;
        Ok(removed)
    }
}
