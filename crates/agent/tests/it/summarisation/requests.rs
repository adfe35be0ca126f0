//! The request of the turn under way is in every request of its turn.

use std::sync::Arc;

use prowess_agent::middleware::{Keep, Summarisation, SummarisationNotice, Trigger, WindowPartKind};
use prowess_agent::model::{ModelErrorKind, ModelLimits};
use prowess_agent::{
    Agent, Event, FunctionTool, MemoryThreads, Message, ModelError, NoWatcher, ThreadId, ThreadStore,
    ThreadUpdate, ToolAnswer, TurnOutcome, TurnStatus,
};
use prowess_backend::MemoryBackend;

use super::{history, pairs_are_whole, sections, text_of, told};
use crate::says::{Says, after_reading, calls, text};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

fn look() -> Arc<FunctionTool<Nothing>> {
    let answer = |_: Nothing| async {
        // Lets the test stop the turn here.
        tokio::task::yield_now().await;
        Ok(ToolAnswer::text("seen ".repeat(100)))
    };
    Arc::new(FunctionTool::new("look", "Looks.", answer))
}

/// The tool is called twenty times after the request, and every fourth message is a compaction.
#[tokio::test]
async fn the_request_of_the_turn_survives_every_compaction() {
    let store = Arc::new(MemoryThreads::new());
    let files: Arc<dyn prowess_backend::Backend> = Arc::new(MemoryBackend::new());
    let ids: Vec<String> = (0..20).map(|number| format!("c{number}")).collect();
    let looks = ids.iter().map(|id| after_reading(0, calls(&[(id, "look", "{}")])));
    let model = Says::new(looks.chain([text("Ready."), text("Next.")]));
    let summariser = Says::new((0..20).map(|number| text(&format!("Summary {number}."))));
    let id = ThreadId::new();
    let agent = |most: Option<u32>| {
        let summarisation = Summarisation::new(summariser.clone(), files.clone())
            .trigger(Trigger::Messages(6))
            .keep(Keep::Messages(2));
        let mut options = prowess_agent::AgentOptions::default();
        options.limits.model_calls = most.unwrap_or(100);
        let builder = Agent::builder(model.clone()).middleware(summarisation).tool(look());
        builder.store(store.clone()).options(options).build().unwrap()
    };
    let mut thread = agent(None).open(id.clone()).await.unwrap();
    let request = vec![Message::user("Look at all of it."), Message::user("Then tell me.")];
    // The process dies after the ninth response.
    let seen = std::sync::atomic::AtomicUsize::new(0);
    let (stops, stopped) = tokio::sync::oneshot::channel();
    let stops = std::sync::Mutex::new(Some(stops));
    let watcher = |update: ThreadUpdate<'_>| {
        if let ThreadUpdate::Stored(Event::ModelResponded { .. }) = update
            && seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 8
            && let Some(stops) = stops.lock().unwrap().take()
        {
            let _ = stops.send(());
        }
    };
    tokio::select! {
        biased;
        _ = stopped => {}
        turn = thread.say_all(request.clone(), &watcher) => panic!("{turn:?}"),
    }
    thread.close().await.unwrap();
    let mut thread = agent(None).open(id.clone()).await.unwrap();
    assert_eq!(thread.go_on(&NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));

    assert!(summariser.count() >= 5, "{} compactions", summariser.count());
    for number in 0..model.count() {
        let messages = model.request(number).messages;
        pairs_are_whole(&messages);
        let first = messages.iter().position(|message| message.id == request[0].id).unwrap();
        assert_eq!((first < 2, messages[first + 1].id == request[1].id), (true, true), "call {number}");
        for said in &request {
            assert_eq!(messages.iter().filter(|message| message.text() == said.text()).count(), 1);
        }
    }
    // Each message is in the history once, with the request.
    let cut = thread.state().cut();
    let file = text_of(&*files, &history(&id)).await;
    assert_eq!(sections(&file).join("\n"), told(&thread.state().messages()[..cut]));
    // Once the turn is over, the request is summarised like any other message.
    assert!(thread.state().current_request().is_empty());
    thread.say("go on", &NoWatcher).await.unwrap();
    Summarisation::compact(&mut thread, &NoWatcher).await.unwrap();
    assert!(!thread.state().view().any(|message| message.id == request[0].id));
}

