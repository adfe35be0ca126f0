//! What the frontmatter of a loaded skill does to the agent: contract, section 8.

use std::sync::{Arc, Mutex};

use prowess_agent::middleware::{
    Files, SkillModel, SkillModels, Skills, SkillsState, SubAgents, ToolPermissions,
};
use prowess_agent::model::{Effort, ModelErrorKind};
use prowess_agent::{
    Agent, CallReply, Model, ModelError, NoWatcher, ThreadId, ThreadUpdate, TurnOutcome, TurnStatus,
};
use prowess_permission::{Action, Decision, Kind, Permissions, Policy, Question, Rule, RuleSource};
use prowess_skills::{AllowedTools, Dialect, SessionOptions};

use crate::agent::{add, results};
use crate::says::{Says, all, calls, text};
use crate::world::{World, open};

fn load(name: &str) -> String {
    format!("{{\"skill_name\": \"{name}\"}}")
}

fn choosing(world: &World, models: &[(&'static str, &Arc<Says>)]) -> Skills {
    let models: Vec<(&str, Arc<Says>)> =
        models.iter().map(|(name, model)| (*name, Arc::clone(model))).collect();
    let find = move |name: &str| match models.iter().find(|(known, _)| *known == name) {
        Some((_, model)) => SkillModel::Use(Arc::clone(model) as Arc<dyn Model>),
        None => SkillModel::Unavailable { reason: "nobody has it".to_owned() },
    };
    world.skills(Dialect::DeepAgents).models(SkillModels::new(find))
}

/// Two models at once, and two skills that both set one: the latest loaded wins, and when it goes the other does.
#[tokio::test]
async fn the_latest_loaded_skill_chooses_the_model() {
    let world = World::new(&[
        ("poem", "model: poet\neffort: high\n", "Write verses."),
        ("sums", "model: counter\n", "Count."),
        ("odd", "model: nobody-has-this\neffort: odd\n", "Odd."),
    ])
    .await;
    let own = Says::new([
        calls(&[("a", "load_skill", &load("poem"))]),
        calls(&[("f", "load_skill", &load("odd"))]),
        text("own again"),
    ]);
    let poet = Says::new([
        calls(&[("b", "load_skill", &load("sums"))]),
        calls(&[("d", "unload_skill", &load("poem"))]),
    ]);
    let counter = Says::new([calls(&[("c", "unload_skill", &load("sums"))])]);
    let skills = choosing(&world, &[("poet", &poet), ("counter", &counter)]);
    let agent = world.agent(own.clone()).middleware(skills).build().unwrap();
    let mut thread = open(&agent).await;
    assert_eq!(thread.say("go", &NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    assert_eq!((own.count(), poet.count(), counter.count()), (3, 2, 1));
    assert_eq!(poet.request(0).effort, Some(Effort::High));
    assert_eq!(counter.request(0).effort, Some(Effort::High), "effort is chosen for itself");
    assert_eq!(
        (own.request(0).effort, own.request(2).effort),
        (None, None),
        "what nobody knows changes nothing"
    );
    assert_eq!(thread.last_response().as_deref(), Some("own again"));
}

/// The provider has no such model, and nobody knows the other: the thread goes on with its own, and the person reads it
/// once.
#[tokio::test]
async fn a_model_that_nobody_has_does_not_end_a_turn() {
    let world = World::new(&[
        ("poem", "model: poet\n", "Write verses."),
        ("odd", "model: \"nobody\\e[2J\"\n", "Odd."),
        ("same", "model: inherit\n", "Same."),
    ])
    .await;
    let own = Says::new([
        calls(&[("a", "load_skill", &load("poem"))]),
        calls(&[("b", "load_skill", &load("odd"))]),
        calls(&[("c", "load_skill", &load("same"))]),
        text("done"),
        text("done again"),
    ]);
    let gone = ModelError::new("says", ModelErrorKind::NoSuchModel, "HTTP 404: no\nsuch model");
    let poet = Says::new([Err(gone)]);
    let agent = world.agent(own.clone()).middleware(choosing(&world, &[("poet", &poet)])).build().unwrap();
    let mut thread = open(&agent).await;
    let notices = Mutex::new(Vec::new());
    let watcher = |update: ThreadUpdate<'_>| {
        if let ThreadUpdate::Notice(text) = update {
            notices.lock().unwrap().push(text.to_owned());
        }
    };
    for line in ["go", "go on"] {
        let turn = thread.say(line, &watcher).await.unwrap();
        assert_eq!(turn, TurnStatus::Ended(TurnOutcome::Responded));
    }
    assert_eq!((own.count(), poet.count()), (5, 1));
    assert_eq!(
        *notices.lock().unwrap(),
        [
            "skill 'poem' asks for the model `poet`; says is used instead: HTTP 404: no such model",
            "skill 'odd' asks for the model `nobody[2J`; says is used instead: nobody has it",
        ]
    );
}

/// `preapprove`: what a loaded skill lists is not asked about; what the rules deny stays denied.
#[tokio::test]
async fn listed_tools_are_preapproved_and_never_past_a_denial() {
    let world = World::new(&[("sums", "allowed-tools: add ls\n", "Count.")]).await;
    let sum = "{\"numbers\": [1, 2]}";
    let model = Says::new([
        calls(&[("a", "load_skill", &load("sums"))]),
        calls(&[("b", "add", sum), ("c", "ls", "{\"path\": \"/\"}")]),
        calls(&[("d", "unload_skill", &load("sums"))]),
        calls(&[("e", "add", sum)]),
        text("done"),
    ]);
    let options = |_: &ThreadId| {
        let mut options = SessionOptions::new(Dialect::DeepAgents);
        options.allowed_tools = AllowedTools::Preapprove;
        options
    };
    let all = Rule::new("tool", "*", Decision::Allow);
    let rules = [all, Rule::new("tool", "add", Decision::Ask), Rule::new("tool", "ls", Decision::Deny)];
    let agent = world
        .agent(model)
        .middleware(world.skills_with(options, &[]))
        .middleware(ToolPermissions::new(Permissions::unattended(
            Policy::new().rules(RuleSource::User, rules),
        )))
        .middleware(Files::new(world.backend()))
        .tool(add())
        .build()
        .unwrap();
    let mut thread = open(&agent).await;
    let TurnStatus::Waiting(waiting) = thread.say("go", &NoWatcher).await.unwrap() else { panic!() };
    assert_eq!(waiting[0].call.id.as_str(), "e", "asked again once the skill is unloaded");
    assert_eq!(results(&thread)[1], "3");
    assert!(results(&thread)[2].contains("denied"), "{:?}", results(&thread));
}

/// `restrict`: nothing but what is listed, and what is always allowed.
#[tokio::test]
async fn tools_that_no_loaded_skill_lists_are_blocked() {
    let world = World::new(&[("sums", "allowed-tools: ls\n", "Count.")]).await;
    let sum = "{\"numbers\": [1, 2]}";
    let model = Says::new([
        calls(&[("a", "add", sum)]),
        calls(&[("b", "load_skill", &load("sums"))]),
        calls(&[
            ("c", "add", sum),
            ("d", "ls", "{\"path\": \"/\"}"),
            ("e", "read_file", "{\"file_path\": \"/none\"}"),
        ]),
        calls(&[("f", "unload_skill", &load("sums"))]),
        calls(&[("g", "add", sum)]),
        text("done"),
    ]);
    let options = |_: &ThreadId| {
        let mut options = SessionOptions::new(Dialect::DeepAgents);
        options.allowed_tools = AllowedTools::Restrict;
        options
    };
    let agent = world
        .agent(model)
        .middleware(world.skills_with(options, &[]))
        .middleware(Files::new(world.backend()))
        .tool(add())
        .build()
        .unwrap();
    let mut thread = open(&agent).await;
    thread.say("go", &NoWatcher).await.unwrap();
    let results = results(&thread);
    assert_eq!(
        (results[0].as_str(), results[6].as_str()),
        ("3", "3"),
        "without a list nothing is restricted"
    );
    assert_eq!(
        results[2],
        "Tool 'add' is not in the allowed-tools list for the currently loaded skills. Allowed tools: ls. \
         If you believe this tool is necessary, explain your reasoning."
    );
    assert!(results[3].contains("/skills/") && !results[4].contains("allowed-tools"), "{results:?}");
}

/// `restrict` and `context: fork`: a forked skill adds its list, and nothing more.
#[tokio::test]
async fn a_forked_skill_is_restricted_as_if_its_parent_had_loaded_it() {
    let world = World::new(&[
        ("sums", "allowed-tools: ls\n", "Count."),
        ("adds", "context: fork\nallowed-tools: add\n", "Add."),
        ("bare", "context: fork\n", "Add."),
    ])
    .await;
    let sum = "{\"numbers\": [1, 2]}";
    let write = r#"{"file_path": "/x", "content": "x"}"#;
    let model = Says::new([
        calls(&[("a", "load_skill", &load("sums"))]),
        calls(&[("b", "load_skill", &load("adds"))]),
        calls(&[("c", "add", sum), ("d", "write_file", write)]),
        text("added"),
        calls(&[("e", "load_skill", &load("bare"))]),
        calls(&[("f", "add", sum)]),
        text("not added"),
        text("done"),
    ]);
    let options = |_: &ThreadId| {
        let mut options = SessionOptions::new(Dialect::DeepAgents);
        options.allowed_tools = AllowedTools::Restrict;
        options
    };
    let agent = Agent::deep_builder(model.clone())
        .skills(world.skills_with(options, &[]))
        .files(world.backend())
        .tool(add())
        .build()
        .unwrap();
    let mut thread = open(&agent).await;
    thread.say("go", &NoWatcher).await.unwrap();
    let said = |number: usize| {
        let messages = model.request(number).messages;
        messages.iter().map(|message| message.text()).collect::<Vec<_>>().join("\n")
    };
    let forked = said(3);
    assert!(forked.contains("\n3\n") && forked.contains("Tool 'write_file' is not"), "{forked}");
    assert!(forked.contains("Allowed tools: add, ls."), "{forked}");
    assert!(said(6).contains("Tool 'add' is not") && said(6).contains("Allowed tools: ls."), "{}", said(6));
    assert_eq!(results(&thread)[1..], ["added", "not added"]);
}

/// `context: fork` and `agent`: a sub-agent follows the skill, and its answer is the call's.
#[tokio::test]
async fn a_forked_skill_is_followed_by_its_sub_agent() {
    let world = World::new(&[
        ("report", "context: fork\nagent: writer\n", "Write about $ARGUMENTS."),
        ("lost", "context: fork\nagent: nobody\n", "Nobody."),
    ])
    .await;
    let writer = Says::new([text("Herons are grey.")]);
    let general = Says::new([text("Nobody is me.")]);
    let model = Says::new([
        calls(&[
            ("a", "load_skill", r#"{"skill_name": "report", "args": "herons"}"#),
            ("b", "load_skill", &load("lost")),
        ]),
        text("done"),
    ]);
    let worker = |model: &Arc<Says>| {
        Agent::builder(model.clone()).middleware(world.skills(Dialect::DeepAgents)).build().unwrap()
    };
    let tasks = SubAgents::new(worker(&general)).sub_agent("writer", "Writes.", worker(&writer));
    let agent = world
        .agent(model.clone())
        .middleware(world.skills(Dialect::DeepAgents).sub_agents(tasks.clone()))
        .middleware(tasks)
        .build()
        .unwrap();
    let mut thread = open(&agent).await;
    assert_eq!(thread.say("go", &NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    assert_eq!(results(&thread)[0], "Herons are grey.");
    assert_eq!(
        results(&thread)[1],
        "Note: The skill 'lost' is for the sub-agent 'nobody', which does not exist. The sub-agent \
         'general-purpose' followed it instead.\n\nNobody is me."
    );
    let seen = writer.request(0);
    assert!(all(&seen).contains("Write about herons."), "{}", all(&seen));
    assert!(seen.system_text().contains("**report** [Loaded]"));
    assert!(!model.request(1).system_text().contains("[Loaded]"), "it is not loaded here");
    assert!(all(&general.request(0)).contains("Nobody."), "{}", all(&general.request(0)));
    assert_eq!(SkillsState::of(thread.states()).unwrap().usage()["report"].loads, 1);
}

/// `paths`: a skill is offered once such a file is in play.
#[tokio::test]
async fn a_skill_with_paths_is_offered_when_such_a_file_is_in_play() {
    let world = World::new(&[("sheets", "paths: \"*.csv\"\n", "The way of sheets.")]).await;
    let model = Says::new([
        calls(&[("a", "write_file", r#"{"file_path": "/data/prices.csv", "content": "a,b\n"}"#)]),
        text("written"),
        text("later"),
    ]);
    let agent = world
        .agent(model.clone())
        .middleware(world.skills(Dialect::DeepAgents))
        .middleware(Files::new(world.backend()))
        .build()
        .unwrap();
    let id = ThreadId::new();
    let mut thread = agent.open(id.clone()).await.unwrap();
    thread.say("go", &NoWatcher).await.unwrap();
    assert!(!model.request(0).system_text().contains("sheets"));
    assert!(model.request(1).system_text().contains("**sheets**"));
    thread.close().await.unwrap();
    agent.open(id).await.unwrap().say("and now?", &NoWatcher).await.unwrap();
    assert!(model.request(2).system_text().contains("**sheets**"), "it stays so in another process");
}

/// `disable-model-invocation`, `user-invocable` and arguments: what a person types starts a skill.
#[tokio::test]
async fn a_person_starts_a_skill_with_a_slash() {
    let world = World::new(&[
        ("deploy", "disable-model-invocation: true\narguments: [where]\n", "Deploy to $0."),
        ("inner", "user-invocable: false\n", "Inner."),
    ])
    .await;
    let model = Says::new([
        calls(&[("a", "load_skill", &load("deploy"))]),
        text("I cannot."),
        text("Deployed."),
        text("What is /inner?"),
    ]);
    let agent = world.agent(model.clone()).middleware(world.skills(Dialect::DeepAgents)).build().unwrap();
    let mut thread = open(&agent).await;
    thread.say("Deploy to heron.", &NoWatcher).await.unwrap();
    assert!(results(&thread)[0].contains("Skill 'deploy' not found"), "{:?}", results(&thread));
    assert!(!model.request(0).system_text().contains("**deploy**"), "it is not offered to a model");
    thread.say("/deploy heron", &NoWatcher).await.unwrap();
    let seen = model.request(2);
    assert!(seen.messages[5].text().contains("Deploy to heron."), "{:?}", seen.messages);
    thread.say("/inner", &NoWatcher).await.unwrap();
    assert_eq!(model.request(3).messages.last().unwrap().text(), "/inner", "what is no command is just said");
}

/// What only a person may start is not started by a model that writes a task as a person would.
#[tokio::test]
async fn a_task_does_not_start_what_only_a_person_may() {
    let world = World::new(&[("deploy", "disable-model-invocation: true\n", "Deploy everything.")]).await;
    let child = Says::new([text("done")]);
    let model = Says::new([calls(&[("a", "task", r#"{"description": "/deploy heron"}"#)]), text("done")]);
    let worker = Agent::builder(child.clone()).middleware(world.skills(Dialect::DeepAgents)).build().unwrap();
    let agent = world.agent(model).middleware(SubAgents::new(worker)).build().unwrap();
    open(&agent).await.say("go", &NoWatcher).await.unwrap();
    let seen = child.request(0);
    assert_eq!(seen.messages.len(), 1, "{:?}", seen.messages);
    assert!(!seen.system_text().contains("Deploy everything."));
}

fn digest(question: &Question) -> &str {
    match &question.action {
        Action::LoadSkill { digest: Some(digest), .. } => digest,
        other => panic!("{other:?}"),
    }
}

/// The gate of a skill waits in the thread: the reply comes from another process, and is for exactly what was asked.
#[tokio::test]
async fn a_load_that_is_asked_about_waits_in_the_thread() {
    let world = World::new(&[("pdf", "", "The way of pdf.")]).await;
    let model = Says::new([
        calls(&[("a", "load_skill", &load("pdf"))]),
        text("loaded"),
        calls(&[("b", "unload_skill", &load("pdf"))]),
        calls(&[("c", "load_skill", &load("pdf"))]),
        text("not loaded"),
    ]);
    let asks = || {
        let options = |_: &ThreadId| SessionOptions::new(Dialect::DeepAgents);
        world.skills_with(options, &[("skill", "*", Decision::Ask)])
    };
    let id = ThreadId::new();
    let agent = world.agent(model.clone()).middleware(asks()).build().unwrap();
    let mut thread = agent.open(id.clone()).await.unwrap();
    let TurnStatus::Waiting(waiting) = thread.say("go", &NoWatcher).await.unwrap() else { panic!() };
    assert_eq!(waiting[0].question.kind, Kind::SKILL, "{:?}", waiting[0].question);
    thread.close().await.unwrap();
    // The document changes while the question waits: what was asked is not what would be loaded.
    world.write("pdf/SKILL.md", "---\nname: pdf\ndescription: Looks after pdf.\n---\nAnother way.\n");
    let agent = world.agent(model.clone()).middleware(asks()).build().unwrap();
    let mut thread = agent.open(id).await.unwrap();
    let TurnStatus::Waiting(again) = thread.reply("a", CallReply::Approve, &NoWatcher).await.unwrap() else {
        panic!("{:?}", results(&thread))
    };
    assert_ne!(digest(&again[0].question), digest(&waiting[0].question));
    thread.reply("a", CallReply::Approve, &NoWatcher).await.unwrap();
    assert!(results(&thread)[0].contains("Another way."), "{:?}", results(&thread));
    let TurnStatus::Waiting(_) = thread.say("once more", &NoWatcher).await.unwrap() else {
        panic!("what was allowed once is asked again: {:?}", results(&thread))
    };
    let rejected = CallReply::Reject { message: "not now".to_owned() };
    thread.reply("c", rejected, &NoWatcher).await.unwrap();
    assert!(results(&thread)[2].contains("not now"), "{:?}", results(&thread));
}

/// A load is answered while its neighbour waits for a person; another process goes on, and knows that it is loaded.
#[tokio::test]
async fn a_load_beside_a_call_that_waits_is_not_lost() {
    let world = World::new(&[("pdf", "", "The way of pdf.")]).await;
    let model = Says::new([
        calls(&[("a", "load_skill", &load("pdf")), ("b", "add", "{\"numbers\": [1]}")]),
        calls(&[("c", "unload_skill", &load("pdf"))]),
        text("done"),
    ]);
    let agent = || {
        let rules = [Rule::new("tool", "*", Decision::Allow), Rule::new("tool", "add", Decision::Ask)];
        let permissions = Permissions::unattended(Policy::new().rules(RuleSource::User, rules));
        world
            .agent(model.clone())
            .middleware(world.skills(Dialect::DeepAgents))
            .middleware(ToolPermissions::new(permissions))
            .tool(add())
            .build()
            .unwrap()
    };
    let id = ThreadId::new();
    let mut thread = agent().open(id.clone()).await.unwrap();
    assert!(matches!(thread.say("go", &NoWatcher).await.unwrap(), TurnStatus::Waiting(_)));
    thread.close().await.unwrap();
    let mut thread = agent().open(id).await.unwrap();
    thread.reply("b", CallReply::Approve, &NoWatcher).await.unwrap();
    assert!(
        model.request(1).system_text().contains("**pdf** [Loaded]"),
        "{}",
        model.request(1).system_text()
    );
    assert!(!results(&thread)[2].contains("not"), "{:?}", results(&thread));
}

/// `when_to_use` and `argument-hint` are shown, and nothing of a long description is left out.
#[tokio::test]
async fn hints_and_when_to_use_are_in_the_prompt() {
    let long = "word ".repeat(180);
    let world =
        World::new(&[("pdf", "when_to_use: When a form comes in.\nargument-hint: \"[file]\"\n", "Fill.")])
            .await;
    world.write("long/SKILL.md", &format!("---\nname: long\ndescription: {long}end.\n---\nLong.\n"));
    let model = Says::new([text("ok")]);
    let agent = world.agent(model.clone()).middleware(world.skills(Dialect::DeepAgents)).build().unwrap();
    open(&agent).await.say("go", &NoWatcher).await.unwrap();
    let prompt = model.request(0).system_text();
    assert!(prompt.contains("Looks after pdf. When a form comes in."), "{prompt}");
    assert!(prompt.contains("[file]"), "{prompt}");
    assert!(prompt.contains(&format!("{long}end.")), "nothing is truncated: {prompt}");
}

/// `shell`: the shell of its runs.
#[tokio::test]
async fn a_skill_chooses_its_shell() {
    let world = World::new(&[("plain", "shell: sh\n", "Run."), ("usual", "", "Run.")]).await;
    let run = |skill: &str| format!("{{\"skill\": \"{skill}\", \"command\": \"echo shell is $0\"}}");
    let model = Says::new([
        calls(&[("a", "skill_run", &run("plain")), ("b", "skill_run", &run("usual"))]),
        text("ok"),
    ]);
    let agent = world.agent(model).middleware(world.skills(Dialect::Trpc)).build().unwrap();
    let mut thread = open(&agent).await;
    thread.say("go", &NoWatcher).await.unwrap();
    let results = results(&thread);
    assert!(results[0].contains("shell is /bin/sh"), "{results:?}");
    assert!(results[1].contains("shell is /bin/bash"), "{results:?}");
}

/// What stays the same stands first, so that a provider's cache holds: a load changes nothing before the skills' section.
#[tokio::test]
async fn what_stays_the_same_comes_first_in_the_prompt() {
    let world = World::new(&[("pdf", "", "The way of pdf.")]).await;
    let model = Says::new([calls(&[("a", "load_skill", &load("pdf"))]), text("ok")]);
    let agent = world
        .agent(model.clone())
        .prompt("You look after forms.")
        .middleware(world.skills(Dialect::DeepAgents))
        .middleware(SubAgents::new(Agent::builder(Says::new([])).build().unwrap()))
        .build()
        .unwrap();
    open(&agent).await.say("go", &NoWatcher).await.unwrap();
    let (before, after) = (model.request(0), model.request(1));
    let owners: Vec<(&str, bool)> =
        after.system.iter().map(|section| (section.owner.as_str(), section.is_stable)).collect();
    assert_eq!(owners, [("agent", true), ("subagents", true), ("skills", false)]);
    assert_eq!(before.system[..2], after.system[..2]);
    assert_ne!(before.system[2], after.system[2]);
    assert_eq!(before.messages, after.messages[..1], "the conversation only grows");
}

/// Lets a turn that is to end go on, once.
#[derive(Clone, Debug, Default)]
struct OnceMore(Arc<std::sync::atomic::AtomicBool>);

#[async_trait::async_trait]
impl prowess_agent::Middleware for OnceMore {
    fn name(&self) -> &str {
        "once more"
    }

    async fn after_agent(
        &self,
        _: prowess_agent::MiddlewareContext<'_>,
        _: &TurnOutcome,
    ) -> Result<Vec<prowess_agent::MiddlewareAction>, prowess_agent::middleware::MiddlewareError> {
        let told = self.0.swap(true, std::sync::atomic::Ordering::SeqCst);
        let again =
            prowess_agent::MiddlewareAction::AddMessages(vec![prowess_agent::Message::user("Once more.")]);
        Ok(if told { Vec::new() } else { vec![again] })
    }
}

/// What is loaded for a turn stays until the turn really ends.
#[tokio::test]
async fn a_turn_that_goes_on_keeps_what_is_loaded_for_it() {
    let world = World::new(&[("pdf", "", "The way of pdf.")]).await;
    let model = Says::new([
        calls(&[("a", "skill_load", r#"{"skill": "pdf"}"#)]),
        text("done"),
        text("really done"),
        text("later"),
    ]);
    let agent = world
        .agent(model.clone())
        .middleware(world.skills(Dialect::Trpc))
        .middleware(OnceMore::default())
        .build()
        .unwrap();
    let mut thread = open(&agent).await;
    thread.say("go", &NoWatcher).await.unwrap();
    assert!(model.request(2).system_text().contains("The way of pdf."), "{}", model.request(2).system_text());
    thread.say("and now?", &NoWatcher).await.unwrap();
    assert!(!model.request(3).system_text().contains("The way of pdf."));
}

/// "Always" is remembered for what was asked: the same text is loaded without a question from now on, another is not.
#[tokio::test]
async fn what_is_always_allowed_is_not_asked_again() {
    let world = World::new(&[("pdf", "", "The way of pdf.")]).await;
    let sum = "{\"numbers\": [1]}";
    let again = || calls(&[("a", "load_skill", &load("pdf")), ("b", "add", sum)]);
    let model = Says::new([again(), calls(&[("c", "unload_skill", &load("pdf"))]), again(), text("done")]);
    let broker = prowess_permission::Broker::in_memory();
    let permissions = |kind: &str| {
        let rules = [Rule::new("tool", "*", Decision::Allow), Rule::new(kind, "*", Decision::Ask)];
        Permissions::new(broker.clone(), kind, Policy::new().rules(RuleSource::User, rules))
    };
    let (catalog, asks) = (world.catalog(), permissions("skill"));
    let skills = Skills::new(move |_| {
        prowess_skills::SkillSession::builder(catalog.clone()).permissions(asks.clone())
    });
    let rules = [Rule::new("tool", "*", Decision::Allow), Rule::new("tool", "add", Decision::Ask)];
    let tools = Permissions::new(broker.clone(), "tools", Policy::new().rules(RuleSource::User, rules));
    let agent = world
        .agent(model)
        .middleware(skills)
        .middleware(ToolPermissions::new(tools))
        .tool(add())
        .build()
        .unwrap();
    let mut thread = open(&agent).await;
    let TurnStatus::Waiting(waiting) = thread.say("go", &NoWatcher).await.unwrap() else { panic!() };
    assert_eq!(waiting.len(), 2, "{waiting:?}");
    thread.reply("a", CallReply::Always, &NoWatcher).await.unwrap();
    let turn = thread.reply("b", CallReply::Always, &NoWatcher).await.unwrap();
    assert_eq!(turn, TurnStatus::Ended(TurnOutcome::Responded), "nobody is asked a second time");
    assert_eq!(broker.remembered().len(), 2);
    assert!(results(&thread)[3].contains("The way of pdf.") && results(&thread)[4] == "1");
}
