//! A person types `/name` for a skill that a sub-agent follows.

use std::sync::Arc;

use prowess_agent::middleware::{SkillsState, SubAgents};
use prowess_agent::{Agent, CallReply, Message, NoWatcher, ThreadId, TurnOutcome, TurnStatus};
use prowess_permission::{Decision, Permissions, Policy, Rule, RuleSource};
use prowess_skills::Dialect;

use crate::agent::results;
use crate::says::{Says, all, calls, text};
use crate::world::{World, open};

const MANUAL: &str = "context: fork\ndisable-model-invocation: true\n";

async fn forking() -> World {
    World::new(&[("report", MANUAL, "Write about $ARGUMENTS.")]).await
}

#[tokio::test]
async fn a_sub_agent_follows_what_a_person_types_and_the_model_responds() {
    let world = forking().await;
    let model = Says::new([text("Herons are grey."), text("The report says: grey.")]);
    let agent = Agent::deep_builder(model.clone())
        .files(world.backend())
        .skills(world.skills(Dialect::DeepAgents))
        .build()
        .unwrap();
    let mut thread = open(&agent).await;
    let turn = thread.say("/report herons", &NoWatcher).await.unwrap();
    assert_eq!(turn, TurnStatus::Ended(TurnOutcome::Responded));
    let followed = model.request(0);
    assert!(all(&followed).contains("Write about herons."), "{}", all(&followed));
    assert!(!all(&model.request(1)).contains("Write about"), "nothing is loaded in the conversation");
    assert_eq!(results(&thread), ["Herons are grey."]);
    assert_eq!(thread.last_response().as_deref(), Some("The report says: grey."));
    assert_eq!(SkillsState::of(thread.states()).unwrap().usage()["report"].loads, 1);
    let messages: Vec<String> = thread.state().messages().iter().map(|message| message.text()).collect();
    assert_eq!(messages[0], "/report herons", "the line stays as the person typed it");
}

/// Only the person's own call counts as typed: a model that repeats its id is a model.
#[tokio::test]
async fn a_model_cannot_repeat_the_call_of_a_person() {
    let world = forking().await;
    let build = |model: Arc<Says>| {
        let agent = Agent::deep_builder(model).files(world.backend()).store(Arc::new(world.store.clone()));
        agent.skills(world.skills(Dialect::DeepAgents)).build().unwrap()
    };
    let id = ThreadId::new();
    let mut thread = build(Says::new([text("Grey."), text("Done.")])).open(id.clone()).await.unwrap();
    thread.say("/report herons", &NoWatcher).await.unwrap();
    let typed = thread.state().messages().iter().find_map(|message| message.tool_calls().next().cloned());
    let typed = typed.unwrap();
    thread.close().await.unwrap();

    let again = || calls(&[(typed.id.as_str(), &typed.name, &typed.arguments)]);
    let mut thread = build(Says::new([again(), again(), text("Well.")])).open(id).await.unwrap();
    thread.say("go on", &NoWatcher).await.unwrap();
    let results = results(&thread);
    assert_eq!((results[0].as_str(), results.len()), ("Grey.", 3));
    assert!(results[1..].iter().all(|result| result.contains("'report'")), "{results:?}");
    assert!(!results[1..].iter().any(|result| result.contains("Grey.")), "{results:?}");
}

/// A question of the sub-agent waits in the person's thread, for any process.
#[tokio::test]
async fn a_question_of_the_sub_agent_reaches_the_person_after_a_restart() {
    let world = forking().await;
    let write = r#"{"file_path": "/report.md", "content": "Grey."}"#;
    let model = Says::new([calls(&[("w", "write_file", write)]), text("Written."), text("It is written.")]);
    let policy = Policy::new().rules(RuleSource::User, [Rule::new("tool", "*", Decision::Allow)]);
    let build = || {
        Agent::deep_builder(model.clone())
            .files(world.backend())
            .store(Arc::new(world.store.clone()))
            .skills(world.skills(Dialect::DeepAgents))
            .permissions(Permissions::unattended(policy.clone()))
            .build()
            .unwrap()
    };
    let id = ThreadId::new();
    let mut thread = build().open(id.clone()).await.unwrap();
    let TurnStatus::Waiting(waiting) = thread.say("/report herons", &NoWatcher).await.unwrap() else {
        panic!("nobody was asked")
    };
    assert!(waiting[0].question.wording().title.contains("report.md"), "{:?}", waiting[0].question.wording());
    thread.close().await.unwrap();

    let mut thread = build().open(id).await.unwrap();
    let waiting = thread.waiting().remove(0);
    let turn = thread.reply(&waiting, CallReply::Approve, &NoWatcher).await.unwrap();
    assert_eq!(turn, TurnStatus::Ended(TurnOutcome::Responded));
    assert_eq!(results(&thread), ["Written."]);
    assert_eq!(thread.last_response().as_deref(), Some("It is written."));
    let calls = thread.state().messages().iter().filter(|message| message.tool_calls().next().is_some());
    assert_eq!(calls.count(), 1, "the skill was followed once");
}

/// Without sub-agents the text is loaded into the conversation.
#[tokio::test]
async fn without_sub_agents_the_skill_is_loaded() {
    let world = forking().await;
    let model = Says::new([text("Grey.")]);
    let agent = world.agent(model.clone()).middleware(world.skills(Dialect::DeepAgents)).build().unwrap();
    let mut thread = open(&agent).await;
    thread.say("/report herons", &NoWatcher).await.unwrap();
    let said: String = model.request(0).messages.iter().map(|message| Message::text(message)).collect();
    assert!(said.contains("Write about herons."), "{said}");
}

/// The sub-agent of a skill can lack tools for skills: then it gets the text with its task, with the arguments.
#[tokio::test]
async fn a_sub_agent_without_skills_gets_the_text_with_its_task() {
    let world = World::new(&[("report", "context: fork\nagent: Writer\n", "Write about $ARGUMENTS.")]).await;
    let writer = Says::new([text("Grey.")]);
    let plain = Agent::builder(writer.clone()).build().unwrap();
    let model = Says::new([text("Done.")]);
    let tasks = SubAgents::new(plain.clone()).sub_agent("writer", "Writes.", plain);
    let agent = world
        .agent(model)
        .middleware(world.skills(Dialect::DeepAgents).sub_agents(tasks.clone()))
        .middleware(tasks)
        .build()
        .unwrap();
    let mut thread = open(&agent).await;
    thread.say("/report herons", &NoWatcher).await.unwrap();
    assert_eq!(results(&thread), ["Grey."]);
    let task = writer.request(0).messages[0].text();
    assert!(task.contains("Write about herons.") && task.contains("Arguments: herons"), "{task}");
}
