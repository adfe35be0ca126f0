//! Tests that this version opens and continues what an earlier version stored in PostgreSQL.
//!
//! `tests/fixtures/VERSION.sql` is a dump of what that version stored; `writing.rs` says how to make one. Skills and
//! files are in memory, so nothing in it depends on a path on the disk.

mod renewed;
mod writing;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use prowess_agent::middleware::{Skills, SkillsState, StateFiles};
use prowess_agent::thread::ThreadError;
use prowess_agent::{Agent, CallReply, NoWatcher, Thread, ThreadId, ThreadStore, TurnOutcome, TurnStatus};
use prowess_backend::{Backend, MemoryBackend, VirtualPath};
use prowess_catalog::{Catalog, Root, ScanOptions, scan_backend};
use prowess_models::{Scripted, ScriptedExpect, ScriptedTurn as Says};
use prowess_permission::{ApprovalStore as _, Broker, Decision, Permissions, Policy, Rule, RuleSource};
use prowess_skills::{BackendFiles, Dialect, Lifetime, RunSetup, SessionOptions, SkillSession};
use prowess_store::PostgresStore;
use prowess_workspace::artifact::MemoryBlobs;
use prowess_workspace::testing::FakeExecutor;
use prowess_workspace::{
    ArtifactIndex as _, ArtifactKey, ArtifactName, ArtifactStore as _, Artifacts, Runner, Scope, Workspaces,
};
use serde_json::json;
use tempfile::TempDir;

use crate::support::postgres_url;

/// The name of the schema in a dump.
const SCHEMA: &str = "prowess_earlier";
/// The project of the approvals.
const PROJECT: &str = "harbour";
/// The command of the questions. It writes a line each time.
const COMMAND: &str = "echo it ran >> $OUTPUT_DIR/ran.txt; cat $OUTPUT_DIR/ran.txt";

const FILES: [(&str, &str); 4] = [
    (
        "/skills/tides/SKILL.md",
        "---\nname: tides\ndescription: Looks up tides. Use before boat trips.\n---\n\nLook up the tide $ARGUMENTS.\n",
    ),
    ("/skills/tides/references/calais.md", "At Calais it is high at one.\n"),
    (
        "/skills/kites/SKILL.md",
        "---\nname: kites\ndescription: Builds kites. Use on windy days.\n---\n\nTie the knots.\n",
    ),
    (
        "/skills/knots/SKILL.md",
        "---\nname: knots\ndescription: Ties knots. Use for ropes.\n---\n\nOver and under.\n",
    ),
];

const RULES: [(&str, &str, Decision); 8] = [
    ("skill", "*", Decision::Ask),
    ("skill", "kites", Decision::Allow),
    ("run", "*", Decision::Ask),
    ("read", "*", Decision::Allow),
    ("write", "*", Decision::Ask),
    ("tool", "*", Decision::Allow),
    ("tool", "ls", Decision::Ask),
    ("tool", "glob", Decision::Ask),
];

/// A database, and an agent with its threads there.
struct Harbour {
    store: PostgresStore,
    scratch: TempDir,
}

impl Harbour {
    /// An empty database.
    async fn new(url: &str) -> Self {
        let store = PostgresStore::connect(url).await.unwrap();
        Self { store, scratch: tempfile::tempdir().unwrap() }
    }

    /// The database of version 0.1, from before skills, questions and replies had one core.
    async fn of_0_1() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/0.1.sql");
        let url = postgres_url().await;
        restore(&url, &std::fs::read_to_string(path).unwrap()).await;
        Self::new(&url).await
    }

    /// An agent with skills and files in memory, and a model with these responses.
    async fn agent(&self, says: impl IntoIterator<Item = Says>) -> Agent {
        let file =
            |(path, text): (&str, &'static str)| (VirtualPath::parse(path).unwrap(), Bytes::from(text));
        let backend: Arc<dyn Backend> = Arc::new(FILES.map(file).into_iter().collect::<MemoryBackend>());
        let root = Arc::new(Root::explicit("/skills").in_backend());
        let scan = scan_backend(&*backend, &root, &ScanOptions::default(), None).await;
        let catalog = Catalog::empty().assembled([scan]);
        let rules = RULES.map(|(kind, pattern, decision)| Rule::new(kind, pattern, decision));
        let broker = Broker::open(Arc::new(self.store.clone()), PROJECT).await.unwrap();
        let permissions = Permissions::new(broker, "sailor", Policy::new().rules(RuleSource::User, rules));
        let runner = Runner {
            workspaces: Workspaces::open(self.scratch.path()).unwrap(),
            artifacts: None,
            executor: Some(Arc::new(FakeExecutor)),
        };
        let gate = permissions.clone();
        let skills = Skills::new(move |thread| {
            let mut options = SessionOptions::new(Dialect::Trpc);
            options.lifetime = Lifetime::Session;
            SkillSession::builder(catalog.clone())
                .options(options)
                .files(Arc::new(BackendFiles::new(Arc::clone(&backend))))
                .permissions(gate.clone())
                .runs(RunSetup::new(runner.clone(), thread.as_str()))
        });
        let agent = Agent::deep_builder(Arc::new(Scripted::new(says)));
        let agent = agent.skills(skills).permissions(permissions).store(Arc::new(self.store.clone()));
        agent.build().unwrap()
    }

    /// Opens a thread, with a model with these responses.
    async fn thread(&self, name: &str, says: impl IntoIterator<Item = Says>) -> Thread {
        self.agent(says).await.open(id(name)).await.unwrap()
    }

    /// How often the command ran.
    fn runs(&self) -> usize {
        let workspaces = std::fs::read_dir(self.scratch.path()).unwrap().flatten();
        let left = workspaces.map(|workspace| workspace.path().join("ws/out/ran.txt"));
        left.filter_map(|file| std::fs::read_to_string(file).ok()).map(|text| text.lines().count()).sum()
    }
}

