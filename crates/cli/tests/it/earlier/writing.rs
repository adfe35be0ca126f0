//! Writes fixtures with the version that this test is built from.
//!
//! A version's fixtures are written once, before what it stores is changed, and are never touched again:
//!
//! ```sh
//! PROWESS_FIXTURES=/tmp/new cargo test -p prowess --test it -- --ignored --exact earlier::writing::fixtures
//! ```
//!
//! Then the files in `/tmp/new` go to `crates/cli/tests/fixtures/VERSION`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Earlier, LS_ASKED, PLACE, SERVER, SKILLS_ASKED, STATE, WORKSPACES, with_server};
use crate::chat::{at_prompt, eventually, is_running};
use crate::model::{Answer, number_calls_from};
use crate::pty::Pty;

/// The skills and files that the conversations are about.
fn furnish(earlier: &Earlier) {
    earlier
        .file(
            "home/.prowess/skills/tides/SKILL.md",
            "---\nname: tides\ndescription: Looks up tides. Use before boat trips.\n---\n\nLook up the tide $ARGUMENTS with scripts/tides.sh.\n",
        )
        .file("home/.prowess/skills/tides/references/dover.md", "At Dover it is high at noon.\n")
        .file("home/.prowess/skills/tides/references/calais.md", "At Calais it is high at one.\n")
        .file("home/.prowess/skills/tides/scripts/tides.sh", "echo high\n")
        .file(
            "project/.prowess/skills/kites/SKILL.md",
            "---\nname: kites\ndescription: Builds kites. Use on windy days.\n---\n\nTie the knots.\n",
        )
        .file("project/AGENTS.md", "Answer in the words of a sailor.\n")
        .file("project/log.txt", "Monday: calm\n")
        .file("home/notes.txt", "Mind the pier.\n")
        .file("pier.sh", SERVER);
}

/// A run that leaves a line in a file each time.
fn run(more: &Value) -> Answer {
    let mut call = json!({"skill": "tides", "command": "echo it ran | tee -a $OUTPUT_DIR/ran.txt"});
    call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Answer::call("skill_run", call)
}

/// Says this, and leaves while a question is waiting.
fn waits(earlier: &Earlier, prompt: &str, more: &str, answers: Vec<Answer>) {
    let _model = earlier.model(answers, more);
    let output = earlier.output(&["chat", prompt]);
    assert_eq!(output.status.code(), Some(1), "{}", earlier.told(&output));
    assert!(earlier.told(&output).contains("a question is waiting"), "{}", earlier.told(&output));
}

/// Says this, allows what is asked first, and leaves at the second question.
fn waits_again(earlier: &Earlier, prompt: &str, more: &str, answers: Vec<Answer>) {
    let _model = earlier.model(answers, more);
    let mut pty = begun(earlier);
    pty.type_line(prompt);
    pty.wait_for("allow it?");
    pty.type_line("y");
    pty.wait_until("the second question", |screen| screen.matches("allow it?").count() == 2);
    pty.press("\x04");
    pty.wait();
}

fn begun(earlier: &Earlier) -> Pty {
    let pty = Pty::start(earlier, &["chat"], 100, 60);
    at_prompt(&pty);
    pty
}

/// Says something, and waits for the answer.
fn said(pty: &Pty, line: &str, answer: &str) {
    pty.type_line(line);
    pty.wait_for(answer);
    at_prompt(pty);
}

fn left(mut pty: Pty) {
    pty.type_line("/quit");
    assert_eq!(pty.wait(), Some(0));
}

fn questions(earlier: &Earlier) {
    let load = || Answer::call("skill_load", json!({"skill": "tides", "docs": ["references/dover.md"]}));
    let write = json!({"file_path": "/new.txt", "content": "Tuesday: windy\n"});
    let edit = json!({"file_path": "/log.txt", "old_string": "calm", "new_string": "rough"});
    let of_task = |body: &Value| {
        let said = body["messages"].to_string();
        said.contains("Look it up.") && !said.contains("ask somebody else")
    };
    waits(earlier, "load the tides", SKILLS_ASKED, vec![load()]);
    waits(earlier, "run the script", "", vec![run(&json!({"env": {"PLACE": "Dover"}}))]);
    waits(earlier, "write the log", "", vec![Answer::call("write_file", write.clone())]);
    waits(earlier, "edit the log", "", vec![Answer::call("edit_file", edit)]);
    waits(earlier, "list the files", LS_ASKED, vec![Answer::call("ls", json!({"path": "/"}))]);
    waits(earlier, "load and write", "", vec![load().and_call("write_file", write)]);
    let typed =
        json!({"skill": "tides", "command": "read line; echo read $line | tee -a $OUTPUT_DIR/ran.txt"});
    waits(earlier, "type into it", "", vec![Answer::call("skill_exec", typed)]);
    let depth = Answer::call("pier__depth", json!({"place": "Dover"}));
    waits(earlier, "ask the server", &with_server(), vec![depth]);
    let task = json!({"description": "Look it up.", "subagent_type": "general-purpose"});
    waits(earlier, "ask somebody else", "", vec![Answer::call("task", task), run(&json!({})).when(of_task)]);
    let notes = json!({"inputs": [{"from": format!("host://{PLACE}/home/notes.txt")}]});
    waits_again(earlier, "run it with my notes", "", vec![run(&notes)]);
    waits_again(earlier, "run it unloaded", SKILLS_ASKED, vec![run(&json!({}))]);
}

