//! Archives, friendly and hostile.

use std::io::{Cursor, Write as _};

use prowess_install::snapshot::archive::{ArchiveError, ArchiveLimits, unpack};
use prowess_install::snapshot::fetch::{FetchError, FetchOptions, fetch};
use prowess_install::snapshot::{EntryKind, Snapshot as _};
use prowess_install::source::{Source, SourceEnvironment};
use zip::write::SimpleFileOptions;

use super::run;

pub(crate) const SKILL: &str = "---\nname: tide\ndescription: Tells the tide.\n---\n";

fn limits() -> ArchiveLimits {
    ArchiveLimits { download_bytes: 1 << 20, extract_bytes: 100_000, files: 20 }
}

/// A zip with these entries: a path, a mode and bytes.
pub(crate) fn zipped(entries: &[(&str, u32, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (path, mode, bytes) in entries {
        let options = SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Deflated)
            .unix_permissions(*mode);
        if path.ends_with('/') {
            zip.add_directory(*path, options).unwrap();
        } else {
            zip.start_file(*path, options).unwrap();
            zip.write_all(bytes).unwrap();
        }
    }
    zip.finish().unwrap().into_inner()
}

/// A tar with these entries: a path as it is, a kind, a mode and bytes.
fn tarred(entries: &[(&str, tar::EntryType, u32, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, kind, mode, bytes) in entries {
        let mut header = tar::Header::new_ustar();
        // The checked setter would refuse what is under test.
        header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(*kind);
        header.set_mode(*mode);
        header.set_size(bytes.len() as u64);
        if matches!(kind, tar::EntryType::Symlink | tar::EntryType::Link) {
            header.set_link_name("/etc/passwd").unwrap();
        }
        header.set_cksum();
        builder.append(&header, *bytes).unwrap();
    }
    builder.into_inner().unwrap()
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

const FILE: tar::EntryType = tar::EntryType::Regular;

#[test]
fn every_format_is_unpacked_with_its_modes() {
    let zip = zipped(&[
        ("tide/", 0o755, b""),
        ("tide/SKILL.md", 0o644, SKILL.as_bytes()),
        ("tide/run.sh", 0o755, b"ls"),
        ("__MACOSX/tide/._SKILL.md", 0o644, b"x"),
    ]);
    let tar = tarred(&[
        ("./", tar::EntryType::Directory, 0o755, b""),
        ("./tide/SKILL.md", FILE, 0o644, SKILL.as_bytes()),
        ("tide/run.sh", FILE, 0o700, b"ls"),
        ("tide/.git/config", FILE, 0o644, b"x"),
    ]);
    for bytes in [zip, gzipped(&tar), tar] {
        let mut snapshot = unpack(&bytes, &limits()).unwrap();
        let entries: Vec<_> =
            snapshot.entries().iter().map(|entry| (entry.path.as_str(), entry.kind)).collect();
        assert_eq!(
            entries,
            [
                ("tide/SKILL.md", EntryKind::File { size: 48, is_executable: false }),
                ("tide/run.sh", EntryKind::File { size: 2, is_executable: true }),
            ]
        );
        assert_eq!(snapshot.read("tide/run.sh").unwrap(), b"ls");
        assert_eq!(snapshot.notices().len(), 1, "{:?}", snapshot.notices());
    }
}

#[test]
fn local_archives_are_sources() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("tide.skill");
    std::fs::write(&path, zipped(&[("tide/SKILL.md", 0o644, SKILL.as_bytes())])).unwrap();
    let source = Source::parse(path.to_str().unwrap(), &SourceEnvironment::default()).unwrap();
    let fetched = run(fetch(&source, &FetchOptions::default())).unwrap();
    assert_eq!(fetched.snapshot.entries()[0].path, "tide/SKILL.md");
    std::fs::write(&path, "no archive").unwrap();
    let error = run(fetch(&source, &FetchOptions::default())).unwrap_err();
    assert!(matches!(error, FetchError::Archive { source: ArchiveError::NotAnArchive, .. }), "{error}");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(run(fetch(&source, &FetchOptions::default())).is_ok(), "a directory with that name");
}

#[test]
fn case_128_paths_that_lead_out_are_refused_in_archives() {
    let long = "d/".repeat(70) + "f";
    for path in ["../x", "a/../../x", "/etc/x", "a\\b", "a\nb", "a/./b", "a//b", "CON.", "a /b", " a", &long]
    {
        let zip = unpack(&zipped(&[(path, 0o644, b"x")]), &limits());
        assert!(matches!(zip, Err(ArchiveError::Path { .. } | ArchiveError::Name(_))), "zip {path}: {zip:?}");
        if path.len() < 100 {
            let tar = unpack(&tarred(&[(path, FILE, 0o644, b"x")]), &limits());
            let is_refused = matches!(tar, Err(ArchiveError::Path { .. } | ArchiveError::Name(_)));
            assert!(is_refused, "tar {path}: {tar:?}");
        }
    }
}

#[test]
fn case_128_links_and_devices_are_refused_in_archives() {
    for kind in [
        tar::EntryType::Symlink,
        tar::EntryType::Link,
        tar::EntryType::Char,
        tar::EntryType::Block,
        tar::EntryType::Fifo,
        tar::EntryType::GNUSparse,
    ] {
        let bytes = tarred(&[("a", kind, 0o644, b"")]);
        let error = unpack(&bytes, &limits()).unwrap_err();
        assert!(matches!(error, ArchiveError::Kind { .. } | ArchiveError::Damaged(_)), "{kind:?}: {error}");
    }
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    zip.add_symlink("a", "/etc/passwd", SimpleFileOptions::default()).unwrap();
    let error = unpack(&zip.finish().unwrap().into_inner(), &limits()).unwrap_err();
    assert_eq!(error.to_string(), "the archive has a link at \"a\"; pack only files and directories");
}

#[test]
fn case_128_twins_are_refused_in_archives() {
    for (first, second) in [("a", "A"), ("é", "e\u{301}"), ("d/x", "D/y"), ("a", "a/b"), ("a/b", "A")] {
        let zip = unpack(&zipped(&[(first, 0o644, b"1"), (second, 0o644, b"2")]), &limits());
        assert!(matches!(zip, Err(ArchiveError::Twins { .. })), "{first} {second}: {zip:?}");
    }
    let same = tarred(&[("a", FILE, 0o644, b"1"), ("a", FILE, 0o644, b"2")]);
    assert!(matches!(unpack(&same, &limits()), Err(ArchiveError::Twins { .. })));
    // A zip that has one name twice, made from two names of the same length.
    let mut twice = zipped(&[("aa", 0o644, b"1"), ("ab", 0o644, b"2")]);
    for at in 0..twice.len() - 1 {
        if &twice[at..at + 2] == b"ab" {
            twice[at + 1] = b'a';
        }
    }
    assert!(matches!(unpack(&twice, &limits()), Err(ArchiveError::Damaged(_))));
}

#[test]
fn case_129_bombs_are_refused() {
    let zeros = vec![0; 200_000];
    let many: Vec<(String, u32, &[u8])> =
        (0..21).map(|number| (number.to_string(), 0o644, &b""[..])).collect();
    let many: Vec<(&str, u32, &[u8])> =
        many.iter().map(|(path, mode, bytes)| (path.as_str(), *mode, *bytes)).collect();
    let error = unpack(&zipped(&many), &limits()).unwrap_err();
    assert!(matches!(error, ArchiveError::TooManyFiles(20)), "{error}");
    let half = vec![0; 60_000];
    for bytes in [
        zipped(&[("a", 0o644, &zeros)]),
        zipped(&[("a", 0o644, &half), ("b", 0o644, &half)]),
        gzipped(&tarred(&[("a", FILE, 0o644, &zeros)])),
        // Nothing but padding after the first file.
        gzipped(&[tarred(&[("a", FILE, 0o644, b"x")]), vec![b'x'; 600_000]].concat()),
    ] {
        assert!(bytes.len() < 10_000);
        let unpacked = unpack(&bytes, &limits());
        let is_bounded = match &unpacked {
            Ok(snapshot) => snapshot.entries().len() == 1,
            Err(error) => matches!(error, ArchiveError::TooManyBytes(100_000) | ArchiveError::Damaged(_)),
        };
        assert!(is_bounded, "{unpacked:?}");
    }
    // A long name that goes on for ever.
    let name = tarred(&[("././@LongLink", tar::EntryType::GNULongName, 0o644, &vec![b'a'; 1_000_000])]);
    let error = unpack(&gzipped(&name), &limits()).unwrap_err();
    assert!(matches!(error, ArchiveError::TooManyBytes(100_000)), "{error}");
}

#[test]
fn case_129_sizes_in_headers_count_for_nothing() {
    // The central directory says 1 byte; the stream has many.
    let mut bytes = zipped(&[("a", 0o644, &[7; 90_000])]);
    let real = 90_000_u32.to_le_bytes();
    let mut lies = 0;
    for at in 0..bytes.len() - 4 {
        if bytes[at..at + 4] == real {
            bytes[at..at + 4].copy_from_slice(&1_u32.to_le_bytes());
            lies += 1;
        }
    }
    assert!(lies > 0);
    let error = unpack(&bytes, &limits()).unwrap_err();
    assert!(matches!(error, ArchiveError::Damaged(_)), "{error}");
    // A tar that ends in the middle of a file.
    let tar = tarred(&[("a", FILE, 0o644, &[7; 5_000])]);
    let error = unpack(&tar[..2_000], &limits()).unwrap_err();
    assert!(matches!(error, ArchiveError::Damaged(_)), "{error}");
}

#[test]
fn encrypted_and_damaged_archives_are_refused() {
    let mut encrypted = zipped(&[("a", 0o644, b"x")]);
    // The flag of encryption in both headers.
    for at in 0..encrypted.len() - 10 {
        match &encrypted[at..at + 4] {
            b"PK\x03\x04" => encrypted[at + 6] |= 1,
            b"PK\x01\x02" => encrypted[at + 8] |= 1,
            _ => {}
        }
    }
    let error = unpack(&encrypted, &limits()).unwrap_err();
    assert!(matches!(error, ArchiveError::Encrypted(_)), "{error}");
    let whole = zipped(&[("a", 0o644, b"some text"), ("b/c", 0o755, b"more text")]);
    let tar = gzipped(&tarred(&[("a", FILE, 0o644, b"some text"), ("b/c", FILE, 0o644, b"more")]));
    for archive in [whole, tar] {
        for at in 0..archive.len() {
            // Neither a cut nor a flipped byte may panic.
            let _ = unpack(&archive[..at], &limits());
            let mut flipped = archive.clone();
            flipped[at] ^= 0xff;
            let _ = unpack(&flipped, &limits());
        }
    }
}
