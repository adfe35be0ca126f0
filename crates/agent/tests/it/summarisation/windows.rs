//! When a conversation is too long for its model, and what happens when nothing can be done about it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use prowess_agent::middleware::{Announcement, Reaction};
use prowess_agent::middleware::{Keep, SkillModel, SkillModels, Summarisation, Trigger};
use prowess_agent::model::ModelLimits;
use prowess_agent::{
    Agent, Event, FunctionTool, MemoryThreads, Message, Middleware, MiddlewareContext, Model, NoWatcher,
    Thread, ThreadId, ThreadStore, ThreadUpdate, ToolAnswer, TurnOutcome, TurnStatus,
};
use prowess_backend::{Backend, BackendError, Entry, MemoryBackend, VirtualPath};
use prowess_skills::Dialect;

use super::{Append, Appends, after, history, long_thread, pairs_are_whole, sections, text_of, thread, told};
use crate::says::{self, Says, after_reading, calls, text, too_long};
use crate::world::World;

/// A model that reads 1000 tokens, and says 500 more.
const LIMITS: (u64, u64) = (1500, 500);

fn reader(turns: impl IntoIterator<Item = says::Turn>) -> Arc<Says> {
    Says::within(ModelLimits::new(LIMITS.0, LIMITS.1), turns)
}

fn files() -> Arc<dyn Backend> {
    Arc::new(MemoryBackend::new())
}

/// A message of so many tokens, as these tests count.
fn long(tokens: usize) -> Message {
    Message::user("x".repeat((tokens - 4) * 4))
}

async fn opened(agent: prowess_agent::AgentBuilder) -> Thread {
    agent.build().unwrap().open(ThreadId::new()).await.unwrap()
}

/// The model counted itself: that is what counts, with what came since, and without what it is to say.
#[tokio::test]
async fn what_the_model_counted_decides() {
    for (read, since, is_cut) in [
        (820, 20, false),
        (830, 20, true),
        // The provider counts three quarters of what prowess does.
        (150, 900, false),
        (150, 960, true),
        // A provider that reports far too little or too much is not believed.
        (10, 600, false),
        (10, 700, true),
        (100_000, 20, false),
    ] {
        let model = reader([after_reading(read, text("ab")), text("Ready."), text("Ready.")]);
        let summariser = Says::new([text("A summary.")]);
        let summarisation = Summarisation::new(summariser.clone(), files());
        let mut thread = opened(Agent::builder(model.clone()).middleware(summarisation)).await;
        thread.say_all(vec![long(200)], &NoWatcher).await.unwrap();
        thread.say_all(vec![long(since)], &NoWatcher).await.unwrap();
        // It read that, said 2, and reads what came since; 85 of 100 are the most.
        assert_eq!(thread.state().cut() > 0, is_cut, "{read} and {since}");
        assert_eq!(summariser.count(), usize::from(is_cut));
    }
}

/// A model that does not count: its prompt and its tools are counted for it.
#[tokio::test]
async fn prompt_and_tools_are_counted() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Nothing {}
    let silent = |said: &str| after_reading(0, text(said));
    let prompt = "p".repeat(1400);
    let description = "d".repeat(1400);
    let tool = FunctionTool::new("look", description, |_: Nothing| async { Ok(ToolAnswer::text("")) });
    let tool = Arc::new(tool);
    for (has_prompt, has_tool, is_cut) in [(false, false, false), (true, false, false), (true, true, true)] {
        let model = reader([silent("one"), silent("two")]);
        let summariser = Says::new([text("A summary.")]);
        let mut agent = Agent::builder(model.clone()).middleware(Summarisation::new(summariser, files()));
        if has_prompt {
            agent = agent.prompt(prompt.clone());
        }
        if has_tool {
            agent = agent.tool(tool.clone());
        }
        let mut thread = opened(agent).await;
        thread.import(vec![long(200), long(20)]).await.unwrap();
        thread.say("one", &NoWatcher).await.unwrap();
        thread.say("two", &NoWatcher).await.unwrap();
        assert_eq!(thread.state().cut() > 0, is_cut, "{has_prompt}, {has_tool}");
    }
}

