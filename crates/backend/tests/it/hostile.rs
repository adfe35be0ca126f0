//! Hostile files in a local directory, and how the backend resists them.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use bytes::Bytes;
use prowess_backend::{
    Backend, Edit, EntryKind, GlobQuery, GrepQuery, LocalBackend, PathProblem, ReadRange, VirtualPath,
    WriteMode,
};
use rustix::fs::{CWD, FileType, Mode, mkdirat, mknodat, openat};

use crate::cage::{Cage, SECRET, at, code};

/// Checks that every change of `path` fails with `expected`.
async fn assert_no_change(cage: &Cage, path: &str, expected: &str) {
    let (backend, path) = (&cage.backend, at(path));
    assert_eq!(code(backend.write(&path, "x".into(), WriteMode::Replace)).await, expected, "write {path}");
    assert_eq!(code(backend.append(&path, "x".into())).await, expected, "append {path}");
    assert_eq!(code(backend.edit(&path, &Edit::all("S", "x"))).await, expected, "edit {path}");
    cage.assert_untouched();
}

#[tokio::test]
async fn a_link_to_a_file_outside_is_denied() {
    let cage = Cage::new();
    cage.link("relative", "../outside/secret");
    cage.link("absolute", cage.outside("secret"));
    fs::create_dir(cage.inside("deep")).unwrap();
    cage.link("deep/relative", "../../outside/secret");
    for path in ["/relative", "/absolute", "/deep/relative"] {
        assert_eq!(code(cage.read(path)).await, "permission_denied", "{path}");
        assert_eq!(code(cage.backend.stat(&at(path))).await, "permission_denied", "{path}");
        let many = cage.backend.read_many(&[at(path)], 100).await.remove(0);
        assert_eq!(many.unwrap_err().code(), "permission_denied", "{path}");
        assert_no_change(&cage, path, "not_a_file").await;
        cage.backend.delete(&at(path)).await.expect("a link itself may be removed");
    }
    cage.assert_untouched();
}

#[tokio::test]
async fn a_link_to_a_directory_outside_is_denied() {
    let cage = Cage::new();
    cage.link("relative", "../outside");
    cage.link("absolute", cage.outside(""));
    cage.link("up", "..");
    let everything = GlobQuery::new("**").unwrap();
    let secret = GrepQuery::literal(SECRET).unwrap();
    for (link, below) in [("/relative", "secret"), ("/absolute", "secret"), ("/up", "outside/secret")] {
        let (link, below) = (at(link), at(link).join(below).unwrap());
        assert_eq!(code(cage.read(below.as_str())).await, "permission_denied", "{below}");
        assert_eq!(code(cage.backend.stat(&below)).await, "permission_denied");
        assert_eq!(code(cage.backend.ls(&link)).await, "permission_denied");
        assert_eq!(code(cage.backend.glob(&link, &everything)).await, "permission_denied");
        assert_eq!(code(cage.backend.grep(&link, &secret)).await, "permission_denied");
        assert_no_change(&cage, below.as_str(), "permission_denied").await;
        assert_no_change(&cage, link.join("new/file").unwrap().as_str(), "permission_denied").await;
        assert_eq!(code(cage.backend.delete(&below)).await, "permission_denied");
        cage.assert_untouched();
    }
    let found = cage.backend.glob(&VirtualPath::root(), &everything).await.unwrap();
    assert!(found.entries.is_empty(), "{found:?}");
    assert!(cage.backend.grep(&VirtualPath::root(), &secret).await.unwrap().matches.is_empty());
}

#[tokio::test]
async fn links_are_listed_as_what_they_are() {
    let cage = Cage::new();
    cage.link("link", "../outside");
    cage.link("nowhere", "nothing");
    let listing = cage.backend.ls(&VirtualPath::root()).await.unwrap();
    let kinds: Vec<_> = listing.into_iter().map(|entry| (entry.path, entry.kind)).collect();
    assert_eq!(kinds, [(at("/link"), EntryKind::Other), (at("/nowhere"), EntryKind::Other)]);
    assert_eq!(code(cage.read("/nowhere")).await, "not_found");
}

