//! Skills whose files a caller brings: what is made of the bytes, without a disk.

use std::sync::Arc;

use prowess_catalog::{
    Code, Digest, DocumentError, MAX_DOCUMENT_BYTES, MAX_DOCUMENTS, MAX_FINDINGS, MAX_MANIFEST,
    MAX_RESOURCES, PathRefusal, ReadError, SkillEntry,
};

use crate::tree::{Tree, manifest};

/// A skill with files of every kind, by their paths in it.
const FILES: [(&str, &str); 13] = [
    ("README.md", "12345"),
    ("LICENSE", "MIT"),
    (".hidden.md", "x"),
    ("scripts/run.py", "print()"),
    ("scripts/deep/er.py", "print()"),
    ("scripts/.dot", ""),
    ("references/bay.md", "\u{FEFF}Bay.\r\n"),
    ("references/skill.MD", "x"),
    ("assets/logo.svg", "<svg/>"),
    ("other/notes.txt", "Notes."),
    ("inner/SKILL.md", "---\nname: inner\ndescription: Another. Use it.\n---\n"),
    ("inner/own.md", "x"),
    ("1/2/3/4/5/deep.md", "x"),
];

fn tides() -> (Tree, Arc<SkillEntry>) {
    let tree = Tree::new().skill("tides");
    FILES.iter().for_each(|(path, text)| tree.write(&format!("tides/{path}"), text));
    let entry = Arc::clone(tree.discover().get("tides").unwrap());
    (tree, entry)
}

fn given() -> impl Iterator<Item = (&'static str, u64)> {
    [("SKILL.md", 80)].into_iter().chain(FILES.iter().map(|(path, text)| (*path, text.len() as u64)))
}

#[test]
fn a_listing_of_given_files_is_that_of_the_disk() {
    let (_tree, entry) = tides();
    assert_eq!(entry.documents_from(given()), entry.documents());
    for depth in 0..4 {
        let sized = entry.resources_from(given().map(|(path, size)| (path, Some(size))), depth);
        assert_eq!(sized, entry.resources_with_sizes(depth), "{depth}");
        assert_eq!(
            entry.resources_from(given().map(|(path, _)| (path, None)), depth),
            entry.resources(depth)
        );
    }
}