/// The summary itself takes room, and what the agent's model reads is not what the summariser reads.
#[tokio::test]
async fn the_agents_window_counts_and_not_the_summarisers() {
    let model = reader([text("Ready.")]);
    let summariser = Says::within(ModelLimits::new(1_000_000, 1000), [text("A summary.")]);
    let summarisation = Summarisation::new(summariser.clone(), files());
    let mut thread = opened(Agent::builder(model.clone()).middleware(summarisation)).await;
    thread.import(vec![long(500), long(300), long(40)]).await.unwrap();
    thread.say_all(vec![long(50)], &NoWatcher).await.unwrap();
    // A tenth of a thousand stays.
    assert_eq!((thread.state().cut(), model.request(0).messages.len()), (2, 3));
}

/// The last message stays, however long it is, and so does the call that it answers.
#[tokio::test]
async fn the_last_message_stays() {
    for keep in [Keep::Messages(0), Keep::Tokens(0), Keep::Fraction(0.0), Keep::Fraction(0.1)] {
        let model = reader([text("A summary."), text("Ready.")]);
        let summarisation = after(3, 1)(model.clone(), files()).keep(keep);
        let mut thread = opened(Agent::builder(model.clone()).middleware(summarisation)).await;
        thread.import(vec![long(60), long(60), long(60)]).await.unwrap();
        thread.say_all(vec![long(700)], &NoWatcher).await.unwrap();
        assert_eq!((thread.state().cut(), thread.state().messages().len()), (3, 5), "{keep:?}");
        assert_eq!(model.request(1).messages[1].text().len(), 696 * 4);
    }
}

/// If the window is unknown, a fraction is six messages.
#[tokio::test]
async fn without_a_window_six_messages_stay() {
    let store = Arc::new(MemoryThreads::new());
    let id = long_thread(&store, 40).await;
    let model = Says::new([text("A summary."), text("Ready.")]);
    let summarisation = after(10, 0)(model.clone(), files()).keep(Keep::Fraction(0.1));
    let mut thread = thread(&store, &model, summarisation, &id).await;
    thread.say("go on", &NoWatcher).await.unwrap();
    assert_eq!(model.request(1).messages.len(), 1 + 6);
    // And 170,000 tokens are the most.
    for (tokens, is_cut) in [(169_000, false), (170_000, true)] {
        let model = Says::new([text("Ready.")]);
        let summarisation = Summarisation::new(Says::new((0..3).map(|_| text("A summary."))), files());
        let mut thread = opened(Agent::builder(model.clone()).middleware(summarisation)).await;
        let mut messages: Vec<Message> = (0..6).map(|_| long(10)).collect();
        messages.insert(0, long(tokens - 6 * 10));
        thread.import(messages).await.unwrap();
        thread.say_all(vec![long(10)], &NoWatcher).await.unwrap();
        assert_eq!(thread.state().cut() > 0, is_cut);
    }
}

#[derive(Debug)]
struct Full;

#[async_trait]
impl Append for Full {
    async fn append(&self, _: &dyn Backend, path: &VirtualPath, _: Bytes) -> Result<Entry, BackendError> {
        Err(BackendError::Conflict { path: path.clone(), attempts: 1 })
    }
}

