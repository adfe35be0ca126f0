//! Creates, replaces, appends to, edits and deletes files. All functions block.
//!
//! They open the directory of the file step by step, without following links. Then they change the file by its name in
//! that directory.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};

use cap_fs_ext::{DirExt, FollowSymlinks, MetadataExt, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::fs::{Dir, Metadata, OpenOptions};

use super::system::{check_regular, entry, failed};
use super::temporary::Temporary;
use crate::write::MAX_EDIT_BYTES;
use crate::{BackendError, Edit, Edited, Entry, Result, VirtualPath, WriteMode};

/// How many bytes of a file are compared at once.
const COMPARED: usize = 64 * 1024;

/// The result of one attempt at a change.
#[derive(Debug)]
pub(super) enum Attempt<T> {
    /// The change is done.
    Done(T),
    /// Somebody else is changing the file, or just replaced it. Nothing changed.
    Busy,
}

pub(super) fn write(root: &Dir, path: &VirtualPath, bytes: &[u8], mode: WriteMode) -> Result<Attempt<Entry>> {
    let place = Place::open(root, path, Missing::Create)?;
    let present = place.present()?;
    if mode == WriteMode::CreateNew {
        if present.is_some() {
            return Err(BackendError::already_exists(path));
        }
        return place.create_new(bytes).map(Attempt::Done);
    }
    let Some(present) = present else {
        return place.replace(bytes, None).map(Attempt::Done);
    };
    match place.hold(OpenOptions::new().read(true)) {
        Ok(Hold::Busy) => Ok(Attempt::Busy),
        Ok(Hold::Held(_file, metadata)) => place.replace(bytes, Some(&metadata)).map(Attempt::Done),
        // A user who may write to the directory may replace a file without reading it.
        Err(BackendError::PermissionDenied { .. }) => place.replace(bytes, Some(&present)).map(Attempt::Done),
        Err(error) => Err(error),
    }
}

pub(super) fn append(root: &Dir, path: &VirtualPath, bytes: &[u8]) -> Result<Attempt<Entry>> {
    let place = Place::open(root, path, Missing::Create)?;
    place.present()?;
    let Hold::Held(file, before) = place.hold(OpenOptions::new().read(true).append(true).create(true))?
    else {
        return Ok(Attempt::Busy);
    };
    if before.nlink() > 1 {
        let mut whole = read_whole(path, &file)?;
        whole.extend_from_slice(bytes);
        return place.replace(&whole, Some(&before)).map(Attempt::Done);
    }
    if let Err(error) = (&file).write_all(bytes) {
        // A full disk accepts only a part. Remove it, because half an entry is worse than none.
        let _ = file.set_len(before.len());
        return Err(failed(path, "appending", error));
    }
    let metadata = Metadata::from_file(&file).map_err(|error| failed(path, "appending", error))?;
    Ok(Attempt::Done(entry(path.clone(), &metadata)))
}

pub(super) fn edit(root: &Dir, path: &VirtualPath, edit: &Edit) -> Result<Attempt<Edited>> {
    let place = Place::open(root, path, Missing::Fail)?;
    if place.present()?.is_none() {
        return Err(BackendError::not_found(path));
    }
    let Hold::Held(file, metadata) = place.hold(OpenOptions::new().read(true))? else {
        return Ok(Attempt::Busy);
    };
    let (after, replacements) = edit.apply(path, &read_whole(path, &file)?)?;
    let entry = place.replace(after.as_bytes(), Some(&metadata))?;
    Ok(Attempt::Done(Edited { entry, replacements }))
}

pub(super) fn swap(root: &Dir, path: &VirtualPath, before: &[u8], after: &[u8]) -> Result<Attempt<Entry>> {
    let place = Place::open(root, path, Missing::Fail)?;
    if place.present()?.is_none() {
        return Err(BackendError::not_found(path));
    }
    let Hold::Held(file, metadata) = place.hold(OpenOptions::new().read(true))? else {
        return Ok(Attempt::Busy);
    };
    let failed = |error| failed(path, "writing", error);
    // Written before the check, so that little time passes between the check and the new name.
    let written = Temporary::write(&place.directory, after, Some(&metadata)).map_err(failed)?;
    if !has_contents(&file, before).map_err(failed)? {
        return Err(BackendError::Changed { path: path.clone() });
    }
    // Others may replace the file without the lock.
    match place.metadata() {
        Ok(named) if (named.dev(), named.ino()) == (metadata.dev(), metadata.ino()) => {}
        _ => return Ok(Attempt::Busy),
    }
    let metadata = written.rename_to(place.name).map_err(failed)?;
    Ok(Attempt::Done(entry(path.clone(), &metadata)))
}

pub(super) fn delete(root: &Dir, path: &VirtualPath) -> Result<Attempt<()>> {
    let place = Place::open(root, path, Missing::Fail)?;
    let metadata = place.metadata().map_err(|error| failed(path, "deleting", error))?;
    if metadata.is_dir() {
        return Err(BackendError::is_directory(path));
    }
    // Locked until the file is gone, so that a concurrent edit does not bring it back.
    let _held = if metadata.is_file() {
        match place.hold(OpenOptions::new().read(true)) {
            Ok(Hold::Busy) => return Ok(Attempt::Busy),
            Ok(Hold::Held(file, _)) => Some(file),
            Err(BackendError::PermissionDenied { .. }) => None,
            Err(error) => return Err(error),
        }
    } else {
        None
    };
    match place.directory.remove_file_or_symlink(place.name) {
        Ok(()) => Ok(Attempt::Done(())),
        Err(error) => Err(failed(path, "deleting", error)),
    }
}

/// What to do if a directory is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Create,
    Fail,
}

