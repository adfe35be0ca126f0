//! The index of artifacts in PostgreSQL.

use async_trait::async_trait;
use prowess_workspace::artifact::ArtifactRecord;
use prowess_workspace::{ArtifactError, ArtifactIndex, ArtifactKey, Scope};
use tokio_postgres::{Error, Row};

use super::error::database_error;
use super::{PostgresStore, prepared};
use crate::artifact::{ArtifactRow, body, failed, record, records, scopes};
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
        rows.map_err(|error| failed(database_error(&self.0.place, error)))
    }
}

#[async_trait]
impl ArtifactIndex for PostgresStore {
    async fn add(&self, key: &ArtifactKey, record: ArtifactRecord) -> Result<u64, ArtifactError> {
        let said = |error| failed(database_error(&self.0.place, error));
        let mut client = self.client().await.map_err(failed)?;
        let transaction = client.transaction().await.map_err(said)?;
        let next = prepared!(transaction, sql::NEXT_VERSION).map_err(said)?;
        let next =
            transaction.query_one(&next, &[&key.scope.as_str(), &key.name.as_str()]).await.map_err(said)?;
        let next: i64 = next.try_get(0).map_err(said)?;
        let version = unsigned(&self.0.place, next).map_err(failed)?;
        let (checksum, body) = body(&ArtifactRecord { version, ..record })?;
        let add = prepared!(transaction, sql::ADD_VERSION).map_err(said)?;
        transaction
            .execute(&add, &[&key.scope.as_str(), &key.name.as_str(), &next, &checksum, &body])
            .await
            .map_err(said)?;
        transaction.commit().await.map_err(said)?;
        Ok(version)
    }

    async fn add_as(&self, key: &ArtifactKey, record: ArtifactRecord) -> Result<bool, ArtifactError> {
        let said = |error| failed(database_error(&self.0.place, error));
        let (scope, name, version) = (key.scope.as_str(), key.name.as_str(), signed(record.version));
        let (checksum, body) = body(&record)?;
        let mut client = self.client().await.map_err(failed)?;
        let transaction = client.transaction().await.map_err(said)?;
        let take = prepared!(transaction, sql::TAKE_VERSION).map_err(said)?;
        let taken = transaction.query_opt(&take, &[&scope, &name, &(version + 1)]).await.map_err(said)?;
        if taken.is_none() {
            return Ok(false);
        }
        let add = prepared!(transaction, sql::ADD_VERSION).map_err(said)?;
        transaction.execute(&add, &[&scope, &name, &version, &checksum, &body]).await.map_err(said)?;
        transaction.commit().await.map_err(said)?;
        Ok(true)
    }

    async fn get(&self, key: &ArtifactKey, version: u64) -> Result<Option<ArtifactRecord>, ArtifactError> {
        let rows =
            self.rows(sql::VERSION, &[&key.scope.as_str(), &key.name.as_str(), &signed(version)]).await;
        self.artifact_rows(rows)?.into_iter().next().map(record).transpose()
    }

    async fn latest(&self, key: &ArtifactKey) -> Result<Option<ArtifactRecord>, ArtifactError> {
        let rows = self.rows(sql::LATEST, &[&key.scope.as_str(), &key.name.as_str()]).await;
        self.artifact_rows(rows)?.into_iter().next().map(record).transpose()
    }

    async fn versions(&self, key: &ArtifactKey) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        let rows = self.rows(sql::VERSIONS, &[&key.scope.as_str(), &key.name.as_str()]).await;
        records(self.artifact_rows(rows)?)
    }

    async fn list(&self, scope: &Scope) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        let rows = self.rows(sql::ARTIFACTS, &[&scope.as_str()]).await;
        records(self.artifact_rows(rows)?)
    }

    async fn scopes(&self) -> Result<Vec<Scope>, ArtifactError> {
        let rows = self.rows(sql::SCOPES, &[]).await.map_err(failed)?;
        let texts: Result<_, Error> = rows.iter().map(|row| row.try_get(0)).collect();
        scopes(texts.map_err(|error| failed(database_error(&self.0.place, error)))?)
    }

    async fn remove(&self, key: &ArtifactKey) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        let said = |error| failed(database_error(&self.0.place, error));
        let mut client = self.client().await.map_err(failed)?;
        let transaction = client.transaction().await.map_err(said)?;
        let remove = prepared!(transaction, sql::REMOVE_ARTIFACT).map_err(said)?;
        let rows =
            transaction.query(&remove, &[&key.scope.as_str(), &key.name.as_str()]).await.map_err(said)?;
        // Records that cannot be read are not removed.
        let removed = records(self.artifact_rows(Ok(rows))?)?;
        transaction.commit().await.map_err(said)?;
        Ok(removed)
    }
}
