//! A program that is killed goes on where it was.

use insta::assert_snapshot;

use super::*;

#[test]
fn with_a_question_open() {
    let model = FakeModel::start(vec![Answer::text("Hello."), runs("echo it ran"), Answer::text("Done.")]);
    let world = world(&model);
    let mut pty = begun(&world, &[], 70, 30);
    pty.type_line("hello");
    pty.wait_for("Hello.");
    at_prompt(&pty);
    pty.type_line("do it");
    pty.wait_for("allow it?");
    pty.kill();
    let mut pty = Pty::start(&world, &["chat", "--resume", "last"], 110, 30);
    pty.wait_for("allow it?");
    assert_snapshot!(stable(&world, &pty.screen()));
    pty.type_line("y");
    pty.wait_for("Done.");
    at_prompt(&pty);
    let request = model.requests().pop().unwrap();
    assert!(all(&request).contains("Hello.") && last(&request).contains("it ran"), "{request}");
    pty.type_line("/quit");
    assert_eq!(pty.wait(), Some(0));
}

#[test]
fn in_the_middle_of_a_run() {
    let seconds = format!("9{}", std::process::id());
    let model = FakeModel::start(vec![runs(&format!("sleep {seconds}")), Answer::text("I look again.")]);
    let world = world(&model);
    let mut pty = begun(&world, &[], 70, 30);
    pty.type_line("do it");
    pty.wait_for("allow it?");
    pty.type_line("y");
    eventually("the command to run", || is_running(&seconds));
    pty.kill();
    eventually("the command to be gone", || !is_running(&seconds));
    let mut pty = Pty::start(&world, &["chat", "--resume", "last"], 110, 30);
    pty.wait_for("I look again.");
    at_prompt(&pty);
    assert_snapshot!(stable(&world, &pty.screen()));
    let said = last(&model.requests()[1]);
    assert!(said.contains("took effect") || said.contains("interrupted"), "{said}");
    assert!(!is_running(&seconds), "it is not run a second time");
    pty.type_line("/quit");
    assert_eq!(pty.wait(), Some(0));
}

#[test]
fn in_the_middle_of_an_answer() {
    let model = FakeModel::start(vec![
        Answer::slow(&"word ".repeat(1_000), std::time::Duration::from_millis(50)),
        Answer::text("From the beginning."),
    ]);
    let world = world(&model);
    let mut pty = begun(&world, &[], 70, 30);
    pty.type_line("talk");
    pty.wait_for("word word");
    pty.kill();
    let id = thread(&world);
    let pty = Pty::start(&world, &["chat", "--resume", &id[id.len() - 6..]], 70, 30);
    pty.wait_for("From the beginning.");
    let said = model.requests();
    assert_eq!(said[0]["messages"], said[1]["messages"], "the same is asked again");
}

#[test]
fn always_is_remembered_by_the_next_program() {
    let model = FakeModel::start(vec![
        runs("echo one"),
        Answer::text("One."),
        runs("echo one"),
        Answer::text("One more."),
        runs("echo one two"),
    ]);
    let world = world(&model);
    let mut pty = begun(&world, &[], 70, 30);
    pty.type_line("do it");
    pty.wait_for("allow it?");
    pty.type_line("a");
    pty.wait_for("One.");
    at_prompt(&pty);
    pty.kill();
    let pty = begun(&world, &[], 70, 30);
    pty.type_line("do it");
    let screen = pty.wait_for("One more.");
    assert!(!screen.contains("allow it?"), "{screen}");
    // It was for this command alone.
    let output = world.output(&["chat", "do something else"]);
    let told = world.told(&output);
    assert!(output.status.code() == Some(1) && told.contains("a question is waiting"), "{told}");
}

#[test]
fn a_thread_has_one_program_at_a_time() {
    let model = FakeModel::start(vec![Answer::hang()]);
    let world = world(&model);
    let pty = begun(&world, &[], 70, 30);
    pty.type_line("talk");
    model.wait_for_requests(1);
    assert_snapshot!(told(&world, &["chat", "--resume", "last", "another thing"]));
    assert_eq!(model.requests().len(), 1);
}

/// Also while nobody types anything, for longer than a lease lasts.
#[test]
fn a_thread_that_rests_is_kept() {
    let model =
        FakeModel::start(vec![Answer::text("Hello."), Answer::text("Still here."), Answer::text("Free.")]);
    let world = world(&model);
    let mut pty = begun(&world, &[], 70, 30);
    pty.type_line("hello");
    pty.wait_for("Hello.");
    at_prompt(&pty);
    let id = thread(&world);
    let output = world.output(&["chat", "--resume", &id, "another thing"]);
    let told = world.told(&output);
    assert!(output.status.code() == Some(2) && told.contains(" is using "), "{told}");
    pty.type_line("are you there?");
    pty.wait_for("Still here.");
    at_prompt(&pty);
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0));
    assert_eq!(world.stdout(&["chat", "--resume", &id, "another thing"]), "Free.\n");
}

#[test]
fn one_thread_after_another() {
    let model = FakeModel::start(vec![
        Answer::text("The first."),
        Answer::text("The second."),
        Answer::text("The first again."),
        Answer::text("In another directory."),
    ]);
    let world = world(&model);
    let mut pty = begun(&world, &[], 80, 30);
    pty.type_line("one");
    pty.wait_for("The first.");
    at_prompt(&pty);
    let first = thread(&world);
    pty.type_line("/new");
    pty.wait_until("another prompt", |screen| {
        screen.contains("> /new\n· you are now in thread ") && screen.ends_with("\n>")
    });
    pty.type_line("two");
    pty.wait_for("The second.");
    at_prompt(&pty);
    pty.type_line(&format!("/resume {}", &first[first.len() - 6..]));
    pty.wait_for("model: The first.");
    at_prompt(&pty);
    pty.type_line("three");
    pty.wait_for("The first again.");
    at_prompt(&pty);
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0));
    let screen = stable(&world, &pty.screen());
    assert!(screen.ends_with(">\n· continue with `prowess chat --resume [THREAD]`"), "{screen}");
    let requests = model.requests();
    assert!(!all(&requests[1]).contains("The first.") && !all(&requests[2]).contains("The second."));
    assert!(all(&requests[2]).contains("The first."));

    std::fs::create_dir(world.path("project/inner")).unwrap();
    let inner = |wanted: &str| {
        let mut command = world.command(&["chat", "--resume", wanted, "four"]);
        stable(&world, &world.told(&command.current_dir(world.path("project/inner")).output().unwrap()))
    };
    assert!(inner("last").contains("this directory has no thread"), "the last one is of another");
    assert_snapshot!(inner(&first));
}
