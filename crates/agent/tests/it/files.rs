//! File tools, as a model meets them.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use prowess_agent::middleware::Files;
use prowess_agent::tool::ToolSelection;
use prowess_agent::{
    Agent, AgentBuilder, CallReply, MemoryThreads, NoWatcher, ThreadId, TurnOutcome, TurnStatus,
};
use prowess_backend::{
    Backend, BackendError, Contents, Edit, Edited, Entry, Execute, ExecuteReport, ExecuteRequest, Listing,
    MemoryBackend, ReadRange, VirtualPath, WriteMode,
};
use prowess_permission::{Action, Decision, Kind, Permissions, Policy, Rule, RuleSource};
use prowess_skills::{Dialect, SessionOptions};

use crate::agent::results;
use crate::says::{Says, calls, text};
use crate::world::{World, open};

async fn said(steps: &[&[(&str, &str, &str)]]) -> Vec<String> {
    let turns = steps.iter().map(|step| calls(step)).chain([text("done")]);
    let files = Files::new(Arc::new(MemoryBackend::new()));
    let agent = Agent::builder(Says::new(turns)).middleware(files).build().unwrap();
    let mut thread = agent.open(ThreadId::new()).await.unwrap();
    thread.say("go", &NoWatcher).await.unwrap();
    results(&thread)
}

