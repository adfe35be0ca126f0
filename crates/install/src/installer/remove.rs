//! Removes installed skills.

use std::collections::BTreeSet;

use crate::place::{Report, Transaction};

use super::add::{OnDisk, copy_in};
use super::{InstallError, Installer};

/// What a removal has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Removed {
    /// The directories of the removed skills.
    pub names: Vec<String>,
    /// What else happened. Directories with changes of a person are kept, and it says where.
    pub report: Report,
}

impl Installer {
    /// Removes skills that the lock has, with their links and copies in the directories of other agents. A directory that
    /// somebody changed is kept elsewhere.
    ///
    /// # Errors
    ///
    /// The lock has no such skill, or files cannot be changed.
    pub fn remove(&self, names: &[String]) -> Result<Removed, InstallError> {
        // Nothing is made for a lock that cannot be used.
        self.locks()?;
        let held = self.place.hold()?;
        let mut locks = self.locks()?;
        let installed = self.place.installed()?;
        let (mut removed, mut transaction) = (Removed::default(), Transaction::default());
        let keys: BTreeSet<String> = names.iter().map(|name| crate::discover::directory_name(name)).collect();
        for key in keys {
            let Some(locked) = locks.own.skills.get(&key) else {
                return Err(InstallError::NotLocked(key));
            };
            let before = Some(locked.tree.digest());
            transaction.remove(&key, before);
            let on_disk = OnDisk::of(&installed, &key).digest();
            for directory in self.agent_directories() {
                if directory.join(&key).symlink_metadata().is_ok() {
                    // An update may have merged changes of the person into the copy too.
                    let copy = copy_in(directory, &key).filter(|copy| on_disk == Some(*copy));
                    transaction.unlink(directory, &key, copy.or(before));
                }
            }
            for directory in self.common_directories() {
                if directory.join(&key).is_symlink() {
                    transaction.unlink(directory, &key, None);
                }
            }
            locks.remove(&key);
            removed.names.push(key);
        }
        locks.write_into(&self.scope, &mut transaction)?;
        removed.report = held.commit(&transaction)?;
        Ok(removed)
    }
}
