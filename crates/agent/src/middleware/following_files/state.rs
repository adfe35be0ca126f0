//! What a thread's log says about its files.

use serde::{Deserialize, Serialize};

use super::NAME;
use crate::state::State;
use crate::thread_state::StateChange;

/// What a thread's log says about its files: an inventory, and later changes of people.
///
/// ```
/// use prowess_agent::middleware::{FollowedFiles, PersonalChange};
///
/// let mut files = FollowedFiles::default();
/// let change = PersonalChange::removed("project/plan.md");
/// files.read(&FollowedFiles::change("change-1", "thread-1", change));
/// assert_eq!(files.family(), Some("thread-1"));
/// assert_eq!(files.changes().count(), 1);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FollowedFiles {
    /// How many captures there were before, of the thread and of its sub-agents.
    pub(super) number: u64,
    inventory: Option<String>,
    family: Option<String>,
    /// The changes of people that the inventory does not have, with their numbers.
    changes: Vec<(u64, PersonalChange)>,
    /// The number of the last change.
    pub(super) changed: u64,
    /// The name of the last change.
    last: Option<String>,
}

/// A change of one file by a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PersonalChange {
    /// The path of the file in the tree, without the first slash.
    pub path: String,
    /// The digest and the size of its new content. Without it, the file is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<(String, u64)>,
}

impl PersonalChange {
    /// A file has this content now.
    ///
    /// ```
    /// use prowess_agent::middleware::PersonalChange;
    ///
    /// let change = PersonalChange::written("project/plan.md", "5e88", 12);
    /// assert_ne!(change, PersonalChange::removed("project/plan.md"));
    /// ```
    pub fn written(path: impl Into<String>, digest: impl Into<String>, bytes: u64) -> Self {
        Self { path: path.into(), content: Some((digest.into(), bytes)) }
    }

    /// A file is gone.
    pub fn removed(path: impl Into<String>) -> Self {
        Self { path: path.into(), content: None }
    }
}

/// A change of [`FollowedFiles`], as logs have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "files", rename_all = "snake_case")]
pub enum FollowDelta {
    /// An inventory was stored.
    Captured {
        /// Its number. The highest one counts.
        number: u64,
        /// Its digest.
        inventory: String,
        /// The first thread of the family.
        family: String,
        /// The number of the last change of a person that it has.
        #[serde(default)]
        changed: u64,
    },
    /// A person changed a file.
    Changed {
        /// The name of the change. The same one twice in a row is one change.
        id: String,
        /// The first thread of the family.
        family: String,
        /// The change.
        #[serde(flatten)]
        change: PersonalChange,
    },
}

impl FollowedFiles {
    /// Whether the log says nothing about files.
    pub fn is_empty(&self) -> bool {
        self.inventory.is_none() && self.changed == 0
    }

    /// The digest of the inventory, if the thread has one.
    pub fn inventory(&self) -> Option<&str> {
        self.inventory.as_deref()
    }

    /// The first thread of the family whose files these are, if the thread has or had any.
    pub fn family(&self) -> Option<&str> {
        self.family.as_deref()
    }

    /// The changes of people that the inventory does not have, in order.
    pub fn changes(&self) -> impl Iterator<Item = &PersonalChange> {
        self.changes.iter().map(|(_, change)| change)
    }

    /// The changes of people after the one with this number.
    pub(super) fn changes_after(&self, number: u64) -> impl Iterator<Item = &(u64, PersonalChange)> {
        self.changes.iter().filter(move |(own, _)| *own > number)
    }

    /// The state change for a change of a person. Post it to the thread when its content is stored. `id` is any new name.
    pub fn change(id: &str, family: &str, change: PersonalChange) -> StateChange {
        let (id, family) = (id.to_owned(), family.to_owned());
        StateChange::new::<Self>(NAME, &FollowDelta::Changed { id, family, change })
    }

    /// The digest of the inventory or of the content that a state change of a log names, if it names one.
    ///
    /// ```
    /// use prowess_agent::middleware::{FollowedFiles, PersonalChange};
    ///
    /// let written = FollowedFiles::change("1", "family", PersonalChange::written("project/plan.md", "5e88", 12));
    /// assert_eq!(FollowedFiles::named_by(&written).as_deref(), Some("5e88"));
    /// let removed = FollowedFiles::change("2", "family", PersonalChange::removed("project/plan.md"));
    /// assert_eq!(FollowedFiles::named_by(&removed), None);
    /// ```
    pub fn named_by(change: &StateChange) -> Option<String> {
        let delta = FollowDelta::deserialize(&change.delta).ok().filter(|_| change.owner == NAME)?;
        match delta {
            FollowDelta::Captured { inventory, .. } => Some(inventory),
            FollowDelta::Changed { change, .. } => change.content.map(|(digest, _)| digest),
        }
    }

    /// Reads a state change of a log, or of an inbox. Changes of other states have no effect.
    pub fn read(&mut self, change: &StateChange) {
        if change.owner == NAME
            && let Ok(delta) = FollowDelta::deserialize(&change.delta)
        {
            self.apply(delta);
        }
    }
}

impl State for FollowedFiles {
    type Delta = FollowDelta;

    fn apply(&mut self, delta: FollowDelta) {
        match delta {
            FollowDelta::Captured { number, inventory, family, changed } if number > self.number => {
                self.number = number;
                self.inventory = Some(inventory);
                self.family = Some(family);
                self.changes.retain(|(own, _)| *own > changed);
            }
            FollowDelta::Captured { .. } => {}
            FollowDelta::Changed { id, family, change } => {
                // It may have been taken in by a worker that died before it noted that.
                if self.last.as_ref() == Some(&id) {
                    return;
                }
                self.changed += 1;
                self.changes.push((self.changed, change));
                self.family.get_or_insert(family);
                self.last = Some(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(number: u64, inventory: &str, changed: u64) -> FollowDelta {
        let (inventory, family) = (inventory.to_owned(), "f".to_owned());
        FollowDelta::Captured { number, inventory, family, changed }
    }

    #[test]
    fn the_last_capture_counts_in_any_order() {
        let mut files = FollowedFiles::default();
        for delta in [captured(2, "two", 0), captured(1, "one", 0), captured(2, "other", 0)] {
            files.apply(delta);
        }
        assert_eq!((files.number, files.inventory()), (2, Some("two")));
    }

    #[test]
    fn a_change_stays_until_an_inventory_has_it() {
        let mut files = FollowedFiles::default();
        let change = |id: &str| FollowedFiles::change(id, "f", PersonalChange::removed(id));
        for id in ["a", "a", "b", "a"] {
            files.read(&change(id));
        }
        let paths = |files: &FollowedFiles| files.changes().map(|one| one.path.clone()).collect::<String>();
        assert_eq!(paths(&files), "aba", "the second is the first, taken in again");
        files.apply(captured(1, "one", 2));
        assert_eq!(paths(&files), "a");
        files.apply(captured(2, "two", 3));
        assert_eq!(paths(&files), "");
        files.read(&StateChange { owner: "todos".to_owned(), delta: change("c").delta });
        assert_eq!(paths(&files), "", "the state of another middleware");
    }
}
