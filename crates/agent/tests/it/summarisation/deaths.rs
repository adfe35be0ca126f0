//! A process that dies between any two steps: whatever is gone from sight is in the history, once.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use proptest::prelude::*;
use prowess_agent::message::{AssistantPart, Content};
use prowess_agent::middleware::{Keep, Summarisation, Trigger};
use prowess_agent::model::{ModelErrorKind, ModelLimits, ModelStream};
use prowess_agent::thread::{Lease, StoredEvent, ThreadError, ThreadInfo};
use prowess_agent::thread_state::NextStep;
use prowess_agent::{
    Agent, AgentBuilder, Event, MemoryThreads, Message, Model, ModelDelta, ModelError, ModelRequest,
    NoWatcher, ThreadId, ThreadState, ThreadStore, ToolCall, ToolResult,
};
use prowess_backend::{Backend, BackendError, Entry, MemoryBackend, VirtualPath};
use tokio::sync::Notify;

use super::{Append, Appends, history, pairs_are_whole, sections, text_of, told};
use crate::world::World;

/// How many more steps there are before the process dies.
#[derive(Debug, Default)]
struct Fuse {
    left: Mutex<Option<usize>>,
    died: Notify,
}

impl Fuse {
    /// Whether this step is the last.
    fn burns(&self) -> bool {
        let mut left = self.left.lock().unwrap();
        let burns = *left == Some(0);
        *left = left.and_then(|left| left.checked_sub(1));
        burns
    }

    /// Nothing comes after this.
    async fn die<T>(&self) -> T {
        self.died.notify_one();
        std::future::pending().await
    }

    async fn step(&self) {
        if self.burns() {
            self.die().await
        }
    }
}

/// A store whose process dies before or after it stores something.
#[derive(Debug)]
struct Mortal {
    threads: Arc<dyn ThreadStore>,
    fuse: Arc<Fuse>,
    last: Mutex<Option<Lease>>,
}

#[async_trait]
impl ThreadStore for Mortal {
    /// Who died has no lease any more.
    async fn lease(&self, thread: &ThreadId, owner: &str, lasts: Duration) -> Result<Lease, ThreadError> {
        let last = self.last.lock().unwrap().take();
        if let Some(last) = last.filter(|last| last.owner != owner) {
            self.threads.release(&last).await?;
        }
        let lease = self.threads.lease(thread, owner, lasts).await?;
        *self.last.lock().unwrap() = Some(lease.clone());
        Ok(lease)
    }

    async fn release(&self, lease: &Lease) -> Result<(), ThreadError> {
        self.threads.release(lease).await
    }

    async fn append(&self, lease: &Lease, after: u64, events: &[Event]) -> Result<(), ThreadError> {
        self.fuse.step().await;
        self.threads.append(lease, after, events).await?;
        self.fuse.step().await;
        Ok(())
    }

    async fn events(&self, id: &ThreadId, after: u64, most: usize) -> Result<Vec<StoredEvent>, ThreadError> {
        self.threads.events(id, after, most).await
    }

    async fn list(&self, most: usize) -> Result<Vec<ThreadInfo>, ThreadError> {
        self.threads.list(most).await
    }

    async fn fork(&self, from: &ThreadId, through: u64, to: &ThreadId) -> Result<(), ThreadError> {
        self.threads.fork(from, through, to).await
    }

    async fn delete(&self, id: &ThreadId) -> Result<(), ThreadError> {
        self.threads.delete(id).await
    }
}

/// Files whose process dies before, in the middle of, or after what is appended.
#[derive(Debug)]
struct Torn(Arc<Fuse>);

#[async_trait]
impl Append for Torn {
    async fn append(
        &self,
        files: &dyn Backend,
        path: &VirtualPath,
        bytes: Bytes,
    ) -> Result<Entry, BackendError> {
        self.0.step().await;
        if self.0.burns() {
            files.append(path, bytes.slice(..bytes.len() / 2)).await?;
            return self.0.die().await;
        }
        let entry = files.append(path, bytes).await?;
        self.0.step().await;
        Ok(entry)
    }
}

/// Summarises what it is given, answers everything else, and cannot read more than so many messages.
#[derive(Debug)]
struct Talks {
    limits: ModelLimits,
    most: usize,
}

#[async_trait]
impl Model for Talks {
    fn name(&self) -> &str {
        "talks"
    }

