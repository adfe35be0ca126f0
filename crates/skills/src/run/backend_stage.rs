//! Staging of skills in a backend.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use prowess_backend::cap::Cap;
use prowess_backend::{Backend, BackendError, GlobQuery, ReadRange, VirtualPath};
use prowess_catalog::untrusted::one_line;
use prowess_workspace::stage::{MAX_SKILL_FILES, SkillListing, StageFile, StageFiles};
use prowess_workspace::{InnerPath, RunWarning};

/// The directory with a skill's executable files: a backend stores no file modes.
const EXECUTABLES: &str = "scripts/";

/// The files of one skill in a backend.
pub(crate) struct BackendSkill {
    backend: Arc<dyn Backend>,
    directory: VirtualPath,
    /// Identifies this backend. Another process may see the staged files with another backend at the same path, where these
    /// stamps mean nothing.
    identity: String,
}

impl BackendSkill {
    pub(crate) fn new(backend: Arc<dyn Backend>, directory: &str, identity: String) -> Option<Self> {
        Some(Self { backend, directory: VirtualPath::parse(directory).ok()?, identity })
    }
}

#[async_trait]
impl StageFiles for BackendSkill {
    async fn list(&self) -> io::Result<SkillListing> {
        // One more than the limit, to detect too many files.
        let all = GlobQuery::new("**").map_err(io::Error::other)?.max_results(MAX_SKILL_FILES + 1);
        let found = self.backend.glob(&self.directory, &all).await.map_err(failed)?;
        if found.stopped.is_some_and(|cap| !matches!(cap, Cap::Results(_))) {
            return Err(io::Error::other("the skill's directory is too large to list"));
        }
        let mut listing = SkillListing::default();
        for entry in found.entries {
            let relative = entry.path.strip_prefix(&self.directory).unwrap_or_default();
            match InnerPath::parse(relative) {
                Ok(path) => listing.files.push(StageFile {
                    executable: relative.starts_with(EXECUTABLES),
                    path,
                    size: entry.size,
                    stamp: entry.stamp.map(|stamp| format!("{}/{stamp}", self.identity)),
                }),
                Err(problem) => {
                    let (path, reason) = (one_line(relative).into_owned(), problem.to_string());
                    listing.warnings.push(RunWarning::NotStaged { path, reason });
                }
            }
        }
        let left_out = |error: &BackendError| RunWarning::NotListed {
            reason: one_line(&error.to_string()).into_owned(),
        };
        listing.warnings.extend(found.skipped.iter().map(left_out));
        Ok(listing)
    }

    async fn read(&self, path: &InnerPath, max: u64) -> io::Result<Option<Bytes>> {
        let path = self.directory.join(path.as_str()).map_err(failed)?;
        let contents = self.backend.read(&path, ReadRange::first(max)).await.map_err(failed)?;
        Ok(contents.is_whole().then_some(contents.bytes))
    }
}

fn failed(error: BackendError) -> io::Error {
    match error {
        BackendError::NotFound { .. } => io::Error::new(io::ErrorKind::NotFound, error),
        error => io::Error::other(error),
    }
}
