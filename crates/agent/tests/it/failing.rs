//! A backend that fails half-way: how each middleware reacts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use prowess_agent::middleware::{Eviction, Files, Keep, Memory, Summarisation, Trigger};
use prowess_agent::{Agent, FunctionTool, NoWatcher, ThreadId, ToolAnswer, TurnOutcome, TurnStatus};
use prowess_backend::{
    Backend, BackendError, Contents, Edit, Edited, Entry, Listing, MemoryBackend, ReadRange, Result,
    VirtualPath, WriteMode,
};

use crate::agent::{Nothing, results};
use crate::says::{Says, calls, text};

/// Fails from some operation on, until it is mended. With `late`, a write that failed took effect all the same.
#[derive(Debug)]
struct Fails {
    files: MemoryBackend,
    left: AtomicUsize,
    late: AtomicBool,
}

impl Fails {
    fn after(operations: usize) -> Arc<Self> {
        let (left, late) = (AtomicUsize::new(operations), AtomicBool::new(false));
        Arc::new(Self { files: MemoryBackend::new(), left, late })
    }

    fn late(self: Arc<Self>) -> Arc<Self> {
        self.late.store(true, Ordering::SeqCst);
        self
    }

    fn mend(&self) {
        self.left.store(usize::MAX, Ordering::SeqCst);
    }

    fn is_broken(&self) -> bool {
        self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_err()
    }

    fn error(path: &VirtualPath) -> BackendError {
        BackendError::Io { path: path.clone(), operation: "an operation", source: "the cable is out".into() }
    }

    fn check(&self, path: &VirtualPath) -> Result<()> {
        if self.is_broken() { Err(Self::error(path)) } else { Ok(()) }
    }

    /// Whether a write is to be done, and whether it is said to have failed.
    fn writing(&self) -> (bool, bool) {
        let broken = self.is_broken();
        (!broken || self.late.load(Ordering::SeqCst), broken)
    }
}

#[async_trait]
impl Backend for Fails {
    async fn ls(&self, path: &VirtualPath) -> Result<Listing> {
        self.check(path)?;
        self.files.ls(path).await
    }

    async fn stat(&self, path: &VirtualPath) -> Result<Entry> {
        self.check(path)?;
        self.files.stat(path).await
    }

    async fn read(&self, path: &VirtualPath, range: ReadRange) -> Result<Contents> {
        self.check(path)?;
        self.files.read(path, range).await
    }

    async fn write(&self, path: &VirtualPath, bytes: Bytes, mode: WriteMode) -> Result<Entry> {
        let (done, failed) = self.writing();
        let entry = if done { self.files.write(path, bytes, mode).await } else { Err(Self::error(path)) };
        if failed { Err(Self::error(path)) } else { entry }
    }

    async fn append(&self, path: &VirtualPath, bytes: Bytes) -> Result<Entry> {
        let (done, failed) = self.writing();
        let entry = if done { self.files.append(path, bytes).await } else { Err(Self::error(path)) };
        if failed { Err(Self::error(path)) } else { entry }
    }

    async fn edit(&self, path: &VirtualPath, edit: &Edit) -> Result<Edited> {
        self.check(path)?;
        self.files.edit(path, edit).await
    }

    async fn delete(&self, path: &VirtualPath) -> Result<()> {
        self.check(path)?;
        self.files.delete(path).await
    }
}

fn path(text: &str) -> VirtualPath {
    VirtualPath::parse(text).unwrap()
}

