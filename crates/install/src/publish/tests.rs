use std::fs::{create_dir_all, read, read_dir, read_to_string, write};
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::snapshot::archive::unpack;
use crate::snapshot::{Entry, EntryKind, Snapshot as _};

const SKILLS: &str = ".well-known/agent-skills";

fn skill(at: &Path, name: &str, description: &str) {
    create_dir_all(at.join(name)).unwrap();
    let text = format!("---\nname: {name}\ndescription: {description}\n---\nDo it.\n");
    write(at.join(name).join("SKILL.md"), text).unwrap();
}

/// A directory with `skills/tide`, which has a script, and `skills/moon`, which has none.
fn world() -> TempDir {
    let world = tempfile::tempdir().unwrap();
    let skills = world.path().join("skills");
    skill(&skills, "tide", "Looks up tides. Use at sea.");
    skill(&skills, "moon", "Tells the phase. Use at night.");
    create_dir_all(skills.join("tide/scripts")).unwrap();
    let script = skills.join("tide/scripts/run");
    write(&script, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(script, PermissionsExt::from_mode(0o755)).unwrap();
    world
}

fn publish_in(world: &TempDir) -> Result<PublishedSite, PublishError> {
    publish(&world.path().join("skills"), &world.path().join("site"), Profile::Spec)
}

/// The names of all files beside the index.
fn files(world: &TempDir) -> BTreeSet<String> {
    let entries = read_dir(world.path().join("site").join(SKILLS)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn index(world: &TempDir) -> Value {
    let text = read_to_string(world.path().join("site").join(SKILLS).join("index.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn the_index_names_artifacts_with_their_digests() {
    let world = world();
    let published = publish_in(&world).unwrap();
    let index = index(&world);
    assert_eq!(index["$schema"], SCHEMA);
    let skills = index["skills"].as_array().unwrap();
    let told: Vec<_> = skills.iter().map(|skill| (&skill["name"], &skill["type"])).collect();
    assert_eq!(
        told,
        [(&"moon".into(), &"skill-md".into()), (&"tide".into(), &"archive".into())] as [(&Value, &Value); 2]
    );
    assert_eq!(skills[1]["description"], "Looks up tides. Use at sea.");
    let site = world.path().join("site").join(SKILLS);
    for skill in skills {
        let bytes = read(site.join(skill["url"].as_str().unwrap())).unwrap();
        assert_eq!(skill["digest"], Digest::of(&bytes).to_string());
    }
    let tide = &published.skills[1];
    assert!((tide.files, tide.is_new, tide.exceeded.is_empty()) == (2, true, true), "{tide:?}");
    let archive = unpack(&read(site.join(&tide.url)).unwrap(), &ArchiveLimits::default()).unwrap();
    let entry = |path: &str, size, is_executable| Entry {
        path: path.to_owned(),
        kind: EntryKind::File { size, is_executable },
    };
    assert_eq!(archive.entries(), [entry("SKILL.md", 67, false), entry("scripts/run", 10, true)]);
    // A web server may be another user.
    let mode = std::fs::metadata(site.join(&tide.url)).unwrap().permissions().mode();
    assert_eq!(mode & 0o444, 0o444);
}

#[test]
fn the_same_skills_give_the_same_bytes() {
    let (one, other) = (world(), world());
    publish_in(&one).unwrap();
    publish_in(&other).unwrap();
    let text = |world: &TempDir| read(world.path().join("site").join(SKILLS).join("index.json")).unwrap();
    assert_eq!(text(&one), text(&other));
    assert_eq!(files(&one), files(&other));
    let again = publish_in(&one).unwrap();
    assert!(again.skills.iter().all(|skill| !skill.is_new) && again.removed.is_empty());
}

#[test]
fn only_stale_artifacts_are_removed() {
    let world = world();
    let first = publish_in(&world).unwrap();
    let site = world.path().join("site").join(SKILLS);
    let digest = "0".repeat(64);
    let foreign =
        ["notes.txt".to_owned(), "own.zip".to_owned(), format!("own-{digest}.zip"), format!("x-{digest}.md")];
    foreign.iter().for_each(|name| write(site.join(name), "mine").unwrap());
    write(world.path().join("site/index.html"), "home").unwrap();
    // A killed process has left a part.
    write(site.join(".prowess-unfinished"), "part").unwrap();
    std::fs::remove_dir_all(world.path().join("skills/moon")).unwrap();
    write(world.path().join("skills/tide/scripts/run"), "#!/bin/sh\nexit\n").unwrap();
    let second = publish_in(&world).unwrap();
    assert_eq!(second.dropped, ["moon"]);
    let old: Vec<&str> = first.skills.iter().map(|skill| skill.url.as_str()).collect();
    assert_eq!(second.removed, old);
    let mut expected: BTreeSet<String> = foreign.into_iter().collect();
    expected.extend(["index.json".to_owned(), second.skills[0].url.clone()]);
    assert_eq!(files(&world), expected);
    assert_eq!(read_to_string(world.path().join("site/index.html")).unwrap(), "home");
}

#[test]
fn a_failure_leaves_the_old_site() {
    let world = world();
    publish_in(&world).unwrap();
    let (before, text) = (files(&world), index(&world));
    // The first skill by name is new and good; the last cannot be packed.
    skill(&world.path().join("skills"), "alpha", "Begins. Use first.");
    for name in ["a.txt", "A.txt"] {
        write(world.path().join("skills/tide").join(name), "").unwrap();
    }
    let error = publish_in(&world).unwrap_err().to_string();
    assert!(error.contains("tide: nobody could install it") && error.contains("A.txt"), "{error}");
    assert_eq!((files(&world), index(&world)), (before.clone(), text.clone()));
    // An invalid skill is found before anything is written.
    skill(&world.path().join("skills"), "Bad_Name", "Is bad. Use never.");
    let error = publish_in(&world).unwrap_err();
    assert!(matches!(&error, PublishError::Invalid(reports) if reports.len() == 1), "{error}");
    assert!(error.to_string().contains("Bad_Name"), "{error}");
    assert_eq!((files(&world), index(&world)), (before, text));
}

#[test]
fn a_damaged_artifact_is_written_again() {
    let world = world();
    let published = publish_in(&world).unwrap();
    let path = world.path().join("site").join(SKILLS).join(&published.skills[1].url);
    let good = read(&path).unwrap();
    write(&path, "damaged").unwrap();
    assert!(publish_in(&world).unwrap().skills[1].is_new);
    assert_eq!(read(&path).unwrap(), good);
    // A link in its place is replaced, and the file that it leads to stays.
    let outside = world.path().join("outside");
    write(&outside, "precious").unwrap();
    std::fs::remove_file(&path).unwrap();
    symlink(&outside, &path).unwrap();
    publish_in(&world).unwrap();
    assert_eq!((read(&path).unwrap(), read_to_string(outside).unwrap()), (good, "precious".to_owned()));
}

#[test]
fn links_are_left_out_and_never_written_through() {
    let world = world();
    write(world.path().join("secret"), "secret").unwrap();
    symlink(world.path().join("secret"), world.path().join("skills/tide/link")).unwrap();
    let published = publish_in(&world).unwrap();
    assert_eq!(published.skills[1].left_out, ["link (a link)"]);
    let elsewhere = world.path().join("elsewhere");
    create_dir_all(elsewhere.join("agent-skills")).unwrap();
    std::fs::remove_dir_all(world.path().join("site/.well-known")).unwrap();
    symlink(&elsewhere, world.path().join("site/.well-known")).unwrap();
    assert!(matches!(publish_in(&world), Err(PublishError::NotADirectory(_))));
    assert_eq!(read_dir(elsewhere.join("agent-skills")).unwrap().count(), 0);
}

#[test]
fn what_cannot_be_an_index_is_refused() {
    let world = world();
    let skills = world.path().join("skills");
    let to = |source: &Path, site: &Path| publish(source, site, Profile::Spec).unwrap_err();
    let inside = to(&skills.join("tide"), &skills.join("tide/scripts/site"));
    assert!(matches!(inside, PublishError::SiteInSkill(_)), "{inside}");
    assert!(!skills.join("tide/scripts/site").exists());
    create_dir_all(world.path().join("empty")).unwrap();
    let empty = to(&world.path().join("empty"), &world.path().join("site"));
    assert!(matches!(empty, PublishError::NoSkill(_)), "{empty}");
    let gone = to(&world.path().join("gone"), &world.path().join("site"));
    assert!(matches!(gone, PublishError::Io { .. }), "{gone}");
    skill(&skills.join("more"), "tide", "Is another. Use at sea.");
    let twice = to(&skills, &world.path().join("site"));
    assert!(matches!(twice, PublishError::Twice { .. }), "{twice}");
    assert!(!world.path().join("site").exists());
}

#[test]
fn one_process_publishes_at_a_time() {
    let world = world();
    let site = world.path().join("site");
    let held = SiteDirectory::open(&site).unwrap();
    assert!(matches!(publish_in(&world), Err(PublishError::Busy(_))));
    drop(held);
    publish_in(&world).unwrap();
}

#[test]
fn a_skill_that_needs_higher_limits_says_so() {
    let world = world();
    for number in 0..1_000 {
        write(world.path().join(format!("skills/tide/{number}")), "").unwrap();
    }
    let published = publish_in(&world).unwrap();
    assert_eq!(published.skills[1].exceeded, ["SKILLS_EXTRACT_MAX_FILES=1002"]);
}

#[test]
fn descriptions_are_cut_to_the_length_of_an_index() {
    let most = "é".repeat(MAX_DESCRIPTION_CHARS);
    assert_eq!(short(&most), most);
    let cut = short(&format!("{most}e"));
    assert!(cut.chars().count() == MAX_DESCRIPTION_CHARS && cut.ends_with("é…"));
}
