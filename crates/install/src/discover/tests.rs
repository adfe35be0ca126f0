//! The places in which skills are found.

use super::*;

/// A snapshot in memory. A text `->` is a link.
struct Files {
    entries: Vec<Entry>,
    texts: BTreeMap<String, String>,
}

impl Files {
    fn new<'a>(files: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        let texts: BTreeMap<String, String> =
            files.into_iter().map(|(path, text)| (path.to_owned(), text)).collect();
        let entries = texts.iter().map(|(path, text)| {
            let file = EntryKind::File { size: text.len() as u64, is_executable: false };
            Entry { path: path.clone(), kind: if text == "->" { EntryKind::Link } else { file } }
        });
        Self { entries: entries.collect(), texts }
    }
}

impl Snapshot for Files {
    fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn read(&mut self, path: &str) -> Result<Vec<u8>, SnapshotError> {
        match self.texts.get(path) {
            Some(text) => Ok(text.clone().into_bytes()),
            None => Err(SnapshotError::NotAFile { path: path.to_owned() }),
        }
    }

    fn commit(&self) -> Option<&str> {
        None
    }

    fn folder_sha1(&self, _path: &str) -> Option<String> {
        None
    }

    fn notices(&self) -> &[String] {
        &[]
    }
}

fn manifest(name: &str) -> String {
    format!("---\nname: {name}\ndescription: Does {name}. Use it to test.\n---\nText.\n")
}

/// A snapshot with a skill in each directory, called like the directory's last name.
fn with_skills(directories: &[&str], more: &[(&str, &str)]) -> Files {
    let paths: Vec<(String, String)> = directories
        .iter()
        .map(|directory| (join(directory, MANIFEST), manifest(directory.rsplit('/').next().unwrap())))
        .collect();
    let skills = paths.iter().map(|(path, text)| (path.as_str(), text.clone()));
    Files::new(skills.chain(more.iter().map(|(path, text)| (*path, (*text).to_owned()))))
}

fn directories(files: &mut Files, options: &DiscoverOptions) -> Vec<String> {
    discover(files, options).unwrap().skills.into_iter().map(|skill| skill.directory).collect()
}

fn found(files: &mut Files) -> Vec<String> {
    directories(files, &DiscoverOptions::default())
}

#[test]
fn a_root_skill_is_the_only_one_unless_all_depths_are_wanted() {
    let root = manifest("root");
    let mut files = with_skills(&["skills/tide", "a/b/c/d/wave"], &[("SKILL.md", &root), ("run.sh", "ls")]);
    let only = discover(&mut files, &DiscoverOptions::default()).unwrap();
    let [skill] = only.skills.as_slice() else { panic!("one skill") };
    assert_eq!((skill.directory.as_str(), skill.manifest_path.as_str()), ("", "SKILL.md"));
    assert_eq!(skill.entries.len(), 4, "everything in its directory is its own");
    let deep = DiscoverOptions { full_depth: true, ..DiscoverOptions::default() };
    assert_eq!(directories(&mut files, &deep), ["", "skills/tide", "a/b/c/d/wave"]);
}

#[test]
fn the_places_have_their_depths() {
    let mut files = with_skills(
        &[
            "child",
            "child/hidden",
            "one/two",
            "skills/a",
            "skills/x/b",
            "skills/x/y/c",
            "skills/x/y/z/too-deep",
            "skills/.curated/d",
            "skills/node_modules/e",
            "skills/a/inner",
            ".claude/skills/f",
            ".posit/assistant/skills/g/h/i",
            "elsewhere/skills/j",
        ],
        &[],
    );
    assert_eq!(
        found(&mut files),
        [
            "child",
            "skills/.curated/d",
            "skills/a",
            "skills/x/b",
            "skills/x/y/c",
            ".claude/skills/f",
            ".posit/assistant/skills/g/h/i"
        ]
    );
}

#[test]
fn everything_is_searched_if_the_usual_places_are_empty() {
    let mut files = with_skills(
        &["a/b/tide", "a/b/tide/inner", "a/b/c/d/five", "a/b/c/d/e/six", "a/dist/x", "a/node_modules/y"],
        &[],
    );
    assert_eq!(found(&mut files), ["a/b/c/d/five", "a/b/tide", "a/b/tide/inner"]);
}

#[test]
fn a_subpath_is_its_own_root() {
    let mut files = with_skills(&["packs/sea/skills/tide", "packs/sea/wave", "skills/other"], &[]);
    let at = |path: &str| DiscoverOptions { subpath: Some(path.to_owned()), ..DiscoverOptions::default() };
    assert_eq!(directories(&mut files, &at("packs/sea")), ["packs/sea/wave", "packs/sea/skills/tide"]);
    assert_eq!(directories(&mut files, &at("packs/sea/wave/")), ["packs/sea/wave"]);
    assert_eq!(directories(&mut files, &at("packs/sea/wave/SKILL.md")), ["packs/sea/wave"]);
    for gone in ["packs/se", "packs/sea/x", ".."] {
        assert!(matches!(discover(&mut files, &at(gone)), Err(DiscoverError::NoSubpath(_))), "{gone}");
    }
}

