//! Models that do foolish things: each turn ends in a clear state, in the database too, and the thread goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use prowess_agent::message::Content;
use prowess_agent::model::{Finish, ModelErrorKind};
use prowess_agent::{
    Agent, AgentOptions, FunctionTool, Message, Model, ModelDelta, NoWatcher, ThreadId, ToolAnswer,
    TurnOutcome, TurnStatus,
};

use crate::agent::{Nothing, add, results};
use crate::says::{Says, calls, text};
use crate::world::World;

/// No turn of these tests takes so long, unless it hangs.
const LONG: Duration = Duration::from_secs(60);

struct Played {
    turn: TurnStatus,
    results: Vec<String>,
}

/// Plays a model's turns, then another turn, and looks whether the thread that is read again is the same.
async fn played(turns: Vec<Result<Vec<ModelDelta>, prowess_agent::ModelError>>) -> Played {
    let world = World::new(&[]).await;
    let all = turns.into_iter().chain([text("and on")]);
    let agent = agent(&world, Says::new(all));
    let id = ThreadId::new();
    let mut thread = agent.open(id.clone()).await.unwrap();
    let turn = tokio::time::timeout(LONG, thread.say("go", &NoWatcher)).await.unwrap().unwrap();
    let (messages, results) = (thread.state().messages().to_vec(), results(&thread));
    thread.close().await.unwrap();
    let mut again = agent.open(id).await.unwrap();
    assert_eq!(again.state().messages(), messages, "the log has what was seen");
    for (index, message) in messages.iter().enumerate() {
        for (number, call) in message.tool_calls().enumerate() {
            let Content::Tool(result) = &messages[index + 1 + number].content else { panic!("{messages:?}") };
            assert_eq!(result.call, call.id, "each call has its result, in order");
        }
    }
    again.say("go on", &NoWatcher).await.unwrap();
    Played { turn, results }
}

fn agent(world: &World, model: Arc<dyn Model>) -> Agent {
    let mut options = AgentOptions::default();
    options.limits.model_calls = 20;
    world.agent(model).tool(add()).options(options).build().unwrap()
}

#[tokio::test]
async fn unknown_tools() {
    let played =
        played(vec![calls(&[("a", "rm", "{}"), ("b", "", "{}"), ("c", "\u{202e}", "{}")]), text("ok")]).await;
    assert_eq!(played.turn, TurnStatus::Ended(TurnOutcome::Responded));
    assert!(played.results.iter().all(|text| text.contains("there is no tool")), "{:?}", played.results);
}

#[tokio::test]
async fn invalid_json() {
    let foolish = ["{", "[1]", "\"add\"", "{\"numbers\": [1}", "nul", "{\"numbers\": null}", "{\"n\": [1]}"];
    let list: Vec<(&str, &str, &str)> = ["a", "b", "c", "d", "e", "f", "g"]
        .into_iter()
        .zip(foolish)
        .map(|(id, json)| (id, "add", json))
        .collect();
    let played = played(vec![calls(&list), text("ok")]).await;
    assert_eq!(played.turn, TurnStatus::Ended(TurnOutcome::Responded));
    assert!(played.results.iter().all(|text| text.starts_with("Error: add: ")), "{:?}", played.results);
}

#[tokio::test]
async fn ten_calls_at_once_and_two_of_one_name() {
    let ids = ["a", "b", "c", "d", "e", "f", "g", "h", "a", ""];
    let sums: Vec<String> = (0..10).map(|number| format!("{{\"numbers\": [{number}]}}")).collect();
    let list: Vec<(&str, &str, &str)> =
        ids.into_iter().zip(&sums).map(|(id, json)| (id, "add", json.as_str())).collect();
    let played = played(vec![calls(&list), text("ok")]).await;
    assert_eq!(played.turn, TurnStatus::Ended(TurnOutcome::Responded));
    assert_eq!(played.results, (0..10).map(|number| number.to_string()).collect::<Vec<_>>());
}

#[tokio::test]
async fn more_calls_than_anybody_makes() {
    let many: Vec<ModelDelta> = (0..129)
        .map(|index| ModelDelta::ToolCall { index, id: String::new(), name: "add".to_owned() })
        .collect();
    let TurnStatus::Ended(TurnOutcome::Failed { error }) = played(vec![Ok(many)]).await.turn else {
        panic!()
    };
    assert_eq!(error.kind, ModelErrorKind::Malformed);
}

#[tokio::test]
async fn an_endless_loop() {
    let again = || calls(&[("a", "add", "{\"numbers\": [1]}")]);
    let played = played((0..20).map(|_| again()).collect()).await;
    assert_eq!(played.turn, TurnStatus::Ended(TurnOutcome::TooManyModelCalls { most: 20 }));
    assert_eq!(played.results.len(), 20);
}

#[tokio::test]
async fn nothing_at_all() {
    assert_eq!(played(vec![Ok(Vec::new())]).await.turn, TurnStatus::Ended(TurnOutcome::Silent));
    let blank = vec![
        ModelDelta::Text(String::new()),
        ModelDelta::Reasoning(String::new()),
        ModelDelta::Finish(Finish::Stop),
    ];
    assert_eq!(played(vec![Ok(blank)]).await.turn, TurnStatus::Ended(TurnOutcome::Silent));
}

