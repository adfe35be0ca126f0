//! The search index of many skills is kept on the disk for the next process.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use super::found;
use crate::world::World;

/// From so many skills on, an index is stored.
const SKILLS: usize = 1_000;

fn crowded() -> World {
    let world = World::new();
    for number in 0..SKILLS - 1 {
        world.skill("home/.prowess/skills", &format!("task-{number}"), "Does a task. Use it when asked.");
    }
    world.skill("home/.prowess/skills", "mend-canvas", "Repairs torn sails of a boat.");
    world
}

fn stored(world: &World) -> Vec<PathBuf> {
    let directory = world.path("home/.cache/prowess/search");
    let files = std::fs::read_dir(directory).into_iter().flatten();
    files.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn the_index_is_stored_and_follows_every_change() {
    let world = crowded();
    // An index is not stored while the directories of skills are so new that a change might not show.
    while stored(&world).is_empty() {
        assert_eq!(found(&world, "torn sail")[0], "mend-canvas");
    }
    let file = stored(&world).remove(0);
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(file.parent().unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o700);
    let log = String::from_utf8(world.output(&["search", "torn sail", "-vv"]).stderr).unwrap();
    assert!(log.contains("The search index was loaded"), "{log}");
    assert_eq!(found(&world, "torn sail"), ["mend-canvas"]);

    world.skill("home/.prowess/skills", "mend-canvas", "Bakes bread in an oven.");
    assert_eq!(found(&world, "torn sail"), Vec::<String>::new());
    assert_eq!(found(&world, "bread"), ["mend-canvas"]);
    world.file("home/.prowess/skills/task-7/scripts/rotate_photos.py", "");
    assert_eq!(found(&world, "rotate photos"), ["task-7"]);
    std::fs::remove_dir_all(world.path("home/.prowess/skills/mend-canvas")).unwrap();
    assert_eq!(found(&world, "bread"), Vec::<String>::new());

    let size = stored(&world).len();
    assert!(size <= 1, "the same roots have one file");
    let told = world.run(&["uninstall", "--dry-run"]);
    assert!(told.contains("[WORLD]/home/.cache/prowess  (cache, "), "{told}");
}

#[test]
fn a_damaged_or_planted_index_is_not_used() {
    let world = crowded();
    while stored(&world).is_empty() {
        found(&world, "torn sail");
    }
    let file = stored(&world).remove(0);
    let good = std::fs::read(&file).unwrap();
    for bytes in [&b""[..], b"prowess search index", &good[..good.len() - 1], &[0; 4096]] {
        std::fs::write(&file, bytes).unwrap();
        assert_eq!(found(&world, "torn sail"), ["mend-canvas"]);
        assert_eq!(std::fs::read(&file).unwrap(), good, "it is replaced");
    }
    // Everybody can write to this directory, so anybody can have written the file.
    let directory = file.parent().unwrap();
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o777)).unwrap();
    std::fs::write(&file, "planted").unwrap();
    assert_eq!(found(&world, "torn sail"), ["mend-canvas"]);
    assert_eq!(std::fs::read(&file).unwrap(), b"planted", "nothing is written there, either");
}
