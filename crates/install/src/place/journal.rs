//! The journal of a transaction: what must become true.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use prowess_base::beneath::{self, Follow, NotOpened};
use prowess_base::hex;
use prowess_catalog::Digest;
use rustix::fs;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::found::Content;
use super::{Place, PlaceError, prepare};
use crate::disk;

/// The file name of a journal.
const JOURNAL: &str = "journal.json";
/// The file name of a journal until it is complete.
const INCOMPLETE: &str = "journal.tmp";
/// The version of the format.
const VERSION: u32 = 1;
/// The most bytes of a journal. It has the new text of each lock file.
const MAX_JOURNAL_BYTES: u64 = 128 * 1024 * 1024;

/// All changes of a transaction, in order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Journal {
    version: u32,
    pub(super) changes: Vec<Change>,
    pub(super) locks: Vec<LockChange>,
}

/// A change of one entry. The number of the change is the name of its entry in `new` and `old`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    /// The agent's directory. `None` for the skills of the place.
    pub(super) agent: Option<PathBuf>,
    pub(super) name: String,
    pub(super) before: Option<Content>,
    pub(super) after: Option<Content>,
}

/// The new text of a lock file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LockChange {
    pub(super) path: PathBuf,
    /// The digest of the text before. `None` if there was no file.
    pub(super) before: Option<Digest>,
    pub(super) text: String,
}

/// What proves that this user wrote a journal of this place.
fn proof(place: &Place, json: &[u8]) -> Option<String> {
    let secret = place.secret.as_ref()?;
    let mut mac = hmac_sha256::HMAC::new(secret);
    mac.update(place.root.as_os_str().as_encoded_bytes());
    mac.update(b"\0");
    mac.update(json);
    Some(hex::encode(&mac.finalize()))
}

impl Journal {
    pub(super) fn new(changes: Vec<Change>, locks: Vec<LockChange>) -> Self {
        Self { version: VERSION, changes, locks }
    }

    /// Writes the journal to the directory of a transaction. It is there as a whole or not at all.
    pub(super) fn write(&self, place: &Place, directory: &OwnedFd) -> std::io::Result<()> {
        let json = serde_json::to_vec(self)?;
        let bytes = match proof(place, &json) {
            Some(proof) => [proof.as_bytes(), b"\n", &json].concat(),
            None => json,
        };
        if bytes.len() as u64 > MAX_JOURNAL_BYTES {
            return Err(std::io::Error::other("the lock files are too large"));
        }
        disk::write_new(directory, INCOMPLETE, &bytes, 0o644)?;
        Ok(fs::renameat(directory, INCOMPLETE, directory, JOURNAL)?)
    }

    /// Reads the journal of a transaction. `None` if it was never complete. Anybody may have written it, so every name in it is
    /// checked.
    pub(super) fn read(place: &Place, directory: &OwnedFd, path: &Path) -> Result<Option<Self>, PlaceError> {
        let bad = |why: String| PlaceError::Journal { path: path.to_owned(), why };
        let file = match beneath::open_file(directory, JOURNAL, Follow::Never) {
            Ok((file, _)) => file,
            Err(NotOpened::Refused(Errno::NOENT)) => return Ok(None),
            Err(NotOpened::Refused(error)) => return Err(bad(error.to_string())),
            Err(NotOpened::NotAFile(_)) => return Err(bad("it is not a regular file".to_owned())),
        };
        let mut bytes = Vec::new();
        let mut limited = File::from(file).take(MAX_JOURNAL_BYTES + 1);
        limited.read_to_end(&mut bytes).map_err(|error| bad(error.to_string()))?;
        if bytes.len() as u64 > MAX_JOURNAL_BYTES {
            return Err(bad(format!("it has more than {MAX_JOURNAL_BYTES} bytes")));
        }
        let json = match &place.secret {
            None => &bytes[..],
            Some(_) => {
                let line = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(0);
                let (given, json) = (&bytes[..line], bytes.get(line + 1..).unwrap_or_default());
                if proof(place, json).is_none_or(|proof| proof.as_bytes() != given) {
                    return Err(bad("it was written with another home directory or by another user, or came with the project".to_owned()));
                }
                json
            }
        };
        let journal: Self = serde_json::from_slice(json).map_err(|error| bad(error.to_string()))?;
        if journal.version != VERSION {
            return Err(bad(format!("its version is {}, and this prowess knows {VERSION}", journal.version)));
        }
        for change in &journal.changes {
            prepare::check_name(&change.name).map_err(|error| bad(error.to_string()))?;
            match &change.agent {
                Some(agent) if !place.agent_directories.contains(agent) => {
                    return Err(bad(PlaceError::NotListed(agent.clone()).to_string()));
                }
                None if matches!(change.after, Some(Content::Link(_))) => {
                    return Err(bad(format!("it makes a link of the skill {:?}", change.name)));
                }
                Some(_) | None => {}
            }
        }
        for lock in &journal.locks {
            if !place.lock_files.contains(&lock.path) {
                return Err(bad(PlaceError::NotListed(lock.path.clone()).to_string()));
            }
        }
        Ok(Some(journal))
    }

    /// Removes the journal, so that the rest of the transaction's directory can be deleted in any order.
    pub(super) fn remove(directory: &OwnedFd) -> Result<(), Errno> {
        fs::unlinkat(directory, JOURNAL, fs::AtFlags::empty())
    }
}