#[test]
fn hostile_paths_are_left_out_and_told() {
    let (_tree, entry) = tides();
    let deep = "d/".repeat(100_000) + "x.md";
    let long = "n".repeat(300) + ".md";
    let hostile = [
        "/etc/passwd.md",
        "../../a.md",
        "scripts/../../../a.md",
        "references/./a.md",
        "references//a.md",
        "scripts\\a.md",
        "references/a\0.md",
        "",
        "scripts/",
        &long,
    ];
    let all = || hostile.into_iter().chain([&*deep, "references/a.md", "references/a.md"]);
    let documents = entry.documents_from(all().map(|path| (path, 1)));
    let resources = entry.resources_from(all().map(|path| (path, None)), usize::MAX);
    let paths: Vec<&str> = documents.files.iter().map(|file| &*file.path).collect();
    assert_eq!(paths, ["references/a.md"]);
    assert_eq!(resources.files.len(), 1);
    assert_eq!(resources.files[0].path, "references/a.md");
    let told = |found: &prowess_catalog::Diagnostic| {
        assert_eq!(found.code, Code::Unreadable);
        found.message.clone()
    };
    let of_documents: Vec<_> =
        documents.diagnostics.iter().filter(|found| found.code != Code::DepthCap).map(told).collect();
    let of_resources: Vec<_> = resources.diagnostics.iter().map(told).collect();
    assert_eq!(of_documents, of_resources);
    insta::assert_snapshot!(of_resources.join("\n").replace(&long[..200], "[200 n]"), @r"
    `/etc/passwd.md` is left out: it begins with `/`
    `../../a.md` is left out: it has a `.` or `..` part
    `scripts/../../../a.md` is left out: it has a `.` or `..` part
    `references/./a.md` is left out: it has a `.` or `..` part
    `references//a.md` is left out: it has an empty part
    `scripts\a.md` is left out: it has a backslash
    `references/a\u{0}.md` is left out: it has the invisible or control character U+0000
    `` is left out: it is empty
    `scripts/` is left out: it has an empty part
    `[200 n]…` is left out: it has a part of more than 255 bytes
    `references/a.md` is left out: it was given before
    ");

    let many = (0..10_000).map(|number| (format!("../{number}.md"), 1));
    assert_eq!(entry.documents_from(many).diagnostics.len(), MAX_FINDINGS + 1);
}

#[test]
fn very_many_given_files_are_capped_and_that_is_said() {
    let (_tree, entry) = tides();
    let resources = entry.resources_from((0..=MAX_RESOURCES).map(|at| (format!("scripts/{at}.py"), None)), 1);
    assert_eq!((resources.files.len(), resources.capped), (MAX_RESOURCES, true));
    let documents = entry.documents_from((0..=MAX_DOCUMENTS).map(|at| (format!("{at:04}.md"), 1)));
    assert_eq!((documents.files.len(), documents.capped), (MAX_DOCUMENTS, true));
}

#[test]
fn a_text_from_bytes_is_that_of_the_disk() {
    let (tree, entry) = tides();
    let bytes = std::fs::read(tree.join("tides/SKILL.md")).unwrap();
    let text = entry.text_from(bytes.clone()).unwrap();
    assert_eq!(text, entry.read_text().unwrap());
    assert_eq!((text.digest, text.changed), (Digest::of(&bytes), false));

    let other = entry.text_from(manifest("tides", "Something else. Use it.").into_bytes()).unwrap();
    assert!(other.changed);
    let of = |bytes: Vec<u8>| entry.text_from(bytes).unwrap_err();
    assert!(matches!(of(manifest("ebb", "d").into_bytes()), ReadError::Renamed { .. }));
    assert!(matches!(of(b"No frontmatter.".to_vec()), ReadError::NoLongerASkill { .. }));
    assert!(matches!(of(b"---\nname: tides\ndescription: \xFF\n---\n".to_vec()), ReadError::Encoding { .. }));
    let most = usize::try_from(MAX_MANIFEST).unwrap();
    let mut long = manifest("tides", "d").into_bytes();
    long.resize(most, b' ');
    assert!(entry.text_from(long.clone()).is_ok());
    long.push(b' ');
    assert!(matches!(of(long), ReadError::TooLarge { .. }));
}

#[test]
fn a_document_from_bytes_is_that_of_the_disk() {
    let (_tree, entry) = tides();
    for (path, text) in FILES {
        let given = entry.document_from(path, text.as_bytes().to_vec(), text.len() as u64);
        match (entry.read_document(path), given) {
            (Ok(read), Ok(given)) => assert_eq!(read, given),
            // What the bytes cannot tell: another skill on the way.
            (Err(DocumentError::Refused { why: PathRefusal::OtherSkill, .. }), Ok(_)) => {}
            (Err(read), Err(given)) => assert_eq!(read.to_string(), given.to_string()),
            (read, given) => panic!("{path}: {read:?} {given:?}"),
        }
    }
    for path in ["", "/a.md", "../a.md", "a\\b.md", "a\0.md", "SKILL.md", "a.py"] {
        assert!(matches!(entry.document_from(path, Vec::new(), 0), Err(DocumentError::Refused { .. })));
    }
    for binary in [&b"a\0b"[..], b"\xFF\xFE", b"whole \xC3"] {
        let read = entry.document_from("a.md", binary.to_vec(), binary.len() as u64);
        assert!(matches!(read, Err(DocumentError::Binary { .. })), "{binary:?}");
    }
}

#[test]
fn the_beginning_of_a_document_is_said_to_be_one() {
    let (_tree, entry) = tides();
    let of = |bytes: Vec<u8>, size: u64| {
        let text = entry.document_from("a.md", bytes, size).unwrap();
        (text.text.len() as u64, text.size, text.truncated)
    };
    let most = usize::try_from(MAX_DOCUMENT_BYTES).unwrap();
    assert_eq!(of(vec![b'a'; most], MAX_DOCUMENT_BYTES), (MAX_DOCUMENT_BYTES, MAX_DOCUMENT_BYTES, false));
    assert_eq!(of(vec![b'a'; most + 9], 1), (MAX_DOCUMENT_BYTES, MAX_DOCUMENT_BYTES + 9, true));
    assert_eq!(of(vec![b'a'; most], 1 << 40), (MAX_DOCUMENT_BYTES, 1 << 40, true));
    assert_eq!(of(b"ab\xC3".to_vec(), 4), (2, 4, true), "it ends with a whole character");
}