#[tokio::test]
async fn refusals_and_answers_that_are_cut_off() {
    let refused = vec![ModelDelta::Text("No.".to_owned()), ModelDelta::Finish(Finish::Refused)];
    assert_eq!(played(vec![Ok(refused)]).await.turn, TurnStatus::Ended(TurnOutcome::Refused));
    let cut = vec![ModelDelta::Text("Once upon".to_owned()), ModelDelta::Finish(Finish::Length)];
    assert_eq!(played(vec![Ok(cut)]).await.turn, TurnStatus::Ended(TurnOutcome::CutOff));
    // The second call is not whole: it is not made, the first is, and the model is told why.
    let mut cut = calls(&[("a", "add", "{\"numbers\": [1]}"), ("b", "add", "")]).unwrap();
    cut.pop();
    cut.push(ModelDelta::Finish(Finish::Length));
    let played = played(vec![Ok(cut), text("shorter now")]).await;
    assert_eq!((played.turn, played.results[0].as_str()), (TurnStatus::Ended(TurnOutcome::Responded), "1"));
    assert!(played.results[1].contains("your response reached its limit"), "{:?}", played.results);
}

/// A model that never stops to say nothing is stopped.
#[tokio::test]
async fn an_endless_stream_of_nothing() {
    #[derive(Debug)]
    struct Drips;
    #[async_trait::async_trait]
    impl Model for Drips {
        fn name(&self) -> &str {
            "drips"
        }

        async fn call(
            &self,
            _: prowess_agent::ModelRequest,
        ) -> Result<prowess_agent::model::ModelStream, prowess_agent::ModelError> {
            use futures_util::StreamExt as _;
            Ok(futures_util::stream::repeat_with(|| Ok(ModelDelta::Text(String::new()))).boxed())
        }
    }
    let world = World::new(&[]).await;
    let agent = agent(&world, Arc::new(Drips));
    let mut thread = agent.open(ThreadId::new()).await.unwrap();
    let turn = tokio::time::timeout(LONG, thread.say("go", &NoWatcher)).await.unwrap().unwrap();
    let TurnStatus::Ended(TurnOutcome::Failed { error }) = turn else { panic!("{turn:?}") };
    assert_eq!(error.kind, ModelErrorKind::Malformed);
}

/// Two models and two agents at once, on one database and on one tool.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_models_at_once() {
    let world = World::new(&[]).await;
    let count = Arc::new(AtomicUsize::new(0));
    let agent = |name: &str| {
        let count = Arc::clone(&count);
        let tool = FunctionTool::new("count", "Counts.", move |_: Nothing| {
            let number = count.fetch_add(1, Ordering::SeqCst);
            async move { Ok(ToolAnswer::text(number.to_string())) }
        });
        let turns = (0..10).map(|_| calls(&[("a", "count", "{}"), ("b", "count", "{}")]));
        let model = Says::new(turns.chain([text(name)]));
        world.agent(model).tool(Arc::new(tool)).build().unwrap()
    };
    let (one, other) = (agent("one"), agent("other"));
    let turn = |agent: Agent| async move {
        let mut thread = agent.open(ThreadId::new()).await.unwrap();
        thread.say("go", &NoWatcher).await.unwrap();
        (thread.last_response().unwrap(), results(&thread).len())
    };
    let (one, other) = tokio::join!(tokio::spawn(turn(one)), tokio::spawn(turn(other)));
    assert_eq!((one.unwrap(), other.unwrap()), (("one".to_owned(), 20), ("other".to_owned(), 20)));
    assert_eq!(count.load(Ordering::SeqCst), 40);
}

/// A conversation from elsewhere, with calls that nobody answered and answers to nothing, is mended as it comes in.
#[tokio::test]
async fn dangling_calls_of_a_foreign_conversation_are_repaired() {
    use prowess_agent::message::AssistantPart;
    use prowess_agent::{ToolCall, ToolResult};
    let call = |id: &str| {
        AssistantPart::ToolCall(ToolCall { id: id.into(), name: "ls".to_owned(), arguments: "{}".to_owned() })
    };
    let result = |id: &str, text: &str| {
        Message::tool(ToolResult {
            call: id.into(),
            name: "ls".to_owned(),
            text: text.to_owned(),
            is_error: false,
        })
    };
    let world = World::new(&[]).await;
    let model = Says::new([text("mended")]);
    let agent = agent(&world, model.clone());
    let mut thread = agent.open(ThreadId::new()).await.unwrap();
    let foreign = vec![
        result("nobody", "an answer to nothing"),
        Message::user("look"),
        Message::assistant(vec![call("a"), call("b")]),
        result("b", "second"),
        Message::user("never mind"),
        Message::assistant(Vec::new()),
        Message::assistant(vec![call("a")]),
    ];
    thread.import(foreign).await.unwrap();
    thread.say("and now?", &NoWatcher).await.unwrap();
    let seen: Vec<String> = model.request(0).messages.iter().map(|message| message.text()).collect();
    let lost = "Error: this call has no result, because it was cut off.";
    assert_eq!(seen, ["look", "", lost, "second", "never mind", "", lost, "and now?"]);
    let id = thread.id().clone();
    let before = thread.state().messages().to_vec();
    thread.close().await.unwrap();
    assert_eq!(agent.open(id).await.unwrap().state().messages(), before, "names of messages included");
}
