//! Stages the files of a server's skill for a run.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use prowess_workspace::stage::{SkillListing, StageFile, StageFiles};
use prowess_workspace::{InnerPath, RunWarning};

use super::held_entry::HeldEntry;
use super::servers::Servers;

/// Files in this directory of a skill are staged as executable, because a server reports no file modes.
const PROGRAMS: &str = "scripts/";

/// The files of one skill that the held entry lists.
pub(crate) struct ServerSkill {
    servers: Arc<Servers>,
    held: HeldEntry,
}

impl ServerSkill {
    pub(crate) fn new(servers: Arc<Servers>, held: HeldEntry) -> Self {
        Self { servers, held }
    }
}

#[async_trait]
impl StageFiles for ServerSkill {
    async fn list(&self) -> io::Result<SkillListing> {
        let mut listing = SkillListing::default();
        for file in &self.held.published().files {
            match InnerPath::parse(&file.path) {
                Ok(path) => listing.files.push(StageFile {
                    executable: file.path.starts_with(PROGRAMS),
                    path,
                    size: file.size,
                    // Files with the same digest are the same file.
                    stamp: Some(file.digest.to_string()),
                }),
                Err(problem) => {
                    let (path, reason) = (file.path.clone(), problem.to_string());
                    listing.warnings.push(RunWarning::NotStaged { path, reason });
                }
            }
        }
        Ok(listing)
    }

    async fn read(&self, path: &InnerPath, max: u64) -> io::Result<Option<Bytes>> {
        let bytes = self.servers.read(&self.held, path.as_str()).await.map_err(io::Error::other)?;
        Ok((bytes.len() as u64 <= max).then(|| bytes.into()))
    }
}
