//! Tools of servers, called by an agent.

use std::sync::Arc;
use std::time::Duration;

use prowess_agent::middleware::Skills;
use prowess_agent::{Agent, CallReply, NoWatcher, Thread, ThreadId, TurnStatus, WaitingCall};
use prowess_catalog::{Catalog, Root, ScanOptions};
use prowess_mcp::client::{ServerFiles, ServerTools, Servers};
use prowess_models::{Scripted, ScriptedExpect, ScriptedTurn as Says};
use prowess_permission::{Decision, Kind, Permissions, Policy, Rule, RuleSource};
use prowess_skills::{AllowedTools, Dialect, SessionOptions, SkillFiles, SkillSession};
use serde_json::json;

use crate::lying::{Lying, PATIENCE, told};

fn permissions(rules: impl IntoIterator<Item = Rule>) -> Permissions {
    Permissions::unattended(Policy::new().rules(RuleSource::User, rules))
}

/// What the person is told under this name.
fn detail(waiting: &WaitingCall, name: &str) -> String {
    let details = waiting.question.wording().details;
    let found = details.iter().find(|detail| detail.name == name);
    found.map_or_else(|| panic!("no {name}: {details:?}"), |detail| detail.text.clone())
}

async fn thread(lying: &Lying, permissions: Permissions, script: impl IntoIterator<Item = Says>) -> Thread {
    let (servers, failed) = Servers::connect([lying.options("docs")], None).await;
    assert!(failed.is_empty(), "{failed:?}");
    let model = Arc::new(Scripted::new(script));
    let agent = Agent::builder(model).middleware(ServerTools::new(servers, permissions)).build().unwrap();
    agent.open(ThreadId::new()).await.unwrap()
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn a_tool_is_asked_about_and_its_answer_marked() {
    let lying = Lying::new("honest");
    let broker = permissions([]);
    let mut thread = thread(
        &lying,
        broker.clone(),
        [
            Says::new()
                .expect(ScriptedExpect::new().tool("docs__echo"))
                .call("docs__echo", json!({"text": "hello"})),
            Says::new()
                .expect(
                    ScriptedExpect::new()
                        .last("<mcp_tool_result server=\"docs\" tool=\"echo\">\nhello\n</mcp_tool_result>"),
                )
                .call("docs__mixed", json!({})),
            Says::new()
                .expect(
                    ScriptedExpect::new()
                        .last("[an image, image/png]\n[a link to skill://pdf/docs/guide.md: guide </tool>]"),
                )
                .say("I see."),
        ],
    )
    .await;
    let TurnStatus::Waiting(waiting) = thread.say("Echo.", &NoWatcher).await.unwrap() else {
        panic!("it asks")
    };
    assert_eq!(waiting[0].question.wording().title, "call a tool of the MCP server docs: 'echo'");
    assert_eq!(waiting[0].question.kind, Kind::MCP);
    assert!(lying.asked("tools/call").is_empty(), "not before somebody says yes");
    let TurnStatus::Waiting(waiting) =
        thread.reply(&waiting[0], CallReply::Always, &NoWatcher).await.unwrap()
    else {
        panic!("another tool is asked about")
    };
    thread.reply(&waiting[0], CallReply::Approve, &NoWatcher).await.unwrap();
    assert_eq!(thread.last_response().as_deref(), Some("I see."));
    assert_eq!(lying.asked("tools/call"), ["tools/call echo", "tools/call mixed"]);
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn an_approval_is_for_the_tool_that_was_shown() {
    let lying = Lying::new("honest");
    let broker = permissions([]);
    let (servers, _) = Servers::connect([lying.options("docs")], None).await;
    let mut changes = servers.get("docs").unwrap().changes();
    let echo = |text: &str| Says::new().call("docs__echo", json!({"text": text}));
    let model = Arc::new(Scripted::new([echo("one"), echo("two"), Says::new().say("Done.")]));
    let agent = Agent::builder(model).middleware(ServerTools::new(servers, broker)).build().unwrap();
    let mut thread = agent.open(ThreadId::new()).await.unwrap();
    let TurnStatus::Waiting(first) = thread.say("Echo.", &NoWatcher).await.unwrap() else {
        panic!("it asks")
    };
    assert_eq!(detail(&first[0], "description"), "Says it again.");
    // The server says something else of it while the question waits.
    lying.control("redescribed");
    tokio::time::timeout(PATIENCE, changes.changed()).await.unwrap().unwrap();
    let turn = thread.reply(&first[0], CallReply::Always, &NoWatcher).await.unwrap();
    let TurnStatus::Waiting(second) = turn else { panic!("it asks again: {turn:?}") };
    assert_eq!(detail(&second[0], "description"), "Sends it to somebody.");
    assert!(lying.asked("tools/call").is_empty(), "nobody let this tool pass");
    // Once is for this call; what was allowed for good is not this tool.
    let turn = thread.reply(&second[0], CallReply::Approve, &NoWatcher).await.unwrap();
    let TurnStatus::Waiting(third) = turn else { panic!("another call is asked about: {turn:?}") };
    assert_eq!(lying.asked("tools/call").len(), 1);
    thread.reply(&third[0], CallReply::Always, &NoWatcher).await.unwrap();
    assert_eq!(thread.last_response().as_deref(), Some("Done."));
    assert_eq!(lying.asked("tools/call").len(), 2);
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn a_list_that_fails_takes_no_tools_away_and_asks_no_other_server() {
    let (docs, other) = (Lying::new("honest"), Lying::new("honest"));
    let rules = permissions([Rule::new("mcp", "*", Decision::Allow)]);
    let (servers, _) = Servers::connect([docs.options("docs"), other.options("other")], None).await;
    let mut changes = servers.get("docs").unwrap().changes();
    let both = || ScriptedExpect::new().tool("docs__echo").tool("other__echo");
    let model = Scripted::new([
        Says::new().expect(both()).say("One."),
        Says::new().expect(both()).call("docs__echo", json!({"text": "still there"})),
        Says::new().expect(both().last("still there")).say("Two."),
        Says::new().expect(both()).say("Three."),
    ]);
    let agent = Agent::builder(Arc::new(model)).middleware(ServerTools::new(servers, rules)).build().unwrap();
    let mut thread = agent.open(ThreadId::new()).await.unwrap();
    thread.say("One?", &NoWatcher).await.unwrap();
    for (word, answer) in [("no-tools", "Two."), ("", "Three.")] {
        docs.control(word);
        tokio::time::timeout(PATIENCE, changes.changed()).await.unwrap().unwrap();
        thread.say("And now?", &NoWatcher).await.unwrap();
        assert_eq!(thread.last_response().as_deref(), Some(answer));
    }
    assert_eq!(docs.asked("tools/list").len(), 3, "once for each time that it said so");
    assert_eq!(other.asked("tools/list").len(), 1);
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn rules_settle_what_may_be_called() {
    let lying = Lying::new("honest");
    let rules = [Rule::new("mcp", "docs *", Decision::Allow), Rule::new("mcp", "docs slow", Decision::Deny)];
    let mut thread = thread(
        &lying,
        permissions(rules),
        [
            Says::new().call("docs__fail", json!({})),
            Says::new().expect(ScriptedExpect::new().last("It broke.")).call("docs__slow", json!({})),
            Says::new().expect(ScriptedExpect::new().last("Error")).say("I may not."),
        ],
    )
    .await;
    thread.say("Go.", &NoWatcher).await.unwrap();
    assert_eq!(thread.last_response().as_deref(), Some("I may not."));
    assert_eq!(lying.asked("tools/call"), ["tools/call fail"]);
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn odd_tools_are_left_out_and_the_others_bounded() {
    let lying = Lying::new("odd-tools");
    let list = lying.connect("docs").await.tools().await.unwrap();
    assert_eq!(list.tools.len(), 127, "what is left out counts as well");
    for why in ["more than 16384 bytes", "the list was not read to its end: it has more than 128 tools"] {
        assert!(list.left_out.iter().any(|left_out| left_out.contains(why)), "{why}: {:?}", list.left_out);
    }
    let mut names: Vec<&str> = list.tools.iter().map(|tool| tool.name.as_str()).collect();
    let fits = |name: &&str| {
        name.len() <= 64 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
    };
    assert!(names.iter().all(fits), "{names:?}");
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 127, "no two have one name");
    let endless = Lying::new("endless-tools").connect("docs").await.tools().await.unwrap();
    assert_eq!(endless.left_out, ["the list was not read to its end: it has more than 100 pages"]);
    let loops = Lying::new("loop-tools").connect("docs").await.tools().await.unwrap();
    assert_eq!(
        loops.left_out.last().unwrap(),
        "the list was not read to its end: it sends the same page twice"
    );
    let wordy = list.tools.iter().find(|tool| tool.their_name == "wordy").unwrap();
    assert!(wordy.description.chars().count() <= 1025 && !wordy.description.contains('\u{202e}'));
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn a_call_ends_with_its_time_or_with_whoever_waits() {
    let lying = Lying::new("honest");
    let mut options = lying.options("docs");
    options.limits.tool = Duration::from_millis(500);
    let server = prowess_mcp::client::Server::connect(options).await.unwrap();
    let slow = told(server.call_tool("slow", serde_json::Map::new()).await);
    assert_eq!(slow, "server `docs` did not answer `tools/call` within 0.5 seconds");
    lying.wait_for("tools/call slow ended").await;
    // Whoever goes away takes the call along.
    let server = lying.connect("docs").await;
    let abandoned =
        tokio::time::timeout(Duration::from_secs(1), server.call_tool("slow", serde_json::Map::new()));
    assert!(abandoned.await.is_err());
    lying.wait_for_times("tools/call slow ended", 2).await;
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn a_server_that_asks_us_for_something_is_refused() {
    let newest = Lying::new("honest");
    let server = newest.connect("docs").await;
    let refused = told(server.call_tool("ask", serde_json::Map::new()).await);
    assert!(refused.contains("it asks for input, which prowess does not support"), "{refused}");
    let older = Lying::new("honest").with("--revision", "2025-11-25");
    let server = older.connect("docs").await;
    let answer = server.call_tool("ask", serde_json::Map::new()).await.unwrap();
    let answer = serde_json::to_value(answer).unwrap();
    assert!(answer["content"][0]["text"].as_str().unwrap().starts_with("refused: "), "{answer}");
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn those_that_fail_are_told_and_the_others_work() {
    let (good, bad) = (Lying::new("honest"), Lying::new("dies"));
    let twice = good.options("good");
    let (servers, failed) = Servers::connect([good.options("good"), bad.options("bad"), twice], None).await;
    let failed: Vec<String> = failed.iter().map(ToString::to_string).collect();
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert!(failed[0].contains("`good`") && failed[0].contains("another server has this label"));
    assert!(failed[1].contains("`bad`") && failed[1].contains("no such database"));
    assert!(servers.get("bad").is_none());
    assert_eq!(servers.get("good").unwrap().skills().await.unwrap().offers.len(), 1);
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn a_list_of_tools_approves_in_advance_until_a_servers_skill_is_at_work() {
    let lying = Lying::new("honest");
    let scratch = tempfile::tempdir().unwrap();
    std::fs::create_dir(scratch.path().join("echoes")).unwrap();
    let text = "---\nname: echoes\ndescription: Echoes.\nallowed-tools: docs__echo\n---\nEcho.\n";
    std::fs::write(scratch.path().join("echoes/SKILL.md"), text).unwrap();
    let permissions = permissions([Rule::new("*skill", "*", Decision::Allow)]);
    let (servers, _) = Servers::connect([lying.options("docs")], None).await;
    let local = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
    let scans = servers.scans(&local).await.scans;
    let catalog = scans.into_iter().fold(local, |catalog, scan| catalog.with(scan));
    let (files, rules) = (Arc::new(ServerFiles::new(Arc::clone(&servers))), permissions.clone());
    let skills = Skills::new(move |_| {
        let mut options = SessionOptions::new(Dialect::DeepAgents);
        options.allowed_tools = AllowedTools::Preapprove;
        SkillSession::builder(catalog.clone())
            .options(options)
            .files(Arc::clone(&files) as Arc<dyn SkillFiles>)
            .permissions(rules.clone())
    });
    let load = |name: &str| Says::new().call("load_skill", json!({"skill_name": name}));
    let echo = || Says::new().call("docs__echo", json!({"text": "hello"}));
    let model = Scripted::new([load("echoes"), echo(), load("docs:pdf"), echo()]);
    let agent =
        Agent::builder(Arc::new(model)).middleware(skills).middleware(ServerTools::new(servers, permissions));
    let mut thread = agent.build().unwrap().open(ThreadId::new()).await.unwrap();
    let turn = thread.say("Go.", &NoWatcher).await.unwrap();
    let TurnStatus::Waiting(waiting) = turn else { panic!("it asks: {turn:?} {:?}", thread.last_response()) };
    assert_eq!(lying.asked("tools/call").len(), 1, "what is listed is called unasked");
    assert_eq!(detail(&waiting[0], "asked each time because of"), "docs:pdf");
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn x_30_a_tool_is_asked_about_while_a_servers_skill_is_at_work() {
    let lying = Lying::new("instructions");
    let rules = [Rule::new("mcp", "docs *", Decision::Allow), Rule::new("mcp_skill", "*", Decision::Allow)];
    let permissions = permissions(rules);
    let (servers, _) = Servers::connect([lying.options("docs")], None).await;
    let scans = servers.scans(&Catalog::empty()).await.scans;
    let catalog = Catalog::empty().assembled(scans);
    let files = Arc::new(ServerFiles::new(Arc::clone(&servers)));
    let (rules, of) = (permissions.clone(), catalog);
    let skills = Skills::new(move |_| {
        SkillSession::builder(of.clone())
            .files(Arc::clone(&files) as Arc<dyn SkillFiles>)
            .permissions(rules.clone())
    });
    let model = Scripted::new([
        Says::new().call("docs__echo", json!({"text": "before"})),
        Says::new()
            .expect(ScriptedExpect::new().last("before"))
            .call("load_skill", json!({"skill_name": "docs:pdf"})),
        Says::new()
            .expect(ScriptedExpect::new().last("Run `sh scripts/run.sh` now"))
            .call("docs__echo", json!({"text": "after"})),
        Says::new().expect(ScriptedExpect::new().last("after")).say("Done."),
    ]);
    let agent =
        Agent::builder(Arc::new(model)).middleware(skills).middleware(ServerTools::new(servers, permissions));
    let mut thread = agent.build().unwrap().open(ThreadId::new()).await.unwrap();
    let turn = thread.say("Go.", &NoWatcher).await.unwrap();
    let TurnStatus::Waiting(waiting) = turn else { panic!("it asks: {turn:?} {:?}", thread.last_response()) };
    assert_eq!(lying.asked("tools/call"), ["tools/call echo"], "what a rule allows is done before");
    assert_eq!(detail(&waiting[0], "asked each time because of"), "docs:pdf");
    thread.reply(&waiting[0], CallReply::Approve, &NoWatcher).await.unwrap();
    assert_eq!(thread.last_response().as_deref(), Some("Done."));
}
