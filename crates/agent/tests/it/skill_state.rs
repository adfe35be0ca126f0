//! The log is the only owner of what is loaded: whoever opens the thread sees what its writer saw.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use async_trait::async_trait;
use proptest::prelude::*;
use prowess_agent::middleware::MiddlewareError;
use prowess_agent::middleware::SkillsState;
use prowess_agent::model::ModelUsage;
use prowess_agent::{
    Agent, CallReply, Event, MemoryThreads, Message, Middleware, MiddlewareAction, MiddlewareContext,
    NoWatcher, Thread, ThreadId, ThreadStore, TurnOutcome, TurnStatus,
};
use prowess_permission::Decision;
use prowess_skills::delta::UnloadReason;
use prowess_skills::{Budgets, Capabilities, Dialect, SessionOptions, SkillDelta, SkillState};
use serde_json::json;

use crate::agent::results;
use crate::says::{Says, calls, text};
use crate::world::World;

const NAMES: [&str; 4] = ["ant", "bee", "cow", "dog"];
const MOST: usize = 2;

async fn world() -> World {
    let skills = NAMES.map(|name| (name, "", "Look after it."));
    let world = World::new(&skills).await;
    for name in NAMES {
        world.write(&format!("{name}/references/food.md"), "Hay.\n");
        world.write(&format!("{name}/references/home.md"), "A barn.\n");
    }
    world
}

fn options(most: usize) -> SessionOptions {
    let mut options = SessionOptions::new(Dialect::DeepAgents);
    options.budgets = Budgets::new(most, None);
    options.capabilities = Capabilities::all();
    options
}

/// Takes all but the last message out of the model's sight, when a person says so.
#[derive(Clone, Debug)]
struct Cuts;

#[async_trait]
impl Middleware for Cuts {
    fn name(&self) -> &str {
        "cuts"
    }

    async fn before_model(
        &self,
        context: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        let all = context.thread_state.messages();
        let last = all.len() - 1;
        if context.thread_state.model_calls() > 0
            || all[last].text() != "cut"
            || context.thread_state.cut() == last
        {
            return Ok(Vec::new());
        }
        let summary = Message::user("They talked about animals.");
        Ok(vec![MiddlewareAction::Compact { cut: last, summary, spent: ModelUsage::default() }])
    }
}

fn state(thread: &Thread) -> SkillState {
    SkillState::clone(SkillsState::of(thread.states()).unwrap().state())
}

fn names(thread: &Thread) -> Vec<String> {
    state(thread).names().map(str::to_owned).collect()
}

/// Closes a thread and opens it twice, one after the other. Each has what the one before had, and stores nothing for it.
async fn opened_again(agent: &Agent, thread: Thread) -> Thread {
    let (id, mut thread) = (thread.id().clone(), thread);
    for _ in 0..2 {
        let seen = (state(&thread), thread.events(), thread.state().clone());
        let prompt = thread.preview().await.unwrap().system_text();
        thread.close().await.unwrap();
        thread = agent.open(id.clone()).await.unwrap();
        assert_eq!((state(&thread), thread.events(), thread.state().clone()), seen);
        assert_eq!(thread.preview().await.unwrap().system_text(), prompt);
    }
    thread
}

/// What calls changed, in the order of the calls.
async fn deltas(store: &dyn ThreadStore, id: &ThreadId, order: &[&str]) -> Vec<SkillDelta> {
    let events = store.events(id, 0, 1000).await.unwrap();
    let answers = events.into_iter().filter_map(|stored| match stored.event {
        Event::ToolAnswered { call, answer } => Some((call.as_str().to_owned(), answer.changes)),
        _ => None,
    });
    let answers: BTreeMap<String, _> = answers.collect();
    let changes = order.iter().flat_map(|call| &answers[*call]);
    changes.filter_map(SkillsState::delta).collect()
}

