//! What the operating system says, in the crate's terms.

use std::io;

use cap_std::fs::{Metadata, MetadataExt as _};

use crate::{BackendError, Entry, EntryKind, Stamp, VirtualPath};

/// The path as the system looks it up from the root's descriptor.
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

/// A replaced file has another inode, an appended one another size; the two times tell of the rest,
/// as finely as the file system's clock ticks.
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

/// Whether there is a regular file, and if not, what to say.
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

/// A failure of a system call, about `path`.
pub(super) fn failed(path: &VirtualPath, operation: &'static str, error: io::Error) -> BackendError {
    match rustix::io::Errno::from_io_error(&error) {
        Some(rustix::io::Errno::LOOP) => BackendError::not_a_file(path, "a link, or a loop of links"),
        // Opening a socket, or a FIFO for writing that nobody reads, without waiting.
        Some(rustix::io::Errno::NXIO) => BackendError::not_a_file(path, "a FIFO, socket or device"),
        _ => BackendError::from_system(path, operation, error),
    }
}
