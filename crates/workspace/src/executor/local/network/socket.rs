//! The proxy's Unix socket. It has no path: only a process with its descriptor can connect.

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat};

use super::super::privileges;

/// How many names are tried for a directory.
const TRIES: usize = 16;

/// Opens a listener, and a descriptor to connect to it at `/proc/self/fd/NUMBER`.
///
/// The socket has a path for a moment, in a private directory. If prowess is killed in that moment, the directory stays.
pub(super) fn open() -> io::Result<(UnixListener, OwnedFd)> {
    open_in(&Directory::new()?)
}

fn open_in(directory: &Directory) -> io::Result<(UnixListener, OwnedFd)> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let inside = openat(CWD, &directory.0, flags | OFlags::DIRECTORY, Mode::empty())?;
    // This path is short: sockets allow only short paths.
    let path = PathBuf::from(format!("/proc/self/fd/{}/socket", inside.as_raw_fd()));
    let listener = UnixListener::bind(&path)?;
    let opened = (|| {
        std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        if let Some((user, group)) = privileges::owner() {
            rustix::fs::chownat(&inside, "socket", Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok::<_, io::Error>(openat(&inside, "socket", flags, Mode::empty())?)
    })();
    rustix::fs::unlinkat(&inside, "socket", AtFlags::empty())?;
    listener.set_nonblocking(true)?;
    Ok((listener, opened?))
}

/// A private temporary directory, removed on drop.
struct Directory(PathBuf);

impl Directory {
    fn new() -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mut last = io::ErrorKind::AlreadyExists.into();
        for _ in 0..TRIES {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let at = std::env::temp_dir().join(format!("prowess-proxy-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&at) {
                Ok(()) => return Ok(Self(at)),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn who_has_the_descriptor_can_connect_and_no_path_is_left() {
        let directory = Directory::new().unwrap();
        let path = directory.0.clone();
        let (listener, proxy_socket) = open_in(&directory).unwrap();
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
        drop(directory);
        assert!(!path.exists());
        let mut there = UnixStream::connect(format!("/proc/self/fd/{}", proxy_socket.as_raw_fd())).unwrap();
        let (mut here, _) = listener.accept().unwrap();
        here.set_nonblocking(false).unwrap();
        there.write_all(b"x").unwrap();
        here.read_exact(&mut [0]).unwrap();
    }
}