#[test]
fn plugin_manifests_name_directories_and_plugins() {
    let market = r#"{"plugins": [{"name": "sea", "source": "./plugins/sea", "skills": ["./deep/tide"]},
        {"name": "out", "source": "./../../out"}]}"#;
    let mut files = with_skills(
        &["plugins/sea/deep/tide", "plugins/sea/skills/wave", "plugins/land/skills/hill"],
        &[(".claude-plugin/marketplace.json", market), (".claude-plugin/plugin.json", "not json")],
    );
    let discovery = discover(&mut files, &DiscoverOptions::default()).unwrap();
    let plugins: Vec<_> =
        discovery.skills.iter().map(|skill| (skill.directory.as_str(), skill.plugin.as_deref())).collect();
    assert_eq!(plugins, [("plugins/sea/deep/tide", Some("sea")), ("plugins/sea/skills/wave", None)]);
    assert!(matches!(discovery.notices.as_slice(), [Notice::Unusable { .. }]), "{:?}", discovery.notices);
}

#[test]
fn the_first_name_wins_and_the_others_are_notices() {
    let same = manifest("Tide!");
    let mut files =
        with_skills(&["skills/tide"], &[("skills/z/SKILL.md", &same), ("skills/l/SKILL.md", "->")]);
    let discovery = discover(&mut files, &DiscoverOptions::default()).unwrap();
    assert_eq!(discovery.skills.len(), 1);
    let notices: Vec<String> = discovery.notices.iter().map(ToString::to_string).collect();
    assert_eq!(
        notices,
        [
            "skills/l/SKILL.md is left out: it is not a regular file",
            "skills/z/SKILL.md is left out: skills/tide/SKILL.md is also called tide"
        ]
    );
}

#[test]
fn internal_skills_are_found_only_if_they_are_named() {
    let internal = manifest("secret").replace("---\nText", "metadata:\n  internal: true\n---\nText");
    let mut files = with_skills(&["skills/tide"], &[("skills/secret/SKILL.md", &internal)]);
    assert_eq!(found(&mut files), ["skills/tide"]);
    let all = DiscoverOptions { internal: true, ..DiscoverOptions::default() };
    assert_eq!(directories(&mut files, &all).len(), 2);
    let named =
        DiscoverOptions { wanted: vec!["Secret".into(), "gone".into()], ..DiscoverOptions::default() };
    let discovery = discover(&mut files, &named).unwrap();
    assert_eq!(discovery.skills[0].directory, "skills/secret");
    assert_eq!((discovery.skills.len(), discovery.missing.as_slice()), (1, &["gone".to_owned()][..]));
    assert_eq!(discovery.available.len(), 2);
    let star = DiscoverOptions { wanted: vec!["*".into()], ..DiscoverOptions::default() };
    assert_eq!(directories(&mut files, &star), ["skills/tide"]);
}

#[test]
fn skills_that_the_source_installed_itself_are_skipped() {
    let lock = r#"{"version": 1, "skills": {"Foreign_skill": {}, "own": {}}}"#;
    let places = [".claude/skills/foreign-skill", ".claude/skills/mine", "skills/own"];
    let mut files = with_skills(&places, &[("skills-lock.json", lock)]);
    assert_eq!(found(&mut files), ["skills/own", ".claude/skills/mine"]);
    let mut files = with_skills(&places, &[("skills-lock.json", "{")]);
    assert_eq!(found(&mut files).len(), 3);
}

#[test]
fn some_files_are_never_installed() {
    let mut files = with_skills(
        &["skills/tide"],
        &[
            ("skills/tide/metadata.json", "{}"),
            ("skills/tide/sub/metadata.json", "{}"),
            ("skills/tide/__pycache__/a.pyc", "x"),
            ("skills/tide/run.sh", "ls"),
            ("skills/tide-x/y", "z"),
        ],
    );
    let discovery = discover(&mut files, &DiscoverOptions::default()).unwrap();
    let skill = &discovery.skills[0];
    let installed: Vec<&str> = skill.installed_entries().map(|entry| skill.relative(entry)).collect();
    assert_eq!(installed, ["SKILL.md", "run.sh"]);
    assert_eq!(skill.entries.len(), 5);
}

#[test]
fn hostile_manifests_are_notices() {
    let huge = "x".repeat(usize::try_from(MAX_MANIFEST).unwrap() + 1);
    let mut files = with_skills(
        &["skills/good"],
        &[
            ("skills/huge/SKILL.md", &huge),
            ("skills/empty/SKILL.md", ""),
            ("skills/bidi/SKILL.md", "---\nname: \"a\u{202e}b\"\ndescription: x\n---\n"),
            ("skills/yaml/SKILL.md", "---\n- a\n---\n"),
        ],
    );
    let discovery = discover(&mut files, &DiscoverOptions::default()).unwrap();
    assert!(discovery.skills.iter().any(|skill| skill.directory == "skills/good"));
    for skill in &discovery.skills {
        assert_eq!(directory_name(&skill.directory_name), skill.directory_name);
    }
    assert!(discovery.notices.contains(&Notice::TooLarge { path: "skills/huge/SKILL.md".into() }));
    assert!(discovery.notices.len() >= 3, "{:?}", discovery.notices);
}

#[test]
fn case_129_a_skill_with_too_many_files_is_left_out() {
    let names: Vec<String> = (0..=MAX_SKILL_FILES).map(|number| format!("skills/big/{number}")).collect();
    let more: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let mut files = with_skills(&["skills/big", "skills/good"], &more);
    let discovery = discover(&mut files, &DiscoverOptions::default()).unwrap();
    assert_eq!(discovery.skills.len(), 1);
    assert!(matches!(discovery.notices.as_slice(), [Notice::TooManyFiles { .. }]), "{:?}", discovery.notices);
}