/// The notices that were stored.
async fn notices(store: &MemoryThreads, id: &ThreadId) -> Vec<SummarisationNotice> {
    let events = store.events(id, 0, usize::MAX).await.unwrap();
    let changes = events.into_iter().filter_map(|stored| match stored.event {
        Event::StateChanged { changes } => Some(changes),
        _ => None,
    });
    changes.flatten().filter_map(|change| Summarisation::notice(&change)).collect()
}

/// Nothing is sent, not even to the summariser, and the person is told in each turn that ends so.
#[tokio::test]
async fn a_request_that_does_not_fit_is_not_sent() {
    let store = Arc::new(MemoryThreads::new());
    let model = Says::within(ModelLimits::new(1500, 500), [text("One.")]);
    let summariser = Says::new([text("A summary."), text("A summary.")]);
    let summarisation = Summarisation::new(summariser.clone(), Arc::new(MemoryBackend::new()));
    let agent = Agent::builder(model.clone()).middleware(summarisation).store(store.clone()).build().unwrap();
    let mut thread = agent.open(ThreadId::new()).await.unwrap();
    let turn = thread.say("x".repeat(1600 * 4), &NoWatcher).await.unwrap();
    let TurnStatus::Ended(TurnOutcome::WindowFull { why }) = turn else { panic!("{turn:?}") };
    let expected = "the request has about 1604 tokens, a response needs at least 187, and the window has 1500; the largest \
                    parts are your message (1604)";
    assert_eq!(why, expected);
    assert_eq!((model.count(), summariser.count()), (0, 0));
    let id = thread.id().clone();
    let [SummarisationNotice::Full(used)] = &notices(&store, &id).await[..] else { panic!() };
    let request = used.of_kind(WindowPartKind::Request);
    assert_eq!((request, used.window, used.total()), (1604, Some(1500), 1604));
    // The next one is sent, and the long one is summarised.
    thread.say("and now", &NoWatcher).await.unwrap();
    assert_eq!((model.count(), thread.state().cut()), (1, 1));
}

/// A provider names its window, or just fails; what it said holds for later processes, and for its model alone.
#[tokio::test]
async fn a_learned_window_is_stored_with_the_thread() {
    for named in [Some(2_000), None] {
        let store = Arc::new(MemoryThreads::new());
        let mut error = ModelError::new("says", ModelErrorKind::ContextTooLong, "too long");
        error.window = named;
        let silent = |said: &str| after_reading(0, text(said));
        let model = Says::new([Err(error), silent("One."), silent("Two.")]);
        let summariser = Says::new((0..9).map(|_| text("A summary.")));
        let id = ThreadId::new();
        let agent = || {
            let summarisation = Summarisation::new(summariser.clone(), Arc::new(MemoryBackend::new()));
            Agent::builder(model.clone()).middleware(summarisation).store(store.clone()).build().unwrap()
        };
        let mut thread = agent().open(id.clone()).await.unwrap();
        thread.import(vec![Message::user("x".repeat(1_500 * 4))]).await.unwrap();
        thread.say("y".repeat(900 * 4), &NoWatcher).await.unwrap();
        let window = named.unwrap_or(2_408);
        let learned = SummarisationNotice::Learned { model: "says".to_owned(), window };
        assert_eq!(notices(&store, &id).await, [learned]);
        assert_eq!(Summarisation::window(thread.states(), &*model), Some(window));
        assert_eq!(thread.state().cut(), 1);
        thread.close().await.unwrap();
        let mut thread = agent().open(id.clone()).await.unwrap();
        thread.say("z".repeat(1_150 * 4), &NoWatcher).await.unwrap();
        assert_eq!((thread.state().cut(), model.count()), (3, 3), "it is summarised before it fails");
    }
}
