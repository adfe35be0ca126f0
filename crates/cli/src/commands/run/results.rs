//! Copies results to the directory of `--to`. No link in it is followed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use anyhow::{Result, bail};
use prowess_base::beneath::{self, DIRECTORY, with_unused_name};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::terminal::printable;

/// Refuses `--to` if it is not a directory, before anything runs.
pub(crate) fn check(directory: &Path) -> Result<()> {
    let name = printable(&directory.display().to_string());
    // With a slash at the end, the system would follow a link.
    let itself: PathBuf = directory.components().collect();
    match std::fs::symlink_metadata(&itself) {
        Ok(found) if found.is_symlink() => {
            bail!("--to {name} is a link, which is not followed: name the directory it points to")
        }
        Ok(found) if !found.is_dir() => bail!("--to {name} is a file: name a directory"),
        _ => Ok(()),
    }
}

/// Writes a result below a directory, and creates missing directories. Returns its path.
pub(crate) fn copy(directory: &Path, name: &str, content: &[u8]) -> io::Result<PathBuf> {
    let inner: Vec<&OsStr> = Path::new(name)
        .components()
        .map(|part| match part {
            Component::Normal(name) => Ok(name),
            _ => Err(io::Error::other("its name leads out of the directory")),
        })
        .collect::<io::Result<_>>()?;
    let Some((file, parents)) = inner.split_last() else {
        return Err(io::Error::other("it has no name"));
    };
    let mut at = open(directory)?;
    let mut path = directory.to_owned();
    for name in parents {
        path.push(name);
        at = step(&at, name).map_err(|error| refused(error, &path))?;
    }
    path.push(file);
    write(&at, file, content).map_err(|error| refused(error, &path))?;
    Ok(path)
}

/// Opens the directory of `--to`. Below the working directory no link is followed. For an absolute path elsewhere
/// only the last name must not be a link.
fn open(directory: &Path) -> io::Result<OwnedFd> {
    let here = std::env::current_dir()?;
    let directory = directory.strip_prefix(&here).unwrap_or(directory);
    let (mut at, rest) = match (directory.is_absolute(), directory.parent(), directory.file_name()) {
        (true, Some(parent), Some(name)) => {
            std::fs::create_dir_all(parent)?;
            (beneath::open_directory(parent)?, Path::new(name))
        }
        (true, ..) => (beneath::open_directory(Path::new("/"))?, directory),
        (false, ..) => (beneath::open_directory(Path::new("."))?, directory),
    };
    let mut path =
        directory.parent().filter(|_| directory.is_absolute()).map(Path::to_owned).unwrap_or_default();
    for part in rest.components() {
        path.push(part);
        at = match part {
            Component::Normal(name) => step(&at, name).map_err(|error| refused(error, &path))?,
            Component::ParentDir => rustix::fs::openat(&at, "..", DIRECTORY, Mode::empty())?,
            Component::CurDir | Component::RootDir | Component::Prefix(_) => at,
        };
    }
    Ok(at)
}

/// The directory of this name, created if it does not exist.
fn step(at: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    match rustix::fs::mkdirat(at, name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error),
    }
    match rustix::fs::openat(at, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()) {
        // The system reports a link as "not a directory".
        Err(Errno::NOTDIR) if kind(at, name) == Some(FileType::Symlink) => Err(Errno::LOOP),
        opened => opened,
    }
}

/// Writes a file under a temporary name, and then renames it.
fn write(at: &OwnedFd, name: &OsStr, content: &[u8]) -> Result<(), io::Error> {
    match kind(at, name) {
        None | Some(FileType::RegularFile) => {}
        Some(FileType::Symlink) => return Err(Errno::LOOP.into()),
        Some(FileType::Directory) => return Err(Errno::ISDIR.into()),
        Some(_) => return Err(io::Error::other("something that is not a file has its name")),
    }
    let create = |name: &str| Ok(beneath::create_file(at, name, 0o666)?);
    let (unfinished, file) = with_unused_name(".prowess-", "", create)?;
    let written = File::from(file).write_all(content);
    let placed = written.and_then(|()| Ok(rustix::fs::renameat(at, &unfinished, at, name)?));
    placed.inspect_err(|_| {
        // Nothing can be done about a second failure.
        let _ = rustix::fs::unlinkat(at, &unfinished, AtFlags::empty());
    })
}

/// The type of what has this name. Links are not followed.
fn kind(at: &OwnedFd, name: &OsStr) -> Option<FileType> {
    let found = beneath::stat(at, name).ok()?;
    Some(FileType::from_raw_mode(found.st_mode))
}

fn refused(error: impl Into<io::Error>, path: &Path) -> io::Error {
    let error = error.into();
    if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
        return io::Error::other(format!("{} is a link, which is not followed", path.display()));
    }
    error
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn results_stay_below_their_directory() {
        let place = tempfile::tempdir().unwrap();
        assert!(copy(place.path(), "out/a.txt", b"a").unwrap().starts_with(place.path()));
        for name in ["../a", "/tmp/a", "out/../../a", ".", ""] {
            copy(place.path(), name, b"a").unwrap_err();
        }
    }

    #[test]
    fn a_result_takes_the_place_of_the_last_one() {
        let place = tempfile::tempdir().unwrap();
        let other = place.path().join("other");
        for content in ["one", "two"] {
            let path = copy(&place.path().join("new/results"), "out/a.txt", content.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
            // A second name keeps what it had.
            let _ = std::fs::hard_link(&path, &other);
        }
        assert_eq!(std::fs::read_to_string(other).unwrap(), "one");
        assert_eq!(std::fs::read_dir(place.path().join("new/results/out")).unwrap().count(), 1);
    }

    #[test]
    fn no_link_is_followed() {
        let (place, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let precious = outside.path().join("precious");
        std::fs::write(&precious, "kept").unwrap();
        std::fs::create_dir(place.path().join("out")).unwrap();
        symlink(&precious, place.path().join("out/file")).unwrap();
        symlink(outside.path(), place.path().join("out/directory")).unwrap();
        symlink(outside.path(), place.path().join("itself")).unwrap();
        for (to, name) in [("", "out/file"), ("", "out/directory/precious"), ("itself", "precious")] {
            let error = copy(&place.path().join(to), name, b"lost").unwrap_err();
            assert!(error.to_string().ends_with("is a link, which is not followed"), "{error}");
        }
        assert!(check(&place.path().join("itself/")).is_err() && check(place.path()).is_ok());
        assert_eq!(std::fs::read_to_string(precious).unwrap(), "kept");
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
    }
}
