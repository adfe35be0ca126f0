//! Writes files so that a reader never finds half a file: under a temporary name first, then renamed.

use std::fs::File;
use std::io::{self, Write as _};

use prowess_base::beneath::{self, with_unused_name};
use rustix::fs::{self, AtFlags, Mode};

use super::{Dir, Owner};

/// The prefix of temporary names that this crate uses.
pub(crate) const OWN_PREFIX: &str = ".prowess-";

impl Dir {
    /// Writes a file and replaces an existing one. A reader finds the whole old or the whole new file, even after a crash of
    /// this process.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8], mode: u32, owner: Owner) -> io::Result<()> {
        let (temporary, mut file) = self.temporary_file()?;
        let written = file.write_all(bytes).and_then(|()| finish(&file, mode, owner));
        let renamed = written.and_then(|()| self.rename(&temporary, name));
        renamed.inspect_err(|_| self.discard(&temporary))
    }

    /// Like [`Self::replace`], but also safe if the machine crashes.
    pub(crate) fn replace_durably(
        &self,
        name: &str,
        bytes: &[u8],
        mode: u32,
        owner: Owner,
    ) -> io::Result<()> {
        let temporary = self.temporary(bytes, mode, owner)?;
        fs::renameat(&self.0, &temporary, &self.0, name).inspect_err(|_| self.discard(&temporary))?;
        Ok(fs::fsync(&self.0)?)
    }

    /// Writes a complete file under a temporary name and flushes it to disk.
    pub(crate) fn temporary(&self, bytes: &[u8], mode: u32, owner: Owner) -> io::Result<String> {
        let (name, mut file) = self.temporary_file()?;
        let written = file.write_all(bytes).and_then(|()| finish(&file, mode, owner));
        written.and_then(|()| file.sync_all()).inspect_err(|_| self.discard(&name))?;
        Ok(name)
    }

    /// Makes an empty file with a temporary name.
    pub(crate) fn temporary_file(&self) -> io::Result<(String, File)> {
        unused(|name| beneath::create_file(&self.0, name, 0o600).map(File::from))
    }

    /// Makes an empty directory with a temporary name.
    pub(crate) fn temporary_dir(&self) -> io::Result<(String, Self)> {
        let (name, ()) = unused(|name| fs::mkdirat(&self.0, name, Mode::from_raw_mode(0o700)))?;
        let directory = self.dir(&name)?;
        Ok((name, directory))
    }

    /// Makes a link with a temporary name.
    pub(crate) fn temporary_link(&self, target: &str) -> io::Result<String> {
        Ok(unused(|name| fs::symlinkat(target, &self.0, name))?.0)
    }

    /// Renames an entry of this directory and replaces an existing file.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(fs::renameat(&self.0, from, &self.0, to)?)
    }

    /// Removes a file if it exists.
    pub(crate) fn discard(&self, name: &str) {
        // Nothing can be done about a failure. The name shows that the file is from prowess.
        let _ = fs::unlinkat(&self.0, name, AtFlags::empty());
    }
}

/// Sets the mode and the owner of a new file.
pub(crate) fn finish(file: &File, mode: u32, owner: Owner) -> io::Result<()> {
    if let Some((user, group)) = owner {
        fs::fchown(file, Some(user), Some(group))?;
    }
    // After the owner, because a change of owner clears bits of the mode.
    Ok(fs::fchmod(file, Mode::from_raw_mode(mode))?)
}

/// Calls `make` with an unused temporary name.
pub(super) fn unused<T>(make: impl Fn(&str) -> rustix::io::Result<T>) -> io::Result<(String, T)> {
    with_unused_name(OWN_PREFIX, "", |name| Ok(make(name)?))
}
