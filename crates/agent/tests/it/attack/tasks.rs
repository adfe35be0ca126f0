//! Sub-agents that are cut off, deleted, cancelled, and that spend what is not theirs.

use std::sync::Arc;
use std::time::Duration;

use prowess_agent::middleware::{HookSet, Hooks, SubAgents, ToolPermissions};
use prowess_agent::thread::ThreadError;
use prowess_agent::thread_state::NextStep;
use prowess_agent::{
    Agent, AgentError, AgentOptions, CallReply, FunctionTool, NoWatcher, ThreadId, ThreadStore as _, Tool,
    ToolAnswer, TurnLimits, TurnOutcome, TurnStatus,
};
use prowess_permission::{Decision, Permissions, Policy, Rule, RuleSource};
use serde_json::json;

use super::{short_lease, soon};
use crate::agent::{Nothing, add, results};
use crate::says::{Says, calls, text};
use crate::world::{World, open};

const TASK: &str = r#"{"description": "Do it."}"#;
const SUM: &str = r#"{"numbers": [1, 2]}"#;

/// A tool that never ends.
fn hang() -> Arc<dyn Tool> {
    Arc::new(FunctionTool::new("hang", "Hangs.", |_: Nothing| async {
        std::future::pending::<()>().await;
        Ok(ToolAnswer::text("never"))
    }))
}

fn asking() -> ToolPermissions {
    let rule = Rule::new("tool", "add", Decision::Ask);
    ToolPermissions::new(Permissions::unattended(Policy::new().rules(RuleSource::User, [rule])))
}