    fn limits(&self) -> ModelLimits {
        self.limits
    }

    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        if request.messages.len() > self.most {
            return Err(ModelError::new("talks", ModelErrorKind::ContextTooLong, "that is too long"));
        }
        let is_summary = request.messages[0].text().ends_with("\n</messages>");
        let text = if is_summary { "A summary." } else { "An answer." };
        Ok(stream::iter([Ok(ModelDelta::Text(text.to_owned()))]).boxed())
    }
}

/// What a life of a thread is made of.
#[derive(Clone, Debug)]
struct Plan {
    trigger: Trigger,
    keep: Keep,
    limits: ModelLimits,
    /// How many messages the model can read.
    most: usize,
    /// What is put at the end of the conversation, and then something is said.
    rounds: Vec<Vec<Piece>>,
    /// How many steps each process lives, one after another; the last does not die.
    lives: Vec<usize>,
}

/// Something in a conversation, so many letters long.
#[derive(Clone, Debug)]
enum Piece {
    Said(usize),
    Answered(usize),
    Called(Vec<usize>),
}

fn messages(round: usize, pieces: &[Piece]) -> Vec<Message> {
    let mut messages = Vec::new();
    for (number, piece) in pieces.iter().enumerate() {
        let name = |part: usize, length: &usize| format!("<{round}.{number}.{part}>{}", "x".repeat(*length));
        match piece {
            Piece::Said(length) => messages.push(Message::user(name(0, length))),
            Piece::Answered(length) => {
                messages.push(Message::assistant(vec![AssistantPart::Text { text: name(0, length) }]));
            }
            Piece::Called(lengths) => {
                let id = |part: usize| format!("{round}-{number}-{part}").as_str().into();
                let call =
                    |part| ToolCall { id: id(part), name: "ls".to_owned(), arguments: "{}".to_owned() };
                let calls = (0..lengths.len()).map(|part| AssistantPart::ToolCall(call(part))).collect();
                messages.push(Message::assistant(calls));
                messages.extend(lengths.iter().enumerate().map(|(part, length)| {
                    let text = name(part, length);
                    Message::tool(ToolResult { call: id(part), name: "ls".to_owned(), text, is_error: false })
                }));
            }
        }
    }
    messages
}

/// Lives through a plan in memory. Says how often a process died.
async fn live(plan: &Plan) -> usize {
    live_on(plan, Arc::new(MemoryThreads::new()), Arc::new(MemoryBackend::new())).await
}

async fn live_on(plan: &Plan, threads: Arc<dyn ThreadStore>, files: Arc<dyn Backend>) -> usize {
    let fuse = Arc::new(Fuse::default());
    let store = Arc::new(Mortal { threads, fuse: Arc::clone(&fuse), last: Mutex::default() });
    let backend: Arc<dyn Backend> = Arc::new(Appends { files, append: Torn(Arc::clone(&fuse)) });
    let builder = || -> AgentBuilder {
        let model = Arc::new(Talks { limits: plan.limits, most: plan.most });
        let summarisation =
            Summarisation::new(model.clone(), backend.clone()).trigger(plan.trigger).keep(plan.keep);
        Agent::builder(model).middleware(summarisation).store(store.clone())
    };
    let agent = builder().build().unwrap();
    let id = ThreadId::new();
    let (mut lives, mut deaths) = (plan.lives.iter(), 0);
    for (round, pieces) in plan.rounds.iter().enumerate() {
        *fuse.left.lock().unwrap() = None;
        let mut thread = agent.open(id.clone()).await.unwrap();
        thread.import(messages(round, pieces)).await.unwrap();
        *fuse.left.lock().unwrap() = lives.next().copied();
        let said = format!("<{round}>");
        loop {
            let is_said = thread.state().messages().iter().any(|message| message.text() == said);
            let turn = async {
                if is_said { thread.go_on(&NoWatcher).await } else { thread.say(&said[..], &NoWatcher).await }
            };
            let lived = tokio::select! {
                biased;
                turn = turn => {
                    turn.unwrap();
                    true
                }
                () = fuse.died.notified() => false,
            };
            if lived {
                assert_eq!(thread.state().next(), NextStep::Wait);
                break;
            }
            deaths += 1;
            *fuse.left.lock().unwrap() = lives.next().copied();
            thread = agent.open(id.clone()).await.unwrap();
        }
    }
    check(&store.threads.events(&id, 0, usize::MAX).await.unwrap(), &*backend, &id).await;
    deaths
}

