//! Changes of a thread's files, as the log stores them.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use prowess_backend::{Edit, EditScope, VirtualPath};
use serde::{Deserialize, Serialize};

use crate::state::State;

/// A thread's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FileTree(pub(super) BTreeMap<VirtualPath, Bytes>);

/// A change of a thread's files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub(super) enum FileChange {
    /// A file was written.
    Write { path: VirtualPath, contents: StoredBytes },
    /// Bytes were appended to a file, or to a new one.
    Append { path: VirtualPath, contents: StoredBytes },
    /// Text in a file was replaced.
    Edit {
        path: VirtualPath,
        find: String,
        replace: String,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        all: bool,
    },
    /// A file was deleted.
    Delete { path: VirtualPath },
}

impl FileChange {
    pub(super) fn edit(path: &VirtualPath, edit: &Edit) -> Self {
        Self::Edit {
            path: path.clone(),
            find: edit.find.clone(),
            replace: edit.replace.clone(),
            all: edit.scope == EditScope::All,
        }
    }
}

impl State for FileTree {
    type Delta = FileChange;

    fn apply(&mut self, change: FileChange) {
        match change {
            FileChange::Write { path, contents } => drop(self.0.insert(path, contents.0)),
            FileChange::Append { path, contents } => {
                let file = self.0.entry(path).or_default();
                // Grows in place unless the open thread shares the bytes.
                let whole = std::mem::take(file).try_into_mut();
                let mut grown = whole.unwrap_or_else(|shared| BytesMut::from(&shared[..]));
                grown.extend_from_slice(&contents.0);
                *file = grown.freeze();
            }
            FileChange::Edit { path, find, replace, all } => {
                let edit = if all { Edit::all(find, replace) } else { Edit::unique(find, replace) };
                if let Some(file) = self.0.get_mut(&path)
                    && let Ok((after, _)) = edit.apply(&path, file)
                {
                    *file = after.into();
                }
            }
            FileChange::Delete { path } => drop(self.0.remove(&path)),
        }
    }
}

/// Bytes in the log: as text if they are UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "TextOrBase64", into = "TextOrBase64")]
pub(super) struct StoredBytes(pub(super) Bytes);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum TextOrBase64 {
    Text(String),
    Base64(String),
}

impl From<StoredBytes> for TextOrBase64 {
    fn from(contents: StoredBytes) -> Self {
        match String::from_utf8(contents.0.into()) {
            Ok(text) => Self::Text(text),
            Err(error) => Self::Base64(STANDARD.encode(error.as_bytes())),
        }
    }
}

impl TryFrom<TextOrBase64> for StoredBytes {
    type Error = base64::DecodeError;

    fn try_from(written: TextOrBase64) -> Result<Self, Self::Error> {
        Ok(Self(match written {
            TextOrBase64::Text(text) => text.into(),
            TextOrBase64::Base64(text) => STANDARD.decode(text)?.into(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Later versions must read this stored form.
    #[test]
    fn the_stored_form() {
        let path = VirtualPath::parse("/a").unwrap();
        let text = StoredBytes(Bytes::from("ä"));
        let bytes = StoredBytes(Bytes::from_static(&[0xff, 0]));
        let edit = FileChange::edit(&path, &Edit::all("a", "b"));
        let all = [
            FileChange::Write { path: path.clone(), contents: text },
            FileChange::Append { path: path.clone(), contents: bytes },
            edit,
            FileChange::edit(&path, &Edit::unique("a", "b")),
            FileChange::Delete { path },
        ];
        let written = json!([
            {"change": "write", "path": "/a", "contents": {"text": "ä"}},
            {"change": "append", "path": "/a", "contents": {"base64": "/wA="}},
            {"change": "edit", "path": "/a", "find": "a", "replace": "b", "all": true},
            {"change": "edit", "path": "/a", "find": "a", "replace": "b"},
            {"change": "delete", "path": "/a"},
        ]);
        assert_eq!(serde_json::to_value(&all).unwrap(), written);
        assert_eq!(serde_json::from_value::<Vec<FileChange>>(written).unwrap(), all);
        let damaged = json!({"change": "write", "path": "/a", "contents": {"base64": "?"}});
        assert!(serde_json::from_value::<FileChange>(damaged).is_err());
    }
}
