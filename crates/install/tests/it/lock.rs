//! The locks together: what each keeps, what is refused, and how they differ.

use std::path::Path;

use prowess_catalog::{Digest, SkillName};
use prowess_install::lock::{
    GlobalEntry, GlobalLock, LockDifference, LockError, LockedSkill, OwnLock, SharedEntry, SharedLock,
    compare, compare_global,
};
use prowess_install::source::SourceType;
use prowess_install::tree::{SkillTree, TreeFile};

fn locked(name: &str) -> LockedSkill {
    let file = |text: &str, is_executable| TreeFile {
        digest: Digest::of(text.as_bytes()),
        size: text.len() as u64,
        is_executable,
    };
    let files = [("SKILL.md", file("Wave.\n", false)), ("scripts/run.sh", file("ls\n", true))];
    LockedSkill {
        name: SkillName::parse(name).unwrap(),
        source_type: SourceType::GitHub,
        source: "https://github.com/o/r.git".to_owned(),
        reference: Some("main".to_owned()),
        commit: Some("3b9e98c0275573e5250d239de47d167f74b956ea".to_owned()),
        skill_path: "skills/tide/SKILL.md".to_owned(),
        computed_hash: "0".repeat(64),
        tree: SkillTree { files: files.into_iter().map(|(path, file)| (path.to_owned(), file)).collect() },
    }
}