/// Five calls of one answer, the first of which waits for a person who answers in another process.
#[tokio::test]
async fn calls_of_one_answer_hold_the_limits_together() {
    for (reply, expected) in [
        (CallReply::Approve, vec!["cow", "dog"]),
        (CallReply::Reject { message: "no bees".to_owned() }, vec!["cow", "dog"]),
    ] {
        let world = world().await;
        let skill = |name: &str| json!({"skill_name": name}).to_string();
        let select = json!({"skill": "ant", "docs": ["references/food.md"]}).to_string();
        let model = Says::new([
            calls(&[("1", "load_skill", &skill("ant"))]),
            calls(&[
                ("2", "load_skill", &skill("bee")),
                ("3", "load_skill", &skill("cow")),
                ("4", "skill_select_docs", &select),
                ("5", "unload_skill", &skill("ant")),
                ("6", "load_skill", &skill("dog")),
            ]),
            text("done"),
        ]);
        let agent = || {
            let rules = [("skill", "*", Decision::Allow), ("skill", "bee", Decision::Ask)];
            world
                .agent(model.clone())
                .middleware(world.skills_with(|_| options(MOST), &rules))
                .build()
                .unwrap()
        };
        let id = ThreadId::new();
        let mut thread = agent().open(id.clone()).await.unwrap();
        let turn = thread.say("go", &NoWatcher).await.unwrap();
        let TurnStatus::Waiting(waiting) = turn else { panic!("{turn:?}: {:?}", results(&thread)) };
        assert_eq!(waiting.iter().map(|waiting| waiting.call.id.as_str()).collect::<Vec<_>>(), ["2"]);
        assert_eq!(names(&thread), ["ant"], "nothing takes effect before all are answered");
        let mut thread = opened_again(&agent(), thread).await;
        let turn = thread.reply("2", reply.clone(), &NoWatcher).await.unwrap();
        assert_eq!(turn, TurnStatus::Ended(TurnOutcome::Responded));
        assert_eq!(names(&thread), expected);
        let told = results(&thread);
        let is_right = match reply {
            // The two after it were answered before it, and there is no room.
            CallReply::Approve => told[1].contains("loaded skills reached (2). Currently loaded: cow, dog."),
            _ => told[1].contains("no bees"),
        };
        assert!(is_right, "{told:?}");
        assert!(told[3].contains("references/food.md"), "{told:?}");
        assert!(told[2].contains("Look after it.") && told[5].contains("Look after it."), "{told:?}");
        // In the order of the calls the log gives the same, and no change breaks a limit or does not fit.
        let mut replayed = SkillState::default();
        for delta in deltas(&world.store, &id, &["1", "2", "3", "4", "5", "6"]).await {
            replayed
                .apply(&delta, &Budgets::new(MOST, None))
                .unwrap_or_else(|why| panic!("{delta:?}: {why:?}"));
        }
        assert_eq!(replayed, state(&thread));
        opened_again(&agent(), thread).await;
    }
}

/// The budget is lower than it was: what was loaded first goes before the model is asked, and the log says so.
#[tokio::test]
async fn a_lowered_budget_unloads_what_was_loaded_first() {
    let world = world().await;
    let skill = |name: &str| json!({"skill_name": name}).to_string();
    let model = Says::new([
        calls(&[
            ("1", "load_skill", &skill("ant")),
            ("2", "load_skill", &skill("bee")),
            ("3", "load_skill", &skill("cow")),
        ]),
        text("done"),
        text("done"),
    ]);
    let agent = |most: usize| {
        let rules = [("skill", "*", Decision::Allow)];
        world
            .agent(model.clone())
            .middleware(world.skills_with(move |_| options(most), &rules))
            .build()
            .unwrap()
    };
    let id = ThreadId::new();
    let mut thread = agent(3).open(id.clone()).await.unwrap();
    thread.say("go", &NoWatcher).await.unwrap();
    assert_eq!(names(&thread), ["ant", "bee", "cow"]);
    thread.close().await.unwrap();
    let mut thread = agent(2).open(id.clone()).await.unwrap();
    let before = thread.events();
    assert_eq!(names(&thread), ["ant", "bee", "cow"], "to open a thread changes nothing");
    thread.say("go on", &NoWatcher).await.unwrap();
    let prompt = model.request(2).system_text();
    assert!(!prompt.contains("**ant** [Loaded]") && prompt.contains("**bee** [Loaded]"), "{prompt}");
    let stored = world.store.events(&id, before, 100).await.unwrap();
    let changes: Vec<SkillDelta> = stored
        .iter()
        .take_while(|stored| !matches!(stored.event, Event::ModelResponded { .. }))
        .filter_map(|stored| match &stored.event {
            Event::StateChanged { changes } => Some(changes),
            _ => None,
        })
        .flatten()
        .filter_map(SkillsState::delta)
        .collect();
    let gone = SkillDelta::Unloaded { name: "ant".to_owned(), reason: UnloadReason::Budget };
    assert_eq!(changes, [gone]);
    assert_eq!(names(&thread), ["bee", "cow"]);
    let turn = thread.say("/dog", &NoWatcher).await.unwrap();
    assert!(
        matches!(turn, TurnStatus::Ended(TurnOutcome::Stopped { .. })),
        "the limit holds for a person, too: {turn:?}"
    );
    opened_again(&agent(2), thread).await;
}

