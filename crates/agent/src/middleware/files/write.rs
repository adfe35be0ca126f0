//! `write_file` and `edit_file`.

use bytes::Bytes;
use prowess_backend::{Edit, VirtualPath, WriteMode};
use prowess_permission::Action;

use super::access::FileAccess;
use super::arguments::{EditFile, Write};
use super::{FileTool, Stop, count};
use crate::tool::{ChangeKind, ToolAnswer};

impl FileTool {
    /// Writes a new file.
    pub(super) async fn write(&self, write: Write, access: &FileAccess<'_>) -> Result<ToolAnswer, Stop> {
        let path = VirtualPath::parse(&write.file_path)?;
        let permit = access.write(&path, Action::WriteFile { content: write.content.clone() }).await?;
        let content = Bytes::from(write.content);
        let planned = match &self.changes {
            Some(changes) => changes.plan_creation(&*self.backend, &path, content.clone(), permit).await,
            None => None,
        };
        let entry = self.backend.write(&path, content, WriteMode::CreateNew).await?;
        if let Some(planned) = planned {
            planned.made().await;
        }
        let text = format!("Wrote {} ({} bytes).", entry.path, entry.size);
        Ok(self.changed(text, &entry, ChangeKind::Created).await)
    }

    /// Replaces text in a file.
    pub(super) async fn edit(&self, edit: EditFile, access: &FileAccess<'_>) -> Result<ToolAnswer, Stop> {
        let path = VirtualPath::parse(&edit.file_path)?;
        let change = if edit.replace_all {
            Edit::all(edit.old_string, edit.new_string)
        } else {
            Edit::unique(edit.old_string, edit.new_string)
        };
        let permit = access.edit(&path, &change).await?;
        let planned = match &self.changes {
            Some(changes) => changes.plan_edit(&*self.backend, &path, &change, permit).await,
            None => None,
        };
        let edited = self.backend.edit(&path, &change).await?;
        if let Some(planned) = planned {
            planned.made().await;
        }
        let text = format!("Replaced {} in {}.", count(edited.replacements, "occurrence"), edited.entry.path);
        Ok(self.changed(text, &edited.entry, ChangeKind::Edited).await)
    }
}