/// Each message is in the history or in sight, once; no call is parted from its result; the last is never gone.
async fn check(events: &[StoredEvent], backend: &dyn Backend, id: &ThreadId) {
    let (mut run, mut expected) = (ThreadState::default(), Vec::new());
    for stored in events {
        let before = run.cut();
        run.apply(&stored.event).unwrap();
        if let Event::Compacted { .. } = stored.event {
            assert!(before < run.cut(), "something is taken out");
            assert!(run.cut() < run.messages().len(), "the last message stays");
            let (_, evicted) = run.messages()[..run.cut()].split_at(before);
            pairs_are_whole(evicted);
            assert!(!matches!(run.messages()[run.cut()].content, Content::Tool(_)));
            expected.push(told(evicted));
        }
    }
    pairs_are_whole(&run.messages()[run.cut()..]);
    if expected.is_empty() {
        assert!(backend.stat(&history(id)).await.is_err());
        return;
    }
    assert_eq!(sections(&text_of(backend, &history(id)).await), expected);
}

/// Every step of two compactions in a row is the last one once, with the same words in both.
#[tokio::test]
async fn death_at_any_step_loses_and_doubles_nothing() {
    let pieces = vec![Piece::Said(3), Piece::Called(vec![2, 2]), Piece::Answered(2), Piece::Said(1)];
    for (trigger, most) in [(Trigger::Messages(4), usize::MAX), (Trigger::Messages(999), 5)] {
        let mut plan = Plan {
            trigger,
            keep: Keep::Messages(2),
            limits: ModelLimits::default(),
            most,
            rounds: vec![pieces.clone(), pieces.clone()],
            lives: Vec::new(),
        };
        let mut steps = 0;
        loop {
            // The first round dies, then the second; then a life that dies twice at the same step.
            plan.lives = vec![steps];
            let first = live(&plan).await;
            plan.lives = vec![usize::MAX, steps];
            let second = live(&plan).await;
            plan.lives = vec![steps, steps / 2, steps];
            live(&plan).await;
            if first + second == 0 {
                break;
            }
            steps += 1;
        }
        assert!(steps > 12, "{steps}");
    }
}

/// The same with a database and a disk.
#[tokio::test]
async fn death_at_any_step_with_a_database_and_a_disk() {
    let world = World::new(&[]).await;
    let pieces = vec![Piece::Said(3), Piece::Called(vec![2, 2]), Piece::Answered(2), Piece::Said(1)];
    for steps in 0.. {
        let plan = Plan {
            trigger: Trigger::Messages(4),
            keep: Keep::Messages(2),
            limits: ModelLimits::default(),
            most: usize::MAX,
            rounds: vec![pieces.clone()],
            lives: vec![steps],
        };
        if live_on(&plan, Arc::new(world.store.clone()), world.backend()).await == 0 {
            assert!(steps > 12, "{steps}");
            break;
        }
    }
}

fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        (0..400_usize).prop_map(Piece::Said),
        (1..400_usize).prop_map(Piece::Answered),
        prop::collection::vec(0..400_usize, 1..4).prop_map(Piece::Called),
    ]
}

prop_compose! {
    fn any_plan()(
        trigger in prop_oneof![
            (1..12_usize).prop_map(Trigger::Messages),
            (1..600_u64).prop_map(Trigger::Tokens),
            (0.0..1.0).prop_map(Trigger::Fraction),
        ],
        keep in prop_oneof![
            (0..8_usize).prop_map(Keep::Messages),
            (0..300_u64).prop_map(Keep::Tokens),
            (0.0..1.0).prop_map(Keep::Fraction),
        ],
        limits in prop_oneof![
            Just(ModelLimits::default()),
            (600..4000_u64).prop_map(|context| ModelLimits::new(context, context / 4)),
        ],
        most in prop_oneof![Just(usize::MAX), 3..12_usize],
        rounds in prop::collection::vec(prop::collection::vec(piece(), 0..12), 1..5),
        lives in prop::collection::vec(0..20_usize, 0..6),
    ) -> Plan {
        Plan { trigger, keep, limits, most, rounds, lives }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_plan_and_no_death_loses_doubles_or_parts_anything(plan in any_plan()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(live(&plan));
    }
}
