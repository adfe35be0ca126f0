//! The lock files: what is installed, and where it came from.
//!
//! Two formats belong to `skills` and are kept readable for it: [`shared`] beside a project, and [`global`] for a user. They
//! pin nothing: they have no commit, and their hash collides. [`own`] is the lock that pins. [`compare()`] tells whether another
//! tool changed the shared lock.

mod compare;
mod error;
mod file;
pub mod global;
mod key_order;
pub mod own;
pub mod shared;

pub use compare::{LockDifference, LockFinding, compare, compare_global};
pub use error::LockError;
pub use global::{GlobalEntry, GlobalLock};
pub use own::{LockedSkill, OwnLock};
pub use shared::{SharedEntry, SharedLock};

use std::collections::BTreeMap;

use serde_json::Value;

/// An entry of another tool's lock that prowess does not act on. It is written back as it was.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct UnreadableEntry {
    /// The entry.
    pub value: Value,
    /// Why it cannot be used.
    pub reason: String,
}

/// Entries of another tool's lock: those that prowess can use, and the others.
type Entries<T> = (BTreeMap<String, T>, BTreeMap<String, UnreadableEntry>);

/// Splits the entries of another tool's lock. One bad entry does not spoil the others.
fn read_entries<T: serde::de::DeserializeOwned>(
    skills: BTreeMap<String, Value>,
    check: impl Fn(&str, &T) -> Result<(), String>,
) -> Entries<T> {
    let (mut entries, mut unreadable) = (BTreeMap::new(), BTreeMap::new());
    for (name, value) in skills {
        let read = T::deserialize(&value).map_err(|error| error.to_string());
        match read.and_then(|entry| check(&name, &entry).map(|()| entry)) {
            Ok(entry) => drop(entries.insert(name, entry)),
            Err(reason) => drop(unreadable.insert(name, UnreadableEntry { value, reason })),
        }
    }
    (entries, unreadable)
}

/// Checks what every entry of another tool's lock has: a name that can be shown, and a path inside of the source.
fn check_entry(name: &str, texts: &[&str], skill_path: Option<&str>) -> Result<(), String> {
    prowess_catalog::SkillName::parse(name).map_err(|error| error.to_string())?;
    if texts.iter().any(|text| text.chars().any(char::is_control)) {
        return Err("the source or reference has a control character".to_owned());
    }
    match skill_path.map(crate::snapshot::check_path) {
        Some(Err(error)) => Err(format!("its skillPath cannot be used: {error}")),
        _ => Ok(()),
    }
}
