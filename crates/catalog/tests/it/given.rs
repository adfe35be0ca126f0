//! Skills whose files a caller brings: what is made of the bytes, without a disk.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use prowess_catalog::diagnostic::MAX_FINDINGS;
use prowess_catalog::document::{DocumentError, MAX_DOCUMENT_BYTES, MAX_DOCUMENTS, PathRefusal};
use prowess_catalog::resource::MAX_RESOURCES;
use prowess_catalog::skill::{MAX_MANIFEST, MissingName};
use prowess_catalog::{
    Catalog, Code, Diagnostic, Digest, ReadError, Root, RootKind, RootScan, ScanOptions, SkillEntry,
    scan_given, scan_local,
};

use proptest::prelude::*;

use crate::tree::{Tree, errors, manifest, names, options};

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
    let told = |found: &Diagnostic| {
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

type Files = BTreeMap<String, Vec<u8>>;

fn scanned(files: &[(&str, &str)], previous: Option<&RootScan>) -> RootScan {
    let root = Arc::new(Root::explicit("/skills").in_backend());
    scan_given(&root, files.iter().copied(), &ScanOptions::default(), previous)
}

/// `code path: message` of all that was found.
fn told(catalog: &Catalog) -> Vec<String> {
    let told = |found: &Diagnostic| format!("{} {}: {}", found.code, found.file, found.message);
    catalog.diagnostics().map(told).collect()
}

/// The catalog of the files on a disk, and the same files given.
fn both(files: &Files, root: impl Fn(&Tree) -> Root, options: &ScanOptions) -> (Tree, Catalog, Catalog) {
    let tree = Tree::in_memory();
    files.iter().for_each(|(path, bytes)| tree.write(path, bytes));
    let root = Arc::new(root(&tree));
    let on_disk = Catalog::empty().assembled([scan_local(&root, options, None)]);
    let given = Catalog::empty().assembled([scan_given(&root, files, options, None)]);
    (tree, on_disk, given)
}

fn assert_same(files: &Files, on_disk: &Catalog, given: &Catalog) {
    let skills = |catalog: &Catalog| -> Vec<_> {
        catalog.entries().iter().map(|entry| Arc::clone(&entry.skill)).collect()
    };
    assert_eq!(skills(given), skills(on_disk), "{files:?}");
    let shadowed = |catalog: &Catalog| -> Vec<_> {
        catalog.shadowed().iter().map(|found| Arc::clone(&found.entry.skill)).collect()
    };
    assert_eq!(shadowed(given), shadowed(on_disk), "{files:?}");
    let diagnostics = |catalog: &Catalog| catalog.diagnostics().cloned().collect::<Vec<_>>();
    assert_eq!(diagnostics(given), diagnostics(on_disk), "{files:?}");
}

fn a_document() -> impl Strategy<Value = Vec<u8>> {
    let text = prop_oneof![
        6 => ("[ab]", "[a-z .:]{1,20}").prop_map(|(name, text)| manifest(&name, &text)),
        1 => Just("---\ndescription: No name. Use it.\n---\n".to_owned()),
        1 => Just("---\nname: b\ndescription: Use when: asked\nallowed-tools: [x y]\n---\n".to_owned()),
        1 => Just("---\nname: a\n---\n".to_owned()),
        1 => Just("Only a body.".to_owned()),
        1 => Just(String::new()),
        1 => (8_000..9_000_usize).prop_map(|length| manifest("a", &"d".repeat(length))),
        1 => Just(manifest("b", &"d".repeat(100_000))),
    ];
    prop_oneof![
        9 => text.prop_map(String::into_bytes),
        // Not text, in the head and far below it.
        1 => (0..20_000_usize).prop_map(|at| {
            let mut bytes = manifest("a", "Odd. Use it.").into_bytes();
            bytes.resize(bytes.len() + at, b'x');
            bytes.push(0xFF);
            bytes
        }),
    ]
}

fn a_file() -> impl Strategy<Value = (String, Vec<u8>)> {
    let directory = prop_oneof![
        8 => "[abc]",
        1 => Just(".dot".to_owned()),
        1 => Just("node_modules".to_owned()),
        1 => Just("a-b".to_owned()),
        1 => Just("SKILL.md".to_owned()),
        1 => Just("é\n".to_owned()),
    ];
    let path = prop::collection::vec(directory, 0..4).prop_map(|parts| parts.join("/"));
    let file = prop_oneof![
        6 => (Just("SKILL.md"), a_document()),
        1 => (Just("skill.md"), a_document()),
        1 => (Just("notes.md"), Just(Vec::new())),
        1 => (Just(".gitignore"), prop_oneof![Just("a/\n"), Just("*\n!b\n"), Just("/b/c\n")].prop_map(Vec::from)),
    ];
    (path, file).prop_map(|(path, (name, bytes))| {
        (if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }, bytes)
    })
}

