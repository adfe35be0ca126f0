//! One conversation from its start to its end, with what is on the screen.

use insta::assert_snapshot;
use serde_json::json;

use super::*;

#[test]
fn a_conversation_in_a_terminal() {
    let model = FakeModel::start(vec![
        Answer::call("skill_load", json!({"skill": "tides"})),
        runs("sh scripts/tides.sh"),
        Answer::text("You are **right**, I leave it."),
        runs("sh scripts/tides.sh"),
        Answer::text("It is *high* water.\n\n- take the `boat`\n- not the bike\n"),
        runs("sh scripts/tides.sh"),
        Answer::text("High, again."),
        runs("sh scripts/tides.sh"),
        Answer::text("Still high."),
        Answer::text("You were at sea."),
        Answer::text("I am another one."),
        Answer::text("In the copy."),
    ]);
    let world = world(&model);
    let mut pty = begun(&world, &[], 80, 60);

    pty.type_line("is it high water?");
    pty.wait_for("allow it?");
    assert_snapshot!("start_load_and_question", stable(&world, &pty.screen()));
    pty.type_line("n");
    pty.wait_for("why?");
    pty.type_line("the moon is enough");
    at_prompt(&pty);
    model.wait_for_requests(3);
    assert!(last(&model.requests()[2]).contains("the moon is enough"), "{}", last(&model.requests()[2]));

    pty.type_line("look it up after all");
    pty.wait_until("a second question", |screen| screen.matches("allow it?").count() == 2);
    pty.type_line("y");
    pty.wait_for("not the bike");
    at_prompt(&pty);
    assert!(last(&model.requests()[4]).contains("high"), "{}", last(&model.requests()[4]));
    assert_snapshot!("refused_and_granted_once", stable(&world, &pty.screen()));

    pty.press("\x0c");
    pty.wait_gone("not the bike");
    pty.type_line("again");
    pty.wait_for("allow it?");
    pty.type_line("a");
    pty.wait_for("High, again.");
    at_prompt(&pty);
    pty.type_line("and again");
    pty.wait_for("Still high.");
    at_prompt(&pty);
    assert_snapshot!("granted_always", stable(&world, &pty.screen()));

    pty.press("\x0c");
    pty.wait_gone("Still high.");
    pty.type_line("/context");
    pty.wait_for("estimated");
    at_prompt(&pty);
    pty.type_line("/skills");
    pty.wait_for("+ tides");
    at_prompt(&pty);
    pty.type_line("/compact");
    pty.wait_for("now");
    at_prompt(&pty);
    pty.type_line("/unload tides");
    pty.wait_for("is unloaded");
    at_prompt(&pty);
    pty.type_line("/unload tides");
    pty.wait_for("is not loaded");
    at_prompt(&pty);
    pty.type_line("/model fake:other");
    pty.wait_for("switched to");
    at_prompt(&pty);
    pty.type_line("who are you?");
    pty.wait_for("I am another one.");
    at_prompt(&pty);
    assert_eq!(model.requests().last().unwrap()["model"], "other");
    pty.type_line("/fork");
    pty.wait_for("a copy of");
    at_prompt(&pty);
    pty.type_line("where are we?");
    pty.wait_for("In the copy.");
    at_prompt(&pty);
    pty.type_line("/export talk.md");
    pty.wait_for("wrote the conversation to");
    at_prompt(&pty);
    pty.type_line("/export talk.md");
    pty.wait_for("already exists");
    at_prompt(&pty);
    pty.type_line("/resume");
    pty.wait_for("continues one");
    at_prompt(&pty);
    assert_snapshot!("commands", stable(&world, &pty.screen()));
    pty.type_line("/quit");
    assert_eq!(pty.wait(), Some(0));

    let exported = std::fs::read_to_string(world.path("project/talk.md")).unwrap();
    assert_snapshot!("export", stable(&world, &exported));
}

/// The paths that a conversation names mean the same in its copy, and neither writes the files of the other.
#[test]
fn a_copy_of_a_thread_has_the_files_of_its_commands() {
    let reads = || Answer::call("read_file", json!({"file_path": "/work/out/tide.txt"}));
    let model = FakeModel::start(vec![
        runs("bash scripts/tides.sh; ln -s /etc/passwd /work/out/link; echo kept > /work/work/notes.txt"),
        Answer::text("It is high."),
        reads(),
        runs("cat /work/out/tide.txt /work/work/notes.txt; ls /work/out; echo low > /work/out/tide.txt"),
        reads(),
        Answer::text("It is low."),
        reads(),
        Answer::text("Still high."),
    ]);
    let world = world(&model);
    world.stdout(&["chat", "--yes", "tides?"]);
    let origin = thread(&world);
    let forked = stable(&world, &world.run(&["chat", "--resume", &origin, "/fork"]));
    insta::assert_snapshot!(forked);
    world.stdout(&["chat", "--yes", "--resume", &thread(&world), "go on"]);
    let requests = model.requests();
    assert!(last(&requests[3]).contains("high"), "{}", last(&requests[3]));
    let ran = last(&requests[4]);
    assert!(ran.contains("high") && ran.contains("kept") && !ran.contains("link"), "{ran}");
    assert!(last(&requests[5]).contains("low"), "commands can change the copies: {}", last(&requests[5]));
    world.stdout(&["chat", "--yes", "--resume", &origin, "go on"]);
    assert!(last(&model.requests()[7]).contains("high"), "{}", last(&model.requests()[7]));

    // Too much is not copied, and the person is told.
    let workspaces = world.path("home/.local/state/prowess/workspaces");
    let out = std::fs::read_dir(&workspaces).unwrap().flatten().map(|entry| entry.path().join("ws/out"));
    for out in out.filter(|out| out.is_dir()) {
        std::fs::File::create(out.join("huge")).unwrap().set_len(1 << 40).unwrap();
    }
    let told = world.run(&["chat", "--resume", &origin, "/fork"]);
    assert!(
        told.contains("the files of commands are not in the new thread: copying the workspace"),
        "{told}"
    );
    assert!(told.contains("its files have more than 536870912 bytes"), "{told}");
}