#[tokio::test]
async fn a_link_that_stays_inside_is_read_and_not_written_through() {
    let cage = Cage::new();
    fs::create_dir(cage.inside("real")).unwrap();
    fs::write(cage.inside("real/file"), "text").unwrap();
    cage.link("file", "real/file");
    cage.link("dir", "real");
    assert_eq!(cage.read("/file").await.unwrap(), "text");
    assert_eq!(cage.read("/dir/file").await.unwrap(), "text");
    assert_eq!(cage.backend.ls(&at("/dir")).await.unwrap().entries[0].path, at("/dir/file"));
    // A rule about `/real` does not cover `/dir`.
    assert_no_change(&cage, "/file", "not_a_file").await;
    assert_no_change(&cage, "/dir/file", "permission_denied").await;
    assert_eq!(fs::read_to_string(cage.inside("real/file")).unwrap(), "text");
    // A search finds each file once, by its own name.
    let found = cage.backend.glob(&VirtualPath::root(), &GlobQuery::new("**").unwrap()).await.unwrap();
    assert_eq!(found.entries.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(), ["/real/file"]);
}

#[tokio::test]
async fn loops_of_links_end() {
    let cage = Cage::new();
    cage.link("a", "b");
    cage.link("b", "a");
    cage.link("self", "self");
    fs::create_dir(cage.inside("dir")).unwrap();
    fs::write(cage.inside("dir/file"), "text").unwrap();
    cage.link("dir/here", ".");
    for path in ["/a", "/self", "/a/below"] {
        assert_eq!(code(cage.read(path)).await, "not_a_file", "{path}");
        assert_eq!(code(cage.backend.stat(&at(path))).await, "not_a_file", "{path}");
    }
    let found = cage.backend.glob(&VirtualPath::root(), &GlobQuery::new("**").unwrap()).await.unwrap();
    assert_eq!(found.entries.len(), 1);
    assert!(found.skipped.is_empty() && found.stopped.is_none());
}

#[test]
fn there_is_no_spelling_of_the_way_up() {
    for text in
        ["/..", "/../outside/secret", "/a/../../outside", "..", "/./..", "/a\\..\\..\\outside", "/..\0"]
    {
        assert_eq!(VirtualPath::parse(text).unwrap_err().code(), "invalid_path", "{text:?}");
    }
    // Percent signs have no meaning in a path.
    assert_eq!(at("/%2e%2e/x").components().next(), Some("%2e%2e"));
}

#[tokio::test]
async fn a_fifo_or_socket_keeps_nobody_waiting() {
    let cage = Cage::new();
    mknodat(CWD, cage.inside("fifo"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    let _listener = UnixListener::bind(cage.inside("socket")).unwrap();
    for path in ["/fifo", "/socket"] {
        assert_eq!(code(cage.read(path)).await, "not_a_file", "{path}");
        assert_eq!(cage.backend.stat(&at(path)).await.unwrap().kind, EntryKind::Other);
        assert_no_change(&cage, path, "not_a_file").await;
    }
    assert_eq!(code(cage.backend.ls(&at("/fifo"))).await, "not_a_directory");
    assert!(
        cage.backend
            .glob(&VirtualPath::root(), &GlobQuery::new("**").unwrap())
            .await
            .unwrap()
            .entries
            .is_empty()
    );
    cage.backend.delete(&at("/fifo")).await.unwrap();
}

#[tokio::test]
async fn devices_are_refused() {
    let devices = LocalBackend::open("/dev").unwrap();
    for path in ["/zero", "/null"] {
        assert_eq!(code(devices.read(&at(path), ReadRange::first(10))).await, "not_a_file");
        assert_eq!(code(devices.append(&at(path), "x".into())).await, "not_a_file");
        assert_eq!(code(devices.write(&at(path), "x".into(), WriteMode::Replace)).await, "not_a_file");
        assert_eq!(devices.stat(&at(path)).await.unwrap().kind, EntryKind::Other);
    }
}

#[tokio::test]
async fn a_terabyte_of_nothing_is_bounded() {
    let cage = Cage::new();
    File::create(cage.inside("sparse")).unwrap().set_len(1 << 40).unwrap();
    let path = at("/sparse");
    let contents = cage.backend.read(&path, ReadRange::first(1000).at(1 << 39)).await.unwrap();
    assert_eq!((contents.bytes.len(), contents.more), (1000, true));
    assert_eq!(code(cage.backend.edit(&path, &Edit::all("x", "y"))).await, "too_large");
    let download = cage.backend.download(std::slice::from_ref(&path)).await.remove(0);
    assert_eq!(download.unwrap_err().code(), "too_large");
    let report = cage.backend.grep(&VirtualPath::root(), &GrepQuery::literal("x").unwrap()).await.unwrap();
    assert_eq!(report.binary, 1);
    let appended = cage.backend.append(&path, "x".into()).await.unwrap();
    assert_eq!(appended.size, (1 << 40) + 1);
}

#[tokio::test]
async fn names_that_are_no_paths_are_reported_and_hide_nothing_else() {
    let cage = Cage::new();
    for name in [&b"bad\xff"[..], b"new\nline", b"esc\x1b[2J", b"back\\slash", b"good"] {
        fs::write(cage.inside("").join(OsStr::from_bytes(name)), "x").unwrap();
    }
    let listing = cage.backend.ls(&VirtualPath::root()).await.unwrap();
    assert_eq!(listing.entries.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(), ["/good"]);
    let mut problems: Vec<PathProblem> = listing
        .skipped
        .iter()
        .map(|error| match error {
            prowess_backend::BackendError::InvalidPath { problem, .. } => *problem,
            other => panic!("{other:?}"),
        })
        .collect();
    problems.sort_by_key(|problem| format!("{problem:?}"));
    use PathProblem::{Backslash, Control, NotUnicode};
    assert_eq!(problems, [Backslash, Control, Control, NotUnicode]);
    for error in &listing.skipped {
        assert!(!error.to_string().contains(['\n', '\x1b']), "{error:?}");
    }
    let found = cage.backend.glob(&VirtualPath::root(), &GlobQuery::new("**").unwrap()).await.unwrap();
    assert_eq!((found.entries.len(), found.skipped.len()), (1, 4));
}

#[tokio::test]
async fn a_tree_deeper_than_paths_are_long_is_reported() {
    let cage = Cage::new();
    fs::write(cage.inside("file"), "x").unwrap();
    let name = "d".repeat(250);
    let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    let mut here = openat(CWD, cage.inside(""), flags, Mode::empty()).unwrap();
    for _ in 0..20 {
        mkdirat(&here, &name, Mode::RWXU).unwrap();
        here = openat(&here, &name, flags, Mode::empty()).unwrap();
    }
    let found = cage.backend.glob(&VirtualPath::root(), &GlobQuery::new("**").unwrap()).await.unwrap();
    assert_eq!(found.entries.len(), 1);
    assert_eq!(found.skipped.len(), 1);
    assert_eq!(found.skipped[0].code(), "invalid_path");
}

#[tokio::test]
async fn replacing_keeps_the_mode_without_the_dangerous_bits() {
    let cage = Cage::new();
    for (before, after) in [(0o600, 0o600), (0o4755, 0o755), (0o640, 0o640)] {
        let file = cage.inside("file");
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(before)).unwrap();
        cage.backend.write(&at("/file"), "new".into(), WriteMode::Replace).await.unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, after);
        cage.backend.edit(&at("/file"), &Edit::unique("new", "newer")).await.unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, after);
    }
}

