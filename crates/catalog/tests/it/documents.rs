//! The documents that a skill brings along: which they are, and what they say, on the disk and in backends.

use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use prowess_backend::{Backend, LocalBackend, MemoryBackend};
use prowess_catalog::document::{DOCUMENT_DEPTH, DocumentError, PathRefusal};
use prowess_catalog::scan::Links;
use prowess_catalog::{Catalog, Code, Documents, Root, ScanOptions, SkillEntry, scan_backend};

use crate::tree::{Tree, block_on, fill, manifest, without_rights};

/// A skill with documents in every place, and beside each something that is none.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("/skills/tides/SKILL.md", manifest("tides", "Tells the tides. Use at the sea.").into_bytes()),
        ("/skills/tides/README.md", b"12345".to_vec()),
        ("/skills/tides/NOTES.TXT", b"1".to_vec()),
        ("/skills/tides/LICENSE", b"MIT".to_vec()),
        ("/skills/tides/.hidden.md", b"x".to_vec()),
        ("/skills/tides/.git/config.md", b"x".to_vec()),
        ("/skills/tides/references/bay.md", b"Bay.\r\nDeep.\r\n".to_vec()),
        ("/skills/tides/references/skill.MD", b"x".to_vec()),
        ("/skills/tides/references/marked.txt", b"\xEF\xBB\xBFMarked.".to_vec()),
        ("/skills/tides/scripts/run.py", b"x".to_vec()),
        ("/skills/tides/inner/SKILL.md", manifest("inner", "Another skill. Use it.").into_bytes()),
        ("/skills/tides/inner/own.md", b"x".to_vec()),
        ("/skills/tides/inner/below/own.md", b"x".to_vec()),
        ("/skills/tides/1/2/3/4/deep.md", b"Deep.".to_vec()),
        ("/skills/tides/1/2/3/4/5/deeper.md", b"x".to_vec()),
    ]
}

/// The skill of `files`, on the disk.
fn tides() -> Tree {
    let tree = Tree::new();
    files().iter().for_each(|(path, contents)| tree.write(path.trim_start_matches('/'), contents));
    tree
}

fn local(tree: &Tree) -> Arc<SkillEntry> {
    let catalog = Catalog::discover(&[Root::explicit(tree.join("skills"))], &ScanOptions::default());
    Arc::clone(catalog.get("tides").unwrap())
}

async fn within(backend: &dyn Backend) -> Arc<SkillEntry> {
    let root = Arc::new(Root::explicit("/skills").in_backend());
    let scan = scan_backend(backend, &root, &ScanOptions::default(), None).await;
    Arc::clone(Catalog::empty().assembled([scan]).get("tides").unwrap())
}

fn listed(documents: &Documents) -> Vec<String> {
    documents.files.iter().map(|file| format!("{} {}", file.path, file.size)).collect()
}

/// The codes of what was found, and the paths below `skill`.
fn findings(documents: &Documents, skill: &str) -> Vec<String> {
    let told = documents.diagnostics.iter().map(|found| {
        format!("{} {}", found.code, found.file.strip_prefix(skill).unwrap().trim_start_matches('/'))
    });
    told.collect()
}

#[test]
fn documents_are_the_texts_of_the_skill_and_of_no_other() {
    let tree = tides().link("skills/tides/link.md", "README.md").link("skills/tides/linked", "references");
    let expected = [
        "1/2/3/4/deep.md 5",
        "NOTES.TXT 1",
        "README.md 5",
        "references/bay.md 13",
        "references/marked.txt 10",
    ];
    let on_disk = local(&tree).documents();
    assert_eq!(listed(&on_disk), expected);
    // What lies too deep is said to be left out.
    assert!(on_disk.capped);
    let depth = ["depth-cap 1/2/3/4/5"];
    assert_eq!(findings(&on_disk, tree.join("skills/tides").to_str().unwrap()), depth);

    block_on(async {
        let memory = MemoryBackend::new();
        fill(&memory, &files()).await;
        let disk = LocalBackend::open(tree.path()).unwrap();
        let backends: [&dyn Backend; 2] = [&memory, &disk];
        for backend in backends {
            let documents = within(backend).await.documents_in(backend).await;
            assert_eq!((listed(&documents), documents.capped), (expected.map(String::from).to_vec(), true));
            assert_eq!(findings(&documents, "/skills/tides"), depth);
        }
    });
}

#[test]
fn texts_come_without_their_byte_order_mark_and_with_their_line_endings() {
    let tree = tides();
    let entry = local(&tree);
    let memory = MemoryBackend::new();
    let there = block_on(async {
        fill(&memory, &files()).await;
        within(&memory).await
    });
    for (path, text, size) in
        [("references/bay.md", "Bay.\r\nDeep.\r\n", 13), ("references/marked.txt", "Marked.", 10)]
    {
        let read = entry.read_document(path).unwrap();
        assert_eq!((&*read.path, &*read.text, read.size, read.truncated), (path, text, size, false));
        assert_eq!(block_on(there.read_document_in(&memory, path)).unwrap(), read);
    }
}

