//! What a person or a model reads when something is asked or refused.

use std::time::Duration;

use prowess_permission::action::{Channel, CopyAction, CopyPreview, ReplacedFile, RunAction, RunActionInput};
use prowess_permission::broker::ReplyError;
use prowess_permission::question::Note;
use prowess_permission::{Action, Kind, Permissions, Policy, Question, RealPath, Refusal, owned_subject};
use serde_json::{Value, json};

use crate::{USER, deny, run};

#[tokio::test]
async fn refusals_say_what_and_what_to_do() {
    let nobody = |kind: &str, subjects: &[&str]| Refusal::NobodyToAsk {
        kind: Kind::parse(kind).unwrap(),
        subjects: subjects.iter().map(ToString::to_string).collect(),
        each_time: false,
    };
    let rejected = |message: &str| Refusal::Rejected { message: Some(message.to_owned()) };
    let session = Permissions::unattended(Policy::new().rules(USER, deny("skill", "secret-{x,y} *")));
    let denied = session.request(Question::new(Kind::SKILL, "secret-{x,y}")).await.unwrap_err();
    let refusals = [
        denied,
        nobody("run", &["git push"]),
        nobody("run", &["echo \"*\" \\ \n?"]),
        nobody("run", &["make", "make test"]),
        nobody("my.kind", &["x"]),
        nobody("run", &[&"long ".repeat(100)]),
        nobody("run", &[]),
        rejected("use `make`\n  instead\u{1b}[2J"),
        rejected(" \n"),
        Refusal::Rejected { message: None },
        Refusal::TimedOut {
            kind: Kind::RUN,
            subjects: vec!["make".to_owned()],
            after: Duration::from_secs(90),
        },
        Refusal::Cancelled,
    ];
    let lines: Vec<String> =
        refusals.iter().map(|refusal| format!("{}: {refusal}", refusal.code())).collect();
    assert!(lines.iter().all(|line| !line.contains(char::is_control)), "one line each");
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_reply_that_had_no_effect_says_why() {
    let id = "00000000000000aa-3".parse().unwrap();
    insta::assert_snapshot!(ReplyError::NotWaiting { id }, @"question 00000000000000aa-3 no longer waits for a reply; somebody replied, or it was refused or withdrawn");
    let refusal = Refusal::Denied { kind: Kind::RUN, subject: "rm x".to_owned(), rule: None };
    insta::assert_snapshot!(ReplyError::Denied { refusal }, @"the reply had no effect: Permission denied: run 'rm x' is denied by a rule.");
}

#[test]
fn a_question_has_a_line_for_the_person() {
    assert_eq!(run("make test").wording().title, "run make test");
    let other = Action::Other { title: "Build it".to_owned(), details: [].into() };
    assert_eq!(run("make").action(other).wording().title, "Build it");
}

fn text(name: &str) -> String {
    name.to_owned()
}

/// One question about each action. Add every new action here.
fn each() -> Vec<Question> {
    let place = || RealPath::known("/p/notes.md".as_ref(), "/p/notes.md".as_ref(), false);
    let load = Action::LoadSkill {
        skill: text("pdf"),
        location: text("/s/pdf/SKILL.md"),
        origin: text("project"),
        digest: Some(text("sha256:aa")),
        arguments: Some(text("june.pdf")),
    };
    let server = Action::LoadServerSkill {
        skill: text("docs:pdf"),
        server: text("docs"),
        uri: text("skill://pdf/SKILL.md"),
        description: text("Reads PDF."),
        files: 3,
        bytes: 1200,
        digest: text("sha256:bb"),
        arguments: None,
        server_skills: vec![text("'a:b' of a")],
    };
    let whole_run = RunAction {
        skill: text("kit"),
        command: text("make\nrm -r /"),
        cwd: Some(text("scripts")),
        env: [(text("A"), text("b"))].into(),
        stdin: Some(text("in")),
        inputs: vec![RunActionInput { from: text("host:///x"), to: Some(text("work/x")), is_link: true }],
        output_files: vec![text("out/*")],
        outputs: Some(text("{\"globs\":[\"out/**\"]}")),
        network: vec![text("example.com")],
        timeout: Some(30),
        save_as_artifacts: true,
        omit_inline_content: true,
        artifact_prefix: Some(text("june/")),
        channel: Some(Channel::Terminal),
        because_of: vec![text("docs:pdf")],
        given: vec![text("/home/ada/site/"), text("/home/ada/plan.json")],
        left_out: vec![text("/home/ada/site/.env")],
        writable: vec![text("/home/a/site/dist")],
        real_paths: [(text("scripts"), text("/home/ada/site/scripts"))].into(),
    };
    let mut noted = Question::new(Kind::RUN, owned_subject("kit", "make"))
        .action(RunAction { skill: text("kit"), command: text("make"), ..RunAction::default() })
        .binding("v2:cc");
    noted.note = Some(Note::ApprovedByEarlierVersion);
    let edit = |difference: Option<&str>| Action::EditFile {
        old_string: text("a"),
        new_string: text("b"),
        replace_all: true,
        difference: difference.map(text),
        lines: difference.map(text),
    };
    let because_of = || vec![text("docs:pdf")];
    let all = vec![
        Question::new(Kind::RUN, "make"),
        Question::about_file(Kind::READ, place()),
        Question::new(Kind::SKILL, "pdf").binding("sha256:aa").action(load),
        Question::new(Kind::MCP_SKILL, "docs:pdf").action(server).each_time(),
        Question::new(Kind::MCP_SKILL, "docs:x").always([]).action(Action::LookUpSkill {
            server: text("docs"),
            name: text("x"),
            server_skills: vec![],
        }),
        Question::new(Kind::MCP_SKILL, "docs:pdf").action(Action::ReadDocuments {
            skill: text("docs:pdf"),
            server: text("docs"),
            documents: Some(vec![text("a.md")]),
            server_skills: vec![text("'a:b' of a")],
        }),
        Question::new(Kind::RUN, owned_subject("kit", "make")).action(whole_run).each_time(),
        noted,
        Question::new(Kind::RUN, owned_subject("kit-1", "type y")).each_time().action(Action::TypeIntoRun {
            run_id: text("kit-1"),
            typed: text("y\n"),
            because_of: because_of(),
        }),
        Question::new(Kind::NETWORK, "example.com").action(Action::ReachHost {
            skill: text("kit"),
            command: text("make"),
            host: text("example.com"),
        }),
        Question::about_file(Kind::READ, place()).always([]).action(Action::AddInput {
            skill: text("kit"),
            command: text("make"),
            is_directory: true,
            with_secrets: vec![text("/p/.env")],
        }),
        Question::about_file(Kind::WRITE, place()).action(Action::WriteFile { content: text("- tides\n") }),
        Question::about_file(Kind::WRITE, place()).action(edit(None)),
        Question::about_file(Kind::WRITE, place()).action(edit(Some("@@ -1 +1 @@\n-a\n+b\n"))),
        Question::about_file(Kind::WRITE, place()).always([]).action(CopyAction {
            from: text("/w/out/a.txt"),
            bytes: 9,
            digest: text("aa"),
            replaces: None,
            shown: CopyPreview::Text { text: text("high\ntide\n"), left_out: 7 },
        }),
        Question::about_file(Kind::WRITE, place()).always([]).action(CopyAction {
            from: text("/w/out/a.txt"),
            bytes: 9,
            digest: text("aa"),
            replaces: Some(ReplacedFile { bytes: 8, digest: text("bb") }),
            shown: CopyPreview::Difference { diff: text("@@ -1 +1 @@\n-low\n+high\n tide\n"), left_out: 0 },
        }),
        Question::about_file(Kind::WRITE, place()).always([]).action(CopyAction {
            from: text("/w/out/a.png"),
            bytes: 9000,
            digest: text("cc"),
            replaces: None,
            shown: CopyPreview::Data { what: text("PNG image") },
        }),
        Question::new(Kind::RUN, "ls")
            .each_time()
            .action(Action::Execute { command: text("ls"), because_of: because_of() }),
        Question::new(Kind::TOOL, "write_todos")
            .action(Action::CallTool { tool: text("write_todos"), arguments: text("{\"todos\":[]}") }),
        Question::new(Kind::MCP, owned_subject("docs", "find")).binding("dd").action(
            Action::CallServerTool {
                server: text("docs"),
                tool: text("find"),
                description: text("Finds."),
                arguments: json!({"q": "x"}).as_object().unwrap().clone(),
                because_of: because_of(),
            },
        ),
        Question::new(Kind::TOOL, "ring").action(Action::Other {
            title: text("May I ring?"),
            details: [(text("bell"), text("the big one"))].into(),
        }),
    ];
    all
}

#[test]
fn every_action_in_words() {
    let lines = each().into_iter().map(|question| serde_json::to_string_pretty(&question.wording()).unwrap());
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_question_that_was_stored_is_the_same_question() {
    for question in each() {
        let stored = serde_json::to_value(&question).unwrap();
        assert_eq!(stored["version"], 2);
        let read: Question = serde_json::from_value(stored).unwrap();
        assert_eq!(read, question);
        assert_eq!(read.fingerprint(), question.fingerprint());
    }
    let mut later = serde_json::to_value(run("make")).unwrap();
    later["version"] = json!(3);
    let error = serde_json::from_value::<Question>(later).unwrap_err().to_string();
    assert!(error.contains("update prowess"), "{error}");
}

/// As the version before this one stored them; the fingerprints are those that it wrote.
#[test]
fn questions_of_version_1_are_read_as_they_were_stored() {
    let request = json!({"kind": "write", "patterns": ["/p/a.txt"], "always": ["/p/a.txt"], "binding": "real path",
        "title": "write /p/a.txt", "details": {"content": "x\n", "append": false}});
    let value = json!({"title": "write /p/a.txt", "kind": "write", "subjects": ["/p/a.txt"], "request": request,
        "details": request["details"], "fingerprint": "x", "allowed": []});
    let question: Question = serde_json::from_value(value).unwrap();
    assert_eq!((question.kind.as_str(), &question.subjects[..]), ("write", &["/p/a.txt".to_owned()][..]));
    let wording = question.wording();
    assert_eq!(wording.title, "write /p/a.txt");
    assert_eq!(wording.details.iter().map(|detail| detail.text.as_str()).collect::<Vec<_>>(), ["x\n"]);
    assert_eq!(wording.always, ["write \"/p/a.txt\""]);
    // The same asked by this version has the same fingerprint.
    let place = RealPath::known("/p/a.txt".as_ref(), "/p/a.txt".as_ref(), false);
    let now = Question::about_file(Kind::WRITE, place).action(Action::WriteFile { content: text("x\n") });
    let plain: Question =
        serde_json::from_value(json!({"request": {"kind": "write", "patterns": ["/p/a.txt"],
        "always": [], "binding": "real path", "title": "", "details": {"content": "x\n"}}}))
        .unwrap();
    assert_eq!(plain.fingerprint(), now.fingerprint());
    let of_tool: Question =
        serde_json::from_value(json!({"title": "call 'ring'", "tool": "ring", "arguments": "{}"})).unwrap();
    assert_eq!(of_tool.wording().always, ["tool \"ring\""]);
    let own: Question = serde_json::from_value(json!({"title": "May I ring?", "bell": 3})).unwrap();
    assert_eq!((own.wording().title.as_str(), own.wording().always.len()), ("May I ring?", 0));
    assert_eq!(own.wording().details[0].text, "3");
    assert_eq!(serde_json::from_value::<Question>(Value::Null).unwrap().wording().title, "go on?");
}
