//! Questions that an earlier version stored are asked as they were stored, and the answer is for exactly that call.

use serde_json::{Value, json};

use super::{Earlier, LS_ASKED, PLACE, SKILLS_ASKED, STATE, with_server};
use crate::chat::at_prompt;
use crate::model::{Answer, FakeModel};
use crate::pty::Pty;

/// A thread that waits for an answer.
struct Waiting<'a> {
    /// What was said in it first.
    title: &'a str,
    /// The configuration that it was begun with.
    rules: String,
    /// What a person has to see before answering.
    shown: &'a [&'a str],
    /// What the model reads once the call was made.
    told: &'a str,
    /// How often the call was made.
    made: fn(&Earlier) -> usize,
    /// More answers of the model, before its last.
    answers: fn() -> Vec<Answer>,
}

impl Default for Waiting<'_> {
    fn default() -> Self {
        Self { title: "", rules: String::new(), shown: &[], told: "", made: runs, answers: Vec::new }
    }
}

impl Waiting<'_> {
    fn model(&self, earlier: &Earlier, last: &str) -> FakeModel {
        let mut answers = (self.answers)();
        answers.push(Answer::text(last));
        earlier.model(answers, &self.rules)
    }

    /// The question stays while nobody answers. It is answered with a yes, with `--yes` and with a no.
    fn is_answered(&self) {
        self.stays_and_is_allowed();
        self.is_allowed_by_option();
        self.is_rejected();
    }

    fn stays_and_is_allowed(&self) {
        let earlier = Earlier::of_0_1();
        let model = self.model(&earlier, "Done.");
        let id = earlier.thread(self.title);
        let output = earlier.output(&["chat", "--resume", &id, "--json"]);
        assert_eq!(output.status.code(), Some(1), "{}", earlier.told(&output));
        let questions = events(&output, "question");
        assert_eq!(questions.len(), 1, "{}", earlier.told(&output));
        for text in self.shown {
            assert!(questions[0].to_string().contains(text), "{text}: {}", questions[0]);
        }
        assert_eq!(earlier.questions(&id).len(), 1);
        assert_eq!((model.requests().len(), (self.made)(&earlier)), (0, 0));

        let pty = Pty::start(&earlier, &["chat", "--resume", &id], 160, 60);
        let screen = pty.wait_for("allow it?");
        for text in self.shown {
            assert!(screen.contains(text), "{text}:\n{screen}");
        }
        pty.type_line("y");
        pty.wait_for("Done.");
        let screen = at_prompt(&pty);
        assert_eq!(screen.matches("allow it?").count(), 1, "it is asked once:\n{screen}");
        self.is_made(&earlier, &model);
    }

    fn is_allowed_by_option(&self) {
        let earlier = Earlier::of_0_1();
        let model = self.model(&earlier, "Done.");
        let id = earlier.thread(self.title);
        let output = earlier.output(&["chat", "--resume", &id, "--yes", "--json"]);
        assert_eq!(output.status.code(), Some(0), "{}", earlier.told(&output));
        assert_eq!(events(&output, "replied").len(), 1, "{}", earlier.told(&output));
        self.is_made(&earlier, &model);
        assert_eq!(earlier.questions(&id), Vec::<Value>::new());
    }

    fn is_made(&self, earlier: &Earlier, model: &FakeModel) {
        let told = last(model);
        assert!(told.contains(self.told), "{}: {told}", self.told);
        assert_eq!((self.made)(earlier), 1, "{}: {told}", self.title);
    }

    fn is_rejected(&self) {
        let earlier = Earlier::of_0_1();
        let model =
            earlier.model(vec![Answer::text("I leave it."), Answer::text("I leave it.")], &self.rules);
        let id = earlier.thread(self.title);
        let pty = Pty::start(&earlier, &["chat", "--resume", &id], 160, 60);
        pty.wait_for("allow it?");
        pty.type_line("n not today");
        pty.wait_for("I leave it.");
        let screen = at_prompt(&pty);
        assert_eq!(screen.matches("allow it?").count(), 1, "{screen}");
        let requests = model.requests();
        assert!(requests[0]["messages"].to_string().contains("not today"), "{}", requests[0]);
        assert_eq!((self.made)(&earlier), 0, "{}", self.title);
        drop(pty);
        assert_eq!(earlier.questions(&id), Vec::<Value>::new());
    }
}