/// A tool's answer says so, and the turn goes on.
#[tokio::test]
async fn files_on_a_backend_that_fails_half_way() {
    let steps: [(&str, &str, &str); 5] = [
        ("1", "write_file", r#"{"file_path": "/a", "content": "one\n"}"#),
        ("2", "edit_file", r#"{"file_path": "/a", "old_string": "one", "new_string": "two"}"#),
        ("3", "read_file", r#"{"file_path": "/a"}"#),
        ("4", "ls", r#"{"path": "/"}"#),
        ("5", "grep", r#"{"pattern": "t"}"#),
    ];
    for operations in 0..=8 {
        let model = Says::new(steps.iter().map(|step| calls(&[*step])).chain([text("done")]));
        let agent = Agent::builder(model).middleware(Files::new(Fails::after(operations))).build().unwrap();
        let mut thread = agent.open(ThreadId::new()).await.unwrap();
        assert_eq!(thread.say("go", &NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
        let answers = results(&thread);
        assert_eq!(answers.len(), 5);
        let good = answers.iter().take_while(|answer| !answer.contains("the cable is out")).count();
        assert!(answers[good..].iter().all(|answer| answer.contains("the cable is out")), "{answers:?}");
        assert_eq!(good, operations.min(4) + usize::from(operations >= 6), "{operations}: {answers:?}");
    }
}

/// The head stays, and it says that the rest is lost. The conversation never gets all of it.
#[tokio::test]
async fn eviction_to_a_backend_that_fails_half_way() {
    let long = FunctionTool::new("long", "Says much.", |_: Nothing| async {
        Ok(ToolAnswer::text(format!("begin{}", "x".repeat(200_000))))
    });
    let model = Says::new([calls(&[("a", "long", "{}")]), calls(&[("b", "long", "{}")]), text("I see.")]);
    let eviction = Eviction::new(Fails::after(1));
    let agent = Agent::builder(model).middleware(eviction).tool(Arc::new(long)).build().unwrap();
    let mut thread = agent.open(ThreadId::new()).await.unwrap();
    assert_eq!(thread.say("go", &NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    let answers = results(&thread);
    assert!(answers.iter().all(|answer| answer.len() < 5_000 && answer.contains("It begins:\n\nbeginxx")));
    assert!(answers[0].contains("All of it is in /large_tool_results/"), "{answers:?}");
    assert!(answers[1].contains("could not be written to a file: an operation of /large"), "{answers:?}");
}

/// The turn stops, and goes on with all of the memory once the trouble is over.
#[tokio::test]
async fn memory_on_a_backend_that_fails_half_way() {
    for operations in 0..3 {
        let backend = Fails::after(operations);
        for (file, content) in [("/a.md", "Speak German."), ("/b.md", "Be brief."), ("/c.md", "Be kind.")] {
            backend.files.write(&path(file), content.into(), WriteMode::CreateNew).await.unwrap();
        }
        let model = Says::new([text("Ja.")]);
        let memory = Memory::new(backend.clone(), ["/a.md", "/b.md", "/c.md"].map(path));
        let agent = Agent::builder(model.clone()).middleware(memory).build().unwrap();
        let mut thread = agent.open(ThreadId::new()).await.unwrap();
        for _ in 0..2 {
            let error = match thread.state().messages().is_empty() {
                true => thread.say("hello", &NoWatcher).await.unwrap_err(),
                false => thread.go_on(&NoWatcher).await.unwrap_err(),
            };
            assert!(
                error.to_string().starts_with("memory: could not read the memory: an operation of /"),
                "{error}"
            );
            assert_eq!(model.count(), 0, "no model is asked that does not know what it should");
        }
        backend.mend();
        assert_eq!(thread.go_on(&NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
        let prompt = model.request(0).system_text();
        assert!(
            ["Speak German.", "Be brief.", "Be kind."].iter().all(|line| prompt.contains(line)),
            "{prompt}"
        );
    }
}

/// Nothing is taken out whose history is not said to be written; and the history has everything once.
#[tokio::test]
async fn summarisation_on_a_backend_that_fails_half_way() {
    for (operations, late) in [(0, false), (1, false), (1, true)] {
        let backend = Fails::after(operations);
        let backend = if late { backend.late() } else { backend };
        let model = Says::new([
            text("one"),
            text("two"),
            text("a summary"),
            text("three"),
            text("four"),
            text("five"),
        ]);
        let summaries = Summarisation::new(model.clone(), backend.clone())
            .trigger(Trigger::Messages(5))
            .keep(Keep::Messages(1));
        let agent = Agent::builder(model.clone()).middleware(summaries).build().unwrap();
        let mut thread = agent.open(ThreadId::new()).await.unwrap();
        for said in ["first", "second", "third"] {
            assert_eq!(
                thread.say(said, &NoWatcher).await.unwrap(),
                TurnStatus::Ended(TurnOutcome::Responded)
            );
        }
        assert_eq!(thread.state().cut(), 0, "nothing is taken out");
        assert_eq!(model.request(3).messages.len(), 5);
        backend.mend();
        thread.say("fourth", &NoWatcher).await.unwrap();
        // What was decided before is done now, or it is decided anew.
        let cut = thread.state().cut();
        assert_eq!(cut, if operations == 0 { 6 } else { 4 });
        let history = path(&format!("/conversation_history/{}.md", thread.id()));
        let history = backend.files.download(&[history]).await.remove(0).unwrap();
        let history = String::from_utf8_lossy(&history).into_owned();
        let said = ["Human: first", "AI: one", "Human: second", "AI: two", "Human: third", "AI: three"];
        for said in &said[..cut] {
            assert_eq!(history.matches(said).count(), 1, "{history}");
        }
    }
}
