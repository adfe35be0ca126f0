//! Makes local directories equal to an inventory. No link is followed, and no mode comes from the inventory except whether a
//! file is a program.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::time::SystemTime;

use rustix::fs::{AtFlags, FileType, unlinkat};

use super::known::KnownFile;
use super::list::above;
use super::open_tree::{OpenRoot, OpenTree};
use super::{ContentDigest, Inventory, InventoryFile};
use crate::dir::{Dir, finish};

/// The modes of directories, programs and other files.
const DIRECTORY: u32 = 0o755;
const PROGRAM: u32 = 0o755;
const FILE: u32 = 0o644;

/// Removes everything that the inventory lacks. Returns how many entries.
pub(super) fn prune(tree: &OpenTree, wanted: &Inventory, standing: &[&str]) -> io::Result<usize> {
    let files = wanted.files().iter().map(|file| file.path.as_str());
    let directories: HashSet<&str> = files
        .clone()
        .chain(wanted.empty_directories().iter().map(String::as_str))
        .chain(standing.iter().copied())
        .flat_map(above)
        .chain(wanted.empty_directories().iter().map(String::as_str))
        .chain(standing.iter().copied())
        .collect();
    let prune = Prune { files: files.collect(), directories };
    let mut removed = 0;
    for root in tree.roots() {
        removed += prune.directory(&root.directory, &root.at)?;
    }
    Ok(removed)
}

struct Prune<'a> {
    files: HashSet<&'a str>,
    directories: HashSet<&'a str>,
}

impl Prune<'_> {
    fn directory(&self, directory: &Dir, at: &str) -> io::Result<usize> {
        let mut removed = 0;
        for (name, kind) in directory.entries(usize::MAX)?.0 {
            let path = name.to_str().map(|name| format!("{at}/{name}"));
            let is_in = |all: &HashSet<&str>| path.as_deref().is_some_and(|path| all.contains(path));
            if kind == FileType::Directory {
                if is_in(&self.directories) {
                    // A command may have taken our access away.
                    if let Some(name) = name.to_str() {
                        directory.open_up(name)?;
                    }
                    removed += self.directory(&directory.dir(&name)?, path.as_deref().unwrap_or_default())?;
                } else {
                    directory.remove_tree(&name)?;
                    removed += 1;
                }
            } else if kind != FileType::RegularFile || !is_in(&self.files) {
                discard(directory, &name)?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

/// The end of the name of what was at the place of a file that is restored.
const ASIDE: &str = ".from-before";
/// How many such names are tried.
const MAX_ASIDE: usize = 1000;

/// Gives another name to what is at the places of wanted files and directories, and is something else. Nothing goes.
pub(super) fn set_aside(tree: &OpenTree, found: &Inventory, wanted: &Inventory) -> io::Result<()> {
    let directories: HashSet<&str> = found
        .files()
        .iter()
        .map(|file| file.path.as_str())
        .chain(found.empty_directories().iter().map(String::as_str))
        .flat_map(above)
        .chain(found.empty_directories().iter().map(String::as_str))
        .collect();
    let mut aside = HashSet::new();
    for file in wanted.files() {
        let is_other = found.file(&file.path).is_some_and(|there| there.digest != file.digest);
        if is_other || directories.contains(file.path.as_str()) {
            aside.insert(file.path.as_str());
        }
    }
    let wanted_directories = wanted.files().iter().map(|file| file.path.as_str()).flat_map(above);
    let empty = wanted.empty_directories().iter().map(String::as_str);
    let all = wanted_directories.chain(empty.clone().flat_map(above)).chain(empty);
    aside.extend(all.filter(|path| found.file(path).is_some()));
    // What is in a directory that is renamed goes with it.
    let is_top = |path: &&&str| !above(path).any(|above| aside.contains(above));
    aside.iter().filter(is_top).try_for_each(|path| rename_aside(tree, path))
}

fn rename_aside(tree: &OpenTree, path: &str) -> io::Result<()> {
    let Some((root, rest)) = tree.find(path) else { return Ok(()) };
    let (parent, name) = rest.rsplit_once('/').unwrap_or(("", rest));
    let parent = root.directory.dir(parent)?;
    for number in 1..MAX_ASIDE {
        let aside = if number == 1 { format!("{name}{ASIDE}") } else { format!("{name}{ASIDE}-{number}") };
        if parent.entry(&aside)?.is_none() {
            return parent.rename(name, &aside);
        }
    }
    Err(io::Error::other("there are too many files from before the thread was followed"))
}

/// Removes an entry that is no directory, if it exists.
fn discard(directory: &Dir, name: &OsStr) -> io::Result<()> {
    match unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Makes the directories of the inventory in which nothing is.
pub(super) fn make_directories(tree: &OpenTree, wanted: &Inventory) -> io::Result<()> {
    for path in wanted.empty_directories() {
        if let Some((root, rest)) = tree.find(path) {
            make_parents(root, rest)?;
        }
    }
    Ok(())
}

/// Makes a directory. A file in the place of one goes.
fn make_parents(root: &OpenRoot, path: &str) -> io::Result<Dir> {
    let mut directory = root.directory.dir("")?;
    for name in path.split('/').filter(|name| !name.is_empty()) {
        let found = directory.entry(name)?;
        if found.is_some_and(|stat| !FileType::from_raw_mode(stat.st_mode).is_dir()) {
            discard(&directory, OsStr::new(name))?;
        }
        directory = directory.make_dir(name, DIRECTORY, root.owner)?;
    }
    Ok(directory)
}

/// Writes a file, in place of what is at its path. A reader finds the whole old or the whole new file.
pub(super) fn write(tree: &OpenTree, file: &InventoryFile, bytes: &[u8]) -> io::Result<KnownFile> {
    let Some((root, rest)) = tree.find(&file.path) else {
        return Err(io::Error::other("it is in no directory of the thread"));
    };
    let (parent, name) = rest.rsplit_once('/').unwrap_or(("", rest));
    let parent = make_parents(root, parent)?;
    let (temporary, mut written) = parent.temporary_file()?;
    let mut put = || -> io::Result<KnownFile> {
        written.write_all(bytes)?;
        finish(&written, if file.executable { PROGRAM } else { FILE }, root.owner)?;
        if parent.entry(name)?.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir()) {
            parent.remove_tree(OsStr::new(name))?;
        }
        parent.rename(&temporary, name)?;
        let stat = parent.entry(name)?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(KnownFile::new(&stat, SystemTime::now(), ContentDigest::of(bytes)))
    };
    put().inspect_err(|_| parent.discard(&temporary))
}

/// Removes a file, if it exists.
pub(super) fn remove(tree: &OpenTree, path: &str) -> io::Result<()> {
    let Some((root, rest)) = tree.find(path) else { return Ok(()) };
    let (parent, name) = rest.rsplit_once('/').unwrap_or(("", rest));
    match root.directory.dir(parent) {
        Ok(parent) => match parent.entry(name)? {
            Some(stat) if !FileType::from_raw_mode(stat.st_mode).is_dir() => {
                discard(&parent, OsStr::new(name))
            }
            _ => Ok(()),
        },
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