/// The events of this type that a run prints.
fn events(output: &std::process::Output, kind: &str) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let all = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.filter(|event| event["type"] == kind).collect()
}

/// What the model was sent since its last response.
fn last(model: &FakeModel) -> String {
    let request = model.requests().pop().unwrap();
    let messages = request["messages"].as_array().unwrap();
    let new = messages.iter().rev().take_while(|message| message["role"] != "assistant");
    new.map(|message| message["content"].to_string()).collect()
}

/// How often the command ran: each time it leaves a line in a workspace.
fn runs(earlier: &Earlier) -> usize {
    let workspaces = std::fs::read_dir(earlier.path(&format!("{STATE}/workspaces"))).unwrap().flatten();
    let left = workspaces.map(|workspace| workspace.path().join("ws/out/ran.txt"));
    left.filter_map(|file| std::fs::read_to_string(file).ok()).map(|text| text.lines().count()).sum()
}

/// Whether the file was written.
fn writes(earlier: &Earlier) -> usize {
    let written = std::fs::read_to_string(earlier.path("project/new.txt"));
    written.map_or(0, |text| usize::from(text == "Tuesday: windy\n"))
}

const COMMAND: &str = "echo it ran | tee -a $OUTPUT_DIR/ran.txt";

#[test]
fn about_a_skill() {
    Waiting {
        title: "load the tides",
        rules: SKILLS_ASKED.to_owned(),
        shown: &["tides", "/tmp/prowess-earlier/home/.prowess/skills/tides"],
        told: "Look up the tide",
        made: |earlier| usize::from(earlier.said("load the tides").contains("Look up the tide")),
        ..Waiting::default()
    }
    .is_answered();
}

#[test]
fn a_skill_that_is_allowed_is_in_sight_with_its_documents() {
    let earlier = Earlier::of_0_1();
    let model = earlier.model(vec![Answer::text("Done.")], SKILLS_ASKED);
    earlier.stdout(&["chat", "--resume", &earlier.thread("load the tides"), "--yes"]);
    let prompt = model.requests()[0]["messages"].to_string();
    assert!(
        prompt.contains("Look up the tide") && prompt.contains("At Dover it is high at noon."),
        "{prompt}"
    );
}

#[test]
fn about_a_run() {
    let shown = &[COMMAND, "tides", "PLACE", "Dover"];
    Waiting { title: "run the script", shown, told: "it ran", ..Waiting::default() }.is_answered();
}

#[test]
fn about_a_run_of_a_sub_agent() {
    Waiting {
        title: "ask somebody else",
        shown: &[COMMAND, "general-purpose"],
        told: "The sub-agent saw it.",
        answers: || vec![Answer::text("The sub-agent saw it.").when(is_of_task)],
        ..Waiting::default()
    }
    .is_answered();
}

fn is_of_task(body: &Value) -> bool {
    let said = body["messages"].to_string();
    said.contains("Look it up.") && !said.contains("ask somebody else")
}

#[test]
fn about_a_command_to_type_into() {
    Waiting {
        title: "type into it",
        shown: &["read line; echo read $line", "type"],
        told: "session_id",
        made: |earlier| usize::from(earlier.said("type into it").contains("session_id")),
        ..Waiting::default()
    }
    .is_answered();
}

/// What was allowed before the thread was left is not asked again.
#[test]
fn about_a_file_for_a_run_that_is_allowed() {
    let shown = &["/tmp/prowess-earlier/home/notes.txt"];
    Waiting { title: "run it with my notes", shown, told: "it ran", ..Waiting::default() }.is_answered();
}

#[test]
fn about_a_run_of_a_skill_that_is_allowed() {
    Waiting {
        title: "run it unloaded",
        rules: SKILLS_ASKED.to_owned(),
        shown: &[COMMAND],
        told: "it ran",
        ..Waiting::default()
    }
    .is_answered();
}

#[test]
fn about_a_new_file() {
    let shown = &["/tmp/prowess-earlier/project/new.txt", "Tuesday: windy"];
    Waiting { title: "write the log", shown, told: "new.txt", made: writes, ..Waiting::default() }
        .is_answered();
}

#[test]
fn about_a_change_of_a_file() {
    Waiting {
        title: "edit the log",
        shown: &["/tmp/prowess-earlier/project/log.txt", "calm", "rough"],
        told: "log.txt",
        made: |earlier| {
            let text = std::fs::read_to_string(earlier.path("project/log.txt")).unwrap();
            usize::from(text == "Monday: rough\n")
        },
        ..Waiting::default()
    }
    .is_answered();
}

