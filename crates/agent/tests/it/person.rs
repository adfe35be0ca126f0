//! What a person does to a thread besides talking: start a skill, unload one, look at the context, have it summarised,
//! limit what it costs.

use std::sync::Arc;

use prowess_agent::middleware::{Compaction, CostLimit, SkillsState, Summarisation};
use prowess_agent::{NoWatcher, Prices, Thread, ThreadId, TurnOutcome, TurnStatus, Usage};
use prowess_models::{Offline, Scripted, ScriptedTurn as Says};
use prowess_permission::Decision;
use prowess_skills::{Dialect, Lifetime, SessionOptions};

use crate::says;
use crate::world::{World, open};

fn loaded(thread: &Thread) -> Vec<String> {
    let skills = SkillsState::of(thread.states()).unwrap().loaded();
    skills.iter().map(|skill| skill.name.clone()).collect()
}

async fn sums() -> World {
    World::new(&[("sums", "", "Count with care.")]).await
}

#[tokio::test]
async fn who_types_a_name_has_said_yes_and_not_more() {
    let world = sums().await;
    for (decision, outcome, expected) in [
        (Decision::Ask, TurnOutcome::Responded, vec!["sums"]),
        (Decision::Deny, TurnOutcome::Responded, vec![]),
    ] {
        let skills =
            world.skills_with(|_| SessionOptions::new(Dialect::DeepAgents), &[("skill", "*", decision)]);
        let model = Scripted::new([Says::new().say("ready"), Says::new().say("again")]);
        let agent = world.agent(Arc::new(model)).middleware(skills).build().unwrap();
        let mut thread = open(&agent).await;
        assert_eq!(thread.say("/sums 1 2", &NoWatcher).await.unwrap(), TurnStatus::Ended(outcome));
        assert_eq!(loaded(&thread), expected, "{decision:?}");
    }
}

#[tokio::test]
async fn a_person_unloads_a_skill_for_good() {
    let world = sums().await;
    let agent = world.agent(Arc::new(Offline)).middleware(world.skills(Dialect::DeepAgents)).build().unwrap();
    let id = ThreadId::new();
    let mut thread = agent.open(id.clone()).await.unwrap();
    thread.say("/sums", &NoWatcher).await.unwrap();
    assert_eq!(loaded(&thread), ["sums"]);
    assert!(thread.preview().await.unwrap().system_text().contains("[Loaded]"));
    thread.change(prowess_agent::middleware::Skills::unload("sums")).await.unwrap();
    thread.change(prowess_agent::middleware::Skills::unload("never-there")).await.unwrap();
    assert_eq!(loaded(&thread), [""; 0]);
    assert!(!thread.preview().await.unwrap().system_text().contains("[Loaded]"));
    thread.close().await.unwrap();
    let mut thread = agent.open(id).await.unwrap();
    assert_eq!(loaded(&thread), [""; 0]);
    assert!(!thread.preview().await.unwrap().system_text().contains("[Loaded]"));
}

#[tokio::test]
async fn a_preview_is_what_the_model_is_asked() {
    let world = sums().await;
    let model = says::Says::new([says::text("one"), says::text("two")]);
    let agent = world.agent(model.clone()).prompt("You count.").middleware(world.skills(Dialect::DeepAgents));
    let agent = agent.build().unwrap();
    let mut thread = open(&agent).await;
    thread.say("first", &NoWatcher).await.unwrap();
    let preview = thread.preview().await.unwrap();
    thread.say("second", &NoWatcher).await.unwrap();
    let asked = model.request(1);
    assert_eq!(preview.system, asked.system);
    assert_eq!(preview.tools, asked.tools);
    assert_eq!(preview.messages[..], asked.messages[..asked.messages.len() - 1]);
}

#[tokio::test]
async fn a_person_has_a_short_conversation_summarised_between_turns() {
    let world = World::new(&[("fibonacci", "", "```sh\necho 1 1 2 3\n```")]).await;
    let for_the_session = |_: &ThreadId| {
        let mut options = SessionOptions::new(Dialect::Trpc);
        options.lifetime = Lifetime::Session;
        options
    };
    let agent = world
        .agent(Arc::new(Offline))
        .middleware(Summarisation::new(Arc::new(Offline), world.backend()))
        .middleware(world.skills_with(for_the_session, &[("run", "*", Decision::Allow)]))
        .build()
        .unwrap();
    let mut thread = open(&agent).await;
    assert_eq!(
        Summarisation::compact(&mut thread, &NoWatcher).await.unwrap(),
        Compaction::Nothing,
        "nothing was said"
    );
    thread.say("Compute fibonacci numbers.", &NoWatcher).await.unwrap();
    let messages = thread.state().messages().len();
    assert!(matches!(
        Summarisation::compact(&mut thread, &NoWatcher).await.unwrap(),
        Compaction::Done { messages: 1.. }
    ));
    assert_eq!(thread.state().cut(), messages - 1, "the last message stays");
    assert_eq!(loaded(&thread), ["fibonacci"], "what is loaded stays loaded");
    let preview = thread.preview().await.unwrap();
    assert!(preview.messages[0].text().contains("I cannot summarise"), "{}", preview.messages[0].text());
    assert!(preview.system_text().contains("echo 1 1 2 3"), "its text is put back");
    assert_eq!(
        Summarisation::compact(&mut thread, &NoWatcher).await.unwrap(),
        Compaction::Nothing,
        "there is nothing more to take out"
    );
    let turn = thread.say("Compute fibonacci numbers.", &NoWatcher).await.unwrap();
    assert_eq!(turn, TurnStatus::Ended(TurnOutcome::Responded));
}

#[tokio::test]
async fn a_thread_ends_when_it_has_cost_enough() {
    let world = sums().await;
    let said = |text: &str| Says::new().say(text).usage(Usage::new(1_000_000, 0));
    let model = Scripted::new([said("one"), said("two"), said("three")]).model_name("test:dear");
    let prices: Prices = toml::from_str("[\"test:dear\"]\ninput = 1\noutput = 1").unwrap();
    let agent = world.agent(Arc::new(model)).middleware(CostLimit::new(prices, "2".parse().unwrap()));
    let agent = agent.build().unwrap();
    let mut thread = open(&agent).await;
    for _ in 0..2 {
        assert_eq!(thread.say("go", &NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    }
    let reason = "the thread has cost $2.0000, and its limit is $2".to_owned();
    assert_eq!(
        thread.say("go", &NoWatcher).await.unwrap(),
        TurnStatus::Ended(TurnOutcome::Stopped { reason })
    );
}

#[tokio::test]
async fn a_limit_without_a_price_is_kept() {
    let world = sums().await;
    let said = Says::new().say("one").usage(Usage::new(1, 0));
    let model = Scripted::new([said]).model_name("test:odd");
    let agent =
        world.agent(Arc::new(model)).middleware(CostLimit::new(Prices::default(), "2".parse().unwrap()));
    let mut thread = open(&agent.build().unwrap()).await;
    let turn = thread.say("go", &NoWatcher).await.unwrap();
    let TurnStatus::Ended(TurnOutcome::Stopped { reason }) = turn else { panic!("{turn:?}") };
    assert!(reason.contains("needs a price for `test:odd`"), "{reason}");
    assert_eq!(thread.state().usage(), Usage::default(), "it was not asked at all");
}
