//! Removes set-uid and set-gid bits from files that commands wrote.
//!
//! Files of a workspace are local files. A program with such a bit always runs as its owner. The system call
//! filter refuses the bits, but not every sandbox level and engine has that filter.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::layout::WritableDirs;
use crate::dir::Dir;
use crate::warning::RunWarning;

/// The bits that are removed.
const BITS: u32 = 0o6000;
/// How many files and directories are checked. A workspace is full long before.
const MAX_ENTRIES: usize = 1_000_000;

/// Removes the bits from everything that a command may write. Returns a warning if not everything could be checked.
///
/// Other commands may write here at the same time, and this process may be root. So no link is followed, and each
/// directory is opened from its parent. On the way back up, the walk checks that it arrives where it came from.
pub(super) fn clear(written: &WritableDirs) -> Option<RunWarning> {
    let root = match Dir::open(&written.root) {
        Ok(root) => root,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => return Some(unseen(&error)),
    };
    let mut walk = Walk { left: MAX_ENTRIES };
    written.parts.iter().find_map(|part| walk.tree(&root, part).err()).map(|error| unseen(&error))
}

/// Removes the bits from a workspace after prowess was killed.
pub(crate) fn clear_workspace(workspace: &Path) -> Option<RunWarning> {
    clear(&WritableDirs::in_workspace(workspace))
}

/// Removes the bits from the directories of commands that ran apart. `all` holds only such directories.
pub(crate) fn clear_own(all: &Path) -> Option<RunWarning> {
    let root = match Dir::open(all) {
        Ok(root) => root,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => return Some(unseen(&error)),
    };
    match root.entries(MAX_ENTRIES) {
        Ok((entries, _)) => {
            let parts = entries.into_iter().map(|(name, _)| name).collect();
            clear(&WritableDirs { root: all.to_owned(), parts })
        }
        Err(error) => Some(unseen(&error)),
    }
}

fn unseen(error: &io::Error) -> RunWarning {
    RunWarning::SetIdsUnseen { reason: error.to_string() }
}

struct Walk {
    /// How many more entries can be checked.
    left: usize,
}

/// A directory on the way to the current one.
struct Above {
    /// Its device and inode.
    identity: (u64, u64),
    /// Its directories that are not checked yet.
    inside: Vec<OsString>,
}

impl Walk {
    fn tree(&mut self, root: &Dir, part: &OsStr) -> io::Result<()> {
        let Some(mut at) = enter(root, part)? else { return Ok(()) };
        root.change_mode(part, without_bits)?;
        // Only one directory is open at a time, however deep the tree is.
        let mut parents = vec![self.list(&at)?];
        while let Some(here) = parents.last_mut() {
            if let Some(name) = here.inside.pop() {
                if let Some(below) = enter(&at, &name)? {
                    parents.push(self.list(&below)?);
                    at = below;
                }
                continue;
            }
            parents.pop();
            if let Some(above) = parents.last() {
                at = at.parent()?;
                if identity(&at)? != above.identity {
                    return Err(io::Error::other("a directory was moved"));
                }
            }
        }
        Ok(())
    }

    /// Removes the bits from the entries of a directory.
    fn list(&mut self, directory: &Dir) -> io::Result<Above> {
        let (entries, more) = directory.entries(self.left)?;
        if more {
            return Err(io::Error::other(format!("there are more than {MAX_ENTRIES} files")));
        }
        self.left -= entries.len();
        let mut inside = Vec::new();
        for (name, kind) in entries {
            if kind == FileType::Symlink {
                continue;
            }
            if directory.entry(&name)?.is_some_and(|found| found.st_mode & BITS != 0) {
                directory.change_mode(&name, without_bits)?;
            }
            if kind == FileType::Directory {
                inside.push(name);
            }
        }
        Ok(Above { identity: identity(directory)?, inside })
    }
}

