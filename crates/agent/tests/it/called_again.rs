//! A middleware that needs to know that its change is stored: it is called again, with a limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use prowess_agent::middleware::{Jump, MiddlewareError};
use prowess_agent::state::AnyState;
use prowess_agent::thread_state::{NextStep, StateChange};
use prowess_agent::{
    Agent, MemoryThreads, Middleware, MiddlewareAction, MiddlewareContext, NoWatcher, State, ThreadId,
    ThreadStore, TurnOutcome, TurnStatus,
};

use crate::says::{Says, text, too_long};

#[derive(Clone, Debug, Default)]
struct Steps(usize);

impl State for Steps {
    type Delta = usize;

    fn apply(&mut self, step: usize) {
        self.0 = step;
    }
}

/// Takes so many steps before the model is asked, each after the one before is stored.
#[derive(Clone, Debug)]
struct Steady {
    steps: usize,
    asked: Arc<AtomicUsize>,
    /// Whether it stores its steps.
    changes: bool,
}

#[async_trait]
impl Middleware for Steady {
    fn name(&self) -> &str {
        "steady"
    }

    fn state(&self) -> Option<Box<dyn AnyState>> {
        Some(Box::<Steps>::default())
    }

    async fn before_model(
        &self,
        context: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let taken = context.states.get::<Steps>("steady").unwrap().0;
        let change = MiddlewareAction::Change(StateChange::new::<Steps>("steady", &(taken + 1)));
        Ok(match taken < self.steps {
            true if self.changes => vec![change, MiddlewareAction::Jump(Jump::Again)],
            true => vec![MiddlewareAction::Jump(Jump::Again)],
            false => Vec::new(),
        })
    }

    async fn after_model(
        &self,
        context: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        let NextStep::End(TurnOutcome::Failed { .. }) = context.thread_state.next() else {
            return Ok(Vec::new());
        };
        let zero = MiddlewareAction::Change(StateChange::new::<Steps>("steady", &0));
        Ok(vec![zero, MiddlewareAction::Jump(Jump::Model(Vec::new()))])
    }
}

fn steady(steps: usize, changes: bool) -> Steady {
    Steady { steps, asked: Arc::default(), changes }
}

async fn taken(middleware: &Steady) -> (usize, usize) {
    let model = Says::new([text("done")]);
    let agent = Agent::builder(model.clone()).middleware(middleware.clone()).build().unwrap();
    let mut thread = agent.open(ThreadId::new()).await.unwrap();
    assert_eq!(thread.say("go", &NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    assert_eq!(model.count(), 1);
    (middleware.asked.load(Ordering::Relaxed), thread.states().get::<Steps>("steady").unwrap().0)
}

#[tokio::test]
async fn a_middleware_is_called_again_when_it_changed_something() {
    assert_eq!(taken(&steady(3, true)).await, (4, 3));
    assert_eq!(taken(&steady(3, false)).await, (1, 0), "what changed nothing would be asked the same");
}

#[tokio::test]
async fn a_middleware_that_always_asks_for_more_does_not_stop_the_turn() {
    assert_eq!(taken(&steady(usize::MAX, true)).await, (8, 8));
}

/// A change of a middleware and its jump are stored together.
#[tokio::test]
async fn a_jump_is_stored_with_what_changes() {
    let store = Arc::new(MemoryThreads::new());
    let model = Says::new([too_long(), text("done")]);
    let middleware = steady(2, true);
    let agent = Agent::builder(model).middleware(middleware).store(store.clone()).build().unwrap();
    let id = ThreadId::new();
    let mut thread = agent.open(id.clone()).await.unwrap();
    assert_eq!(thread.say("go", &NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    let events = store.events(&id, 0, 100).await.unwrap();
    let names: Vec<String> = events
        .iter()
        .map(|stored| serde_json::to_value(&stored.event).unwrap()["event"].as_str().unwrap().to_owned())
        .collect();
    let expected = [
        "turn_started",
        "state_changed",
        "state_changed",
        "model_asked",
        "model_failed",
        "state_changed",
        "told",
        "state_changed",
        "state_changed",
        "model_asked",
        "model_answered",
        "turn_ended",
    ];
    assert_eq!(names, expected);
    assert_eq!(events[5].at, events[6].at, "both are stored at once");
}