/// A name in an open directory, for an existing or a new file.
#[derive(Debug)]
struct Place<'a> {
    directory: Dir,
    name: &'a str,
    path: &'a VirtualPath,
}

/// An existing file, and whether this process could lock it.
#[derive(Debug)]
enum Hold {
    /// Locked until the handle is dropped. The name still leads to this file.
    Held(File, Metadata),
    /// Locked by somebody else, or replaced by another file.
    Busy,
}

impl<'a> Place<'a> {
    fn open(root: &Dir, path: &'a VirtualPath, missing: Missing) -> Result<Self> {
        let Some(name) = path.name() else {
            return Err(BackendError::is_directory(path));
        };
        let mut directory = root.try_clone().map_err(|error| failed(path, "opening", error))?;
        let mut here = VirtualPath::root();
        let above = path.parent().unwrap_or_else(VirtualPath::root);
        for step in above.components() {
            here = here.join(step)?;
            directory = match directory.open_dir_nofollow(step) {
                Ok(next) => next,
                Err(error) if error.kind() == io::ErrorKind::NotFound && missing == Missing::Create => {
                    create_directory(&directory, step, &here)?
                }
                Err(error) => return Err(blocked(&directory, step, &here, path, missing, error)),
            };
        }
        Ok(Self { directory, name, path })
    }

    fn metadata(&self) -> io::Result<Metadata> {
        self.directory.symlink_metadata(self.name)
    }

    /// The regular file of that name, if any; an error if the name belongs to something else.
    fn present(&self) -> Result<Option<Metadata>> {
        match self.metadata() {
            Ok(metadata) => check_regular(self.path, &metadata).map(|()| Some(metadata)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(self.path, "looking up", error)),
        }
    }

    fn hold(&self, options: &mut OpenOptions) -> Result<Hold> {
        let failed = |error| failed(self.path, "opening", error);
        let options = options.nonblock(true).follow(FollowSymlinks::No);
        let file = match self.directory.open_with(self.name, options) {
            Ok(file) => file,
            // Somebody deleted it a moment ago.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Hold::Busy),
            Err(error) => return Err(failed(error)),
        };
        let opened = file.metadata().map_err(failed)?;
        check_regular(self.path, &opened)?;
        let file = file.into_std();
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Hold::Busy),
            // The file system has no locks, so only the queue of this process protects the file.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // If somebody replaced the file before the lock, this handle has the old file.
        match self.metadata() {
            Ok(named) if (named.dev(), named.ino()) == (opened.dev(), opened.ino()) => {
                // Read the metadata again: the previous holder of the lock may have added bytes.
                let metadata = Metadata::from_file(&file).map_err(failed)?;
                Ok(Hold::Held(file, metadata))
            }
            Ok(_) => Ok(Hold::Busy),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Hold::Busy),
            Err(error) => Err(failed(error)),
        }
    }

    fn replace(&self, bytes: &[u8], before: Option<&Metadata>) -> Result<Entry> {
        let failed = |error| failed(self.path, "writing", error);
        let written = Temporary::write(&self.directory, bytes, before).map_err(failed)?;
        let metadata = written.rename_to(self.name).map_err(failed)?;
        Ok(entry(self.path.clone(), &metadata))
    }

    fn create_new(&self, bytes: &[u8]) -> Result<Entry> {
        let failed = |error| failed(self.path, "writing", error);
        let written = Temporary::write(&self.directory, bytes, None).map_err(failed)?;
        let metadata = written.link_to(self.name).map_err(failed)?;
        Ok(entry(self.path.clone(), &metadata))
    }
}

fn create_directory(parent: &Dir, name: &str, path: &VirtualPath) -> Result<Dir> {
    match parent.create_dir(name) {
        Ok(()) => {}
        // Another writer just created it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(path, "creating", error)),
    }
    parent.open_dir_nofollow(name).map_err(|error| blocked(parent, name, path, path, Missing::Create, error))
}

/// The error for a directory on the path to a file that cannot be opened.
fn blocked(
    parent: &Dir,
    name: &str,
    here: &VirtualPath,
    path: &VirtualPath,
    missing: Missing,
    error: io::Error,
) -> BackendError {
    match parent.symlink_metadata(name) {
        Ok(metadata) if metadata.is_symlink() => BackendError::PermissionDenied {
            path: path.clone(),
            reason: "a parent directory is a link; prowess does not write through links".to_owned(),
        },
        Ok(metadata) if !metadata.is_dir() && missing == Missing::Create => {
            BackendError::not_a_directory(here)
        }
        Ok(metadata) if !metadata.is_dir() => BackendError::not_found(path),
        _ => failed(path, "opening", error),
    }
}

fn read_whole(path: &VirtualPath, file: &File) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_EDIT_BYTES + 1).read_to_end(&mut bytes).map_err(|error| failed(path, "reading", error))?;
    if bytes.len() as u64 > MAX_EDIT_BYTES {
        return Err(BackendError::TooLarge { path: path.clone(), limit: MAX_EDIT_BYTES });
    }
    Ok(bytes)
}

/// Whether a file has exactly these bytes.
fn has_contents(mut file: &File, bytes: &[u8]) -> io::Result<bool> {
    let (mut rest, mut buffer) = (bytes, vec![0; COMPARED]);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(rest.is_empty());
        }
        match rest.strip_prefix(&buffer[..read]) {
            Some(after) => rest = after,
            None => return Ok(false),
        }
    }
}
