//! Threads of an earlier version: listed, shown, gone on with, removed.

use serde_json::json;

use super::{Earlier, STATE};
use crate::chat::at_prompt;
use crate::model::{Answer, FakeModel};
use crate::pty::Pty;

/// The threads that wait for an answer.
const WAITING: [&str; 11] = [
    "load the tides",
    "run the script",
    "write the log",
    "edit the log",
    "list the files",
    "load and write",
    "type into it",
    "ask the server",
    "ask somebody else",
    "run it with my notes",
    "run it unloaded",
];
/// The others.
const RESTING: [&str; 6] = [
    "/tides at Dover",
    "/tides before the summary",
    "cut off in the answer",
    "cut off in the run",
    "keep the tide",
    "always",
];

/// All that a request says, with the system message.
fn prompt(model: &FakeModel, request: usize) -> String {
    model.requests()[request]["messages"].to_string()
}

/// All that a request says besides the system message.
fn conversation(model: &FakeModel, request: usize) -> String {
    let messages = model.requests()[request]["messages"].as_array().unwrap()[1..].to_vec();
    json!(messages).to_string()
}

#[test]
fn are_listed_and_shown_with_what_they_wait_for() {
    let earlier = Earlier::of_0_1();
    let threads = earlier.threads();
    assert_eq!(threads.len(), WAITING.len() + RESTING.len(), "{threads:#?}");
    for title in WAITING.iter().chain(&RESTING) {
        let thread = threads.iter().find(|thread| thread["title"] == **title);
        let thread = thread.unwrap_or_else(|| panic!("no `{title}` in {threads:#?}"));
        assert_eq!(thread.get("problem"), None, "{thread}");
        assert_eq!(thread["directory"], json!(earlier.path("project")));
        assert_eq!(thread["model"], "fake:m");
        let waits = WAITING.contains(title);
        assert_eq!(thread["questions"].as_array().unwrap().len(), usize::from(waits), "{thread}");
        let id = thread["id"].as_str().unwrap();
        let shown = earlier.stdout(&["threads", "show", id]);
        assert!(shown.contains(title), "{shown}");
        assert_eq!(shown.contains("## A question is waiting"), waits, "{shown}");
        earlier.stdout(&["threads", "export", id, &format!("{id}.json")]);
    }
}

#[test]
fn a_loaded_skill_is_in_sight_with_its_arguments_and_documents_until_it_is_unloaded() {
    let earlier = Earlier::of_0_1();
    let model = earlier.model(vec![Answer::text("High."), Answer::text("Gone.")], "");
    let id = earlier.thread("/tides at Dover");
    let skills = earlier.stdout(&["chat", "--resume", &id, "/skills"]);
    let is_loaded = |text: &str| text.lines().any(|line| line.starts_with("+ tides"));
    assert!(is_loaded(&skills), "{skills}");
    earlier.stdout(&["chat", "--resume", &id, "is it high?"]);
    let before = prompt(&model, 0);
    for text in ["Look up the tide at Dover", "At Calais it is high at one.", "words of a sailor", "kites"] {
        assert!(before.contains(text), "{text}: {before}");
    }
    assert!(!before.contains("At Dover it is high at noon."), "it was not selected: {before}");
    assert!(conversation(&model, 0).contains("High at one."), "{}", conversation(&model, 0));
    earlier.stdout(&["chat", "--resume", &id, "/unload tides"]);
    let skills = earlier.stdout(&["chat", "--resume", &id, "/skills"]);
    assert!(!is_loaded(&skills), "{skills}");
    earlier.stdout(&["chat", "--resume", &id, "and now?"]);
    let after = prompt(&model, 1);
    assert!(!after.contains("Look up the tide") && !after.contains("At Calais"), "{after}");
}

#[test]
fn a_model_goes_on_with_a_skill_that_is_loaded() {
    let earlier = Earlier::of_0_1();
    let model = earlier.model(
        vec![
            Answer::call(
                "skill_select_docs",
                json!({"skill": "tides", "docs": ["references/dover.md"], "mode": "add"}),
            ),
            Answer::call("skill_unload", json!({"skill": "tides"})),
            Answer::text("Done."),
        ],
        "",
    );
    earlier.stdout(&["chat", "--resume", &earlier.thread("/tides at Dover"), "add Dover, then unload"]);
    let [first, second, third] = [0, 1, 2].map(|request| prompt(&model, request));
    assert!(first.contains("At Calais") && !first.contains("At Dover it is"), "{first}");
    assert!(second.contains("At Calais") && second.contains("At Dover it is"), "{second}");
    assert!(!third.contains("At Calais") && !third.contains("Look up the tide"), "{third}");
}

