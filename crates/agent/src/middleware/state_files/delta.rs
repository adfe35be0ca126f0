//! What changes in a thread's files, as its log has it.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use prowess_backend::{Edit, EditScope, VirtualPath};
use serde::{Deserialize, Serialize};

use crate::state::State;

/// A thread's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tree(pub(super) BTreeMap<VirtualPath, Bytes>);

/// A change of a thread's files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub(super) enum Delta {
    /// A whole file.
    Write { path: VirtualPath, contents: Contents },
    /// More at the end of a file, or a new one.
    Append { path: VirtualPath, contents: Contents },
    /// Other words in a file.
    Edit {
        path: VirtualPath,
        find: String,
        replace: String,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        all: bool,
    },
    /// No file.
    Delete { path: VirtualPath },
}

impl Delta {
    pub(super) fn edit(path: &VirtualPath, edit: &Edit) -> Self {
        Self::Edit {
            path: path.clone(),
            find: edit.find.clone(),
            replace: edit.replace.clone(),
            all: edit.scope == EditScope::All,
        }
    }
}

impl State for Tree {
    type Delta = Delta;

    fn apply(&mut self, delta: Delta) {
        match delta {
            Delta::Write { path, contents } => drop(self.0.insert(path, contents.0)),
            Delta::Append { path, contents } => {
                let file = self.0.entry(path).or_default();
                // Grows in place unless the thread's backend still holds the bytes.
                let whole = std::mem::take(file).try_into_mut();
                let mut grown = whole.unwrap_or_else(|shared| BytesMut::from(&shared[..]));
                grown.extend_from_slice(&contents.0);
                *file = grown.freeze();
            }
            Delta::Edit { path, find, replace, all } => {
                let edit = if all { Edit::all(find, replace) } else { Edit::unique(find, replace) };
                if let Some(file) = self.0.get_mut(&path)
                    && let Ok((after, _)) = edit.apply(&path, file)
                {
                    *file = after.into();
                }
            }
            Delta::Delete { path } => drop(self.0.remove(&path)),
        }
    }
}

/// Bytes as a log has them: as text where they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub(super) struct Contents(pub(super) Bytes);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Written {
    Text(String),
    Base64(String),
}

impl From<Contents> for Written {
    fn from(contents: Contents) -> Self {
        match String::from_utf8(contents.0.into()) {
            Ok(text) => Self::Text(text),
            Err(error) => Self::Base64(STANDARD.encode(error.as_bytes())),
        }
    }
}

impl TryFrom<Written> for Contents {
    type Error = base64::DecodeError;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        Ok(Self(match written {
            Written::Text(text) => text.into(),
            Written::Base64(text) => STANDARD.decode(text)?.into(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The form of stored deltas stays: a thread of an earlier version must open.
    #[test]
    fn the_stored_form() {
        let path = VirtualPath::parse("/a").unwrap();
        let text = Contents(Bytes::from("ä"));
        let bytes = Contents(Bytes::from_static(&[0xff, 0]));
        let edit = Delta::edit(&path, &Edit::all("a", "b"));
        let all = [
            Delta::Write { path: path.clone(), contents: text },
            Delta::Append { path: path.clone(), contents: bytes },
            edit,
            Delta::edit(&path, &Edit::unique("a", "b")),
            Delta::Delete { path },
        ];
        let written = json!([
            {"change": "write", "path": "/a", "contents": {"text": "ä"}},
            {"change": "append", "path": "/a", "contents": {"base64": "/wA="}},
            {"change": "edit", "path": "/a", "find": "a", "replace": "b", "all": true},
            {"change": "edit", "path": "/a", "find": "a", "replace": "b"},
            {"change": "delete", "path": "/a"},
        ]);
        assert_eq!(serde_json::to_value(&all).unwrap(), written);
        assert_eq!(serde_json::from_value::<Vec<Delta>>(written).unwrap(), all);
        let damaged = json!({"change": "write", "path": "/a", "contents": {"base64": "?"}});
        assert!(serde_json::from_value::<Delta>(damaged).is_err());
    }
}