#[tokio::test]
async fn a_file_from_beginning_to_end() {
    let answers = said(&[
        &[("1", "write_file", r#"{"file_path": "/notes/a.md", "content": "one\ntwo\nthree\n"}"#)],
        &[
            ("2", "write_file", r#"{"file_path": "/notes/a.md", "content": "again"}"#),
            ("3", "read_file", r#"{"file_path": "/notes/a.md"}"#),
            ("4", "read_file", r#"{"file_path": "/notes/a.md", "offset": 1, "limit": 1}"#),
            ("5", "read_file", r#"{"file_path": "/notes/a.md", "offset": 9}"#),
        ],
        &[("6", "edit_file", r#"{"file_path": "/notes/a.md", "old_string": "two", "new_string": "zwei"}"#)],
        &[
            ("7", "edit_file", r#"{"file_path": "/notes/a.md", "old_string": "nowhere", "new_string": "x"}"#),
            ("8", "grep", r#"{"pattern": "z.ei"}"#),
            ("9", "glob", r#"{"pattern": "**/*.md"}"#),
            ("10", "ls", r#"{"path": "/"}"#),
            ("11", "ls", r#"{"path": "/nowhere"}"#),
            ("12", "read_file", r#"{"file_path": "../../etc/passwd"}"#),
            ("13", "execute", r#"{"command": "true"}"#),
        ],
    ])
    .await;
    insta::assert_snapshot!(answers.join("\n---\n"));
}

#[tokio::test]
async fn an_error_names_only_tools_that_the_agent_has() {
    let again = [("1", "write_file", r#"{"file_path": "/a.md", "content": "one"}"#)];
    let turns = [calls(&again), calls(&[("2", again[0].1, again[0].2)]), text("done")];
    let files = Files::new(Arc::new(MemoryBackend::new()));
    let agent = Agent::builder(Says::new(turns)).middleware(files);
    let agent = agent.select_tools(ToolSelection::default().without(["edit_file"])).build().unwrap();
    let mut thread = agent.open(ThreadId::new()).await.unwrap();
    thread.say("go", &NoWatcher).await.unwrap();
    assert_eq!(results(&thread)[1], "Error: /a.md already exists; choose another path");
}

#[tokio::test]
async fn an_argument_that_there_is_not_is_told_with_the_one_that_was_meant() {
    let answers = said(&[&[
        ("1", "read_file", r#"{"path": "/notes/a.md"}"#),
        ("2", "read_file", r#"{"file_path": "/notes/a.md", "limits": 3}"#),
        ("3", "grep", r#"{"pattern": "x", "globs": "*.md"}"#),
        ("4", "ls", r#"{"path": "/", "zebra": true}"#),
        // What is null was left out.
        ("5", "glob", r#"{"pattern": "*", "path": null}"#),
    ]])
    .await;
    let answers: Vec<&str> = answers.iter().map(|answer| answer.trim_end()).collect();
    let wrong = "the arguments are not right: there is no argument";
    assert_eq!(
        answers,
        [
            format!("Error: read_file: {wrong} `path`: did you mean `file_path`?"),
            format!("Error: read_file: {wrong} `limits`: did you mean `limit`?"),
            format!("Error: grep: {wrong} `globs`: did you mean `glob`?"),
            format!("Error: ls: {wrong} `zebra`; there are `path`"),
            "(no file matches)".to_owned(),
        ]
    );
}

fn rules(rules: &[(&str, &str, Decision)]) -> Permissions {
    let rules = rules.iter().map(|(kind, path, decision)| Rule::new(kind, path, *decision));
    Permissions::unattended(Policy::new().rules(RuleSource::User, rules))
}

async fn tree() -> Arc<MemoryBackend> {
    let backend = Arc::new(MemoryBackend::new());
    for name in ["/notes/a.md", "/secret/key.md", "/private/diary.md"] {
        let path = VirtualPath::parse(name).unwrap();
        backend.write(&path, "a heron\n".into(), WriteMode::CreateNew).await.unwrap();
    }
    backend
}

fn guarded(model: Arc<Says>, backend: Arc<MemoryBackend>, permissions: &Permissions) -> AgentBuilder {
    Agent::builder(model).middleware(Files::new(backend).permissions(permissions.clone()))
}

#[tokio::test]
async fn what_is_denied_is_not_seen_and_not_changed() {
    let permissions = rules(&[
        ("read", "*", Decision::Allow),
        ("write", "*", Decision::Allow),
        ("read", "/private/*", Decision::Ask),
        ("read", "/secret*", Decision::Deny),
        ("write", "/notes/*", Decision::Deny),
    ]);
    let edit = r#"{"file_path": "/secret/key.md", "old_string": "heron", "new_string": "crane"}"#;
    let model = Says::new([
        calls(&[
            ("1", "ls", r#"{"path": "/"}"#),
            ("2", "glob", r#"{"pattern": "**"}"#),
            ("3", "grep", r#"{"pattern": "heron"}"#),
            ("4", "read_file", r#"{"file_path": "/secret/key.md"}"#),
            ("5", "ls", r#"{"path": "/secret"}"#),
            ("6", "grep", r#"{"pattern": "heron", "path": "/secret/key.md"}"#),
            ("7", "edit_file", edit),
            ("8", "write_file", r#"{"file_path": "/notes/b.md", "content": "x"}"#),
            ("9", "write_file", r#"{"file_path": "/other/b.md", "content": "x"}"#),
        ]),
        text("done"),
    ]);
    let agent = guarded(model, tree().await, &permissions).build().unwrap();
    let mut thread = agent.open(ThreadId::new()).await.unwrap();
    assert_eq!(thread.say("go", &NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    insta::assert_snapshot!(results(&thread).join("\n---\n"));
}

#[tokio::test]
async fn what_the_rules_want_asked_waits_in_the_thread() {
    let permissions = rules(&[("read", "*", Decision::Allow)]);
    let write =
        |id, content| (id, "write_file", format!(r#"{{"file_path": "/{id}", "content": "{content}"}}"#));
    let all = [write("a", "one"), write("b", "two"), write("c", "three"), write("d", "four")];
    let all: Vec<_> = all.iter().map(|(id, tool, arguments)| (*id, *tool, arguments.as_str())).collect();
    let model = Says::new([calls(&all), text("done")]);
    let (backend, store) = (tree().await, Arc::new(MemoryThreads::new()));
    let build =
        || guarded(model.clone(), backend.clone(), &permissions).store(store.clone()).build().unwrap();
    let id = ThreadId::new();
    let mut thread = build().open(id.clone()).await.unwrap();
    let TurnStatus::Waiting(waiting) = thread.say("go", &NoWatcher).await.unwrap() else { panic!() };
    assert_eq!(waiting.len(), 4);
    let question = &waiting[0].question;
    assert_eq!(question.wording().title, "write /a");
    assert_eq!(question.action, Action::WriteFile { content: "one".to_owned() });
    thread.close().await.unwrap();

    let mut elsewhere = build().open(id).await.unwrap();
    let edited = CallReply::Edit { arguments: r#"{"file_path": "/c2", "content": "drei"}"#.to_owned() };
    let replies = [
        ("a", CallReply::Approve),
        ("b", CallReply::Reject { message: "not this".to_owned() }),
        ("c", edited),
    ];
    for (call, reply) in replies {
        elsewhere.reply(call, reply, &NoWatcher).await.unwrap();
    }
    // What was edited is asked about again.
    let waiting = elsewhere.waiting();
    let titles: Vec<String> = waiting.iter().map(|waiting| waiting.question.wording().title).collect();
    assert_eq!(titles, ["write /c2", "write /d"]);
    elsewhere.reply(&waiting[0], CallReply::Approve, &NoWatcher).await.unwrap();
    // A denial that comes while a call waits stands over the reply.
    permissions.set(RuleSource::User, vec![Rule::new("write", "*", Decision::Deny)]);
    assert_eq!(
        elsewhere.reply("d", CallReply::Approve, &NoWatcher).await.unwrap(),
        TurnStatus::Ended(TurnOutcome::Responded)
    );
    assert_eq!(
        results(&elsewhere),
        [
            "Wrote /a (3 bytes).",
            "The user said no: not this",
            "(The user changed the arguments of this call to {\"file_path\": \"/c2\", \"content\": \"drei\"}.)\nWrote /c2 (4 bytes).",
            "Error: Permission denied: write '/d' is denied by a rule.",
        ]
    );
    let left = backend.ls(&VirtualPath::root()).await.unwrap();
    let left: Vec<String> = left.into_iter().map(|entry| entry.path.to_string()).collect();
    assert_eq!(left, ["/a", "/c2", "/notes", "/private", "/secret"]);
}

/// An edit tells by its answer what is in a file: who may write and not read without being asked is asked.
#[tokio::test]
async fn an_edit_reads_only_what_may_be_read() {
    let permissions = rules(&[("write", "*", Decision::Allow), ("read", "*", Decision::Ask)]);
    let guess = r#"{"file_path": "/secret/key", "old_string": "a guess", "new_string": "x"}"#;
    let model = Says::new([calls(&[("1", "edit_file", guess)]), text("done")]);
    let agent = guarded(model, tree().await, &permissions).build().unwrap();
    let mut thread = agent.open(ThreadId::new()).await.unwrap();
    let TurnStatus::Waiting(waiting) = thread.say("go", &NoWatcher).await.unwrap() else { panic!() };
    assert_eq!(waiting[0].question.kind, Kind::READ, "{:?}", waiting[0].question);
}

/// A search that a person approved shows what is found, and not what the rules deny.
#[tokio::test]
async fn an_approved_search_shows_what_it_finds() {
    let permissions = rules(&[("read", "/secret/*", Decision::Deny)]);
    let model = Says::new([calls(&[("1", "grep", r#"{"pattern": "heron"}"#)]), text("done")]);
    let agent = guarded(model, tree().await, &permissions).build().unwrap();
    let mut thread = agent.open(ThreadId::new()).await.unwrap();
    assert!(matches!(thread.say("go", &NoWatcher).await.unwrap(), TurnStatus::Waiting(_)));
    thread.reply("1", CallReply::Approve, &NoWatcher).await.unwrap();
    assert_eq!(results(&thread), ["/notes/a.md:1:a heron\n/private/diary.md:1:a heron"]);
}

/// Runs nothing, and says what it was to run.
#[derive(Debug, Default)]
struct Echo(MemoryBackend);

#[async_trait]
impl Execute for Echo {
    async fn execute(&self, request: ExecuteRequest) -> Result<ExecuteReport, BackendError> {
        Ok(ExecuteReport::new(Some(0), request.command))
    }
}

#[async_trait]
impl Backend for Echo {
    async fn ls(&self, path: &VirtualPath) -> Result<Listing, BackendError> {
        self.0.ls(path).await
    }

    async fn stat(&self, path: &VirtualPath) -> Result<Entry, BackendError> {
        self.0.stat(path).await
    }

    async fn read(&self, path: &VirtualPath, range: ReadRange) -> Result<Contents, BackendError> {
        self.0.read(path, range).await
    }

    async fn write(&self, path: &VirtualPath, bytes: Bytes, mode: WriteMode) -> Result<Entry, BackendError> {
        self.0.write(path, bytes, mode).await
    }

    async fn append(&self, path: &VirtualPath, bytes: Bytes) -> Result<Entry, BackendError> {
        self.0.append(path, bytes).await
    }

    async fn edit(&self, path: &VirtualPath, edit: &Edit) -> Result<Edited, BackendError> {
        self.0.edit(path, edit).await
    }

    async fn delete(&self, path: &VirtualPath) -> Result<(), BackendError> {
        self.0.delete(path).await
    }

    fn executor(&self) -> Option<&dyn Execute> {
        Some(self)
    }
}

#[tokio::test]
async fn commands_pass_the_gate_of_runs() {
    let permissions = rules(&[("run", "git status *", Decision::Allow), ("run", "rm *", Decision::Deny)]);
    let model = Says::new([
        calls(&[
            ("1", "execute", r#"{"command": "git status"}"#),
            ("2", "execute", r#"{"command": "rm -r /"}"#),
            ("3", "execute", r#"{"command": "make"}"#),
        ]),
        text("done"),
    ]);
    let files = Files::new(Arc::new(Echo::default())).permissions(permissions);
    let agent = Agent::builder(model).middleware(files).build().unwrap();
    let mut thread = agent.open(ThreadId::new()).await.unwrap();
    let TurnStatus::Waiting(waiting) = thread.say("go", &NoWatcher).await.unwrap() else { panic!() };
    assert_eq!(waiting[0].question.wording().title, "run make");
    thread.reply("3", CallReply::Approve, &NoWatcher).await.unwrap();
    assert_eq!(
        results(&thread),
        [
            "git status\n[exit code 0]",
            "Error: Permission denied: run 'rm -r /' is denied by a rule.",
            "make\n[exit code 0]",
        ]
    );
}

#[tokio::test]
async fn no_answer_is_larger_than_a_conversation_bears() {
    let backend = Arc::new(MemoryBackend::new());
    let name = "n".repeat(200);
    for number in 0..900 {
        let path = VirtualPath::parse(&format!("/{name}/{number}")).unwrap();
        backend.write(&path, "a line that is found\n".repeat(20).into(), WriteMode::CreateNew).await.unwrap();
    }
    let large = VirtualPath::parse("/large").unwrap();
    let text_of = "a line of some length, as lines are\n".repeat(300_000);
    backend.write(&large, text_of.into(), WriteMode::CreateNew).await.unwrap();
    let model = Says::new([
        calls(&[
            ("1", "ls", &format!(r#"{{"path": "/{name}"}}"#)),
            ("2", "glob", r#"{"pattern": "**"}"#),
            ("3", "grep", r#"{"pattern": "found"}"#),
            ("4", "read_file", r#"{"file_path": "/large", "limit": 18446744073709551615, "offset": 1}"#),
            ("5", "read_file", r#"{"file_path": "/large", "offset": 299999}"#),
        ]),
        text("done"),
    ]);
    let agent = Agent::builder(model).middleware(Files::new(backend)).build().unwrap();
    let mut thread = agent.open(ThreadId::new()).await.unwrap();
    thread.say("go", &NoWatcher).await.unwrap();
    let answers = results(&thread);
    for answer in &answers {
        assert!(answer.len() < 64_000, "{} bytes", answer.len());
    }
    assert!(answers[..3].iter().all(|answer| answer.contains("[only the first ")));
    assert!(answers[3].contains("[there are more lines: read on with offset "));
    assert_eq!(answers[4], "300000\ta line of some length, as lines are\n");
}

/// A skill that the agent is denied is nowhere: not in the files either, whatever way leads to it.
#[tokio::test]
async fn denied_skills_are_not_in_the_files() {
    let world = World::new(&[("open", "", "The open way."), ("hidden", "", "The hidden way.")]).await;
    world.write("hidden/scripts/run.sh", "echo The hidden way.\n");
    std::os::unix::fs::symlink("skills/hidden", world.root().join("../alias")).unwrap();
    std::os::unix::fs::symlink("skills/open/SKILL.md", world.root().join("../link.md")).unwrap();
    let model = Says::new([
        calls(&[
            ("1", "ls", r#"{"path": "/skills"}"#),
            ("2", "glob", r#"{"pattern": "**/*.{md,sh}"}"#),
            ("3", "grep", r#"{"pattern": "way\\."}"#),
            ("4", "read_file", r#"{"file_path": "/skills/hidden/SKILL.md"}"#),
            ("5", "read_file", r#"{"file_path": "/alias/SKILL.md"}"#),
            ("6", "ls", r#"{"path": "/alias/scripts"}"#),
            ("7", "ls", r#"{"path": "/skills/hidden"}"#),
            ("8", "grep", r#"{"pattern": "way", "path": "/skills/hidden/scripts/run.sh"}"#),
            ("9", "read_file", r#"{"file_path": "/link.md", "offset": 4}"#),
            ("10", "ls", r#"{"path": "/"}"#),
            ("11", "write_file", r#"{"file_path": "/skills/hidden/x", "content": "x"}"#),
            (
                "12",
                "edit_file",
                r#"{"file_path": "/alias/SKILL.md", "old_string": "The", "new_string": "A"}"#,
            ),
        ]),
        text("done"),
    ]);
    let skills = world
        .skills_with(|_| SessionOptions::new(Dialect::DeepAgents), &[("skill", "hidden", Decision::Deny)]);
    let agent =
        world.agent(model).middleware(skills).middleware(Files::new(world.backend())).build().unwrap();
    let mut thread = open(&agent).await;
    thread.say("go", &NoWatcher).await.unwrap();
    insta::assert_snapshot!(results(&thread).join("\n---\n"));
}

/// Reading a skill's files is part of loading it: what a person has to be asked about is asked there.
#[tokio::test]
async fn a_skill_to_be_asked_about_is_not_read_past_the_gate() {
    let world = World::new(&[("careful", "", "The careful way.")]).await;
    let read = || calls(&[("r", "read_file", r#"{"file_path": "/skills/careful/SKILL.md", "offset": 4}"#)]);
    let model = Says::new([
        calls(&[
            ("1", "read_file", r#"{"file_path": "/skills/careful/SKILL.md"}"#),
            ("2", "grep", r#"{"pattern": "careful"}"#),
        ]),
        calls(&[("l", "load_skill", r#"{"skill_name": "careful"}"#)]),
        read(),
        text("done"),
    ]);
    let options = |_: &ThreadId| SessionOptions::new(Dialect::DeepAgents);
    let skills = world.skills_with(options, &[("skill", "careful", Decision::Ask)]);
    let agent =
        world.agent(model).middleware(skills).middleware(Files::new(world.backend())).build().unwrap();
    let mut thread = open(&agent).await;
    assert!(matches!(thread.say("go", &NoWatcher).await.unwrap(), TurnStatus::Waiting(_)));
    let refused = "Error: access to /skills/careful/SKILL.md is denied: it belongs to the skill 'careful': load the \
                   skill first";
    assert_eq!(results(&thread), [refused, "(no line matches)"]);
    thread.reply("l", CallReply::Approve, &NoWatcher).await.unwrap();
    assert_eq!(results(&thread)[3], "     5\tThe careful way.\n");
}

/// A rule for a place holds for what leads there.
#[tokio::test]
async fn rules_hold_through_links() {
    let world = World::new(&[]).await;
    let files = world.root().join("..");
    std::fs::create_dir(files.join("secret")).unwrap();
    std::fs::write(files.join("secret/key.md"), "a heron\n").unwrap();
    std::os::unix::fs::symlink("secret", files.join("alias")).unwrap();
    let permissions = rules(&[("read", "*", Decision::Allow), ("read", "/secret/*", Decision::Deny)]);
    let model = Says::new([
        calls(&[
            ("1", "read_file", r#"{"file_path": "/alias/key.md"}"#),
            ("2", "ls", r#"{"path": "/alias"}"#),
            ("3", "grep", r#"{"pattern": "heron", "path": "/alias"}"#),
        ]),
        text("done"),
    ]);
    let files = Files::new(world.backend()).permissions(permissions);
    let agent = world.agent(model).middleware(files).build().unwrap();
    let mut thread = open(&agent).await;
    thread.say("go", &NoWatcher).await.unwrap();
    assert_eq!(
        results(&thread),
        [
            "Error: Permission denied: read '/alias/key.md' is denied by a rule.",
            "(the directory is empty)",
            "(no line matches)",
        ]
    );
}