/// What a model may do with one skill.
fn any_call() -> impl Strategy<Value = (&'static str, String)> {
    let name = prop::sample::select(&NAMES[..]);
    (0..5_u8, name).prop_map(|(act, name)| match act {
        0 | 1 => ("load_skill", json!({"skill_name": name}).to_string()),
        2 => ("unload_skill", json!({"skill_name": name}).to_string()),
        3 => ("skill_select_docs", json!({"skill": name, "docs": ["references/food.md"]}).to_string()),
        _ => {
            ("skill_select_docs", json!({"skill": name, "include_all_docs": true, "mode": "add"}).to_string())
        }
    })
}

/// One turn: what is said, the calls of its answers, and after how many polls its future is dropped, if it is.
type Said = (bool, Vec<Vec<(&'static str, String)>>, Option<u8>);

fn any_turn() -> impl Strategy<Value = Said> {
    let answers = prop::collection::vec(prop::collection::vec(any_call(), 1..4), 0..3);
    (any::<bool>(), answers, prop::option::of(0..30_u8))
}

/// Polls a future so often, and drops it unless it is done.
async fn cut_off<T>(polls: Option<u8>, work: impl Future<Output = T>) -> Option<T> {
    let (mut work, mut left) = (pin!(work), polls);
    poll_fn(|context| match (&mut left, work.as_mut().poll(context)) {
        (_, Poll::Ready(done)) => Poll::Ready(Some(done)),
        (Some(0), Poll::Pending) => Poll::Ready(None),
        (left, Poll::Pending) => {
            if let Some(left) = left {
                *left -= 1;
            }
            Poll::Pending
        }
    })
    .await
}

async fn talk(turns: Vec<Said>) {
    let world = world().await;
    let store = Arc::new(MemoryThreads::new());
    let id = ThreadId::new();
    let rules = [("skill", "*", Decision::Allow), ("skill", "bee", Decision::Ask)];
    for (number, (cuts, answers, polls)) in turns.into_iter().enumerate() {
        let answers = answers.iter().enumerate().map(|(answer, all)| {
            let ids: Vec<String> = (0..all.len()).map(|call| format!("{number}-{answer}-{call}")).collect();
            let all =
                ids.iter().zip(all).map(|(id, (tool, arguments))| (id.as_str(), *tool, arguments.as_str()));
            calls(&all.collect::<Vec<_>>())
        });
        // One answer may be lost with a future that is dropped.
        let model = Says::new(answers.chain([text("done"), text("done"), text("done")]));
        let agent = Agent::builder(model)
            .middleware(world.skills_with(|_| options(MOST), &rules))
            .middleware(Cuts)
            .store(store.clone())
            .build()
            .unwrap();
        let mut thread = agent.open(id.clone()).await.unwrap();
        let said = if cuts { "cut" } else { "go" };
        let mut turn = cut_off(polls, thread.say(said, &NoWatcher)).await;
        if turn.is_none() {
            // The handle that was cut off comes to the same as one that is opened.
            turn = Some(thread.go_on(&NoWatcher).await);
        }
        let mut turn = turn.unwrap().unwrap();
        while let TurnStatus::Waiting(waiting) = &turn {
            thread = opened_again(&agent, thread).await;
            turn = thread.reply(&waiting[0].call.id, CallReply::Approve, &NoWatcher).await.unwrap();
        }
        assert!(names(&thread).len() <= MOST, "{:?}", names(&thread));
        opened_again(&agent, thread).await.close().await.unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Whatever a model loads, unloads and chooses, whatever is taken out of its sight and wherever a future is dropped:
    /// a thread that is opened again is the one that was written.
    #[test]
    fn a_reopened_thread_never_differs(turns in prop::collection::vec(any_turn(), 1..5)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(talk(turns));
    }
}
