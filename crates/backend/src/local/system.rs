//! Translates metadata and errors of the operating system into the types of this crate.

use std::io;

use cap_std::fs::{Metadata, MetadataExt as _};

use crate::{BackendError, Entry, EntryKind, Stamp, VirtualPath};

/// The path relative to the root, for the system.
pub(super) fn relative(path: &VirtualPath) -> &str {
    match path.strip_prefix(&VirtualPath::root()) {
        Some("") | None => ".",
        Some(relative) => relative,
    }
}

pub(super) fn entry(path: VirtualPath, metadata: &Metadata) -> Entry {
    let modified = metadata.modified().ok().map(cap_std::time::SystemTime::into_std);
    match kind(metadata) {
        EntryKind::Directory => Entry { modified, ..Entry::directory(path) },
        EntryKind::Other => Entry { path, kind: EntryKind::Other, size: 0, modified, stamp: None },
        EntryKind::File => {
            let stamp = Some(stamp(metadata));
            Entry { path, kind: EntryKind::File, size: metadata.len(), modified, stamp }
        }
    }
}

fn kind(metadata: &Metadata) -> EntryKind {
    if metadata.is_file() {
        EntryKind::File
    } else if metadata.is_dir() {
        EntryKind::Directory
    } else {
        EntryKind::Other
    }
}

/// A stamp from metadata. A replaced file has a new inode, an appended file a new size. The two times show other
/// changes, as precisely as the clock of the file system.
pub(super) fn stamp(metadata: &Metadata) -> Stamp {
    Stamp::new(&format!(
        "{:x}-{:x}-{:x}.{:x}-{:x}.{:x}",
        metadata.ino(),
        metadata.len(),
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec(),
    ))
}

/// Returns an error unless the file is regular.
pub(super) fn check_regular(path: &VirtualPath, metadata: &Metadata) -> Result<(), BackendError> {
    let file_type = metadata.file_type();
    if file_type.is_file() {
        Ok(())
    } else if file_type.is_dir() {
        Err(BackendError::is_directory(path))
    } else if file_type.is_symlink() {
        Err(BackendError::not_a_file(path, "a link"))
    } else {
        Err(BackendError::not_a_file(path, "a FIFO, socket or device"))
    }
}

/// Translates the error of a system call on `path`.
pub(super) fn failed(path: &VirtualPath, operation: &'static str, error: io::Error) -> BackendError {
    match rustix::io::Errno::from_io_error(&error) {
        Some(rustix::io::Errno::LOOP) => BackendError::not_a_file(path, "a link, or a loop of links"),
        // The system refuses to open a socket, or a FIFO without a reader for writing.
        Some(rustix::io::Errno::NXIO) => BackendError::not_a_file(path, "a FIFO, socket or device"),
        _ => BackendError::from_system(path, operation, error),
    }
}