fn id(name: &str) -> ThreadId {
    name.parse().unwrap()
}

/// Restores a dump into the schema of an address, for any version of PostgreSQL.
async fn restore(url: &str, dump: &str) {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    let connected = tokio::spawn(connection);
    let schema: String = client.query_one("SELECT current_schema()", &[]).await.unwrap().get(0);
    // Leaves out commands for psql, settings that other versions do not know, and an existing schema.
    let others = ["\\", "SET ", "SELECT pg_catalog.set_config(", "CREATE SCHEMA "];
    let lines = dump.lines().filter(|line| !others.iter().any(|other| line.starts_with(other)));
    let statements = lines.collect::<Vec<_>>().join("\n").replace(SCHEMA, &schema);
    client.batch_execute(&statements).await.unwrap();
    drop(client);
    connected.await.unwrap().unwrap();
}

/// The model's response if the last message contains a text.
fn after(text: &str, says: &str) -> Says {
    Says::new().expect(ScriptedExpect::new().last(text)).say(says)
}

/// Answers the only question of a thread, and returns the result.
async fn answered(thread: &mut Thread, reply: CallReply) -> TurnStatus {
    let waiting = thread.waiting();
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    thread.reply(&waiting[0], reply, &NoWatcher).await.unwrap()
}

fn no() -> CallReply {
    CallReply::Reject { message: "not today".to_owned() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_threads_are_there() {
    let harbour = Harbour::of_0_1().await;
    let listed = ThreadStore::list(&harbour.store, 99).await.unwrap();
    let mut names: Vec<String> = listed.into_iter().map(|info| info.id.to_string()).collect();
    names.retain(|name| !name.starts_with("task-"));
    names.sort();
    let all = [
        "always",
        "both",
        "cut-answer",
        "cut-reply",
        "cut-run",
        "load",
        "loaded",
        "run",
        "task",
        "tool",
        "write",
    ];
    assert_eq!(names, all);
    for name in all {
        let thread = harbour.thread(name, []).await;
        let waits = ["both", "load", "run", "task", "tool", "write"].contains(&name);
        assert_eq!(thread.waiting().len(), usize::from(waits), "{name}");
        thread.close().await.unwrap();
    }
    let missing = harbour.store.events(&id("never"), 0, 1).await;
    assert!(matches!(missing, Err(ThreadError::NotFound(_))), "{missing:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loaded_skill_is_in_sight_until_it_is_unloaded() {
    let harbour = Harbour::of_0_1().await;
    let in_sight =
        ScriptedExpect::new().system("Look up the tide at Dover.").system("At Calais it is high at one.");
    let gone = ScriptedExpect::new().not_in_system("Look up the tide at Dover.").not_in_system("At Calais");
    let says = [
        Says::new().expect(in_sight).call("skill_unload", json!({"skill": "tides"})),
        Says::new().expect(gone).say("Unloaded."),
    ];
    let mut thread = harbour.thread("loaded", says).await;
    assert_eq!(SkillsState::of(thread.states()).unwrap().loaded()[0].arguments.as_deref(), Some("at Dover"));
    let turn = thread.say("Unload it.", &NoWatcher).await.unwrap();
    assert_eq!(turn, TurnStatus::Ended(TurnOutcome::Responded));
    assert!(SkillsState::of(thread.states()).unwrap().loaded().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_about_a_skill() {
    let harbour = Harbour::of_0_1().await;
    let loaded = ScriptedExpect::new().system("Look up the tide").last("Skill 'tides' is loaded");
    let mut thread = harbour.thread("load", [Says::new().expect(loaded).say("Done.")]).await;
    assert_eq!(answered(&mut thread, CallReply::Approve).await, TurnStatus::Ended(TurnOutcome::Responded));
    thread.close().await.unwrap();

    let harbour = Harbour::of_0_1().await;
    let refused = ScriptedExpect::new().not_in_system("Look up the tide").last("not today");
    let mut thread = harbour.thread("load", [Says::new().expect(refused).say("I leave it.")]).await;
    assert_eq!(answered(&mut thread, no()).await, TurnStatus::Ended(TurnOutcome::Responded));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_about_a_run() {
    for (reply, told, runs) in [(CallReply::Approve, "it ran", 1), (no(), "not today", 0)] {
        let harbour = Harbour::of_0_1().await;
        let mut thread = harbour.thread("run", [after(told, "Done.")]).await;
        assert_eq!(answered(&mut thread, reply).await, TurnStatus::Ended(TurnOutcome::Responded));
        assert_eq!(harbour.runs(), runs);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_of_a_sub_agent() {
    for (reply, told, runs) in [(CallReply::Approve, "it ran", 1), (no(), "not today", 0)] {
        let harbour = Harbour::of_0_1().await;
        let says = [after(told, "The sub-agent saw it."), after("The sub-agent saw it.", "Done.")];
        let mut thread = harbour.thread("task", says).await;
        assert_eq!(answered(&mut thread, reply).await, TurnStatus::Ended(TurnOutcome::Responded));
        assert_eq!((thread.last_response().as_deref(), harbour.runs()), (Some("Done."), runs));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_about_a_file() {
    for (reply, told, files) in [(CallReply::Approve, "/log.txt", 1), (no(), "not today", 0)] {
        let harbour = Harbour::of_0_1().await;
        let mut thread = harbour.thread("write", [after(told, "Done.")]).await;
        assert_eq!(answered(&mut thread, reply).await, TurnStatus::Ended(TurnOutcome::Responded));
        assert_eq!(StateFiles::of(thread.states()).count(), files);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_about_a_tool() {
    for (reply, expected) in [
        (CallReply::Approve, ScriptedExpect::new().not_in_last("Error").not_in_last("not today")),
        (no(), ScriptedExpect::new().last("not today")),
    ] {
        let harbour = Harbour::of_0_1().await;
        let mut thread = harbour.thread("tool", [Says::new().expect(expected).say("Done.")]).await;
        assert_eq!(answered(&mut thread, reply).await, TurnStatus::Ended(TurnOutcome::Responded));
    }
}

/// A load takes effect only after all calls of its message are answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_beside_a_load_that_is_done() {
    for (reply, told) in [(CallReply::Approve, "/log.txt"), (no(), "not today")] {
        let harbour = Harbour::of_0_1().await;
        let both = ScriptedExpect::new().system("Tie the knots.").last(told);
        let mut thread = harbour.thread("both", [Says::new().expect(both).say("Done.")]).await;
        assert!(SkillsState::of(thread.states()).unwrap().loaded().is_empty());
        assert_eq!(answered(&mut thread, reply).await, TurnStatus::Ended(TurnOutcome::Responded));
        assert_eq!(SkillsState::of(thread.states()).unwrap().loaded()[0].name, "kites");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_was_cut_off_goes_on() {
    let harbour = Harbour::of_0_1().await;
    let mut thread = harbour.thread("cut-answer", [after("Write the log.", "From the beginning.")]).await;
    assert_eq!(thread.go_on(&NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    let mut thread = harbour.thread("cut-run", [after("not known whether it took effect", "I look.")]).await;
    assert_eq!(thread.go_on(&NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    assert_eq!(harbour.runs(), 0, "it is not run again");
}

/// A stored yes lets the call run that was not started yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_that_was_stored_counts() {
    let harbour = Harbour::of_0_1().await;
    let mut thread = harbour.thread("cut-reply", [after("it ran", "Done.")]).await;
    assert_eq!(thread.go_on(&NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    assert_eq!(harbour.runs(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approvals_hold() {
    let harbour = Harbour::of_0_1().await;
    let kept = harbour.store.load(PROJECT).await.unwrap();
    let mut kinds: Vec<&str> = kept.iter().map(|approval| approval.kind.as_str()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["run", "skill", "tool"], "{kept:?}");
    let says = [
        Says::new().call("skill_load", json!({"skill": "knots"})),
        Says::new().call("glob", json!({"pattern": "*"})),
        Says::new().expect(ScriptedExpect::new().system("Over and under.")).say("Unasked."),
    ];
    let mut thread = harbour.thread("new", says).await;
    let turn = thread.say("The same again.", &NoWatcher).await.unwrap();
    assert_eq!(turn, TurnStatus::Ended(TurnOutcome::Responded), "nobody is asked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn artifacts_are_there() {
    let harbour = Harbour::of_0_1().await;
    let scope = Scope::thread("loaded").unwrap();
    let name = ArtifactName::parse("out/tide.txt").unwrap();
    let latest = harbour.store.latest(&ArtifactKey::new(scope.clone(), name.clone())).await.unwrap().unwrap();
    assert_eq!((latest.version, latest.size), (1, 4), "{latest:?}");
    // The bytes are elsewhere; this store counts the versions.
    let artifacts = Artifacts::new(Arc::new(MemoryBlobs::default()), Arc::new(harbour.store.clone()));
    let saved = artifacts.in_scope(scope).save(&name, "ebb\n".into(), "text/plain").await;
    assert_eq!(saved.unwrap(), 2);
}