#[test]
fn what_is_not_listed_is_not_read_and_the_reason_is_given() {
    let tree = tides().directory("skills/tides/folder.md");
    let entry = local(&tree);
    let paths = [
        "",
        "/etc/passwd.md",
        "../other.md",
        "a\\b.md",
        "a\nb\u{202E}.md",
        "%2e%2e/other.md",
        ".hidden.md",
        ".git/config.md",
        "1/2/3/4/5/deeper.md",
        "SKILL.md",
        "references/skill.MD",
        "scripts/run.py",
        "inner/own.md",
        "inner/below/own.md",
        "gone.md",
        "gone/away.md",
        "README.md/below.md",
        "folder.md",
    ];
    let told = paths.map(|path| entry.read_document(path).unwrap_err().to_string()).join("\n");
    insta::assert_snapshot!(told, @r#"
    `` is refused: it is empty; name one of the skill's documents
    `/etc/passwd.md` is refused: it begins with `/`; give the path from the skill's directory
    `../other.md` is refused: it has a `.` or `..` part; name the document itself
    `a\b.md` is refused: it has a backslash; write `/` between its parts
    `a\u{a}b\u{202e}.md` is refused: it has the invisible or control character U+000A; give the file a name that can be seen
    `%2e%2e/other.md` is refused: it has a percent-encoded dot, slash or backslash; write the name as in the skill's list of documents
    `.hidden.md` is refused: it has a hidden part; give the file a name without a leading dot
    `.git/config.md` is refused: it has a hidden part; give the file a name without a leading dot
    `1/2/3/4/5/deeper.md` is refused: it is more than 4 directories deep; move the file to a higher directory
    `SKILL.md` is refused: a SKILL.md is not a document; load the skill to read it
    `references/skill.MD` is refused: a SKILL.md is not a document; load the skill to read it
    `scripts/run.py` is refused: only .md and .txt files are documents; read other files with a tool for files, or use them in a run
    `inner/own.md` is refused: it belongs to a skill inside this one; read it from that skill
    `inner/below/own.md` is refused: it belongs to a skill inside this one; read it from that skill
    `gone.md` is not in the skill; list the documents of the skill
    `gone/away.md` is not in the skill; list the documents of the skill
    `README.md/below.md` is not in the skill; list the documents of the skill
    `folder.md` is not a regular file, or is behind a link; put the file itself into the skill
    "#);
    let long = "x".repeat(100_000);
    let error = entry.read_document(&long).unwrap_err().to_string();
    assert!(error.len() < 400, "{error}");

    block_on(async {
        let memory = MemoryBackend::new();
        fill(&memory, &files()).await;
        fill(&memory, &[("/skills/tides/folder.md/in.md", b"x".to_vec())]).await;
        let there = within(&memory).await;
        let mut same = Vec::new();
        for path in paths {
            same.push(there.read_document_in(&memory, path).await.unwrap_err().to_string());
        }
        assert_eq!(same.join("\n"), told);
    });
}

#[test]
fn a_directory_that_cannot_be_listed_is_passed_over_alone() {
    let tree = tides();
    tree.chmod("skills/tides/references", 0o000);
    tree.chmod("skills/tides/README.md", 0o000);
    let entry = local(&tree);
    let (documents, refused, sealed) = without_rights(|| {
        (entry.documents(), entry.read_document("references/bay.md"), entry.read_document("README.md"))
    });
    tree.chmod("skills/tides/references", 0o755);
    assert_eq!(listed(&documents), ["1/2/3/4/deep.md 5", "NOTES.TXT 1", "README.md 5"]);
    let skill = tree.join("skills/tides");
    assert_eq!(
        findings(&documents, skill.to_str().unwrap()),
        ["unreadable references", "depth-cap 1/2/3/4/5"]
    );
    for error in [refused.unwrap_err(), sealed.unwrap_err()] {
        assert!(matches!(error, DocumentError::Io { .. }), "{error}");
        assert!(error.to_string().contains("Permission denied"), "{error}");
    }
}

#[test]
fn names_that_could_not_be_asked_for_are_told_and_left_out() {
    let tree = Tree::new().skill("skills/tides").file("skills/tides/a.md", "");
    let skill = tree.join("skills/tides");
    for name in [&b"odd-\xFF.md"[..], b"odd-\xFF.png", b".odd-\xFF.md", b"a\\b.md", b"a%2Fb.md", b"a\nb.txt"]
    {
        std::fs::write(skill.join(std::ffi::OsStr::from_bytes(name)), "x").unwrap();
    }
    std::fs::create_dir(skill.join("dir\u{202E}")).unwrap();
    let documents = local(&tree).documents();
    assert_eq!((listed(&documents), documents.capped), (vec!["a.md 0".to_owned()], false));
    let mut told = findings(&documents, skill.to_str().unwrap());
    told.sort();
    assert_eq!(
        told,
        [
            "non-utf8-name odd-\u{FFFD}.md",
            "suspicious-unicode a\\u{a}b.txt",
            "suspicious-unicode dir\\u{202e}",
            "unreadable a%2Fb.md",
            "unreadable a\\b.md",
        ]
    );

    block_on(async {
        let memory = MemoryBackend::new();
        fill(&memory, &files()).await;
        fill(
            &memory,
            &[("/skills/tides/a%2eb.md", b"x".to_vec()), ("/skills/tides/\u{200B}.md", b"x".to_vec())],
        )
        .await;
        let documents = within(&memory).await.documents_in(&memory).await;
        assert_eq!(documents.files.len(), 5);
        let mut told = findings(&documents, "/skills/tides");
        told.sort();
        assert_eq!(told, ["depth-cap 1/2/3/4/5", "suspicious-unicode \\u{200b}.md", "unreadable a%2eb.md"]);
    });
}

#[test]
fn very_many_odd_names_are_not_told_one_by_one() {
    let tree = Tree::new().skill("skills/tides");
    (0..200).for_each(|number| tree.write(&format!("skills/tides/{number}\u{200B}.md"), ""));
    let documents = local(&tree).documents();
    assert_eq!(documents.diagnostics.len(), prowess_catalog::diagnostic::MAX_FINDINGS + 1);
    assert_eq!(documents.diagnostics.last().unwrap().code, Code::FindingsCapped);
}

#[test]
fn a_skill_behind_a_link_that_was_followed_has_its_documents() {
    let elsewhere = tides();
    let tree = Tree::new().link("linked", elsewhere.join("skills/tides"));
    let catalog = tree.discover_with(|options| options.links = Links::Anywhere);
    let entry = catalog.get("tides").unwrap();
    assert_eq!(entry.documents().files.len(), 5);
    assert_eq!(entry.read_document("README.md").unwrap().text, "12345");
}

#[test]
fn a_skill_of_a_backend_is_not_looked_for_on_the_disk() {
    let entry = block_on(async {
        let memory = MemoryBackend::new();
        fill(&memory, &files()).await;
        within(&memory).await
    });
    assert_eq!(findings(&entry.documents(), "/skills/tides"), ["unreadable "]);
    let error = entry.read_document("README.md").unwrap_err();
    assert!(error.to_string().contains("in a backend, not on the local disk"), "{error}");
}

#[test]
fn a_link_inside_a_backend_is_not_followed() {
    let tree = tides()
        .file("other/secret.md", "secret")
        .link("skills/tides/link.md", "../../other/secret.md")
        .link("skills/tides/beside.md", "README.md")
        .link("skills/tides/other", "../../other");
    block_on(async {
        let disk = LocalBackend::open(tree.path()).unwrap();
        let entry = within(&disk).await;
        for path in ["link.md", "beside.md", "other/secret.md"] {
            let error = entry.read_document_in(&disk, path).await.unwrap_err();
            assert!(matches!(error, DocumentError::NotAFile { .. }), "{error}");
        }
    });
}

#[test]
fn documents_lie_as_deep_as_the_constant_says() {
    let tree = Tree::new().skill("skills/tides");
    let at = |depth: usize| format!("{}a.md", "d/".repeat(depth));
    for depth in [DOCUMENT_DEPTH, DOCUMENT_DEPTH + 1] {
        tree.write(&format!("skills/tides/{}", at(depth)), "x");
    }
    let entry = local(&tree);
    assert_eq!(listed(&entry.documents()), [format!("{} 1", at(DOCUMENT_DEPTH))]);
    assert!(entry.read_document(&at(DOCUMENT_DEPTH)).is_ok());
    let error = entry.read_document(&at(DOCUMENT_DEPTH + 1)).unwrap_err();
    assert!(matches!(error, DocumentError::Refused { why: PathRefusal::TooDeep, .. }), "{error}");
}

#[cfg(feature = "serde")]
#[test]
fn what_a_session_keeps_is_read_back_as_it_was_written() {
    use prowess_catalog::resource::ResourceKind;
    use prowess_catalog::skill::Location;
    use prowess_catalog::{Digest, SkillName};
    fn there_and_back<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T) -> T {
        serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
    }
    let name = SkillName::parse("crème").unwrap();
    let location = Location::new("/skills/crème/SKILL.md");
    let digest = Digest::of(b"text");
    assert_eq!(there_and_back(&name), name);
    assert_eq!(there_and_back(&location), location);
    assert_eq!(there_and_back(&digest), digest);
    for kind in [ResourceKind::Asset, ResourceKind::Other, ResourceKind::Reference, ResourceKind::Script] {
        assert_eq!(there_and_back(&kind), kind);
    }
    assert!(serde_json::from_str::<SkillName>("\"evil\\u202etxt\"").is_err());
    let error = serde_json::from_str::<Digest>("\"md5:00\"").unwrap_err().to_string();
    assert!(error.starts_with("a digest is `sha256:`"), "{error}");

    let documents = local(&tides()).documents();
    let first = serde_json::to_string(&documents.files[0]).unwrap();
    assert_eq!(first, r#"{"path":"1/2/3/4/deep.md","size":5}"#);
}
