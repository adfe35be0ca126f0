//! The prompt sections of a middleware, and the state changes that make them true.

use std::sync::Arc;

use async_trait::async_trait;
use prowess_agent::middleware::{MiddlewareError, Sections};
use prowess_agent::model::PromptSection;
use prowess_agent::state::AnyState;
use prowess_agent::thread_state::StateChange;
use prowess_agent::{
    Agent, Event, MemoryThreads, Middleware, MiddlewareContext, NoWatcher, State, ThreadId, ThreadStore,
};

use crate::says::{Says, text};

/// How often the model was told so far.
#[derive(Clone, Debug, Default, PartialEq)]
struct Told(u64);

impl State for Told {
    type Delta = u64;

    fn apply(&mut self, number: u64) {
        self.0 = number;
    }
}

/// Numbers what it tells the model.
#[derive(Clone, Debug)]
struct Numbers;

#[async_trait]
impl Middleware for Numbers {
    fn name(&self) -> &str {
        "numbers"
    }

    fn state(&self) -> Option<Box<dyn AnyState>> {
        Some(Box::<Told>::default())
    }

    async fn sections(&self, context: MiddlewareContext<'_>) -> Result<Sections, MiddlewareError> {
        let next = context.states.get::<Told>("numbers").ok_or(MiddlewareError::NoState)?.0 + 1;
        let text = format!("This is prompt {next}.");
        let section = PromptSection { owner: "numbers".to_owned(), text, is_stable: false };
        let mut sections = Sections::from(section);
        sections.changes.push(StateChange::new::<Told>("numbers", &next));
        Ok(sections)
    }
}

#[tokio::test]
async fn changes_of_a_prompt_are_stored_before_the_model_is_asked() {
    let store = Arc::new(MemoryThreads::new());
    let model = Says::new([text("one"), text("two")]);
    let agent = Agent::builder(model.clone()).middleware(Numbers).store(store.clone()).build().unwrap();
    let id = ThreadId::new();
    let mut thread = agent.open(id.clone()).await.unwrap();
    for number in 1..=2 {
        thread.say("go", &NoWatcher).await.unwrap();
        assert_eq!(model.request(number - 1).system_text(), format!("This is prompt {number}."));
    }
    assert_eq!(thread.states().get::<Told>("numbers"), Some(&Told(2)));
    let events = store.events(&id, 0, 100).await.unwrap();
    let place = |is: fn(&Event) -> bool| events.iter().position(|stored| is(&stored.event)).unwrap();
    let changed = place(|event| matches!(event, Event::StateChanged { .. }));
    let asked = place(|event| matches!(event, Event::ModelCalled { .. }));
    assert_eq!(changed + 1, asked);
    assert_eq!(events[changed].at, events[asked].at, "both are stored at once");
    assert!(events[asked].at < events[asked + 1].at, "before the answer");
}

#[tokio::test]
async fn a_preview_stores_nothing_and_says_the_same() {
    let store = Arc::new(MemoryThreads::new());
    let model = Says::new([text("one")]);
    let agent = Agent::builder(model.clone()).middleware(Numbers).store(store.clone()).build().unwrap();
    let id = ThreadId::new();
    let mut thread = agent.open(id.clone()).await.unwrap();
    let first = thread.preview().await.unwrap().system_text();
    assert_eq!(thread.preview().await.unwrap().system_text(), first);
    assert!(store.events(&id, 0, 1).await.unwrap().is_empty());
    assert_eq!(thread.states().get::<Told>("numbers"), Some(&Told(0)));
    thread.say("go", &NoWatcher).await.unwrap();
    assert_eq!(model.request(0).system_text(), first);
}

/// Fails as whatever it uses does.
#[derive(Clone, Debug)]
struct Broken;

#[async_trait]
impl Middleware for Broken {
    fn name(&self) -> &str {
        "broken"
    }

    async fn sections(&self, _: MiddlewareContext<'_>) -> Result<Sections, MiddlewareError> {
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        Err(MiddlewareError::new("read the rules", missing))
    }
}

#[tokio::test]
async fn an_error_says_which_middleware_failed_and_why() {
    let agent = Agent::builder(Says::new([])).middleware(Broken).build().unwrap();
    let mut thread = agent.open(ThreadId::new()).await.unwrap();
    let error = thread.say("go", &NoWatcher).await.unwrap_err();
    assert!(error.to_string().starts_with("broken: could not read the rules: "), "{error}");
    let why = std::error::Error::source(&error).and_then(std::error::Error::source);
    let why = why.and_then(|why| why.downcast_ref::<std::io::Error>()).map(std::io::Error::kind);
    assert_eq!(why, Some(std::io::ErrorKind::NotFound));
}
