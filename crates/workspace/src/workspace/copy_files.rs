//! Copies the files of one workspace into another, for a copy of a conversation.
//!
//! Commands wrote these files, so nothing in them is trusted: no link is followed, and sizes are limited.

use std::ffi::OsStr;
use std::io::{self, Read as _};

use rustix::fs::{FileType, renameat};

use super::{Workspace, Workspaces};
use crate::digest::short;
use crate::dir::{Dir, Owner, finish};
use crate::error::WorkspaceError;

/// How many files and directories are copied at most, as a workspace can have by default.
pub const MAX_COPIED_ENTRIES: usize = 50_000;
/// How many bytes are copied at most.
pub const MAX_COPIED_BYTES: u64 = 512 * 1024 * 1024;
/// How deep directories may be. Deeper ones are left out.
const MAX_DEPTH: usize = 64;
/// The directories that are copied. Skills are staged again.
const COPIED: [&str; 3] = ["work", "runs", "out"];

/// What was copied from one workspace into another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopiedFiles {
    /// How many files.
    pub files: usize,
    /// How many links, special files, unreadable files and too deep directories were left out.
    pub left_out: usize,
}

impl Workspaces {
    /// Copies the files of a workspace into another one: `work/`, `runs/` and `out/`. If there is no such workspace, nothing
    /// is copied. Links are left out.
    ///
    /// ```
    /// use prowess_workspace::Workspaces;
    ///
    /// # let place = tempfile::tempdir()?;
    /// let workspaces = Workspaces::open(place.path())?;
    /// std::fs::write(workspaces.workspace("one")?.path().join("out/report.txt"), "high tide")?;
    /// assert_eq!(workspaces.copy_files("one", "two")?.files, 1);
    /// assert!(workspaces.workspace("two")?.path().join("out/report.txt").is_file());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A workspace cannot be opened, or its files cannot be copied, for example because there are more than
    /// [`MAX_COPIED_ENTRIES`] of them. Then the other workspace has none of them.
    pub fn copy_files(&self, from: &str, to: &str) -> Result<CopiedFiles, WorkspaceError> {
        self.copy_within(from, to, MAX_COPIED_ENTRIES, MAX_COPIED_BYTES)
    }

    fn copy_within(
        &self,
        from: &str,
        to: &str,
        entries: usize,
        bytes: u64,
    ) -> Result<CopiedFiles, WorkspaceError> {
        let path = self.path_of(from);
        let failed = |error| WorkspaceError::io("copying the workspace", &path, error);
        if self.root.entry(short(from)).map_err(failed)?.is_none() {
            return Ok(CopiedFiles::default());
        }
        let (source, target) = (self.workspace(from)?, self.workspace(to)?);
        let mut copy = Copy {
            owner: self.owner,
            most_entries: entries,
            entries,
            most_bytes: bytes,
            bytes,
            copied: CopiedFiles::default(),
        };
        let copied = COPIED.iter().try_for_each(|name| copy.top(&source, &target, name));
        if let Err(error) = copied {
            // Half of the files would be worse than none.
            COPIED.iter().try_for_each(|name| target.dir().remove_tree(OsStr::new(name))).map_err(failed)?;
            drop(target);
            self.workspace(to)?;
            return Err(failed(error));
        }
        Ok(copy.copied)
    }
}

/// A copy that is under way.
struct Copy {
    owner: Owner,
    most_entries: usize,
    /// How many more entries may be copied.
    entries: usize,
    most_bytes: u64,
    /// How many more bytes may be copied.
    bytes: u64,
    copied: CopiedFiles,
}

impl Copy {
    fn top(&mut self, from: &Workspace, to: &Workspace, name: &str) -> io::Result<()> {
        self.directory(&from.dir().dir(name)?, &to.dir().dir(name)?, 0)
    }

