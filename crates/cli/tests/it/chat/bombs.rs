//! Case 102: a skill that is endless to look at is refused before anybody is asked, and costs little.

use std::os::unix::fs::symlink;

use super::*;

/// What a conversation may take, in KiB: the program itself takes about 50 MiB.
const MOST: u64 = 160 * 1024;

#[test]
fn case_102_nobody_is_asked_about_a_skill_that_is_too_large() {
    let model = FakeModel::start(vec![runs("true"), Answer::text("It cannot be run.")]);
    let world = world(&model);
    let skill = world.path("home/.prowess/skills/tides");
    std::fs::create_dir(skill.join("d")).unwrap();
    for number in 0..1000 {
        symlink(".", skill.join(format!("d/{number}"))).unwrap();
        symlink("d", skill.join(format!("{number}"))).unwrap();
    }
    let pty = begun(&world, &[], 80, 40);
    pty.type_line("run it");
    pty.wait_for("It cannot be run.");
    assert!(pty.peak_memory() < MOST, "it took {} KiB", pty.peak_memory());
    assert!(!pty.everything().contains("allow it?"), "{}", pty.everything());
    let told = last(&model.requests()[1]);
    assert!(told.contains("has more than 20000 files, directories and links: too large to stage"), "{told}");
}