#[test]
fn about_any_tool() {
    Waiting {
        title: "list the files",
        rules: LS_ASKED.to_owned(),
        shown: &["ls"],
        told: "/project/",
        made: |earlier| usize::from(earlier.said("list the files").contains("/project/")),
        ..Waiting::default()
    }
    .is_answered();
}

#[test]
fn about_a_tool_of_a_server() {
    Waiting {
        title: "ask the server",
        rules: with_server(),
        shown: &["pier", "depth", "Says how deep the water is.", "Dover"],
        told: "four fathoms",
        made: |earlier| {
            let called = std::fs::read_to_string(earlier.path("home/called.txt"));
            called.map_or(0, |text| text.lines().count())
        },
        ..Waiting::default()
    }
    .is_answered();
}

/// A load that was answered has no effect before all calls of its message are answered.
#[test]
fn beside_a_load_that_is_done() {
    let waiting = || Waiting {
        title: "load and write",
        shown: &["/tmp/prowess-earlier/project/new.txt"],
        told: "new.txt",
        made: writes,
        ..Waiting::default()
    };
    waiting().is_answered();
    for answer in ["y", "n not today"] {
        let earlier = Earlier::of_0_1();
        let model = waiting().model(&earlier, "Done.");
        let pty = Pty::start(&earlier, &["chat", "--resume", &earlier.thread("load and write")], 160, 60);
        pty.wait_for("allow it?");
        pty.type_line(answer);
        pty.wait_for("Done.");
        let prompt = model.requests()[0]["messages"].to_string();
        assert!(prompt.contains("Look up the tide") && prompt.contains("At Dover"), "{answer}: {prompt}");
    }
}

/// A yes is for what the question was about. If that is another by now, it is asked about.
#[test]
fn about_what_has_changed_since() {
    for (title, rules, file, text) in [
        (
            "load the tides",
            SKILLS_ASKED,
            "SKILL.md",
            "---\nname: tides\ndescription: Looks up tides. Use before boat trips.\n---\n\nScuttle the boat.\n",
        ),
        ("run the script", "", "scripts/tides.sh", "echo low\n"),
    ] {
        let earlier = Earlier::of_0_1();
        earlier.file(&format!("home/.prowess/skills/tides/{file}"), text);
        let model = earlier.model(vec![Answer::text("I leave it.")], rules);
        let pty = Pty::start(&earlier, &["chat", "--resume", &earlier.thread(title)], 160, 60);
        pty.wait_for("allow it?");
        pty.type_line("y");
        pty.wait_until("another question", |screen| screen.matches("allow it?").count() == 2);
        assert_eq!((model.requests().len(), runs(&earlier)), (0, 0), "{title}");
        pty.type_line("n not today");
        pty.wait_for("I leave it.");
        let request = &model.requests()[0];
        assert!(!request.to_string().contains("Scuttle the boat."), "{request}");
        assert_eq!(runs(&earlier), 0);
    }
}

/// "Always" records what the stored question offered.
#[test]
fn answered_for_good() {
    let again = || Answer::call("write_file", json!({"file_path": "/new.txt", "content": "once more\n"}));
    let load = || Answer::call("skill_load", json!({"skill": "tides"}));
    for (title, rules, offered, again) in [
        ("write the log", "", format!("{PLACE}/project/new.txt"), again as fn() -> Answer),
        ("load the tides", SKILLS_ASKED, "tides".to_owned(), load as fn() -> Answer),
    ] {
        let earlier = Earlier::of_0_1();
        let model = earlier.model(vec![Answer::text("Done."), again(), Answer::text("Again.")], rules);
        let mut pty = Pty::start(&earlier, &["chat", "--resume", &earlier.thread(title)], 160, 60);
        let screen = pty.wait_for("allow it?");
        let (_, always) = screen.split_once("a always:").unwrap_or_else(|| panic!("{screen}"));
        assert!(always.lines().next().unwrap().contains(&offered), "{screen}");
        pty.type_line("a");
        pty.wait_for("Done.");
        at_prompt(&pty);
        pty.type_line("/quit");
        assert_eq!(pty.wait(), Some(0));
        assert_eq!(earlier.stdout(&["chat", "the same in another thread"]), "Again.\n", "{title}");
        assert_eq!(model.requests().len(), 3);
    }
}
