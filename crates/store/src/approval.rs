//! Approvals as rows.

use hmac_sha256::Hash;
use prowess_permission::Approval;
use prowess_permission::approval::StoreError;

use crate::error::DatabaseError;

/// A row of the table of approvals.
#[derive(Clone, Debug)]
pub(crate) struct ApprovalRow {
    pub(crate) project: Vec<u8>,
    pub(crate) digest: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

impl ApprovalRow {
    /// Whether its digest and its project are right.
    pub(crate) fn is_whole(&self) -> bool {
        let approval = serde_json::from_slice::<Approval>(&self.body);
        Hash::hash(&self.body).as_slice() == self.digest
            && approval.is_ok_and(|approval| project_key(&approval.project) == self.project)
    }
}

/// The key of a project.
pub(crate) fn project_key(project: &str) -> Vec<u8> {
    Hash::hash(project.as_bytes()).to_vec()
}

pub(crate) fn row(approval: &Approval) -> Result<ApprovalRow, StoreError> {
    let body = serde_json::to_vec(approval).map_err(|error| StoreError::Other(error.into()))?;
    let digest = Hash::hash(&body).to_vec();
    Ok(ApprovalRow { project: project_key(&approval.project), digest, body })
}

pub(crate) fn rows(approvals: &[Approval]) -> Result<Vec<ApprovalRow>, StoreError> {
    approvals.iter().map(row).collect()
}

/// The approvals of a project. If one is damaged, none is used.
pub(crate) fn read(
    place: &str,
    project: &str,
    rows: Vec<(Vec<u8>, Vec<u8>)>,
) -> Result<Vec<Approval>, StoreError> {
    let damaged = |problem: String| failed(DatabaseError::damaged(place, problem));
    let approval = |(digest, body): (Vec<u8>, Vec<u8>)| {
        if Hash::hash(&body).as_slice() != digest {
            return Err(damaged("the digest of an approval is wrong".to_owned()));
        }
        let approval: Approval = serde_json::from_slice(&body)
            .map_err(|error| damaged(format!("an approval cannot be read: {error}")))?;
        if approval.project == project {
            Ok(approval)
        } else {
            Err(damaged("an approval belongs to another project".to_owned()))
        }
    };
    rows.into_iter().map(approval).collect()
}

pub(crate) fn failed(error: DatabaseError) -> StoreError {
    StoreError::Other(Box::new(error))
}
