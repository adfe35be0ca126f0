//! Files of threads that follow them from machine to machine, for requests: they are on no disk of this machine.

use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use async_trait::async_trait;
use bytes::Bytes;
use prowess_agent::ThreadId;
use prowess_agent::id::MessageId;
use prowess_agent::middleware::{FollowedFiles, PersonalChange};
use prowess_agent::thread_state::StateChange;
use prowess_backend::{Backend, VirtualPath};
use prowess_base::places::PROJECT;
use prowess_serve::{BoxError, ServedFiles};
use prowess_workspace::inventory::{InventoryBackend, MAX_BYTES, MAX_FILE_BYTES, MAX_FILES, MAX_PATH};

use super::ServerAgents;
use crate::chat::Following;

impl ServerAgents {
    fn followed(&self, owner: &str) -> anyhow::Result<Following> {
        self.following(owner).context("the files of threads are in local directories")
    }
}

/// The path of a file in inventories.
fn inner(path: &VirtualPath) -> anyhow::Result<String> {
    let below = path.as_str().strip_prefix(PROJECT).filter(|rest| rest.starts_with('/'));
    Ok(format!("project{}", below.ok_or_else(|| anyhow!("{path} is not below {PROJECT}"))?))
}

#[async_trait]
impl ServedFiles for ServerAgents {
    async fn files(
        &self,
        owner: &str,
        thread: &ThreadId,
        followed: &FollowedFiles,
    ) -> Result<Arc<dyn Backend>, BoxError> {
        // A thread from before files followed threads has them here, until an agent works on it.
        if followed.is_empty() && self.project(thread).is_dir() {
            return Ok(self.of_thread(owner, thread).await?.files_of(thread)?);
        }
        let (contents, inventory) = self.followed(owner)?.inventory(thread, followed).await?;
        let inventory = Arc::new(inventory);
        let at = |at: &str| -> Arc<dyn Backend> {
            Arc::new(InventoryBackend::new(Arc::clone(&inventory), contents.clone(), at))
        };
        Ok(self.of_thread(owner, thread).await?.files_from(thread, at)?)
    }

    async fn has_files_from_before(&self, thread: &ThreadId) -> bool {
        Self::has_files_from_before(self, thread).await
    }

    async fn write(
        &self,
        owner: &str,
        thread: &ThreadId,
        followed: &FollowedFiles,
        path: &VirtualPath,
        bytes: Bytes,
    ) -> Result<Option<StateChange>, BoxError> {
        let path = inner(path)?;
        let (contents, inventory) = self.followed(owner)?.inventory(thread, followed).await?;
        let size = bytes.len() as u64;
        let others = || inventory.files().iter().filter(|file| file.path != path);
        let all: u64 = others().map(|file| file.bytes).sum();
        if path.len() > MAX_PATH
            || size > MAX_FILE_BYTES
            || all + size > MAX_BYTES
            || others().count() >= MAX_FILES
        {
            return Ok(None);
        }
        let digest = contents.put_upload(thread.as_str(), bytes, &format!("`/{path}`")).await?;
        let change = PersonalChange::written(path, digest.to_string(), size);
        Ok(Some(FollowedFiles::change(MessageId::new().as_str(), contents.first(), change)))
    }

    async fn remove(
        &self,
        owner: &str,
        thread: &ThreadId,
        followed: &FollowedFiles,
        path: &VirtualPath,
    ) -> Result<StateChange, BoxError> {
        let contents = self.followed(owner)?.family(thread, followed.family()).await?;
        let change = PersonalChange::removed(inner(path)?);
        Ok(FollowedFiles::change(MessageId::new().as_str(), contents.first(), change))
    }
}
