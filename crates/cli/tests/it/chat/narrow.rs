//! A terminal of 40 columns.

use insta::assert_snapshot;
use serde_json::json;

use super::*;

#[test]
fn everything_can_be_read_in_40_columns() {
    let model = FakeModel::start(vec![
        Answer::call("skill_load", json!({"skill": "tides"})),
        runs("sh scripts/tides.sh --place Dover --day tomorrow --unit metres"),
        Answer::text(
            "It is **high** water at Dover, and will be for some hours.\n\n| place | tide |\n|---|---|\n| Dover | high |\n\n```\nsome code that is wider than the screen is, by far\n```\n",
        ),
    ]);
    let world = world(&model);
    world.skill(
        "home/.prowess/skills",
        "a-name-that-takes-all-of-the-room-there-is",
        "Is long. Use it for long things.",
    );
    let mut pty = begun(&world, &[], 40, 100);
    pty.type_line("is it high?");
    pty.wait_for("allow it?");
    pty.type_line("y");
    pty.wait_for("some code");
    at_prompt(&pty);
    for (line, then) in [
        ("/help", "completes"),
        ("/skills", "a-name"),
        ("/context", "free"),
        ("/resume", "enough"),
        ("/nothing", "lists the commands"),
    ] {
        pty.type_line(line);
        pty.wait_for(&format!("> {line}\n"));
        pty.wait_until(then, |screen| screen.rsplit(line).next().is_some_and(|after| after.contains(then)));
        at_prompt(&pty);
    }
    let screen = pty.everything();
    assert!(screen.lines().all(|row| row.chars().count() <= 40), "{screen}");
    assert_snapshot!(stable(&world, &screen));
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0));
}

#[test]
fn offline_says_what_it_is() {
    let world = World::new();
    let mut pty = begun(&world, &[], 40, 20);
    assert_snapshot!(pty.screen());
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0));
}
