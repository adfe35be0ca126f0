//! An agent at work: turns, calls, middleware, crashes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use prowess_agent::agent::{NextModel, NextTool};
use prowess_agent::middleware::{Jump, MiddlewareError, Sections};
use prowess_agent::model::{ModelErrorKind, ModelResponse, PromptSection, ToolDefinition};
use prowess_agent::thread::ThreadError;
use prowess_agent::thread_state::StateChange;
use prowess_agent::{
    Agent, AgentError, AgentOptions, CallReply, FunctionTool, MemoryThreads, Middleware, MiddlewareAction,
    MiddlewareContext, ModelError, NoWatcher, State, Thread, ThreadId, ThreadUpdate, Tool, ToolAnswer,
    ToolContext, ToolOutput, TurnOutcome, TurnStatus,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::asks::own_question;
use crate::says::{Says, calls, text};

#[derive(Deserialize, JsonSchema)]
struct Add {
    numbers: Vec<i64>,
}

pub(crate) fn add() -> Arc<dyn Tool> {
    Arc::new(FunctionTool::new("add", "Adds numbers.", |add: Add| async move {
        Ok(ToolAnswer::text(add.numbers.iter().sum::<i64>().to_string()))
    }))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Nothing {}

fn tool(name: &str, does: impl Fn() -> ToolAnswer + Send + Sync + 'static) -> FunctionTool<Nothing> {
    let does = Arc::new(does);
    FunctionTool::new(name, "Does something.", move |_: Nothing| {
        let does = Arc::clone(&does);
        async move { Ok(does()) }
    })
}

async fn thread(agent: &Agent) -> Thread {
    agent.open(ThreadId::new()).await.unwrap()
}

pub(crate) fn results(thread: &Thread) -> Vec<String> {
    let messages = thread.state().messages().iter();
    messages
        .filter(|message| matches!(message.content, prowess_agent::message::Content::Tool(_)))
        .map(|message| message.text())
        .collect()
}

#[tokio::test]
async fn a_turn_with_a_tool() {
    let model = Says::new([calls(&[("c1", "add", r#"{"numbers": [1, 2, 3]}"#)]), text("It is 6.")]);
    let agent = Agent::builder(model.clone()).prompt("You count.").tool(add()).build().unwrap();
    let mut thread = thread(&agent).await;
    let seen = Mutex::new(String::new());
    let watcher = |sight: ThreadUpdate<'_>| {
        if let ThreadUpdate::Text(text) = sight {
            seen.lock().unwrap().push_str(text);
        }
    };
    assert_eq!(thread.say("1 + 2 + 3?", &watcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    assert_eq!(thread.last_response().as_deref(), Some("It is 6."));
    assert_eq!(*seen.lock().unwrap(), "It is 6.");
    assert_eq!((results(&thread), thread.state().usage().input), (vec!["6".to_owned()], 10));
    let request = model.request(1);
    assert_eq!(
        (request.system_text().as_str(), request.messages.len(), request.tools.len()),
        ("You count.", 3, 1)
    );
}

#[tokio::test]
async fn foolish_calls_are_answers_that_a_model_can_act_on() {
    let model = Says::new([
        calls(&[
            ("a", "subtract\u{1b}", "{}"),
            ("b", "add", "{\"numbers\": "),
            ("c", "add", "{\"numbers\": \"x\"}"),
            ("d", "panics", "{}"),
            ("e", "slow", ""),
            ("f", "add", "[]"),
        ]),
        text("Sorry."),
    ]);
    let slow = FunctionTool::new("slow", "Takes its time.", |_: Nothing| async {
        tokio::time::sleep(Duration::from_secs(3600)).await;
        Ok(ToolAnswer::text("done"))
    });
    let agent = Agent::builder(model)
        .tool(add())
        .tool(Arc::new(tool("panics", || panic!("as it happens"))))
        .tool(Arc::new(slow.call_timeout(Duration::from_millis(50))))
        .build()
        .unwrap();
    let mut thread = thread(&agent).await;
    assert_eq!(thread.say("go", &NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    insta::assert_snapshot!(results(&thread).join("\n"), @r#"
    Error: there is no tool `subtract`. Tools: add, panics, slow.
    Error: add: the arguments are not valid JSON: EOF while parsing a value at line 1 column 12
    Error: add: the arguments are not right: invalid type: string "x", expected a sequence
    Error: the tool crashed.
    Error: the tool took longer than 0 seconds.
    Error: add: the arguments must be a JSON object
    "#);
}

#[tokio::test]
async fn ten_calls_run_at_once_and_answer_in_their_order() {
    let ids: Vec<String> = (0..10).map(|number| format!("c{number}")).collect();
    let all: Vec<(&str, &str, &str)> = ids.iter().map(|id| (id.as_str(), "wait", "{}")).collect();
    let model = Says::new([calls(&all), text("done")]);
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counters = (Arc::clone(&now), Arc::clone(&most));
    let wait = FunctionTool::new("wait", "Waits.", move |_: Nothing| {
        let (now, most) = counters.clone();
        async move {
            let running = now.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(running, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(20)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(ToolAnswer::text("waited"))
        }
    });
    let agent = Agent::builder(model).tool(Arc::new(wait)).build().unwrap();
    let mut thread = thread(&agent).await;
    thread.say("go", &NoWatcher).await.unwrap();
    assert_eq!(results(&thread).len(), 10);
    assert_eq!(most.load(Ordering::SeqCst), AgentOptions::default().parallel_calls);
}

/// Numbers that were noted, in the order in which they took effect.
#[derive(Clone, Debug, Default, PartialEq)]
struct Noted(Vec<u64>);

impl State for Noted {
    type Delta = u64;

    fn apply(&mut self, number: u64) {
        self.0.push(number);
    }
}

#[derive(Clone, Debug)]
struct Notes;

#[derive(Debug)]
struct Note;

#[async_trait]
impl Tool for Note {
    fn definition(&self) -> Arc<ToolDefinition> {
        let parameters = json!({"type": "object"});
        ToolDefinition::new("note", "Notes a number.", parameters).into()
    }

    async fn call(&self, arguments: Value, context: ToolContext<'_>) -> ToolOutput {
        let number = arguments["number"].as_u64().unwrap_or_default();
        (context.progress)("noting");
        // The first takes longest.
        tokio::time::sleep(Duration::from_millis(50 / (number + 1))).await;
        let change = StateChange::new::<Noted>("notes", &number);
        ToolAnswer::text(format!("noted {number}")).change(change).into()
    }
}

#[async_trait]
impl Middleware for Notes {
    fn name(&self) -> &str {
        "notes"
    }

    fn state(&self) -> Option<Box<dyn prowess_agent::state::AnyState>> {
        Some(Box::<Noted>::default())
    }

    fn tools(&self, _: MiddlewareContext<'_>) -> Vec<Arc<dyn Tool>> {
        vec![Arc::new(Note)]
    }

    async fn sections(&self, context: MiddlewareContext<'_>) -> Result<Sections, MiddlewareError> {
        let noted = context.states.get::<Noted>("notes").ok_or(MiddlewareError::NoState)?;
        let text = format!("Noted: {:?}", noted.0);
        Ok(PromptSection { owner: "notes".to_owned(), text, is_stable: false }.into())
    }
}

#[tokio::test]
async fn parallel_changes_are_all_there_in_the_order_of_the_calls() {
    let note = |number: u64| (format!("c{number}"), format!("{{\"number\": {number}}}"));
    let notes: Vec<_> = (0..6).map(note).collect();
    let all: Vec<(&str, &str, &str)> =
        notes.iter().map(|(id, args)| (id.as_str(), "note", args.as_str())).collect();
    let model = Says::new([calls(&all), text("done")]);
    let store = Arc::new(MemoryThreads::new());
    let agent =
        Agent::builder(model.clone()).middleware(Notes).prompt("You note.").store(store).build().unwrap();
    let id = ThreadId::new();
    let mut thread = agent.open(id.clone()).await.unwrap();
    thread.say("note", &NoWatcher).await.unwrap();
    let expected = Noted((0..6).collect());
    assert_eq!(thread.states().get::<Noted>("notes"), Some(&expected));
    assert_eq!(model.request(1).system_text(), "You note.\n\nNoted: [0, 1, 2, 3, 4, 5]");
    thread.close().await.unwrap();
    let again = agent.open(id).await.unwrap();
    assert_eq!(again.states().get::<Noted>("notes"), Some(&expected), "and when the thread is opened again");
}

/// Asks a person before `wipe` is called.
#[derive(Clone, Debug)]
struct Careful;

#[async_trait]
impl Middleware for Careful {
    fn name(&self) -> &str {
        "careful"
    }

    async fn after_model(
        &self,
        context: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        let prowess_agent::thread_state::NextStep::CallTools(calls) = context.thread_state.next() else {
            return Ok(Vec::new());
        };
        let risky = calls.into_iter().filter(|call| call.call.name == "wipe" && !call.approved);
        Ok(risky
            .map(|call| MiddlewareAction::Ask {
                call: call.call.id,
                question: Box::new(own_question("really?")),
            })
            .collect())
    }

    async fn wrap_tool_call(&self, _: MiddlewareContext<'_>, next: NextTool<'_>) -> ToolOutput {
        if next.call.name == "wipe" && !next.approved {
            return ToolAnswer::error("Error: nobody let this pass.").into();
        }
        next.call().await
    }
}

#[tokio::test]
async fn a_call_waits_for_a_person_also_in_another_process() {
    let wiped = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&wiped);
    let wipe = move || {
        counter.fetch_add(1, Ordering::SeqCst);
        ToolAnswer::text("wiped")
    };
    let model =
        Says::new([calls(&[("c1", "wipe", "{}"), ("c2", "add", "{\"numbers\": [1]}")]), text("Done.")]);
    let agent = Agent::builder(model)
        .middleware(Careful)
        .tool(Arc::new(tool("wipe", wipe)))
        .tool(add())
        .store(Arc::new(MemoryThreads::new()))
        .build()
        .unwrap();
    let id = ThreadId::new();
    let mut thread = agent.open(id.clone()).await.unwrap();
    let TurnStatus::Waiting(waiting) = thread.say("wipe it", &NoWatcher).await.unwrap() else { panic!() };
    let title = waiting[0].question.wording().title;
    assert_eq!((waiting[0].call.name.as_str(), title.as_str()), ("wipe", "really?"));
    assert_eq!(wiped.load(Ordering::SeqCst), 0);
    let busy = agent.open(id.clone()).await.unwrap_err();
    assert!(matches!(busy, AgentError::Thread(ThreadError::Leased { .. })), "{busy}");
    thread.close().await.unwrap();
    let mut later = agent.open(id).await.unwrap();
    assert!(later.say("hello?", &NoWatcher).await.is_err(), "the turn is not over");
    let TurnStatus::Waiting(waiting) = later.go_on(&NoWatcher).await.unwrap() else { panic!() };
    assert_eq!(waiting[0].question.wording().title, "really?");
    let done = later.reply("c1", CallReply::Approve, &NoWatcher).await.unwrap();
    assert_eq!((done, wiped.load(Ordering::SeqCst)), (TurnStatus::Ended(TurnOutcome::Responded), 1));
    assert!(later.reply("c1", CallReply::Approve, &NoWatcher).await.is_err(), "once");
    assert_eq!(results(&later), ["wiped", "1"]);
}

/// A process that dies in the middle of calls: what is known stays, what is not known is said.
#[tokio::test]
async fn calls_that_were_cut_off() {
    let count = Arc::new(AtomicUsize::new(0));
    let hang = |name: &str, count: &Arc<AtomicUsize>| {
        let count = Arc::clone(count);
        FunctionTool::new(name, "Hangs the first time.", move |_: Nothing| {
            let times = count.fetch_add(1, Ordering::SeqCst);
            async move {
                if times < 2 {
                    std::future::pending::<()>().await;
                }
                Ok(ToolAnswer::text("came back"))
            }
        })
    };
    let model = Says::new([
        calls(&[("a", "add", "{\"numbers\": [1]}"), ("b", "fetch", "{}"), ("c", "pay", "{}")]),
        text("Done."),
    ]);
    let agent = Agent::builder(model)
        .tool(add())
        .tool(Arc::new(hang("fetch", &count).idempotent()))
        .tool(Arc::new(hang("pay", &count)))
        .store(Arc::new(MemoryThreads::new()))
        .build()
        .unwrap();
    let id = ThreadId::new();
    let mut thread = agent.open(id.clone()).await.unwrap();
    let cut = tokio::time::timeout(Duration::from_millis(100), thread.say("go", &NoWatcher)).await;
    assert!(cut.is_err());
    // The handle catches up with what the log has.
    assert_eq!(thread.go_on(&NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    let results = results(&thread);
    assert_eq!(results[..2], ["1".to_owned(), "came back".to_owned()]);
    assert!(results[2].contains("it is not known whether it took effect"), "{results:?}");
    assert_eq!(count.load(Ordering::SeqCst), 3, "only what may be made again was made again");
}

/// Writes down where it is asked.
#[derive(Clone, Debug)]
struct Diary {
    name: &'static str,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Diary {
    fn write(&self, place: &str) {
        self.lines.lock().unwrap().push(format!("{} {place}", self.name));
    }
}

#[async_trait]
impl Middleware for Diary {
    fn name(&self) -> &str {
        self.name
    }

    async fn before_agent(&self, _: MiddlewareContext<'_>) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        self.write("before_agent");
        Ok(Vec::new())
    }

    async fn before_model(&self, _: MiddlewareContext<'_>) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        self.write("before_model");
        Ok(Vec::new())
    }

    async fn wrap_model_call(
        &self,
        _: MiddlewareContext<'_>,
        mut next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        self.write("model {");
        next.request.temperature = Some(0.5);
        let answer = next.call().await;
        self.write("} model");
        answer
    }

    async fn after_model(&self, _: MiddlewareContext<'_>) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        self.write("after_model");
        Ok(Vec::new())
    }

    async fn wrap_tool_call(&self, _: MiddlewareContext<'_>, next: NextTool<'_>) -> ToolOutput {
        self.write("tool {");
        let output = next.call().await;
        self.write("} tool");
        output
    }

    async fn after_agent(
        &self,
        _: MiddlewareContext<'_>,
        outcome: &TurnOutcome,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        self.write(&format!("after_agent {outcome:?}"));
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn middleware_are_called_in_their_order() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let diary = |name| Diary { name, lines: Arc::clone(&lines) };
    let model = Says::new([calls(&[("c1", "add", "{\"numbers\": []}")]), text("0")]);
    let agent = Agent::builder(model.clone())
        .middleware(diary("a"))
        .middleware(diary("b"))
        .tool(add())
        .build()
        .unwrap();
    thread(&agent).await.say("go", &NoWatcher).await.unwrap();
    insta::assert_snapshot!(lines.lock().unwrap().join("\n"), @r"
    a before_agent
    b before_agent
    a before_model
    b before_model
    a model {
    b model {
    b } model
    a } model
    a after_model
    b after_model
    a tool {
    b tool {
    b } tool
    a } tool
    a before_model
    b before_model
    a model {
    b model {
    b } model
    a } model
    a after_model
    b after_model
    b after_agent Responded
    a after_agent Responded
    ");
    assert_eq!(model.request(0).temperature, Some(0.5));
    let twice = Agent::builder(model).middleware(diary("a")).middleware(diary("a")).build().unwrap_err();
    assert!(matches!(twice, AgentError::DuplicateMiddleware(_)));
}

/// Jumps once.
#[derive(Clone, Debug)]
struct Jumps(Jump, Arc<AtomicUsize>, &'static str);

impl Jumps {
    fn once(&self, place: &str) -> Vec<MiddlewareAction> {
        let first = self.2 == place && self.1.fetch_add(1, Ordering::SeqCst) == 0;
        first.then(|| MiddlewareAction::Jump(self.0.clone())).into_iter().collect()
    }
}

#[async_trait]
impl Middleware for Jumps {
    fn name(&self) -> &str {
        "jumps"
    }

    async fn before_model(&self, _: MiddlewareContext<'_>) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        Ok(self.once("before_model"))
    }

    async fn after_model(&self, _: MiddlewareContext<'_>) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        Ok(self.once("after_model"))
    }
}

#[tokio::test]
async fn a_middleware_jumps() {
    let turn = async |jump: Jump, place: &'static str| {
        let model = Says::new([calls(&[("c1", "add", "{\"numbers\": [7]}")]), text("done"), text("again")]);
        let jumps = Jumps(jump, Arc::default(), place);
        let agent = Agent::builder(model.clone()).middleware(jumps).tool(add()).build().unwrap();
        let mut thread = thread(&agent).await;
        let turn = thread.say("go", &NoWatcher).await.unwrap();
        (turn, results(&thread), model.count())
    };
    let reason = "enough".to_owned();
    let (ended, made, asked) =
        turn(Jump::End(TurnOutcome::Stopped { reason: reason.clone() }), "before_model").await;
    assert_eq!((ended, made.len(), asked), (TurnStatus::Ended(TurnOutcome::Stopped { reason }), 0, 0));
    let (_, made, asked) = turn(Jump::Model(Vec::new()), "after_model").await;
    assert_eq!((made, asked), (vec!["Error: this call was not made.".to_owned()], 2));
    let call = prowess_agent::ToolCall {
        id: "mine".into(),
        name: "add".to_owned(),
        arguments: "{\"numbers\": [1, 1]}".to_owned(),
    };
    let (_, made, asked) = turn(Jump::Tools(vec![call]), "before_model").await;
    assert_eq!((made, asked), (vec!["2".to_owned(), "7".to_owned()], 2));
}

#[tokio::test]
async fn a_model_that_fails_ends_the_turn_and_not_the_thread() {
    let error = ModelError::new("says", ModelErrorKind::Overloaded, "come back later");
    let model = Says::new([Err(error.clone()), text("Hello.")]);
    let agent = Agent::builder(model).build().unwrap();
    let mut thread = thread(&agent).await;
    assert_eq!(
        thread.say("hello", &NoWatcher).await.unwrap(),
        TurnStatus::Ended(TurnOutcome::Failed { error })
    );
    assert_eq!(thread.say("and now?", &NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
}

#[tokio::test]
async fn a_lease_is_kept_through_a_long_call() {
    let model = Says::new([calls(&[("c1", "slow", "{}")]), text("done")]);
    let slow = FunctionTool::new("slow", "Takes its time.", |_: Nothing| async {
        tokio::time::sleep(Duration::from_millis(400)).await;
        Ok(ToolAnswer::text("done"))
    });
    let mut options = AgentOptions::default();
    options.lease = Duration::from_millis(120);
    let agent = Agent::builder(model).tool(Arc::new(slow)).options(options).build().unwrap();
    let mut thread = thread(&agent).await;
    assert_eq!(thread.say("go", &NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
}

#[tokio::test]
async fn two_tools_of_one_name_are_told_of() {
    let model = Says::new([]);
    let built = Agent::builder(model).tool(add()).tool(add()).build();
    assert_eq!(built.unwrap_err().to_string(), "two tools are called `add`: remove or rename one of them");
}