/// A tree that a disk can hold: nothing lies below a file.
fn a_tree() -> impl Strategy<Value = Files> {
    prop::collection::vec(a_file(), 0..14).prop_map(|files| {
        let all: Files = files.into_iter().collect();
        let is_directory = |path: &str| all.keys().any(|other| other.starts_with(&format!("{path}/")));
        all.iter()
            .filter(|(path, _)| !is_directory(path))
            .map(|(path, bytes)| (path.clone(), bytes.clone()))
            .collect()
    })
}

fn some_options() -> impl Strategy<Value = ScanOptions> {
    let flags = any::<[bool; 4]>();
    let cap = || prop_oneof![2 => Just(1_000_usize), 1 => 0..5_usize];
    (flags, cap(), cap(), cap()).prop_map(
        |([nested, hidden, skip, gitignore], depth, directories, skills)| {
            options(|options| {
                (options.nested, options.hidden, options.gitignore) = (nested, hidden, gitignore);
                options.missing_name = if skip { MissingName::Skip } else { MissingName::UseDirectory };
                (options.max_depth, options.max_directories, options.max_skills) =
                    (depth, directories, skills);
                options.time_budget = Duration::from_secs(3600);
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn given_files_are_scanned_as_the_same_files_on_a_disk(
        files in a_tree(),
        options in some_options(),
        explicit in any::<bool>(),
    ) {
        let kind = if explicit { RootKind::Explicit } else { RootKind::User };
        let (_tree, on_disk, given) = both(&files, |tree| Root::new(tree.path(), kind, "test"), &options);
        assert_same(&files, &on_disk, &given);
        for (here, there) in given.entries().iter().zip(on_disk.entries()) {
            let below = |path: &str| path.strip_prefix(on_disk.roots().next()?.path.to_str()?).map(str::to_owned);
            let path = below(here.skill.location.as_str()).unwrap();
            let text = here.text_from(files[path.trim_start_matches('/')].clone());
            match (text, there.read_text()) {
                (Ok(text), Ok(read)) => prop_assert_eq!(text, read),
                (text, read) => prop_assert_eq!(text.unwrap_err().to_string(), read.unwrap_err().to_string()),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_given_path_leads_elsewhere(
        paths in prop::collection::vec("[ab./\\\\\0é]{0,8}(/SKILL\\.md|/scripts/x\\.md|\\.md)?", 0..12),
        options in some_options(),
    ) {
        let document = manifest("a", "Does it. Use it.");
        let root = Arc::new(Root::explicit("/skills"));
        let files = paths.iter().map(|path| (path, &document));
        let catalog = Catalog::empty().assembled([scan_given(&root, files, &options, None)]);
        let is_honest = |path: &str| {
            let part = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(['\\', '\0']);
            path.split('/').all(part) && paths.iter().any(|given| given == path)
        };
        for entry in catalog.entries() {
            prop_assert!(is_honest(entry.skill.location.as_str().strip_prefix("/skills/").unwrap()));
            prop_assert!(!entry.text_from(document.clone().into_bytes()).unwrap().changed);
            for file in entry.resources_from(paths.iter().map(|path| (path, None)), 2).files {
                prop_assert!(is_honest(&file.path), "{}", file.path);
            }
            for file in entry.documents_from(paths.iter().map(|path| (path, 1))).files {
                prop_assert!(is_honest(&file.path), "{}", file.path);
                prop_assert!(entry.document_from(&file.path, b"x".to_vec(), 1).is_ok(), "{}", file.path);
            }
        }
    }
}

#[test]
fn every_rule_of_a_disk_holds_for_given_files() {
    let skill = |name: &str| manifest(name, "Does it. Use it when asked.").into_bytes();
    let files: Files = [
        ("SKILL.md", skill("top")),
        ("a/SKILL.md", skill("a")),
        ("a/inner/SKILL.md", skill("inner")),
        ("a-b/SKILL.md", skill("a")),
        ("b/c/SKILL.md", skill("c")),
        ("b/c/notes.md", Vec::new()),
        ("b/skill.md", skill("small")),
        ("d/SKILL.md/x", Vec::new()),
        ("e/SKILL.md", b"no frontmatter".to_vec()),
        (".hidden/SKILL.md", skill("hidden")),
        ("node_modules/x/SKILL.md", skill("x")),
        ("f/1/2/3/4/5/6/SKILL.md", skill("deep")),
    ]
    .map(|(path, bytes)| (path.to_owned(), bytes))
    .into();
    let (tree, on_disk, given) =
        both(&files, |tree| Root::new(tree.path(), RootKind::User, "test"), &ScanOptions::default());
    assert_same(&files, &on_disk, &given);
    assert_eq!(names(&given), ["a", "c"]);
    insta::assert_snapshot!(tree.findings(&given).join("\n"), @r"
    depth-cap f/1/2/3/4/5
    file-name-case b/skill.md
    hidden-directory .hidden
    ignored-directory node_modules
    manifest-in-root SKILL.md
    missing-frontmatter e/SKILL.md
    name-dir-mismatch a-b/SKILL.md
    not-a-file d/SKILL.md
    shadowed a-b/SKILL.md
    ");
    assert_eq!(given.get("a").unwrap().skill.location.directory_name(), Some("a"), "the one of that name");
}

#[test]
fn hostile_files_give_no_skill() {
    let skill = manifest("a", "Does it. Use it when asked.");
    let paths = [
        "/skills/a/SKILL.md",
        "../a/SKILL.md",
        "b/../a/SKILL.md",
        "./a/SKILL.md",
        "a//SKILL.md",
        "a\\SKILL.md",
        "a\0/SKILL.md",
        "a/SKILL.md/",
        "",
    ];
    let files: Vec<(&str, &str)> = paths.iter().map(|path| (*path, &*skill)).collect();
    let catalog = Catalog::empty().assembled([scanned(&files, None)]);
    assert!(catalog.entries().is_empty());
    assert_eq!(told(&catalog).len(), paths.len());

    // Which of two counts, and whether a file is a directory, is for nobody to choose.
    let other = manifest("a", "Does something else. Use it.");
    for twice in [("a/SKILL.md", &*other), ("a/SKILL.md", &*skill), ("a/SKILL.md/x", "")] {
        let catalog = Catalog::empty().assembled([scanned(&[("a/SKILL.md", &*skill), twice], None)]);
        assert!(catalog.entries().is_empty(), "{twice:?}");
        assert_eq!(errors(&catalog).len(), 1, "{twice:?}");
    }
    let deep = "d/".repeat(500_000) + "SKILL.md";
    let catalog = Catalog::empty().assembled([scanned(&[(&deep, &skill)], None)]);
    assert_eq!(catalog.diagnostics().map(|found| found.code).collect::<Vec<_>>(), [Code::DepthCap]);
}

#[test]
fn a_given_skill_is_read_by_whoever_brought_it() {
    let (skill, other) = (manifest("a", "Does it. Use it."), manifest("a", "Does it. Use it.") + "More.\n");
    let catalog = Catalog::empty().assembled([scanned(&[("a/SKILL.md", &skill)], None)]);
    let entry = catalog.get("a").unwrap();
    assert!(matches!(entry.read_text(), Err(ReadError::NotLocal { .. })));
    assert!(entry.read_at_once(1).is_none());
    assert_eq!(entry.resources(1).diagnostics.len(), 1);
    assert!(!entry.text_from(skill.into_bytes()).unwrap().changed);
    assert!(entry.text_from(other.into_bytes()).unwrap().changed, "only its body is another");
}

#[test]
fn given_again_what_is_the_same_stays_the_same() {
    let (a, b) = (manifest("a", "Does it. Use it."), manifest("b", "Does it. Use it."));
    let files = [
        ("a/SKILL.md", &*a),
        ("b/SKILL.md", &*b),
        ("c/SKILL.md", "none"),
        ("../d", ""),
        ("e/SKILL.md/x", ""),
    ];
    let first = Catalog::empty().assembled([scanned(&files, None)]);
    let root = Arc::clone(first.roots().next().unwrap());
    let again = first.assembled([scanned(&files, first.scan_of(&root))]);
    assert!(again.is_same(&first));
    assert!(
        first.refreshed(&[Root::clone(&root)], &ScanOptions::default()).is_same(&first),
        "nobody looks again"
    );

    let b = b + "More.\n";
    let newer = first.assembled([scanned(&[("a/SKILL.md", &*a), ("b/SKILL.md", &*b)], first.scan_of(&root))]);
    assert_eq!(first.diff(&newer).changed, ["b"]);
    assert!(Arc::ptr_eq(first.get("a").unwrap(), newer.get("a").unwrap()));
}
