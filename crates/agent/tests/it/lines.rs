//! The example that speaks JSON on lines, driven as another program would.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

const SCRIPT: &str = r#"
follow = "answers"

[[turn]]
calls = [{ tool = "load_skill", arguments = { skill_name = "sums" } }]

[[turn]]
expect = { last = "Add them." }
calls = [{ tool = "skill_run", arguments = { skill = "sums", command = "echo $((20 + 22))" } }]

[[turn]]
expect = { last = "42" }
calls = [{ tool = "write_file", arguments = { file_path = "/sum.txt", content = "42" } }]

[[turn]]
calls = [{ tool = "unload_skill", arguments = { skill_name = "sums" } }]

[[turn]]
say = "It is 42."
piece = 4

[[turn]]
say = "Bye."
"#;

struct Program {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Program {
    fn start(place: &Path) -> Self {
        let tests = std::env::current_exe().unwrap();
        let program = tests.parent().unwrap().parent().unwrap().join("examples/lines");
        let mut child = Command::new(program)
            .args([&place.join("store"), &place.join("skills")])
            .arg("talk")
            .arg(format!("script:{}", place.join("script.toml").display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn send(&mut self, line: &Value) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// All lines until one that has this.
    fn until(&mut self, name: &str) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let line = self.lines.next().unwrap_or_else(|| panic!("no `{name}`: {all:?}")).unwrap();
            all.push(serde_json::from_str::<Value>(&line).unwrap());
            let last = &all[all.len() - 1];
            if last.get(name).is_some() {
                return all;
            }
            assert!(last.get("ended").or(last.get("question")).is_none(), "no `{name}`: {all:?}");
        }
    }

    fn last(&mut self, name: &str) -> Value {
        self.until(name).pop().unwrap()
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Of use only where a test fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A load, a run that a person is asked about, a death while the question is open, the answer, an unload and a restart.
#[test]
fn a_conversation_goes_on_in_other_processes() {
    let scratch = tempfile::tempdir().unwrap();
    let place = scratch.path();
    std::fs::set_permissions(place, PermissionsExt::from_mode(0o711)).unwrap();
    std::fs::create_dir_all(place.join("skills/sums")).unwrap();
    let manifest = "---\nname: sums\ndescription: Adds numbers.\n---\nAdd them.\n";
    std::fs::write(place.join("skills/sums/SKILL.md"), manifest).unwrap();
    std::fs::write(place.join("script.toml"), SCRIPT).unwrap();

    let mut first = Program::start(place);
    first.send(&json!({"say": "What is 20 and 22?"}));
    let asked = first.last("question");
    let title = asked["question"]["words"]["title"].as_str().unwrap();
    assert_eq!(title, "run in skill 'sums': echo $((20 + 22))");
    first.send(&json!({"skills": {}}));
    assert_eq!(first.last("skills"), json!({"skills": ["sums"]}));
    first.send(&json!({"say": "Well?"}));
    assert!(first.last("error")["error"].is_string(), "the turn is not over");
    first.end();

    let mut second = Program::start(place);
    let again = second.last("question");
    assert_eq!(again, asked, "after a restart it asks the same");
    let answer = |number: &Value| json!({"answer": {"call": asked["question"]["call"], "number": number, "reply": "approve"}});
    second.send(&answer(&json!(0)));
    assert_eq!(second.last("error"), json!({"error": "nobody waits for this answer"}));
    second.send(&answer(&asked["question"]["number"]));
    let all = second.until("ended");
    assert_eq!(all[all.len() - 1], json!({"ended": {"outcome": "answered"}}));
    let said: String = all.iter().filter_map(|line| line["text"].as_str()).collect();
    assert_eq!(said, "It is 42.");
    let is_result = |line: &&Value| line["event"]["event"] == "tool_answered";
    let ran = all.iter().find(is_result).and_then(|line| line["event"]["text"].as_str()).unwrap();
    assert!(ran.contains("42"), "{ran}");
    second.send(&json!({"skills": {}}));
    assert_eq!(second.last("skills"), json!({"skills": []}));
    second.end();

    let mut third = Program::start(place);
    third.send(&json!({"files": {}}));
    assert_eq!(third.until("files"), [json!({"files": ["/sum.txt"]})], "nothing is open");
    third.send(&json!({"say": "Thanks."}));
    assert!(third.until("ended").contains(&json!({"text": "Bye."})));
    third.end();
}
