//! Futures that are dropped at every await: the thread goes on, and what was stored is what is there.

use std::fmt::{self, Debug};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use async_trait::async_trait;
use futures_util::{StreamExt as _, stream};
use prowess_agent::message::Content;
use prowess_agent::middleware::{HookSet, Hooks, Keep, Skills, StateFiles, SummarisationOptions, Trigger};
use prowess_agent::model::{ModelLimits, ModelStream};
use prowess_agent::{
    Agent, CallReply, FunctionTool, Model, ModelError, ModelRequest, NoWatcher, ThreadId, ThreadStore as _,
    ToolAnswer, TurnOutcome, TurnStatus,
};
use prowess_permission::{Decision, Permissions, Policy, Rule, RuleSource};
use prowess_skills::{Dialect, RunSetup, SessionOptions, SkillSession};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{short_lease, soon};
use crate::agent::{Nothing, results};
use crate::says::{self, all, calls, text};
use crate::summarisation::pairs_are_whole;
use crate::world::World;

/// Answers by what it is asked, however often that is.
struct Follows {
    answer: Box<dyn Fn(&ModelRequest) -> says::Turn + Send + Sync>,
    asked: Mutex<Vec<ModelRequest>>,
}

impl Follows {
    fn new(answer: impl Fn(&ModelRequest) -> says::Turn + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { answer: Box::new(answer), asked: Mutex::default() })
    }
}

impl Debug for Follows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follows").finish_non_exhaustive()
    }
}

#[async_trait]
impl Model for Follows {
    fn name(&self) -> &str {
        "follows"
    }

    fn limits(&self) -> ModelLimits {
        ModelLimits::default()
    }

    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        tokio::task::yield_now().await;
        let answer = (self.answer)(&request)?;
        self.asked.lock().unwrap().push(request);
        Ok(stream::iter(answer.into_iter().map(Ok)).boxed())
    }
}

/// How many answers a conversation has.
fn answers(request: &ModelRequest) -> usize {
    let messages = request.messages.iter();
    messages.filter(|message| matches!(message.content, Content::Assistant { .. })).count()
}

/// When a future is given up.
#[derive(Clone, Copy, Debug)]
enum Given {
    /// While what it waits for is under way.
    Before,
    /// When that is done, and nobody heard of it.
    After,
}

/// A future that is polled so often, and then given up.
struct Polled<F>(Pin<Box<F>>, usize, Given);

impl<F: Future> Future for Polled<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.1 == 0 {
            return Poll::Ready(None);
        }
        self.1 -= 1;
        match self.0.as_mut().poll(context) {
            Poll::Pending if self.1 == 0 && matches!(self.2, Given::Before) => Poll::Ready(None),
            polled => polled.map(Some),
        }
    }
}

async fn polled<F: Future>(times: usize, given: Given, work: F) -> Option<F::Output> {
    Polled(Box::pin(work), times, given).await
}