    fn directory(&mut self, from: &Dir, to: &Dir, depth: usize) -> io::Result<()> {
        let (entries, more) = from.entries(self.entries)?;
        if more {
            let most = self.most_entries;
            return Err(io::Error::other(format!("it has more than {most} files and directories")));
        }
        self.entries -= entries.len();
        for (name, kind) in entries {
            match kind {
                FileType::Directory if depth < MAX_DEPTH => match from.dir(&name) {
                    Ok(below) => {
                        let to = to.make_dir(&name, 0o755, self.owner)?;
                        self.directory(&below, &to, depth + 1)?;
                    }
                    Err(_) => self.copied.left_out += 1,
                },
                FileType::RegularFile => self.file(from, to, &name)?,
                _ => self.copied.left_out += 1,
            }
        }
        Ok(())
    }

    fn file(&mut self, from: &Dir, to: &Dir, name: &OsStr) -> io::Result<()> {
        let Ok((file, stat)) = from.file(name) else {
            self.copied.left_out += 1;
            return Ok(());
        };
        let too_large = || io::Error::other(format!("its files have more than {} bytes", self.most_bytes));
        if stat.st_size.unsigned_abs() > self.bytes {
            return Err(too_large());
        }
        let (temporary, mut written) = to.temporary_file()?;
        // It may have grown. One byte more says that there are more.
        let copied = io::copy(&mut file.take(self.bytes + 1), &mut written).and_then(|bytes| {
            self.bytes = self.bytes.checked_sub(bytes).ok_or_else(too_large)?;
            // Never a set-uid or set-gid bit.
            finish(&written, stat.st_mode & 0o777, self.owner)?;
            Ok(renameat(to, &temporary, to, name)?)
        });
        copied.inspect_err(|_| to.discard(&temporary))?;
        self.copied.files += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};

    use super::*;

    #[test]
    fn files_are_copied_and_links_are_not() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("secret"), "secret").unwrap();
        let workspaces = Workspaces::open(place.path().join("all")).unwrap();
        assert_eq!(workspaces.copy_files("none", "two").unwrap(), CopiedFiles::default());
        assert!(!workspaces.path_of("none").exists() && !workspaces.path_of("two").exists());
        let one = workspaces.workspace("one").unwrap();
        let at = |path: &str| one.path().join(path);
        std::fs::create_dir_all(at("out/deep/er")).unwrap();
        std::fs::write(at("out/deep/er/run.sh"), "echo").unwrap();
        std::fs::set_permissions(at("out/deep/er/run.sh"), PermissionsExt::from_mode(0o4755)).unwrap();
        std::fs::write(at("work/notes"), "notes").unwrap();
        symlink(place.path().join("secret"), at("out/link")).unwrap();
        symlink(place.path(), at("work/up")).unwrap();
        let copied = workspaces.copy_files("one", "two").unwrap();
        assert_eq!(copied, CopiedFiles { files: 2, left_out: 2 });
        let two = workspaces.workspace("two").unwrap();
        let found = std::fs::metadata(two.path().join("out/deep/er/run.sh")).unwrap();
        assert_eq!(found.mode() & 0o7777, 0o755);
        // Commands can change the copies.
        let like = std::fs::metadata(two.path().join("out")).unwrap();
        assert_eq!((found.uid(), found.gid()), (like.uid(), like.gid()));
        assert!(!two.path().join("out/link").exists() && !two.path().join("work/up").exists());
        assert_eq!(std::fs::read_to_string(two.path().join("work/notes")).unwrap(), "notes");
    }

    #[test]
    fn too_much_leaves_an_empty_workspace() {
        let place = tempfile::tempdir().unwrap();
        let workspaces = Workspaces::open(place.path()).unwrap();
        let one = workspaces.workspace("one").unwrap();
        std::fs::write(one.path().join("out/a"), "aaaa").unwrap();
        std::fs::write(one.path().join("work/b"), "bbbb").unwrap();
        // The sparse file has more bytes than the disk.
        let huge = std::fs::File::create(one.path().join("out/huge")).unwrap();
        huge.set_len(1 << 40).unwrap();
        for (entries, bytes) in [(2, 1 << 20), (100, 1 << 20)] {
            workspaces.copy_within("one", "two", entries, bytes).unwrap_err();
            let two = workspaces.workspace("two").unwrap();
            for path in ["out", "work/inputs"] {
                assert_eq!(std::fs::read_dir(two.path().join(path)).unwrap().count(), 0, "{path}");
            }
            assert!(!two.path().join("work/b").exists());
        }
    }
}
