//! Artifact versions as rows.

use prowess_workspace::artifact::ArtifactRecord;
use prowess_workspace::{ArtifactError, Scope};

use crate::error::DatabaseError;
use crate::event::{checksum, signed};

/// A row of the table of artifacts: name, version, checksum and record.
pub(crate) type ArtifactRow = (String, i64, i64, Vec<u8>);

/// The JSON of a record, and its checksum.
pub(crate) fn body(record: &ArtifactRecord) -> Result<(i64, Vec<u8>), ArtifactError> {
    let body = serde_json::to_vec(record)
        .map_err(|error| ArtifactError::store("could not write a record as JSON", error))?;
    Ok((checksum(&[signed(record.version)], &body), body))
}

pub(crate) fn record((name, version, kept, body): ArtifactRow) -> Result<ArtifactRecord, ArtifactError> {
    let damaged = |problem: String| ArtifactError::Damaged {
        name: name.clone(),
        version: u64::try_from(version).unwrap_or_default(),
        problem,
    };
    if checksum(&[version], &body) != kept {
        return Err(damaged("the checksum of its record is wrong".to_owned()));
    }
    let record: ArtifactRecord = serde_json::from_slice(&body)
        .map_err(|error| damaged(format!("its record cannot be read: {error}")))?;
    if record.name == name && signed(record.version) == version {
        Ok(record)
    } else {
        Err(damaged("its record belongs to another artifact".to_owned()))
    }
}

pub(crate) fn records(rows: Vec<ArtifactRow>) -> Result<Vec<ArtifactRecord>, ArtifactError> {
    let mut records = rows.into_iter().map(record).collect::<Result<Vec<_>, _>>()?;
    records.sort_by(|one, other| (&one.name, one.version).cmp(&(&other.name, other.version)));
    Ok(records)
}

pub(crate) fn failed(error: DatabaseError) -> ArtifactError {
    ArtifactError::store("the index of artifacts failed", error)
}

pub(crate) fn scopes(texts: Vec<String>) -> Result<Vec<Scope>, ArtifactError> {
    let scope = |text: String| text.parse();
    let scopes: Result<Vec<Scope>, _> = texts.into_iter().map(scope).collect();
    scopes.map_err(|problem| ArtifactError::store("reading the scopes of artifacts", problem))
}