/// The history cannot be written: while there is room the turn goes on, and ends when there is none.
#[tokio::test]
async fn a_full_window_that_cannot_be_emptied_ends_the_turn() {
    for (tokens, is_full) in [(900, false), (1100, true)] {
        let model = reader([text("Ready.")]);
        let summariser = Says::new([text("A summary.")]);
        let backend = Arc::new(Appends { files: files(), append: Full });
        let summarisation = Summarisation::new(summariser, backend);
        let mut thread = opened(Agent::builder(model.clone()).middleware(summarisation)).await;
        thread.import(vec![long(tokens)]).await.unwrap();
        let turn = thread.say("go on", &NoWatcher).await.unwrap();
        let path = format!("/conversation_history/{}.md", thread.id());
        match turn {
            TurnStatus::Ended(TurnOutcome::WindowFull { why }) => {
                assert!(is_full && why.contains(&path), "{why}");
                assert_eq!(model.count(), 0, "it is not asked in vain");
            }
            turn => assert_eq!((turn, is_full), (TurnStatus::Ended(TurnOutcome::Responded), false)),
        }
        assert_eq!(thread.state().cut(), 0);
    }
}

/// No summary, no cut; the window decides whether the turn can go on.
#[tokio::test]
async fn a_summariser_that_fails_is_no_reason_to_stop_while_there_is_room() {
    for (tokens, is_full) in [(900, false), (1100, true)] {
        let model = reader([text("Ready.")]);
        let summarisation = Summarisation::new(Says::new([]), files());
        let mut thread = opened(Agent::builder(model.clone()).middleware(summarisation)).await;
        thread.import(vec![long(tokens)]).await.unwrap();
        let turn = thread.say("go on", &NoWatcher).await.unwrap();
        assert_eq!(matches!(turn, TurnStatus::Ended(TurnOutcome::WindowFull { .. })), is_full, "{turn:?}");
        assert_eq!((thread.state().cut(), model.count()), (0, usize::from(!is_full)));
    }
}