#[tokio::test]
async fn another_name_of_the_same_file_keeps_its_contents() {
    let cage = Cage::new();
    for (name, change) in [("written", 0), ("appended", 1), ("edited", 2)] {
        fs::hard_link(cage.outside("secret"), cage.inside(name)).unwrap();
        let path = at(&format!("/{name}"));
        match change {
            0 => drop(cage.backend.write(&path, "x".into(), WriteMode::Replace).await.unwrap()),
            1 => drop(cage.backend.append(&path, "x".into()).await.unwrap()),
            _ => drop(cage.backend.edit(&path, &Edit::all("SECRET", "x")).await.unwrap()),
        }
        cage.assert_untouched();
    }
    assert_eq!(cage.read("/appended").await.unwrap(), "SECRETx");
}

#[tokio::test]
async fn the_root_is_a_directory_and_not_its_name() {
    let cage = Cage::new();
    fs::write(cage.inside("file"), "text").unwrap();
    let moved = cage.outside("").join("../moved");
    fs::rename(cage.inside(""), &moved).unwrap();
    symlink(cage.outside(""), cage.inside("").to_str().unwrap().trim_end_matches('/')).unwrap();
    assert_eq!(cage.read("/file").await.unwrap(), "text");
    assert_eq!(code(cage.read("/secret")).await, "not_found");
    cage.backend.write(&at("/new"), Bytes::new(), WriteMode::CreateNew).await.unwrap();
    assert!(moved.join("new").exists());
    cage.assert_untouched();
}

#[tokio::test]
async fn what_is_left_of_a_crash_is_seen_and_in_nobodys_way() {
    let cage = Cage::new();
    let leftover = format!(".prowess-{:x}-0.tmp", std::process::id());
    fs::write(cage.inside(&leftover), "half").unwrap();
    for name in ["/a", "/b"] {
        cage.backend.write(&at(name), "x".into(), WriteMode::CreateNew).await.unwrap();
    }
    assert_eq!(cage.backend.ls(&VirtualPath::root()).await.unwrap().entries.len(), 3);
}

#[test]
fn a_root_must_be_a_directory() {
    let cage = Cage::new();
    assert!(LocalBackend::open(cage.inside("nothing")).is_err());
    assert!(LocalBackend::open(cage.outside("secret")).is_err());
}
