//! Tests of directories that others change during a read.

use std::ffi::OsString;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use prowess_base::beneath::{
    FILE, Follow, NotOpened, create_file, list, open, open_directory, open_file, stat, with_unused_name,
};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::io::Errno;

#[test]
fn only_regular_files_are_opened_and_nothing_waits() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("file"), "text").unwrap();
    std::fs::create_dir(place.path().join("directory")).unwrap();
    mknodat(CWD, place.path().join("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let _listener = UnixListener::bind(place.path().join("socket")).unwrap();
    symlink("file", place.path().join("link")).unwrap();
    symlink("/etc/passwd", place.path().join("out")).unwrap();
    let directory = open_directory(place.path()).unwrap();
    let refused = |name: &str, follow| open_file(&directory, name, follow).map(|_| ()).unwrap_err();
    assert_eq!(open_file(&directory, "file", Follow::Never).unwrap().1.st_size, 4);
    assert_eq!(refused("directory", Follow::Never), NotOpened::NotAFile(FileType::Directory));
    assert_eq!(refused("fifo", Follow::Never), NotOpened::NotAFile(FileType::Fifo));
    assert_eq!(refused("socket", Follow::Never), NotOpened::Refused(Errno::NXIO));
    assert_eq!(refused("link", Follow::Never), NotOpened::Refused(Errno::LOOP));
    assert_eq!(refused("out", Follow::Beneath), NotOpened::Refused(Errno::XDEV));
    assert_eq!(refused("gone", Follow::Never), NotOpened::Refused(Errno::NOENT));
    assert!(open_file(&directory, "link", Follow::Beneath).is_ok());
}

#[test]
fn a_link_into_another_process_is_no_way_out() {
    let place = tempfile::tempdir().unwrap();
    symlink("/proc/self/root", place.path().join("magic")).unwrap();
    let directory = open_directory(place.path()).unwrap();
    for follow in [Follow::Never, Follow::Beneath] {
        assert!(open(&directory, "magic/etc/passwd", FILE, follow).is_err());
    }
}

#[test]
fn entries_are_listed_as_they_are_until_enough_is_known() {
    let place = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        std::fs::write(place.path().join(name), "").unwrap();
    }
    symlink("/", place.path().join("link")).unwrap();
    std::fs::create_dir(place.path().join("directory")).unwrap();
    let listed = |most: usize| {
        let mut found: Vec<(OsString, FileType)> = Vec::new();
        list(open_directory(place.path()).unwrap(), |name, kind| {
            found.push((name.to_owned(), kind));
            if found.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
        found.sort_by(|one, other| one.0.cmp(&other.0));
        found
    };
    let kinds: Vec<FileType> = listed(usize::MAX).into_iter().map(|(_, kind)| kind).collect();
    let file = FileType::RegularFile;
    assert_eq!(kinds, [file, file, file, FileType::Directory, FileType::Symlink]);
    assert_eq!(listed(2).len(), 2);
}

#[test]
fn a_new_file_takes_no_name_that_something_has() {
    let place = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    symlink(outside.path().join("made"), place.path().join("link")).unwrap();
    let directory = open_directory(place.path()).unwrap();
    assert_eq!(create_file(&directory, "link", 0o600).unwrap_err(), Errno::EXIST);
    assert!(!outside.path().join("made").exists());
    create_file(&directory, "file", 0o600).unwrap();
    assert_eq!(stat(&directory, "file").unwrap().st_mode & 0o777, 0o600);
}

#[test]
fn names_are_tried_until_one_is_free_and_not_for_ever() {
    let mut tried = 0;
    let (name, ()) = with_unused_name(".test-", ".tmp", |_| {
        tried += 1;
        if tried < 3 { Err(io::ErrorKind::AlreadyExists.into()) } else { Ok(()) }
    })
    .unwrap();
    assert!(name.starts_with(".test-") && name.ends_with(".tmp"));
    assert_eq!(tried, 3);
    let taken: io::Result<(String, ())> = with_unused_name("", "", |_| {
        tried += 1;
        Err(io::ErrorKind::DirectoryNotEmpty.into())
    });
    assert_eq!(taken.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert!(tried < 100);
    let failed: io::Result<(String, ())> = with_unused_name("", "", |_| Err(Errno::NOSPC.into()));
    assert_eq!(failed.unwrap_err().raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
}

#[test]
fn metadata_are_never_those_of_something_behind_a_link() {
    let place = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("file"), "secret").unwrap();
    std::fs::create_dir_all(place.path().join("a/b")).unwrap();
    std::fs::write(place.path().join("a/b/file"), "text").unwrap();
    symlink(outside.path(), place.path().join("out")).unwrap();
    symlink("a", place.path().join("within")).unwrap();
    symlink(outside.path().join("file"), place.path().join("a/link")).unwrap();
    let directory = open_directory(place.path()).unwrap();
    let kind = |path: &str| stat(&directory, path).map(|found| FileType::from_raw_mode(found.st_mode));
    assert_eq!(kind("a/b"), Ok(FileType::Directory));
    assert_eq!(stat(&directory, "a/b/file").unwrap().st_size, 4);
    // A link at the end is seen as a link.
    assert_eq!(kind("out"), Ok(FileType::Symlink));
    assert_eq!(kind("a/link"), Ok(FileType::Symlink));
    // A link before the end is not followed, even if it stays inside. Nor does a slash at the end make it one before.
    for path in ["out/file", "within/b/file", "within/b", "a/link/x"] {
        assert!(matches!(kind(path), Err(Errno::LOOP | Errno::NOTDIR)), "{path}: {:?}", kind(path));
    }
    for path in ["out/", "within/", "out/.", "within/."] {
        assert!(kind(path).is_err(), "{path}");
    }
    for path in ["..", "a/..", "a/../..", "../x", "a/../../x", "/", "/etc", "/etc/passwd"] {
        assert_eq!(kind(path), Err(Errno::XDEV), "{path}");
    }
    for path in ["gone", "gone/file", "", "a/"] {
        assert_eq!(kind(path), Err(Errno::NOENT), "{path:?}");
    }
}
