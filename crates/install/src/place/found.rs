//! What a directory has under a name.

use std::os::fd::OwnedFd;

use prowess_catalog::Digest;
use rustix::fs;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::tree::TreeDirectory;

/// What a transaction expects or makes under a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Content {
    /// A directory with this tree.
    Tree(Digest),
    /// A symbolic link with this text.
    Link(String),
}

/// What is under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    Content(Content),
    /// Something that is no tree: a file, or a directory with a link. It cannot be from a transaction.
    Other,
}

impl Found {
    /// Looks at the entry `name`. Reads all files if it is a directory.
    pub(super) fn at(directory: &OwnedFd, name: &str) -> Self {
        match fs::readlinkat(directory, name, Vec::new()) {
            Ok(text) => text.into_string().map_or(Self::Other, |text| Self::Content(Content::Link(text))),
            Err(Errno::NOENT) => Self::Nothing,
            Err(_) => TreeDirectory::open_at(directory, name)
                .and_then(|directory| directory.tree())
                .map_or(Self::Other, |tree| Self::Content(Content::Tree(tree.digest()))),
        }
    }

    /// Whether this is what one side of a change says.
    pub(super) fn is(&self, content: Option<&Content>) -> bool {
        match (self, content) {
            (Self::Content(found), Some(content)) => found == content,
            _ => false,
        }
    }
}
