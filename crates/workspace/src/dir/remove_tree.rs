//! Removes a directory with all its contents, whatever a command left there.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::Dir;
use super::write::unused;

/// Removes a directory with all its contents, or a file.
///
/// Links are removed, not followed. Read-only directories, such as staged skills, are made writable first. A tree may have
/// any depth. It is not an error if nothing exists at `path`.
///
/// ```
/// # let place = tempfile::tempdir()?;
/// let tree = place.path().join("tree");
/// std::fs::create_dir_all(tree.join("deep/er"))?;
/// std::os::unix::fs::symlink("/", tree.join("root"))?;
/// prowess_workspace::dir::remove_tree(&tree)?;
/// assert!(!tree.exists());
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// The system refused. Some of the contents may be removed.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this path cannot be removed"));
    };
    let parent = if parent == Path::new("") { Path::new(".") } else { parent };
    match Dir::open(parent) {
        Ok(parent) => parent.remove_tree(name),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

impl Dir {
    /// Removes the directory `name` with all its contents. Links are removed, not followed.
    ///
    /// Directories are moved up beside `name` before they are emptied, so that a tree of any depth needs two descriptors.
    pub(crate) fn remove_tree(&self, name: &OsStr) -> io::Result<()> {
        const BATCH: usize = 4096;
        let mut pending = vec![name.to_owned()];
        while let Some(name) = pending.pop() {
            self.make_accessible(&name);
            let directory = match self.dir(&name) {
                Ok(directory) => directory,
                Err(Errno::NOENT) => continue,
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    gone(fs::unlinkat(&self.0, &name, AtFlags::empty()))?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            loop {
                let (entries, more) = directory.entries(BATCH)?;
                for (entry, kind) in entries {
                    if kind != FileType::Directory {
                        gone(fs::unlinkat(&directory.0, &entry, AtFlags::empty()))?;
                    } else if fs::unlinkat(&directory.0, &entry, AtFlags::REMOVEDIR).is_err() {
                        directory.make_accessible(&entry);
                        let (up, ()) = unused(|up| fs::renameat(&directory.0, &entry, &self.0, up))?;
                        pending.push(up.into());
                    }
                }
                if !more {
                    break;
                }
            }
            match fs::unlinkat(&self.0, &name, AtFlags::REMOVEDIR) {
                // Another process added an entry meanwhile.
                Err(Errno::NOTEMPTY) => pending.push(name),
                removed => gone(removed)?,
            }
        }
        Ok(())
    }

    /// Gives the owner all permissions on a directory, so that it can be removed.
    fn make_accessible(&self, name: &OsStr) {
        use std::os::fd::AsRawFd as _;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(found) = fs::openat(&self.0, name, flags, Mode::empty()) else { return };
        let closed = fs::fstat(&found).is_ok_and(|stat| stat.st_mode & 0o700 != 0o700);
        if closed {
            // The path names the descriptor. The entry could be a link by now.
            let path = format!("/proc/self/fd/{}", found.as_raw_fd());
            let _ = fs::chmod(path, Mode::from_raw_mode(0o700));
        }
    }
}

/// Accepts that an entry does not exist any more.
fn gone(removed: rustix::io::Result<()>) -> io::Result<()> {
    match removed {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn trees_of_any_depth_are_removed_and_links_are_not_followed() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("kept"), "text").unwrap();
        let place = tempfile::tempdir().unwrap();
        let dir = Dir::open(place.path()).unwrap();
        let mut below = dir.make_dir("tree", 0o755, None).unwrap();
        fs::symlinkat(outside.path(), &below, "link").unwrap();
        for depth in 0..3000 {
            below = below.make_dir("d", 0o755, None).unwrap();
            if depth % 1000 == 0 {
                below.replace("file", b"text", 0o444, None).unwrap();
                fs::symlinkat("/", &below, "root").unwrap();
            }
        }
        let closed = place.path().join("tree/closed");
        std::fs::create_dir_all(closed.join("inner")).unwrap();
        std::fs::write(closed.join("inner/file"), "").unwrap();
        std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o000)).unwrap();
        dir.remove_tree(OsStr::new("tree")).unwrap();
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
        assert!(outside.path().join("kept").exists());
    }
}