fn own(skills: impl IntoIterator<Item = (&'static str, LockedSkill)>) -> OwnLock {
    let mut lock = OwnLock::default();
    lock.skills = skills.into_iter().map(|(name, skill)| (name.to_owned(), skill)).collect();
    lock
}

fn shared_entry() -> SharedEntry {
    SharedEntry {
        source: "o/r".to_owned(),
        source_url: None,
        reference: Some("main".to_owned()),
        source_type: SourceType::GitHub,
        skill_path: Some("skills/tide/SKILL.md".to_owned()),
        computed_hash: "0".repeat(64),
        well_known_digest: None,
        extra: Default::default(),
    }
}

#[test]
fn the_own_lock_is_plain_and_stable() {
    let scratch = tempfile::tempdir().unwrap();
    let path = OwnLock::path(scratch.path());
    let mut local = locked("My Skill");
    local.source_type = SourceType::Local;
    local.source = "../skills".to_owned();
    (local.reference, local.commit) = (None, None);
    let lock = own([("tide", locked("tide")), ("my-skill", local)]);
    lock.write(&path).unwrap();
    assert_eq!(OwnLock::read(&path).unwrap().unwrap(), lock);
    let text = std::fs::read_to_string(&path).unwrap();
    lock.write(&path).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    insta::assert_snapshot!(text);
}

#[test]
fn case_133_a_lock_that_names_a_path_outside_is_refused() {
    let good = String::from_utf8(own([("tide", locked("tide"))]).to_bytes()).unwrap();
    let parse = |text: &str| OwnLock::parse(text.as_bytes(), Path::new("/project/prowess-lock.json"));
    parse(&good).unwrap();
    for (from, to) in [
        // The directory.
        (r#""tide": {"#, r#""../tide": {"#),
        (r#""tide": {"#, r#""/etc": {"#),
        (r#""tide": {"#, r#"".": {"#),
        (r#""tide": {"#, r#""": {"#),
        (r#""tide": {"#, r#""Tide": {"#),
        (r#""tide": {"#, r#""wave": {"#),
        (r#""name": "tide""#, r#""name": "../../etc""#),
        (r#""name": "tide""#, r#""name": "ti\u202ede""#),
        // The files.
        ("scripts/run.sh", "../run.sh"),
        ("scripts/run.sh", "/etc/cron.d/x"),
        ("scripts/run.sh", "a/../../x"),
        ("scripts/run.sh", r"a\\..\\x"),
        ("scripts/run.sh", r"a\u0000"),
        ("scripts/run.sh", "SKILL.md/x"),
        (r#""SKILL.md": {"#, r#""README.md": {"#),
        // The place in the source.
        ("skills/tide/SKILL.md", "../../etc/SKILL.md"),
        ("skills/tide/SKILL.md", "/etc/SKILL.md"),
        ("skills/tide/SKILL.md", "skills/tide"),
        // What Git gets.
        ("https://github.com/o/r.git", "ext::sh -c id"),
        ("https://github.com/o/r.git", "--upload-pack=x"),
        ("https://github.com/o/r.git", "/srv/r"),
        (r#""ref": "main""#, r#""ref": "--upload-pack=x""#),
        (r#""ref": "main""#, r#""ref": "+a:b""#),
        ("3b9e98c0275573e5250d239de47d167f74b956ea", "HEAD"),
        ("3b9e98c0275573e5250d239de47d167f74b956ea", "--upload-pack=0000000000000000000000000x"),
        // The digests.
        (r#""size": 3"#, r#""size": -3"#),
        (r#""executable": true"#, r#""executable": false"#),
        (r#""digest": "sha256:"#, r#""digest": "sha1:"#),
        (r#""version": 1"#, r#""version": 2"#),
        (r#""version": 1"#, r#""surprise": 1, "version": 1"#),
    ] {
        assert!(good.contains(from), "{from}");
        let text = good.replacen(from, to, 1);
        assert!(parse(&text).is_err(), "{from} -> {to}");
    }
    let text = good.replace("scripts/run.sh", "../run.sh");
    let error = parse(&text).unwrap_err();
    assert!(matches!(&error, LockError::Entry { name, .. } if name == "tide"), "{error}");
    for text in ["", "{", "[]", "{\"version\":1}", &"[".repeat(100_000)] {
        assert!(matches!(parse(text), Err(LockError::Json { .. })), "{text:.20}");
    }
    // prowess itself cannot write such a lock.
    let scratch = tempfile::tempdir().unwrap();
    let path = OwnLock::path(scratch.path());
    assert!(own([("../tide", locked("tide"))]).write(&path).is_err());
    assert!(!path.exists());
}

#[test]
fn case_133_a_shared_lock_that_names_a_path_outside_is_not_used() {
    let scratch = tempfile::tempdir().unwrap();
    let path = SharedLock::path(scratch.path());
    let text = r#"{"version": 1, "skills": {"tide": {"source": "o/r", "sourceType": "github",
        "skillPath": "../../../etc/SKILL.md", "computedHash": ""}}}"#;
    std::fs::write(&path, text).unwrap();
    let shared = SharedLock::read(&path).unwrap().unwrap();
    assert!(shared.skills.is_empty());
    let findings = compare(&shared, &own([("tide", locked("tide"))]), scratch.path());
    assert!(matches!(findings[0].difference, LockDifference::Unreadable { .. }), "{findings:?}");
}

#[test]
fn what_another_tool_changed_is_found() {
    let directory = Path::new("/project");
    let mut shared = SharedLock::default();
    shared.skills.insert("Tide".to_owned(), shared_entry());
    let lock = own([("tide", locked("tide"))]);
    assert_eq!(compare(&shared, &lock, directory), []);

    let changes: [fn(&mut SharedEntry); 5] = [
        |entry| entry.source = "evil/r".to_owned(),
        |entry| entry.reference = None,
        |entry| entry.skill_path = Some("SKILL.md".to_owned()),
        |entry| entry.computed_hash = "1".repeat(64),
        |entry| entry.source_type = SourceType::Other("x".to_owned()),
    ];
    let mut report = String::new();
    for change in changes {
        let mut other = shared.clone();
        change(other.skills.get_mut("Tide").unwrap());
        let findings = compare(&other, &lock, directory);
        assert_eq!(findings.len(), 1, "{findings:?}");
        report += &format!("{}\n", findings[0]);
    }
    let mut download = locked("file");
    (download.source_type, download.source) = (SourceType::Download, "https://example.com/a.zip".to_owned());
    shared.skills.insert("new".to_owned(), shared_entry());
    let lock = own([("tide", locked("tide")), ("gone", locked("gone")), ("file", download)]);
    for finding in compare(&shared, &lock, directory) {
        report += &format!("{finding}\n");
    }
    insta::assert_snapshot!(report, @r"
    tide: another tool changed its source from https://github.com/o/r.git to evil/r
    tide: another tool changed its ref from main to the default branch
    tide: another tool changed its path from skills/tide/SKILL.md to SKILL.md
    tide: another tool changed its files
    tide: another tool changed its source from https://github.com/o/r.git to o/r
    gone: another tool removed it from skills-lock.json
    new: another tool added it; prowess does not pin it
    ");
}

#[test]
fn what_another_tool_changed_in_the_lock_of_a_user_is_found() {
    let (home, locked) = (Path::new("/home/ada"), locked("tide"));
    let entry = GlobalEntry {
        source: "o/r".to_owned(),
        source_type: SourceType::GitHub,
        source_url: locked.source.clone(),
        reference: locked.reference.clone(),
        skill_path: Some(locked.skill_path.clone()),
        skill_folder_hash: "3b9e98c0275573e5250d239de47d167f74b956ea".to_owned(),
        plugin_name: None,
        source_base_url: None,
        well_known_digest: None,
        installed_at: String::new(),
        updated_at: String::new(),
        extra: Default::default(),
    };
    let mut global = GlobalLock::default();
    global.skills.insert("Tide".to_owned(), entry.clone());
    let lock = own([("tide", locked.clone())]);
    assert_eq!(compare_global(&global, &lock, home), [], "the SHA-1 of a Git tree is not compared");

    // A web site has no hash, and `skills` records the URL of the artifact beside that of the site.
    let site = "https://example.com/";
    let (mut of_site, mut locked_site) = (entry.clone(), locked.clone());
    (of_site.source_type, of_site.reference, of_site.skill_path) = (SourceType::WellKnown, None, None);
    (of_site.source_url, of_site.source_base_url) = (format!("{site}tide.zip"), Some(site.to_owned()));
    of_site.skill_folder_hash.clear();
    (locked_site.source_type, locked_site.reference) = (SourceType::WellKnown, None);
    locked_site.source = site.to_owned();
    let mut global_site = GlobalLock::default();
    global_site.skills.insert("tide".to_owned(), of_site);
    assert_eq!(compare_global(&global_site, &own([("tide", locked_site)]), home), []);

    let (mut of_git, mut locked_git) = (entry.clone(), locked.clone());
    for kind in [&mut of_git.source_type, &mut locked_git.source_type] {
        *kind = SourceType::Git;
    }
    global.skills.insert("Tide".to_owned(), of_git);
    global.skills.insert("new".to_owned(), entry);
    let lock = own([("tide", locked_git), ("gone", locked)]);
    let findings = compare_global(&global, &lock, home);
    let report: String = findings.iter().map(|finding| format!("{finding}\n")).collect();
    insta::assert_snapshot!(report, @r"
    gone: another tool removed it from .skill-lock.json
    new: another tool added it; prowess does not pin it
    tide: another tool changed its files
    ");
}
