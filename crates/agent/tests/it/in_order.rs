//! Calls that finish in order: what each checks over the states holds for all calls of an answer together, whichever
//! asks a person, whichever is answered first, and in whichever process.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use proptest::prelude::*;
use prowess_agent::model::ToolDefinition;
use prowess_agent::state::AnyState;
use prowess_agent::thread_state::StateChange;
use prowess_agent::{
    Agent, AgentOptions, CallReply, MemoryThreads, Middleware, MiddlewareContext, NoWatcher, State, States,
    Thread, ThreadId, Tool, ToolAnswer, ToolContext, ToolOutput, TurnOutcome, TurnStatus,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::asks::own_question;
use crate::says::{Says, calls, text};

/// How many things the bag holds.
const LIMIT: usize = 3;

#[derive(Clone, Debug, Default, PartialEq)]
struct Bag(BTreeSet<u8>);

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Delta {
    In(u8),
    Out(u8),
}

impl State for Bag {
    type Delta = Delta;

    fn apply(&mut self, delta: Delta) {
        match delta {
            Delta::In(thing) => drop(self.0.insert(thing)),
            Delta::Out(thing) => drop(self.0.remove(&thing)),
        }
    }
}

/// What one call does.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Plan {
    thing: u8,
    /// Whether it puts the thing in; it takes it out otherwise.
    puts: bool,
    /// Whether it asks a person first.
    asks: bool,
    /// How long it takes to prepare.
    pause: u8,
}

#[derive(Clone, Debug)]
struct Bags;

#[derive(Debug)]
struct Pack;

#[async_trait]
impl Tool for Pack {
    fn definition(&self) -> Arc<ToolDefinition> {
        let parameters = json!({"type": "object"});
        ToolDefinition::new("pack", "Packs.", parameters).into()
    }

    async fn call(&self, arguments: Value, context: ToolContext<'_>) -> ToolOutput {
        let plan: Plan = serde_json::from_value(arguments).unwrap();
        for _ in 0..plan.pause {
            tokio::task::yield_now().await;
        }
        if plan.asks && context.consultation.is_none() {
            return own_question("May I?").into();
        }
        ToolOutput::InOrder(Box::new(move |states| packed(&plan, states)))
    }
}

fn packed(plan: &Plan, states: &States) -> ToolAnswer {
    let bag = states.get::<Bag>("bags").unwrap();
    let delta = match (plan.puts, bag.0.contains(&plan.thing)) {
        (true, true) => return ToolAnswer::text("It is in."),
        (false, false) => return ToolAnswer::text("It is not in."),
        (true, false) if bag.0.len() >= LIMIT => return ToolAnswer::error("The bag is full."),
        (true, false) => Delta::In(plan.thing),
        (false, true) => Delta::Out(plan.thing),
    };
    ToolAnswer::text("Packed.").change(StateChange::new::<Bag>("bags", &delta))
}

#[async_trait]
impl Middleware for Bags {
    fn name(&self) -> &str {
        "bags"
    }

    fn state(&self) -> Option<Box<dyn AnyState>> {
        Some(Box::<Bag>::default())
    }

    fn tools(&self, _: MiddlewareContext<'_>) -> Vec<Arc<dyn Tool>> {
        vec![Arc::new(Pack)]
    }
}

fn agent(plans: &[Plan], at_once: usize) -> Agent {
    let made: Vec<_> =
        plans.iter().zip('a'..).map(|(plan, id)| (id.to_string(), json!(plan).to_string())).collect();
    let made: Vec<_> = made.iter().map(|(id, plan)| (id.as_str(), "pack", plan.as_str())).collect();
    let model = Says::new([calls(&made), text("done")]);
    let mut options = AgentOptions::default();
    options.parallel_calls = at_once;
    let store = Arc::new(MemoryThreads::new());
    Agent::builder(model).middleware(Bags).store(store).options(options).build().unwrap()
}

fn bag(thread: &Thread) -> Bag {
    thread.states().get::<Bag>("bags").unwrap().clone()
}

/// Lets all calls be made, with replies in the order of `picks`, some of them by another handle. Gives what is in the bag.
async fn packing(plans: &[Plan], at_once: usize, picks: &[(u8, bool)]) -> Bag {
    let agent = agent(plans, at_once);
    let id = ThreadId::new();
    let mut thread = agent.open(id.clone()).await.unwrap();
    let mut turn = thread.say("pack", &NoWatcher).await.unwrap();
    let mut picks = picks.iter().cycle();
    while let TurnStatus::Waiting(waiting) = turn {
        let (pick, reopens) = picks.next().unwrap();
        if *reopens {
            thread.close().await.unwrap();
            thread = agent.open(id.clone()).await.unwrap();
        }
        let next = &waiting[usize::from(*pick) % waiting.len()];
        turn = thread.reply(next, CallReply::Approve, &NoWatcher).await.unwrap();
    }
    assert_eq!(turn, TurnStatus::Ended(TurnOutcome::Responded));
    let packed = bag(&thread);
    thread.close().await.unwrap();
    assert_eq!(bag(&agent.open(id).await.unwrap()), packed, "the log says the same");
    packed
}

fn puts(thing: u8, asks: bool) -> Plan {
    Plan { thing, puts: true, asks, pause: 0 }
}

#[tokio::test]
async fn a_limit_holds_for_calls_that_wait_while_others_are_answered() {
    for reopens in [false, true] {
        // The first two wait; the others fill the bag meanwhile.
        let plans = [puts(0, true), puts(1, true), puts(2, false), puts(3, false), puts(4, false)];
        let packed = packing(&plans, 8, &[(1, reopens), (0, reopens)]).await;
        assert_eq!(packed.0, BTreeSet::from([2, 3, 4]));
    }
}

#[tokio::test]
async fn a_call_sees_what_those_before_it_changed() {
    let out = Plan { puts: false, ..puts(0, false) };
    // The slowest is the first: the others are prepared before it, and finish after it.
    let plans = [Plan { pause: 20, ..puts(0, false) }, puts(1, false), puts(2, false), out, puts(3, false)];
    assert_eq!(packing(&plans, 8, &[(0, false)]).await.0, BTreeSet::from([1, 2, 3]));
}

fn plan() -> impl Strategy<Value = Plan> {
    (0..6_u8, prop::bool::weighted(0.7), any::<bool>(), 0..6_u8).prop_map(|(thing, puts, asks, pause)| Plan {
        thing,
        puts,
        asks,
        pause,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn no_order_of_calls_and_replies_passes_a_limit(
        plans in prop::collection::vec(plan(), 1..10),
        at_once in 1..6_usize,
        picks in prop::collection::vec((any::<u8>(), any::<bool>()), 1..10),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let packed = runtime.block_on(packing(&plans, at_once, &picks));
        prop_assert!(packed.0.len() <= LIMIT, "{packed:?}");
        let put: BTreeSet<u8> = plans.iter().filter(|plan| plan.puts).map(|plan| plan.thing).collect();
        if put.len() <= LIMIT && plans.iter().all(|plan| plan.puts) {
            prop_assert_eq!(packed.0, put, "nothing is refused that fits");
        }
    }
}