/// A skill that a person starts, hooks at the start, files, a task, a call that waits: cut off at every await.
async fn a_turn_that_is_dropped(given: Given) {
    let world = World::new(&[("pdf", "", "The way of pdf.")]).await;
    let model = Follows::new(|request| {
        if request.messages[0].text() == "Work." {
            return match answers(request) {
                0 => calls(&[("w", "write_file", r#"{"file_path": "/child", "content": "c"}"#)]),
                _ => text("Worked."),
            };
        }
        match answers(request) {
            0 => calls(&[
                ("a", "write_file", r#"{"file_path": "/x", "content": "kept"}"#),
                ("b", "task", r#"{"description": "Work."}"#),
                ("c", "count", "{}"),
            ]),
            1 => calls(&[("d", "read_file", r#"{"file_path": "/x"}"#)]),
            _ => text("Done."),
        }
    });
    let critic = Agent::builder(Follows::new(|_| text(r#"{"ok": true}"#))).build().unwrap();
    let own = json!({
        "SessionStart": [{"hooks": [{"type": "prompt", "prompt": "Begin with the plan."}]}],
        "UserPromptSubmit": [{"hooks": [{"type": "agent", "agent": "critic", "prompt": "Is it well?"}]}],
    });
    let counted = Arc::new(AtomicUsize::new(0));
    let agent = {
        let counted = Arc::clone(&counted);
        let count = FunctionTool::new("count", "Counts.", move |_: Nothing| {
            counted.fetch_add(1, Ordering::SeqCst);
            async {
                tokio::task::yield_now().await;
                Ok(ToolAnswer::text("counted"))
            }
        });
        let rules = [
            Rule::new("tool", "*", Decision::Allow),
            Rule::new("tool", "count", Decision::Ask),
            Rule::new("read", "*", Decision::Allow),
            Rule::new("write", "*", Decision::Allow),
        ];
        Agent::deep_builder(model.clone())
            .tool(Arc::new(count))
            .skills(world.skills(Dialect::DeepAgents))
            .permissions(Permissions::unattended(Policy::new().rules(RuleSource::User, rules)))
            .hooks(Hooks::new(HookSet::parse(&own).unwrap()).agent("critic", critic))
            .store(Arc::new(world.store.clone()))
            .options(short_lease())
            .build()
            .unwrap()
    };
    for cut in 1.. {
        counted.store(0, Ordering::SeqCst);
        model.asked.lock().unwrap().clear();
        let id = ThreadId::new();
        let mut thread = agent.open(id.clone()).await.unwrap();
        let mut first = soon(polled(cut, given, async {
            let turn = thread.say("/pdf form", &NoWatcher).await?;
            match turn {
                TurnStatus::Waiting(waiting) => {
                    thread.reply(&waiting[0].call.id, CallReply::Approve, &NoWatcher).await
                }
                turn => Ok(turn),
            }
        }))
        .await;
        let was_cut = first.is_none();
        let turn = loop {
            let turn = match first.take() {
                Some(turn) => turn,
                None => soon(thread.go_on(&NoWatcher)).await,
            };
            match turn.unwrap_or_else(|error| panic!("cut {cut}: {error}")) {
                TurnStatus::Idle if thread.state().messages().is_empty() => {
                    first = Some(soon(thread.say("/pdf form", &NoWatcher)).await);
                }
                TurnStatus::Waiting(waiting) => {
                    let reply = thread.reply(&waiting[0].call.id, CallReply::Approve, &NoWatcher);
                    first = Some(soon(reply).await);
                }
                turn => break turn,
            }
        };
        assert!(
            matches!(turn, TurnStatus::Ended(TurnOutcome::Responded) | TurnStatus::Idle),
            "cut {cut}: {turn:?}"
        );
        assert_eq!(thread.state().outcome(), Some(&TurnOutcome::Responded), "cut {cut}");
        let results = results(&thread);
        let wrote = results[0].starts_with("Wrote") || results[0].contains("not known");
        assert!(wrote && results[1] == "Worked.", "cut {cut}: {results:?}");
        let once = counted.load(Ordering::SeqCst);
        let known = results[2] == "counted" && once == 1 || results[2].contains("not known") && once <= 1;
        assert!(known, "cut {cut}: {once} {results:?}");
        assert!(results[3].contains("kept") || results[0].contains("not known"), "cut {cut}: {results:?}");
        let said: Vec<String> = thread.state().messages().iter().map(|message| message.text()).collect();
        let bodies = said.iter().filter(|text| text.contains("The way of pdf.")).count();
        assert_eq!((said[0].as_str(), bodies), ("/pdf form", 1), "cut {cut}: {said:?}");
        let of_child = |request: &&ModelRequest| request.messages[0].text() == "Work.";
        let asked = model.asked.lock().unwrap().clone();
        for request in asked.iter().filter(|request| !of_child(request) && answers(request) == 0) {
            assert!(all(request).contains("Begin with the plan."), "cut {cut}: a hook was not heard");
        }
        let live = thread.state().messages().to_vec();
        thread.close().await.unwrap();
        let log = world.store.events(&id, 0, 1000).await.unwrap();
        let log = serde_json::to_string(&log.iter().map(|stored| &stored.event).collect::<Vec<_>>()).unwrap();
        assert_eq!(log.matches(r#""delta":{"secret""#).count(), 1, "cut {cut}: the mark of frames is kept");
        assert_eq!(agent.open(id).await.unwrap().state().messages(), live, "cut {cut}");
        if !was_cut {
            assert!(cut > 20, "{cut}");
            return;
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct Step {
    number: usize,
}

/// An agent with summaries, hooks on them, large answers and a task, all in the thread's own files.
fn compacting(world: &World) -> (Arc<Follows>, Agent) {
    let model = Follows::new(|request| {
        if request.tools.is_empty() {
            return text("So far so good.");
        }
        let last = request.messages.last().unwrap().text();
        let step = |number: usize| calls(&[("s", "step", &json!({"number": number}).to_string())]);
        let done = |number: usize| last.contains(&format!("step {number} done"));
        match last.as_str() {
            "Work." => text("Worked."),
            "Worked." => step(4),
            "go" => step(1),
            _ if done(1) => step(2),
            _ if done(2) => step(3),
            _ if done(3) => calls(&[("t", "task", r#"{"description": "Work."}"#)]),
            _ if done(4) => step(5),
            _ => text("Done."),
        }
    });
    let critic = Agent::builder(Follows::new(|_| text("{}"))).build().unwrap();
    let hook = json!([{"hooks": [{"type": "agent", "agent": "critic", "prompt": "Well?"}]}]);
    let own = json!({"PreCompact": hook, "PostCompact": hook, "PostToolUse": hook});
    let step = FunctionTool::new("step", "Steps.", |step: Step| async move {
        let rest = if step.number == 3 { "x".repeat(100_000) } else { String::new() };
        Ok(ToolAnswer::text(format!("step {} done {rest}", step.number)))
    });
    let mut options = SummarisationOptions::default();
    (options.trigger, options.keep) = (Some(Trigger::Messages(6)), Some(Keep::Messages(2)));
    let agent = Agent::deep_builder(model.clone())
        .tool(Arc::new(step.idempotent()))
        .hooks(Hooks::new(HookSet::parse(&own).unwrap()).agent("critic", critic))
        .summarisation(options)
        .store(Arc::new(world.store.clone()))
        .options(short_lease())
        .build()
        .unwrap();
    (model, agent)
}

/// Summaries, hooks on them, large answers and a task, all in the thread's own files: cut off at every await.
async fn a_compaction_that_is_dropped(given: Given) {
    let world = World::new(&[]).await;
    let (model, agent) = compacting(&world);
    for cut in 1.. {
        model.asked.lock().unwrap().clear();
        let mut thread = agent.open(ThreadId::new()).await.unwrap();
        let id = thread.id().clone();
        let was_cut = soon(polled(cut, given, thread.say("go", &NoWatcher))).await.is_none();
        soon(thread.go_on(&NoWatcher)).await.unwrap_or_else(|error| panic!("cut {cut}: {error}"));
        if thread.state().messages().is_empty() {
            soon(thread.say("go", &NoWatcher)).await.unwrap();
        }
        assert_eq!(thread.state().outcome(), Some(&TurnOutcome::Responded), "cut {cut}");
        let results = results(&thread);
        assert_eq!((results.len(), results[3].as_str()), (6, "Worked."), "cut {cut}: {results:?}");
        assert!(thread.state().cut() > 0 && results.iter().all(|result| result.len() < 10_000), "cut {cut}");
        for request in model.asked.lock().unwrap().iter().filter(|request| !request.tools.is_empty()) {
            let from = usize::from(request.messages[0].text().contains("So far so good."));
            pairs_are_whole(&request.messages[from..]);
        }
        let files: Vec<(String, String)> = StateFiles::of(thread.states())
            .map(|(path, bytes)| (path.to_string(), String::from_utf8(bytes.to_vec()).unwrap()))
            .collect();
        let history = files.iter().find(|(path, _)| path.starts_with("/conversation_history")).unwrap();
        for (number, message) in thread.state().messages()[..thread.state().cut()].iter().enumerate() {
            let said = message.text();
            let said = said.lines().next().unwrap_or_default().trim_end();
            if !said.is_empty() {
                assert_eq!(history.1.matches(said).count(), 1, "cut {cut}: message {number}: {}", history.1);
            }
        }
        let large = files.iter().filter(|(path, _)| path.starts_with("/large_tool_results")).count();
        assert_eq!(large, 1, "cut {cut}");
        let live = thread.state().messages().to_vec();
        thread.close().await.unwrap();
        let read = agent.open(id).await.unwrap();
        assert_eq!(read.state().messages(), live, "cut {cut}");
        let kept: Vec<_> = StateFiles::of(read.states()).map(|(path, _)| path.to_string()).collect();
        assert_eq!(kept, files.into_iter().map(|(path, _)| path).collect::<Vec<_>>(), "cut {cut}");
        if !was_cut {
            assert!(cut > 20, "{cut}");
            return;
        }
    }
}

/// A process that dies after any event leaves a thread that goes on: every beginning of a log is one.
#[tokio::test]
async fn every_beginning_of_a_log_goes_on() {
    let world = World::new(&[]).await;
    let (model, agent) = compacting(&world);
    let mut whole = agent.open(ThreadId::new()).await.unwrap();
    assert_eq!(whole.say("go", &NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    for number in 1..whole.events() {
        model.asked.lock().unwrap().clear();
        let id = ThreadId::new();
        world.store.fork(whole.id(), number, &id).await.unwrap();
        let mut thread = agent.open(id.clone()).await.unwrap();
        let turn = soon(thread.go_on(&NoWatcher)).await.unwrap_or_else(|error| panic!("{number}: {error}"));
        assert_eq!(turn, TurnStatus::Ended(TurnOutcome::Responded), "{number}");
        let (results, all) = (results(&thread), results(&whole));
        let heads = |results: &[String]| results.iter().map(|text| text[..6].to_owned()).collect::<Vec<_>>();
        assert_eq!(heads(&results), heads(&all), "{number}");
        pairs_are_whole(thread.state().messages());
        for request in model.asked.lock().unwrap().iter().filter(|request| !request.tools.is_empty()) {
            let from = usize::from(request.messages[0].text().contains("So far so good."));
            pairs_are_whole(&request.messages[from..]);
        }
        let live = thread.state().messages().to_vec();
        thread.close().await.unwrap();
        assert_eq!(agent.open(id).await.unwrap().state().messages(), live, "{number}");
    }
}

#[tokio::test]
async fn a_turn_that_is_dropped_while_it_waits() {
    a_turn_that_is_dropped(Given::Before).await;
}

#[tokio::test]
async fn a_turn_that_is_dropped_after_it_waited() {
    a_turn_that_is_dropped(Given::After).await;
}

#[tokio::test]
async fn a_compaction_that_is_dropped_while_it_waits() {
    a_compaction_that_is_dropped(Given::Before).await;
}

#[tokio::test]
async fn a_compaction_that_is_dropped_after_it_waited() {
    a_compaction_that_is_dropped(Given::After).await;
}

/// Many threads of one agent at once, each cut off somewhere: none takes anything of another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_threads_are_cut_off_at_once() {
    let world = World::new(&[]).await;
    let (_, agent) = compacting(&world);
    let one = |number: usize| {
        let agent = agent.clone();
        async move {
            let mut thread = agent.open(ThreadId::new()).await.unwrap();
            for again in 0..4 {
                let cut = 1 + (number * 37 + again * 61) % 150;
                let given = if again % 2 == 0 { Given::Before } else { Given::After };
                let turn = if thread.state().messages().is_empty() {
                    polled(cut, given, thread.say("go", &NoWatcher)).await
                } else {
                    polled(cut, given, thread.go_on(&NoWatcher)).await
                };
                turn.transpose().unwrap_or_else(|error| panic!("{number} {again}: {error}"));
            }
            thread.go_on(&NoWatcher).await.unwrap_or_else(|error| panic!("{number}: {error}"));
            if thread.state().messages().is_empty() {
                thread.say("go", &NoWatcher).await.unwrap();
            }
            assert_eq!(thread.state().outcome(), Some(&TurnOutcome::Responded), "{number}");
            assert_eq!(results(&thread).len(), 6, "{number}: {:?}", results(&thread));
            let (id, live) = (thread.id().clone(), thread.state().messages().to_vec());
            thread.close().await.unwrap();
            assert_eq!(agent.open(id).await.unwrap().state().messages(), live, "{number}");
        }
    };
    let all: Vec<_> = (0..24).map(|number| tokio::spawn(one(number))).collect();
    for task in all {
        soon(task).await.unwrap();
    }
}

/// What a person allows in one thread is no word for another, which does the same at the same time by the same rules.
#[tokio::test]
async fn a_word_for_one_thread_is_none_for_another() {
    let world = World::new(&[("pdf", "", "The way of pdf.")]).await;
    let model = Follows::new(|request| match answers(request) {
        0 => calls(&[("a", "skill_run", r#"{"skill": "pdf", "command": "echo it ran"}"#)]),
        _ => text("Done."),
    });
    let (catalog, runner) = (world.catalog(), world.runner());
    let skills = Skills::new(move |thread| {
        let builder = SkillSession::builder(catalog.clone()).options(SessionOptions::new(Dialect::Trpc));
        builder.runs(RunSetup::new(runner.clone(), thread.as_str()))
    });
    let rules = [
        Rule::new("tool", "*", Decision::Allow),
        Rule::new("skill", "*", Decision::Allow),
        Rule::new("run", "*", Decision::Ask),
    ];
    let permissions = Permissions::unattended(Policy::new().rules(RuleSource::User, rules));
    let agent = Agent::deep_builder(model).skills(skills).permissions(permissions).build().unwrap();
    for times in 1..30 {
        let mut one = agent.open(ThreadId::new()).await.unwrap();
        let mut another = agent.open(ThreadId::new()).await.unwrap();
        let TurnStatus::Waiting(waiting) = one.say("go", &NoWatcher).await.unwrap() else { panic!() };
        let mut reply = Box::pin(one.reply(&waiting[0], CallReply::Approve, &NoWatcher));
        let done = soon(polled(times, Given::Before, &mut reply)).await;
        let turn = soon(another.say("go", &NoWatcher)).await.unwrap();
        assert!(
            matches!(turn, TurnStatus::Waiting(_)),
            "{times}: nobody let this pass: {:?}",
            results(&another)
        );
        let turn = match done {
            Some(turn) => turn,
            None => soon(&mut reply).await,
        };
        drop(reply);
        assert_eq!(
            turn.unwrap(),
            TurnStatus::Ended(TurnOutcome::Responded),
            "{times}: what was let pass is done"
        );
        assert!(results(&one)[0].contains("it ran"), "{times}: {:?}", results(&one));
    }
}
