//! Sub-agents: how deep, how long, for how much, and what they take with them.

use std::sync::Arc;
use std::time::Duration;

use prowess_agent::middleware::{SkillsState, SubAgents, ToolPermissions};
use prowess_agent::thread::ThreadError;
use prowess_agent::{
    Agent, AgentError, CallReply, FunctionTool, NoWatcher, Thread, ThreadId, ThreadStore, ToolAnswer,
    TurnLimits, TurnOutcome, TurnStatus,
};
use prowess_permission::{Decision, Permissions, Policy, Rule, RuleSource};
use prowess_skills::Dialect;

use crate::agent::{Nothing, add, results};
use crate::says::{Says, all, calls, text};
use crate::world::{World, open};

const TASK: &str = r#"{"description": "Do it."}"#;

async fn said(agent: &Agent) -> Thread {
    let mut thread = open(agent).await;
    assert_eq!(thread.say("go", &NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    thread
}

#[tokio::test]
async fn sub_agents_go_only_so_deep() {
    let world = World::new(&[]).await;
    let deepest = Says::new([text("deepest")]);
    let middle = Says::new([calls(&[("m", "task", TASK)]), text("middle")]);
    let model = Says::new([calls(&[("a", "task", TASK)]), text("top")]);
    let bottom = Agent::builder(deepest.clone()).build().unwrap();
    let below = SubAgents::new(bottom).depth(1);
    let worker = Agent::builder(middle.clone()).middleware(below).build().unwrap();
    let agent = world.agent(model.clone()).middleware(SubAgents::new(worker).depth(1)).build().unwrap();
    let thread = said(&agent).await;
    assert_eq!(results(&thread), ["middle"]);
    assert!(model.request(0).tools.iter().any(|tool| tool.name == "task"));
    assert!(middle.request(0).tools.is_empty(), "one that may go no deeper is not told how");
    assert!(!middle.request(0).system_text().contains("Sub-agents"));
    assert_eq!(deepest.count(), 0);
}

#[tokio::test]
async fn a_sub_agent_that_never_ends_is_ended() {
    let world = World::new(&[]).await;
    let hang = FunctionTool::new("hang", "Hangs.", |_: Nothing| async {
        std::future::pending::<()>().await;
        Ok(ToolAnswer::text("never"))
    });
    let worker = Says::new([calls(&[("h", "hang", "{}")])]);
    let worker = Agent::builder(worker).tool(Arc::new(hang)).build().unwrap();
    let model = Says::new([calls(&[("a", "task", TASK)]), text("done")]);
    let tasks = SubAgents::new(worker).timeout(Duration::from_millis(200));
    let agent = world.agent(model).middleware(tasks).build().unwrap();
    let thread = said(&agent).await;
    assert!(results(&thread)[0].contains("it took longer than 0 seconds"), "{:?}", results(&thread));
    let threads = world.store.list(10).await.unwrap();
    let child = threads.iter().find(|info| info.id.as_str().starts_with("task-")).unwrap();
    let events = world.store.events(&child.id, 0, 100).await.unwrap();
    let last = &events.last().unwrap().event;
    assert!(matches!(last, prowess_agent::Event::TurnEnded { outcome: TurnOutcome::Cancelled }), "{last:?}");
}

#[tokio::test]
async fn a_sub_agent_takes_no_more_than_its_share() {
    let world = World::new(&[]).await;
    // Each of its answers costs 12 tokens.
    let said_and_called = || {
        let mut deltas = text("on and on").unwrap();
        deltas.splice(0..0, calls(&[("x", "add", "{\"numbers\": [1]}")]).unwrap().into_iter().take(2));
        Ok(deltas)
    };
    let worker = Says::new((0..50).map(|_| said_and_called()));
    let worker = Agent::builder(worker).tool(add()).build().unwrap();
    let model = Says::new([calls(&[("a", "task", TASK)]), text("done")]);
    let tasks = SubAgents::new(worker).limits(TurnLimits::new(100).tokens(60));
    let agent = world.agent(model).middleware(tasks).build().unwrap();
    let thread = said(&agent).await;
    assert!(results(&thread)[0].contains("limit of 60 tokens"), "{:?}", results(&thread));
    assert_eq!(thread.state().usage().total(), 60 + 12, "what a sub-agent costs is counted");
}

#[tokio::test]
async fn a_turn_that_costs_too_much_ends_with_its_sub_agents() {
    let world = World::new(&[]).await;
    let worker = Agent::builder(Says::new([text("cheap")])).build().unwrap();
    let model = Says::new([calls(&[("a", "task", TASK)]), text("never said")]);
    let mut options = prowess_agent::AgentOptions::default();
    options.limits.tokens = Some(12);
    let agent = world.agent(model).middleware(SubAgents::new(worker)).options(options).build().unwrap();
    let mut thread = open(&agent).await;
    let turn = thread.say("go", &NoWatcher).await.unwrap();
    assert_eq!(turn, TurnStatus::Ended(TurnOutcome::TooManyTokens { most: 12 }));
    assert_eq!(results(&thread), ["cheap"]);
}

/// What is loaded goes along where that is wanted, and never comes back.
#[tokio::test]
async fn loaded_skills_are_inherited_where_that_is_wanted() {
    for inherits in [true, false] {
        let world = World::new(&[("pdf", "", "The way of pdf."), ("csv", "", "The way of csv.")]).await;
        let load = |name: &str| format!("{{\"skill_name\": \"{name}\"}}");
        let child = Says::new([calls(&[("x", "load_skill", &load("csv"))]), text("done")]);
        let model = Says::new([
            calls(&[("a", "load_skill", &load("pdf"))]),
            calls(&[("b", "task", TASK)]),
            text("done"),
        ]);
        let worker =
            Agent::builder(child.clone()).middleware(world.skills(Dialect::DeepAgents)).build().unwrap();
        let tasks = SubAgents::new(worker);
        let tasks = if inherits { tasks.inherit_skills() } else { tasks };
        let agent = world
            .agent(model.clone())
            .middleware(world.skills(Dialect::DeepAgents))
            .middleware(tasks)
            .build()
            .unwrap();
        let thread = said(&agent).await;
        let prompt = all(&child.request(0));
        assert_eq!(prompt.contains("**pdf** [Loaded]"), inherits, "{prompt}");
        assert_eq!(prompt.matches("The way of pdf.").count(), usize::from(inherits), "{prompt}");
        let loaded = SkillsState::of(thread.states()).unwrap().loaded();
        assert_eq!(loaded.iter().map(|skill| skill.name.as_str()).collect::<Vec<_>>(), ["pdf"]);
    }
}

/// A sub-agent asks, the parent's process ends, another replies: the reply is the sub-agent's, and only for that call.
#[tokio::test]
async fn what_a_sub_agent_asks_is_asked_in_its_parents_thread() {
    let world = World::new(&[]).await;
    let sum = "{\"numbers\": [1, 2]}";
    let child = Says::new([calls(&[("x", "add", sum)]), calls(&[("x", "add", sum)]), text("3 and no.")]);
    let model = Says::new([calls(&[("a", "task", TASK)]), text("done")]);
    let agent = || {
        let rule = Rule::new("tool", "add", Decision::Ask);
        let permissions = Permissions::unattended(Policy::new().rules(RuleSource::User, [rule]));
        let worker = Agent::builder(child.clone())
            .middleware(ToolPermissions::new(permissions))
            .tool(add())
            .build()
            .unwrap();
        world.agent(model.clone()).middleware(SubAgents::new(worker)).build().unwrap()
    };
    let id = ThreadId::new();
    let mut thread = agent().open(id.clone()).await.unwrap();
    for reply in [CallReply::Approve, CallReply::Reject { message: "enough".to_owned() }] {
        let turn = thread.go_on(&NoWatcher).await.unwrap();
        let turn = if turn == TurnStatus::Idle { thread.say("go", &NoWatcher).await.unwrap() } else { turn };
        let TurnStatus::Waiting(waiting) = turn else { panic!("{turn:?}") };
        assert_eq!(waiting[0].question.wording().title, "sub-agent general-purpose: call 'add'");
        thread.close().await.unwrap();
        thread = agent().open(id.clone()).await.unwrap();
        thread.reply(&waiting[0].call.id, reply, &NoWatcher).await.unwrap();
    }
    assert_eq!(
        (thread.state().next(), results(&thread)),
        (prowess_agent::thread_state::NextStep::Wait, vec!["3 and no.".to_owned()])
    );
    let seen = child.request(2);
    let answers: Vec<String> = seen.messages.iter().map(|message| message.text()).collect();
    assert_eq!(answers, ["Do it.", "", "3", "", "enough"]);
}

/// A reply that comes twice, as from an impatient hand, answers one question and not the next of the same call.
#[tokio::test]
async fn a_reply_that_comes_twice_answers_once() {
    let world = World::new(&[]).await;
    let sum = "{\"numbers\": [1, 2]}";
    let child = Says::new([calls(&[("x", "add", sum)]), calls(&[("x", "add", sum)]), text("twice")]);
    let rules = [Rule::new("tool", "add", Decision::Ask)];
    let permissions = Permissions::unattended(Policy::new().rules(RuleSource::User, rules));
    let worker =
        Agent::builder(child).middleware(ToolPermissions::new(permissions)).tool(add()).build().unwrap();
    let model = Says::new([calls(&[("a", "task", TASK)]), text("done")]);
    let agent = world.agent(model).middleware(SubAgents::new(worker)).build().unwrap();
    let mut thread = open(&agent).await;
    let TurnStatus::Waiting(first) = thread.say("go", &NoWatcher).await.unwrap() else { panic!() };
    let turn = thread.reply(&first[0], CallReply::Approve, &NoWatcher).await.unwrap();
    let TurnStatus::Waiting(second) = turn else { panic!("{turn:?}") };
    assert_eq!(
        (&second[0].call, second[0].question.wording().title),
        (&first[0].call, first[0].question.wording().title)
    );
    let again = thread.reply(&first[0], CallReply::Approve, &NoWatcher).await;
    assert!(matches!(again, Err(AgentError::AlreadyReplied(_))), "{again:?}");
    assert_eq!(thread.waiting(), second, "the second question waits still");
}

/// A thread is deleted with those of its sub-agents, and theirs.
#[tokio::test]
async fn a_deleted_thread_takes_its_tasks_along() {
    let world = World::new(&[]).await;
    let bottom = Agent::builder(Says::new([text("deep")])).build().unwrap();
    let middle = Says::new([calls(&[("m", "task", TASK)]), text("middle")]);
    let worker = Agent::builder(middle).middleware(SubAgents::new(bottom)).build().unwrap();
    let model = Says::new([calls(&[("a", "task", TASK)]), text("top")]);
    let agent = world.agent(model).middleware(SubAgents::new(worker)).build().unwrap();
    let thread = said(&agent).await;
    let id = thread.id().clone();
    let refused = agent.delete(&id).await;
    assert!(matches!(refused, Err(AgentError::Thread(ThreadError::Leased { .. }))), "{refused:?}");
    thread.close().await.unwrap();
    assert_eq!(world.store.list(10).await.unwrap().len(), 3);
    agent.delete(&id).await.unwrap();
    assert_eq!(world.store.list(10).await.unwrap(), []);
}
