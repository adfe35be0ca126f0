//! The hashes of `skills` and Git, compared with those that node and git compute.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use prowess_install::folder_hash::{TreeBlob, computed_hash, locale_compare, tree_sha1};

#[derive(serde::Deserialize)]
struct Vector {
    order: Vec<String>,
    hash: String,
}

/// `fixtures/locale_compare.mjs` made the file with node 20, ICU 78.2 and Unicode 17.
#[test]
fn the_order_and_the_hash_are_those_of_node() {
    let vectors: Vec<Vector> = serde_json::from_str(include_str!("../fixtures/locale_compare.json")).unwrap();
    for vector in vectors {
        let mut order = vector.order.clone();
        order.sort();
        assert_ne!(order, vector.order, "byte order would do");
        order.sort_by(|a, b| locale_compare(a, b));
        assert_eq!(order, vector.order);
        let files = order.iter().rev().map(|path| (path, format!("content of {path}\n")));
        assert_eq!(computed_hash(files), vector.hash);
    }
}

#[test]
fn the_tree_hash_is_that_of_git() {
    let files: &[(&str, bool, &[u8])] = &[
        ("SKILL.md", false, b"Wave.\n"),
        ("scripts/run.sh", true, b"#!/bin/sh\n"),
        ("scripts/lib/a.py", false, b"\0\xff"),
        ("a", false, b""),
        ("a.b", false, b"1"),
        ("a-b/c", true, b"2"),
        ("a0/d", false, b"3"),
        ("ab", false, b"4"),
        ("lib/x", false, b"5"),
        ("lib.md", false, b"6"),
        ("lib-x", false, b"7"),
        ("é/ü", false, b"8"),
    ];
    let scratch = tempfile::tempdir().unwrap();
    for (path, is_executable, bytes) in files {
        let file = scratch.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, bytes).unwrap();
        let mode = if *is_executable { 0o755 } else { 0o644 };
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    }
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .current_dir(scratch.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .args(["-c", "core.autocrlf=false", "-c", "core.fileMode=true"])
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    git(&["init", "--quiet", "--object-format=sha1"]);
    git(&["add", "--all"]);
    let blobs = files.iter().map(|&(path, is_executable, bytes)| TreeBlob { path, is_executable, bytes });
    assert_eq!(tree_sha1(blobs), Some(git(&["write-tree"])));
}