/// Conversations without a question: with a skill, shortened, and cut off.
fn conversations(earlier: &Earlier) {
    let select =
        || Answer::call("skill_select_docs", json!({"skill": "tides", "docs": ["references/calais.md"]}));
    let _model = earlier.model(vec![select(), Answer::text("High at one.")], "");
    let pty = begun(earlier);
    said(&pty, "/tides at Dover", "High at one.");
    left(pty);

    let summary = Answer::text("They talked about boats.");
    let answers = vec![select(), Answer::text("One."), Answer::text("Two."), summary];
    let _model = earlier.model(answers, "");
    let pty = begun(earlier);
    said(&pty, "/tides before the summary", "One.");
    said(&pty, "and a boat?", "Two.");
    said(&pty, "/compact", "summar");
    left(pty);

    let model = earlier.model(vec![Answer::hang()], "");
    let mut pty = begun(earlier);
    pty.type_line("cut off in the answer");
    model.wait_for_requests(1);
    pty.kill();

    let seconds = format!("9{}", std::process::id());
    let call = json!({"skill": "tides", "command": format!("sleep {seconds}")});
    let _model = earlier.model(vec![Answer::call("skill_run", call)], "");
    let mut pty = begun(earlier);
    pty.type_line("cut off in the run");
    pty.wait_for("allow it?");
    pty.type_line("y");
    eventually("the command to run", || is_running(&seconds));
    pty.kill();
    eventually("the command to be gone", || !is_running(&seconds));
}

/// An artifact, and approvals for good: of a run, of a skill, of a file and of a tool.
fn kept(earlier: &Earlier) {
    let outputs = json!({"globs": ["out/tide.txt"], "save": true});
    let saves = json!({"skill": "tides", "command": "sh scripts/tides.sh > $OUTPUT_DIR/tide.txt", "outputs": outputs});
    let _model = earlier.model(vec![Answer::call("skill_run", saves), Answer::text("Kept.")], "");
    earlier.stdout(&["chat", "--yes", "keep the tide"]);

    let answers = vec![
        Answer::call("skill_load", json!({"skill": "kites"})),
        Answer::call("skill_run", json!({"skill": "kites", "command": "echo a kite"})),
        Answer::call("write_file", json!({"file_path": "/kite.txt", "content": "red\n"})),
        Answer::call("ls", json!({"path": "/"})),
        Answer::text("All of it."),
    ];
    let _model = earlier.model(answers, &format!("{SKILLS_ASKED}{LS_ASKED}"));
    let pty = begun(earlier);
    pty.type_line("always");
    for questions in 1..=4 {
        pty.wait_until("a question", |screen| screen.matches("allow it?").count() == questions);
        pty.type_line("a");
    }
    pty.wait_for("All of it.");
    at_prompt(&pty);
    left(pty);
}

#[test]
#[ignore = "writes files that are written once for a version"]
fn fixtures() {
    let target = std::env::var("PROWESS_FIXTURES").expect("PROWESS_FIXTURES names a directory to be made");
    // Tests that go on with these threads number their calls from one.
    number_calls_from(1000);
    let earlier = Earlier::empty();
    furnish(&earlier);
    earlier.stdout(&["trust", "--yes"]);
    questions(&earlier);
    conversations(&earlier);
    kept(&earlier);
    // It names the model of this process, and every test writes its own.
    std::fs::remove_file(earlier.path("home/.config/prowess/prowess.toml")).unwrap();
    let state = earlier.path("home/session.json");
    let state = state.to_str().unwrap();
    let load = ["-c", "load tides at Dover", "-c", "select tides replace references/dover.md"];
    earlier.stdout(&[&["session", "--state", state][..], &load].concat());
    // A thread that was killed is its process's for some seconds more.
    #[expect(clippy::disallowed_methods, reason = "a lease ends by the clock")]
    std::thread::sleep(Duration::from_secs(8));
    let listed = earlier.json(&["threads", "list", "--json"]);
    assert_eq!(listed.as_array().unwrap().len(), 17, "{listed:#}");
    assert!(!earlier.path(&format!("{STATE}/threads.db-wal")).exists(), "all of it is in the one file");
    pack(Path::new(&target));
}

/// Copies what is there to a new directory. Workspaces become an archive: they have links, modes and empty directories,
/// which version control does not keep.
fn pack(target: &Path) {
    let run = |program: &str, args: &[&str]| {
        let ran = Command::new(program).args(args).current_dir(PLACE).status();
        assert!(ran.unwrap().success(), "{program} {args:?}");
    };
    run("cp", &["-a", PLACE, target.to_str().unwrap()]);
    let archive = target.join(WORKSPACES);
    let whose = ["--owner=user:1000", "--group=user:1000", "--sort=name"];
    run("tar", &[&["-czf", archive.to_str().unwrap(), "-C", STATE][..], &whose, &["workspaces"]].concat());
    let packed = target.join(STATE).join("workspaces");
    run("chmod", &["-R", "u+rwx", packed.to_str().unwrap()]);
    std::fs::remove_dir_all(packed).unwrap();
}
