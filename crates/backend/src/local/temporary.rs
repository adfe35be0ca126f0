//! A file that becomes visible under its name only when it is complete.

use std::io::{self, Write};

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt};
use cap_std::fs::{Dir, File, Metadata, OpenOptions};
use prowess_base::beneath::with_unused_name;

/// A complete file under a temporary name, removed when dropped.
#[derive(Debug)]
pub(super) struct Temporary<'a> {
    directory: &'a Dir,
    /// `None` after the file has its final name.
    name: Option<String>,
    file: File,
}

impl<'a> Temporary<'a> {
    /// Writes `bytes` to a new file in `directory`, with the permissions of the file that it will replace.
    pub(super) fn write(directory: &'a Dir, bytes: &[u8], before: Option<&Metadata>) -> io::Result<Self> {
        let (name, file) = create(directory)?;
        let mut temporary = Self { directory, name: Some(name), file };
        temporary.file.write_all(bytes)?;
        if let Some(before) = before {
            temporary.file.set_permissions(plain_permissions(before))?;
        }
        Ok(temporary)
    }

    /// Renames the file to `name` and replaces an existing file.
    pub(super) fn rename_to(mut self, name: &str) -> io::Result<Metadata> {
        if let Some(temporary) = &self.name {
            self.directory.rename(temporary, self.directory, name)?;
            self.name = None;
        }
        self.file.metadata()
    }

    /// Renames the file to `name`, or fails if something has that name.
    pub(super) fn link_to(mut self, name: &str) -> io::Result<Metadata> {
        if let Some(temporary) = &self.name {
            self.directory.hard_link(temporary, self.directory, name)?;
            // The file has its final name now, so a failure here does no harm.
            let _ = self.directory.remove_file(temporary);
            self.name = None;
        }
        self.file.metadata()
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // Nothing can be done about a failure. The name shows that the file is from prowess.
            let _ = self.directory.remove_file(name);
        }
    }
}

fn create(directory: &Dir) -> io::Result<(String, File)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).follow(FollowSymlinks::No);
    with_unused_name(".prowess-", ".tmp", |name| directory.open_with(name, &options))
}

/// The permissions without the set-id bits, which would run the new contents as another user.
fn plain_permissions(before: &Metadata) -> cap_std::fs::Permissions {
    use cap_std::fs::PermissionsExt;

    let mut permissions = before.permissions();
    permissions.set_mode(permissions.mode() & 0o777);
    permissions
}