/// A thread whose process went away while a sub-agent worked, and the sub-agent's lease still runs.
async fn cut_off(world: &World, options: AgentOptions) -> (Agent, ThreadId) {
    let child = Says::new([calls(&[("x", "hang", "{}")]), text("again")]);
    let worker = Agent::builder(child).tool(hang()).options(options.clone()).build().unwrap();
    let model = Says::new([calls(&[("a", "task", TASK)]), text("done"), text("and on")]);
    let agent = world.agent(model).middleware(SubAgents::new(worker)).options(options).build().unwrap();
    let mut thread = open(&agent).await;
    let id = thread.id().clone();
    let working = async {
        loop {
            let threads = world.store.list(10).await.unwrap();
            let child = threads.iter().find(|info| info.id.as_str().starts_with("task-"));
            if let Some(child) = child
                && world.store.events(&child.id, 0, 100).await.unwrap().len() >= 5
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        turn = thread.say("go", &NoWatcher) => panic!("{turn:?}"),
        () = soon(working) => {}
    }
    thread.close().await.unwrap();
    (agent, id)
}

/// A thread is deleted with those of its sub-agents, or not at all: nobody could find theirs later.
#[tokio::test]
async fn a_deletion_leaves_no_orphans() {
    let world = World::new(&[]).await;
    let (agent, id) = cut_off(&world, AgentOptions::default()).await;
    let refused = agent.delete(&id).await;
    assert!(matches!(refused, Err(AgentError::Thread(ThreadError::Leased { .. }))), "{refused:?}");
    assert_eq!(
        world.store.list(10).await.unwrap().len(),
        2,
        "the parent, by which its child is found, is there"
    );
}

/// The turn is cancelled while its sub-agent's process is gone: the thread goes on, and all of it can be deleted.
#[tokio::test]
async fn a_turn_is_cancelled_while_a_sub_agent_works() {
    let world = World::new(&[]).await;
    let (agent, id) = cut_off(&world, short_lease()).await;
    let mut thread = agent.open(id.clone()).await.unwrap();
    thread.cancel(&NoWatcher).await.unwrap();
    assert!(results(&thread)[0].contains("not known"), "{:?}", results(&thread));
    assert_eq!(soon(thread.say("on", &NoWatcher)).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    thread.close().await.unwrap();
    let deleted = async {
        // Until the lease of the one that is gone is over.
        while agent.delete(&id).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon(deleted).await;
    assert_eq!(world.store.list(10).await.unwrap(), []);
}

/// A task that was cut off goes on where it was, once the lease of its process is over.
#[tokio::test]
async fn a_task_that_was_cut_off_goes_on() {
    let world = World::new(&[]).await;
    let (agent, id) = cut_off(&world, short_lease()).await;
    let mut thread = agent.open(id).await.unwrap();
    assert_eq!(soon(thread.go_on(&NoWatcher)).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    assert_eq!(results(&thread), ["again"]);
}

/// Two sub-agents ask at once: each reply is for the one that asked, whichever comes first.
#[tokio::test]
async fn two_sub_agents_ask_at_once() {
    let world = World::new(&[]).await;
    let asks = |sum: &str, said: &str| {
        let model = Says::new([calls(&[("x", "add", sum)]), text(said)]);
        Agent::builder(model).middleware(asking()).tool(add()).build().unwrap()
    };
    let (one, two) = (asks(SUM, "first"), asks(r#"{"numbers": [40]}"#, "second"));
    let other = r#"{"description": "Do it.", "subagent_type": "two"}"#;
    let model = Says::new([calls(&[("a", "task", TASK), ("b", "task", other)]), text("done")]);
    let tasks = SubAgents::new(one).sub_agent("two", "Two.", two);
    let agent = world.agent(model).middleware(tasks).build().unwrap();
    let mut thread = open(&agent).await;
    let TurnStatus::Waiting(waiting) = thread.say("go", &NoWatcher).await.unwrap() else { panic!() };
    assert_eq!(waiting.len(), 2);
    let no = CallReply::Reject { message: "no".to_owned() };
    let TurnStatus::Waiting(left) = thread.reply("b", no, &NoWatcher).await.unwrap() else { panic!() };
    assert_eq!((left.len(), left[0].call.id.as_str()), (1, "a"));
    let again = thread.reply("b", CallReply::Approve, &NoWatcher).await;
    assert!(again.is_err(), "a second reply is refused: {again:?}");
    assert_eq!(
        thread.reply("a", CallReply::Approve, &NoWatcher).await.unwrap(),
        TurnStatus::Ended(TurnOutcome::Responded)
    );
    assert_eq!(results(&thread), ["first", "second"]);
}

/// A no to all, said to what a sub-agent asks, ends its other questions.
#[tokio::test]
async fn a_no_to_all_ends_what_else_a_sub_agent_asks() {
    let world = World::new(&[]).await;
    let child = Says::new([calls(&[("x", "add", SUM), ("y", "add", SUM)]), text("nothing")]);
    let worker = Agent::builder(child).middleware(asking()).tool(add()).build().unwrap();
    let model = Says::new([calls(&[("a", "task", TASK)]), text("done")]);
    let agent = world.agent(model).middleware(SubAgents::new(worker)).build().unwrap();
    let mut thread = open(&agent).await;
    let TurnStatus::Waiting(waiting) = thread.say("go", &NoWatcher).await.unwrap() else { panic!() };
    let no = CallReply::RejectAll { message: "no".to_owned() };
    let turn = thread.reply(&waiting[0], no, &NoWatcher).await.unwrap();
    assert_eq!(turn, TurnStatus::Ended(TurnOutcome::Responded), "it is not asked about the other");
    assert_eq!(results(&thread), ["nothing"]);
}

/// A hook that runs when the sub-agent's session ends changes its log after it asked: the reply is still its own.
#[tokio::test]
async fn a_reply_reaches_a_sub_agent_whose_hooks_note_the_end_of_its_session() {
    let world = World::new(&[]).await;
    let own = json!({"SessionEnd": [{"hooks": [{"type": "prompt", "prompt": "Be brief.", "once": true}]}]});
    let hooks = Hooks::new(HookSet::parse(&own).unwrap());
    let child = Says::new([calls(&[("x", "add", SUM)]), text("3")]);
    let worker = Agent::builder(child).middleware(asking()).middleware(hooks).tool(add()).build().unwrap();
    let model = Says::new([calls(&[("a", "task", TASK)]), text("done")]);
    let agent = world.agent(model).middleware(SubAgents::new(worker)).build().unwrap();
    let mut thread = open(&agent).await;
    let TurnStatus::Waiting(_) = thread.say("go", &NoWatcher).await.unwrap() else { panic!() };
    let turn = thread.reply("a", CallReply::Approve, &NoWatcher).await.unwrap();
    assert_eq!(turn, TurnStatus::Ended(TurnOutcome::Responded), "the person is not asked twice");
    assert_eq!(results(&thread), ["3"]);
}

/// A model that hands out many tasks at once spends no more than its turn may, and one answer of each at most.
#[tokio::test]
async fn many_tasks_share_what_their_parents_turn_has_left() {
    let world = World::new(&[]).await;
    // Each of its answers costs 12 tokens, and it never ends by itself.
    let on_and_on = || {
        let mut deltas = text("on and on").unwrap();
        deltas.splice(0..0, calls(&[("x", "add", SUM)]).unwrap().into_iter().take(2));
        Ok(deltas)
    };
    let worker = Says::new((0..500).map(|_| on_and_on()));
    let worker = Agent::builder(worker).tool(add()).build().unwrap();
    let ids: Vec<String> = (0..16).map(|number| format!("c{number}")).collect();
    let many: Vec<(&str, &str, &str)> = ids.iter().map(|id| (id.as_str(), "task", TASK)).collect();
    let model = Says::new([calls(&many), text("never said")]);
    let mut options = AgentOptions::default();
    options.limits = TurnLimits::new(100).tokens(240);
    let agent = world.agent(model).middleware(SubAgents::new(worker)).options(options).build().unwrap();
    let mut thread = open(&agent).await;
    let turn = soon(thread.say("go", &NoWatcher)).await.unwrap();
    assert_eq!(turn, TurnStatus::Ended(TurnOutcome::TooManyTokens { most: 240 }));
    let spent = thread.state().usage().total();
    assert!(spent <= 240 + 16 * 12, "{spent} tokens were spent of 240");
}

/// Tasks within tasks end at the depth that was set, whatever the models want.
#[tokio::test]
async fn tasks_within_tasks_end() {
    let world = World::new(&[]).await;
    let mut agent = Agent::builder(Says::new([text("bottom")])).build().unwrap();
    for _ in 0..8 {
        let model = Says::new([calls(&[("a", "task", TASK)]), text("went deeper")]);
        let builder = Agent::builder(model).store(Arc::new(world.store.clone()));
        agent = builder.middleware(SubAgents::new(agent)).build().unwrap();
    }
    let mut thread = open(&agent).await;
    assert_eq!(soon(thread.say("go", &NoWatcher)).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    assert_eq!(world.store.list(100).await.unwrap().len(), 4, "the thread, and three tasks");
}

/// Time without end is no overflow.
#[tokio::test]
async fn a_task_may_take_all_the_time_there_is() {
    let world = World::new(&[]).await;
    let worker = Agent::builder(Says::new([text("worked")])).build().unwrap();
    let model = Says::new([calls(&[("a", "task", TASK)]), text("done")]);
    let tasks = SubAgents::new(worker).timeout(Duration::MAX);
    let agent = world.agent(model).middleware(tasks).build().unwrap();
    let mut thread = open(&agent).await;
    thread.say("go", &NoWatcher).await.unwrap();
    assert_eq!((thread.state().next(), results(&thread)), (NextStep::Wait, vec!["worked".to_owned()]));
}
