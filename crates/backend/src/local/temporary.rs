//! A file that becomes visible under its name only when it is complete.

use std::io::{self, Write};

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt};
use cap_std::fs::{Dir, File, Metadata, OpenOptions};
use prowess_base::beneath::with_unused_name;

/// A complete file under a temporary name, removed when dropped.
#[derive(Debug)]
pub(super) struct Temporary<'a> {
    directory: &'a Dir,
    /// `None` once that name is another's to use.
    name: Option<String>,
    file: File,
}

impl<'a> Temporary<'a> {
    /// Writes `bytes` to a new file in `directory`, with the permissions of the file that it will
    /// replace.
    pub(super) fn write(directory: &'a Dir, bytes: &[u8], before: Option<&Metadata>) -> io::Result<Self> {
        let (name, file) = create(directory)?;
        let mut temporary = Self { directory, name: Some(name), file };
        temporary.file.write_all(bytes)?;
        if let Some(before) = before {
            temporary.file.set_permissions(plain_permissions(before))?;
        }
        Ok(temporary)
    }

    /// Puts it in the place of whatever has that name.
    pub(super) fn rename_to(mut self, name: &str) -> io::Result<Metadata> {
        if let Some(temporary) = &self.name {
            self.directory.rename(temporary, self.directory, name)?;
            self.name = None;
        }
        self.file.metadata()
    }

    /// Gives it that name if nothing has it.
    pub(super) fn link_to(mut self, name: &str) -> io::Result<Metadata> {
        if let Some(temporary) = &self.name {
            self.directory.hard_link(temporary, self.directory, name)?;
            // From here on the file is there, whatever becomes of its other name.
            let _ = self.directory.remove_file(temporary);
            self.name = None;
        }
        self.file.metadata()
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // Nothing is left to do about a failure; the name says whose it is.
            let _ = self.directory.remove_file(name);
        }
    }
}

fn create(directory: &Dir) -> io::Result<(String, File)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).follow(FollowSymlinks::No);
    with_unused_name(".prowess-", ".tmp", |name| directory.open_with(name, &options))
}

/// Permissions without the bits that would run the new contents as somebody else.
fn plain_permissions(before: &Metadata) -> cap_std::fs::Permissions {
    use cap_std::fs::PermissionsExt;

    let mut permissions = before.permissions();
    permissions.set_mode(permissions.mode() & 0o777);
    permissions
}