/// The provider counts otherwise: it fails once, the conversation is cut, it answers.
#[tokio::test]
async fn a_provider_that_cannot_read_so_much_is_asked_again_for_less() {
    let store = Arc::new(MemoryThreads::new());
    let id = long_thread(&store, 40).await;
    let backend = files();
    let model = Says::new([too_long(), text("A summary."), text("Ready.")]);
    let summarisation = after(1000, 4)(model.clone(), backend.clone());
    let mut thread = thread(&store, &model, summarisation, &id).await;
    assert_eq!(thread.say("go on", &NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    assert_eq!((model.request(0).messages.len(), model.request(2).messages.len()), (41, 5));
    pairs_are_whole(&model.request(2).messages[1..]);
    let cut = thread.state().cut();
    let file = text_of(&*backend, &history(&id)).await;
    assert_eq!(sections(&file), [told(&thread.state().messages()[..cut])]);
}

/// It never reads enough: less is shown once, and then it ends.
#[tokio::test]
async fn a_provider_that_reads_nothing_is_not_asked_for_ever() {
    let store = Arc::new(MemoryThreads::new());
    let id = long_thread(&store, 40).await;
    let model = Says::new((0..100).map(|_| too_long()));
    let summariser = Says::new((0..100).map(|_| text("A summary.")));
    let summarisation = after(1000, 4)(summariser, files());
    let mut thread = thread(&store, &model, summarisation, &id).await;
    let turn = thread.say("go on", &NoWatcher).await.unwrap();
    assert!(matches!(turn, TurnStatus::Ended(TurnOutcome::WindowFull { .. })), "{turn:?}");
    let shown: Vec<usize> = (0..model.count()).map(|number| model.request(number).messages.len()).collect();
    assert_eq!(shown, [41, 5], "one compaction, and one more attempt");
}

/// The same, and the history cannot be written.
#[tokio::test]
async fn a_provider_that_cannot_read_so_much_and_a_full_disk_end_the_turn() {
    let store = Arc::new(MemoryThreads::new());
    let id = long_thread(&store, 40).await;
    let model = Says::new([too_long(), text("A summary.")]);
    let backend = Arc::new(Appends { files: files(), append: Full });
    let summarisation = after(1000, 4)(model.clone(), backend);
    let mut thread = thread(&store, &model, summarisation, &id).await;
    let turn = thread.say("go on", &NoWatcher).await.unwrap();
    assert!(matches!(turn, TurnStatus::Ended(TurnOutcome::WindowFull { .. })), "{turn:?}");
    assert_eq!((thread.state().cut(), model.count()), (0, 2));
}

/// A middleware that objects to compactions as long as it is told to.
#[derive(Clone, Debug, Default)]
struct Objects(Arc<AtomicBool>, Arc<Mutex<Vec<usize>>>);

#[async_trait]
impl Middleware for Objects {
    fn name(&self) -> &str {
        "objects"
    }

    async fn on_announcement(&self, _: MiddlewareContext<'_>, announcement: Announcement<'_>) -> Reaction {
        let Announcement::Compacting { messages } = announcement else { return Reaction::default() };
        self.1.lock().unwrap().push(messages);
        let objection = self.0.load(Ordering::Relaxed).then(|| "not now".to_owned());
        let mut reaction = Reaction::default();
        reaction.objection = objection;
        reaction
    }
}

#[tokio::test]
async fn an_objection_leaves_all_in_place() {
    let store = Arc::new(MemoryThreads::new());
    let id = long_thread(&store, 40).await;
    let (model, summariser) =
        (Says::new([text("Ready."), text("Ready."), too_long()]), Says::new([text("A summary.")]));
    let summarisation = after(10, 4)(summariser.clone(), files());
    let objects = Objects::default();
    objects.0.store(true, Ordering::Relaxed);
    let agent = Agent::builder(model.clone())
        .middleware(summarisation)
        .middleware(objects.clone())
        .store(store)
        .build()
        .unwrap();
    let mut thread = agent.open(id).await.unwrap();
    assert_eq!(thread.say("go on", &NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    assert_eq!((thread.state().cut(), model.request(0).messages.len()), (0, 41));
    assert_eq!(summariser.count(), 0, "nobody paid for a summary");
    objects.0.store(false, Ordering::Relaxed);
    thread.say("and on", &NoWatcher).await.unwrap();
    assert_eq!(*objects.1.lock().unwrap(), [37, 39], "each is told of once, by its messages");
    assert_eq!(thread.state().cut(), 39);
    // Once the model cannot go on, the objection ends the turn.
    objects.0.store(true, Ordering::Relaxed);
    let turn = thread.say("and on", &NoWatcher).await.unwrap();
    assert_eq!(turn, TurnStatus::Ended(TurnOutcome::WindowFull { why: "not now".to_owned() }));
}

/// A person wants a summary: it is made before the next call of the model, also by another process, and once.
#[tokio::test]
async fn a_person_can_ask_for_it() {
    let store = Arc::new(MemoryThreads::new());
    let id = long_thread(&store, 40).await;
    let model = Says::new(["A summary.", "Ready.", "Again."].map(text));
    let summarisation = || after(1000, 4)(model.clone(), files());
    let mut first = thread(&store, &model, summarisation(), &id).await;
    first.change(Summarisation::request()).await.unwrap();
    first.close().await.unwrap();
    let mut second = thread(&store, &model, summarisation(), &id).await;
    second.say("go on", &NoWatcher).await.unwrap();
    assert_eq!((second.state().cut(), model.request(1).messages.len()), (40, 2), "as short as it can be");
    second.say("go on", &NoWatcher).await.unwrap();
    assert_eq!((second.state().cut(), model.count()), (40, 3));
}

/// Where there is nothing to take out, the wish is gone and nothing is asked.
#[tokio::test]
async fn a_wish_that_cannot_be_fulfilled_is_dropped() {
    let model = Says::new(["Ready.", "Ready.", "Ready.", "Ready."].map(text));
    let summarisation = after(1000, 4)(model.clone(), files());
    let mut thread = opened(Agent::builder(model.clone()).middleware(summarisation)).await;
    thread.change(Summarisation::request()).await.unwrap();
    for _ in 0..4 {
        thread.say("go on", &NoWatcher).await.unwrap();
    }
    assert_eq!((thread.state().cut(), model.count()), (0, 4));
}

/// Steps that are stored: what is decided comes before the cut, and the cut before the next question.
#[tokio::test]
async fn it_is_decided_before_it_is_done() {
    let store = Arc::new(MemoryThreads::new());
    let id = long_thread(&store, 40).await;
    let model = Says::new([text("A summary."), text("Ready.")]);
    let summarisation = after(10, 4)(model.clone(), files());
    let mut thread = thread(&store, &model, summarisation, &id).await;
    let seen = Mutex::new(Vec::new());
    let watcher = |sight: ThreadUpdate<'_>| {
        if let ThreadUpdate::Stored(event) = sight {
            seen.lock().unwrap().push(match event {
                Event::TurnStarted { .. } => "turn",
                Event::StateChanged { .. } => "decided",
                Event::Compacted { .. } => "cut",
                Event::ModelCalled { .. } => "asked",
                Event::ModelResponded { .. } => "answered",
                Event::TurnEnded { .. } => "ended",
                _ => "other",
            });
        }
    };
    thread.say("go on", &watcher).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), ["turn", "decided", "cut", "asked", "answered", "ended"]);
}

/// A call of the model on a long thread counts what is new, and nothing where only messages matter.
#[tokio::test]
async fn nothing_is_counted_twice() {
    let store = Arc::new(MemoryThreads::new());
    let id = long_thread(&store, 2000).await;
    for (trigger, first, second) in [(Trigger::Messages(9999), 0, 0), (Trigger::Tokens(999_999), 2500, 3)] {
        let model = Says::new((0..3).map(|_| after_reading(0, text("Ready."))));
        let summarisation = Summarisation::new(model.clone(), files()).trigger(trigger);
        let fork = ThreadId::new();
        let events = store.events(&id, 0, usize::MAX).await.unwrap().len() as u64;
        store.fork(&id, events, &fork).await.unwrap();
        let mut thread = thread(&store, &model, summarisation, &fork).await;
        thread.say("go on", &NoWatcher).await.unwrap();
        let before = model.counted();
        assert!((first..=first + 10).contains(&before), "{before}");
        thread.say("go on", &NoWatcher).await.unwrap();
        let since = model.counted() - before;
        assert!(since <= second, "{since}");
    }
}

/// A skill wants a model with a small window: it gets what fits, and the thread's own model the rest.
#[tokio::test]
async fn a_request_that_is_too_long_for_a_skills_model_goes_to_the_threads_own() {
    for (tokens, is_own) in [(300, false), (3_000, true)] {
        let world = World::new(&[("sums", "model: small\n", "Count.")]).await;
        let own = Says::within(
            ModelLimits::new(100_000, 500),
            [calls(&[("a", "load_skill", "{\"skill_name\": \"sums\"}")]), text("from the own model")],
        );
        let small = Says::within(ModelLimits::new(2_500, 500), [text("from the small model")]);
        let found = Arc::clone(&small);
        let models = SkillModels::new(move |_| SkillModel::Use(Arc::clone(&found) as Arc<dyn Model>));
        let skills = world.skills(Dialect::DeepAgents).models(models);
        let summarisation = Summarisation::new(own.clone(), files());
        let agent = world.agent(own.clone()).middleware(skills).middleware(summarisation).build().unwrap();
        let mut thread = agent.open(ThreadId::new()).await.unwrap();
        let notices = Mutex::new(Vec::new());
        let watcher = |update: ThreadUpdate<'_>| {
            if let ThreadUpdate::Notice(text) = update {
                notices.lock().unwrap().push(text.to_owned());
            }
        };
        let turn = thread.say_all(vec![long(tokens)], &watcher).await.unwrap();
        assert_eq!(turn, TurnStatus::Ended(TurnOutcome::Responded));
        assert_eq!((own.count(), small.count()), if is_own { (2, 0) } else { (1, 1) });
        let told = notices.lock().unwrap().join("\n");
        assert_eq!(told.contains("too long for its context window"), is_own, "{told}");
    }
}