/// Opens a directory, and changes its mode first if its owner has no access. `None` if it is no longer a directory.
fn enter(above: &Dir, name: &OsStr) -> io::Result<Option<Dir>> {
    let opened = above.dir(name).or_else(|error| match error {
        Errno::ACCESS => {
            above.change_mode(name, |mode| mode | 0o700).map_err(|_| error)?;
            above.dir(name)
        }
        other => Err(other),
    });
    match opened {
        // A directory that can be listed but not entered hides the modes of its files.
        Ok(directory) if directory.stat()?.st_mode & 0o100 == 0 => {
            above.change_mode(name, |mode| mode | 0o700)?;
            Ok(Some(directory))
        }
        Ok(directory) => Ok(Some(directory)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn identity(directory: &Dir) -> io::Result<(u64, u64)> {
    let stat = directory.stat()?;
    Ok((stat.st_dev, stat.st_ino))
}

fn without_bits(mode: u32) -> u32 {
    mode & !BITS
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::PathBuf;

    use super::*;

    fn workspace() -> tempfile::TempDir {
        let at = tempfile::tempdir().unwrap();
        for part in WritableDirs::in_workspace(at.path()).parts {
            fs::create_dir(at.path().join(part)).unwrap();
        }
        at
    }

    fn with_mode(at: &Path, mode: u32) -> PathBuf {
        fs::write(at, "program").unwrap();
        fs::set_permissions(at, Permissions::from_mode(mode)).unwrap();
        at.to_owned()
    }

    fn mode(at: &Path) -> u32 {
        fs::symlink_metadata(at).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn bits_go_from_files_and_directories_wherever_they_are() {
        let at = workspace();
        let closed = at.path().join("work/closed");
        fs::create_dir_all(closed.join("inner")).unwrap();
        let files = [
            with_mode(&at.path().join("work/both"), 0o6755),
            with_mode(&at.path().join("out/user"), 0o4111),
            with_mode(&at.path().join("runs/group"), 0o2700),
            with_mode(&closed.join("inner/deep"), 0o4755),
        ];
        fs::set_permissions(at.path().join("out"), Permissions::from_mode(0o2755)).unwrap();
        for hidden in [0o000, 0o444, 0o111] {
            fs::set_permissions(&files[3], Permissions::from_mode(0o4755)).unwrap();
            fs::set_permissions(&closed, Permissions::from_mode(hidden)).unwrap();
            assert_eq!(clear_workspace(at.path()), None);
            fs::set_permissions(&closed, Permissions::from_mode(0o755)).unwrap();
            assert_eq!(mode(&files[3]), 0o755, "{hidden:o}");
        }
        assert_eq!(files.map(|file| mode(&file)), [0o755, 0o111, 0o700, 0o755]);
        assert_eq!(mode(&at.path().join("out")), 0o755);
    }

    #[test]
    fn links_lead_nowhere() {
        let outside = tempfile::tempdir().unwrap();
        let program = with_mode(&outside.path().join("su"), 0o4755);
        let at = workspace();
        symlink(&program, at.path().join("work/file")).unwrap();
        symlink(outside.path(), at.path().join("work/directory")).unwrap();
        fs::remove_dir(at.path().join("out")).unwrap();
        symlink(outside.path(), at.path().join("out")).unwrap();
        assert_eq!(clear_workspace(at.path()), None);
        assert_eq!(mode(&program), 0o4755);
    }

    #[test]
    fn a_tree_that_no_path_can_name_is_looked_into() {
        let at = workspace();
        let mut deep = Dir::open(&at.path().join("work")).unwrap();
        let name = "d".repeat(200);
        for _ in 0..40 {
            deep = deep.make_dir(&name, 0o755, None).unwrap();
        }
        deep.replace("program", b"", 0o4755, None).unwrap();
        assert_eq!(clear_workspace(at.path()), None);
        assert_eq!(deep.entry("program").unwrap().unwrap().st_mode & 0o7777, 0o755);
    }
}