#[test]
fn a_summary_stands_for_what_was_said_and_the_skill_stays() {
    let earlier = Earlier::of_0_1();
    let model = earlier.model(vec![Answer::text("High.")], "");
    let id = earlier.thread("/tides before the summary");
    earlier.stdout(&["chat", "--resume", &id, "is it high?"]);
    let said = conversation(&model, 0);
    assert!(said.contains("They talked about boats.") && said.contains("is it high?"), "{said}");
    assert!(!said.contains("and a boat?"), "{said}");
    let prompt = prompt(&model, 0);
    assert!(
        prompt.contains("Look up the tide before the summary") && prompt.contains("At Calais"),
        "{prompt}"
    );
    let all = earlier.stdout(&["threads", "show", &id]);
    assert!(all.contains("and a boat?"), "people see all of it: {all}");
}

#[test]
fn a_model_that_was_cut_off_is_asked_again() {
    let earlier = Earlier::of_0_1();
    let model = earlier.model(vec![Answer::text("From the beginning."), Answer::text("More.")], "");
    let id = earlier.thread("cut off in the answer");
    assert_eq!(earlier.stdout(&["chat", "--resume", &id]), "From the beginning.\n");
    assert!(conversation(&model, 0).contains("cut off in the answer"));
    assert_eq!(earlier.stdout(&["chat", "--resume", &id, "go on"]), "More.\n");
    let said = conversation(&model, 1);
    assert_eq!(said.matches("cut off in the answer").count(), 1, "{said}");
}

#[test]
fn a_command_that_was_cut_off_is_not_run_again() {
    let earlier = Earlier::of_0_1();
    let model = earlier.model(vec![Answer::text("I look again.")], "");
    let id = earlier.thread("cut off in the run");
    let pty = Pty::start(&earlier, &["chat", "--resume", &id], 110, 40);
    pty.wait_for("I look again.");
    let screen = at_prompt(&pty);
    assert!(!screen.contains("allow it?"), "{screen}");
    let said = conversation(&model, 0);
    assert!(said.contains("interrupted") && said.contains("not known whether it took effect"), "{said}");
}

#[test]
fn a_copy_goes_on_as_well() {
    let earlier = Earlier::of_0_1();
    let model = earlier.model(vec![Answer::text("In the copy."), Answer::text("In the first.")], "");
    let id = earlier.thread("/tides at Dover");
    let mut pty = Pty::start(&earlier, &["chat", "--resume", &id], 110, 40);
    at_prompt(&pty);
    pty.type_line("/fork");
    pty.wait_until("the copy", |screen| screen.contains("> /fork\n") && screen.ends_with("\n>"));
    pty.type_line("go on");
    pty.wait_for("In the copy.");
    at_prompt(&pty);
    pty.type_line("/quit");
    assert_eq!(pty.wait(), Some(0));
    assert!(prompt(&model, 0).contains("Look up the tide at Dover"));
    earlier.stdout(&["chat", "--resume", &id, "go on here"]);
    assert!(!conversation(&model, 1).contains("In the copy."), "{}", conversation(&model, 1));
}

#[test]
fn a_thread_goes_with_its_sub_agent_and_its_files() {
    let earlier = Earlier::of_0_1();
    let _model = earlier.model(Vec::new(), "");
    let spaces = || {
        let entries = std::fs::read_dir(earlier.path(&format!("{STATE}/workspaces"))).unwrap().flatten();
        entries.filter(|entry| entry.path().join("workspace.json").is_file()).count()
    };
    let before = spaces();
    let told = earlier.stdout(&["threads", "rm", "--yes", &earlier.thread("ask somebody else")]);
    assert!(told.contains("1 workspace"), "{told}");
    assert_eq!(spaces(), before - 1, "{told}");
    let left = earlier.threads();
    assert_eq!(left.len(), WAITING.len() + RESTING.len() - 1);
    assert!(left.iter().all(|thread| thread["title"] != "ask somebody else"));
}
