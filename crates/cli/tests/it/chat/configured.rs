//! `[skills]` of the configuration, in every surface that tells a model of skills.

use serde_json::{Value, json};

use super::{configure, world};
use crate::mcp::Server;
use crate::model::{Answer, FakeModel};
use crate::world::World;

/// Each dialect with its tool that loads a skill, and how it is called.
const DIALECTS: [(&str, &str, &str); 3] = [
    ("deepagents", "load_skill", "skill_name"),
    ("trpc", "skill_load", "skill"),
    ("opencode", "skill", "name"),
];

/// A home with this below `[skills]`, and a skill that only people start.
fn set(model: &FakeModel, settings: &str) -> World {
    let world = world(model);
    configure(&world, &model.url(), &format!("[skills]\n{settings}\n"));
    world.file(
        "home/.prowess/skills/launch/SKILL.md",
        "---\nname: launch\ndescription: Starts the boat.\ndisable-model-invocation: true\n---\n\nGo.\n",
    );
    world
}

fn tools(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect()
}

fn system(request: &Value) -> &str {
    request["messages"][0]["content"].as_str().unwrap()
}

/// What models were asked while this was said, one line after the other.
fn said(world: &World, model: &FakeModel, lines: &[&str]) -> Vec<Value> {
    for (number, line) in lines.iter().enumerate() {
        let resumed: &[&str] = if number == 0 { &[] } else { &["--resume", "last"] };
        let output = world.output(&[&["chat", "--yes"], resumed, &[line]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", world.told(&output));
    }
    model.requests()
}

#[test]
fn chat_speaks_the_dialect_that_is_set() {
    for (dialect, load, argument) in DIALECTS {
        let load_tides = Answer::call(load, json!({ argument: "tides" }));
        let model = FakeModel::start(vec![load_tides, Answer::text("Loaded.")]);
        let world = set(&model, &format!("dialect = \"{dialect}\""));
        let requests = said(&world, &model, &["Load it"]);
        for (other, tool, _) in DIALECTS {
            assert_eq!(tools(&requests[0]).contains(&tool), other == dialect, "{:?}", tools(&requests[0]));
        }
        // What was asked for is there, wherever this dialect puts it.
        let after = requests[1].to_string();
        assert!(after.contains("Run scripts/tides.sh."), "{dialect}: {after}");
        // What a person is shown is what the model was told.
        let shown = world.stdout(&["prompt"]);
        assert!(system(&requests[0]).contains(shown.trim()), "{shown}\n{}", system(&requests[0]));
        assert_eq!(shown.trim().is_empty(), dialect == "opencode", "{shown}");
        let list = world.stdout(&["prompt", "--form", "list"]);
        assert!(list.contains("tides") && !list.contains("launch"), "{list}");
    }
}

#[test]
fn by_default_prompt_shows_what_the_model_of_chat_is_told() {
    let model = FakeModel::start(vec![Answer::text("Hello.")]);
    let world = set(&model, "");
    let requests = said(&world, &model, &["Hello"]);
    let shown = world.stdout(&["prompt"]);
    assert!(shown.contains("tides") && system(&requests[0]).contains(shown.trim()), "{shown}");
}

#[test]
fn with_many_skills_too_and_for_another_budget() {
    let model = FakeModel::start(vec![Answer::text("Hello.")]);
    let world = set(&model, "");
    for number in 0..300 {
        let text = format!(
            "---\nname: skill-{number}\ndescription: Counts to {number} and back, in words.\n---\nCount.\n"
        );
        world.file(&format!("home/.prowess/skills/skill-{number}/SKILL.md"), &text);
    }
    let requests = said(&world, &model, &["Hello"]);
    let shown = world.stdout(&["prompt"]);
    assert!(shown.contains("search_skills") && system(&requests[0]).contains(shown.trim()), "{shown}");
    let tokens = |options: &[&str]| {
        world.json(&[&["prompt", "--form", "list", "--json"], options].concat())["tokens"].as_u64().unwrap()
    };
    assert!(tokens(&["--budget", "500"]) <= 500);
    let whole = tokens(&["--budget", "off"]);
    assert!(whole > 4_000 && tokens(&["--read-file"]) > 4_000, "{whole}");
}

#[test]
fn chat_lists_what_discovery_and_manual_say() {
    let answers = || vec![Answer::text("Hello.")];
    let model = FakeModel::start(answers());
    let world = set(&model, "");
    let lazy = said(&world, &model, &["Hello"]);
    assert!(!system(&lazy[0]).contains("launch") && !system(&lazy[0]).contains("1 script"), "{lazy:?}");
    assert!(world.stdout(&["info", "launch"]).contains("no, only people start it"));

    let model = FakeModel::start(answers());
    let world = set(&model, "discovery = \"eager\"\nmanual = \"marked\"");
    let eager = said(&world, &model, &["Hello"]);
    let told = system(&eager[0]);
    assert!(
        told.contains("- **launch**: Starts the boat. (Manual only)") && told.contains("1 script"),
        "{told}"
    );
    assert!(told.contains(world.stdout(&["prompt"]).trim()), "{told}");
    assert!(world.stdout(&["info", "launch"]).contains("yes, marked as a skill that only people start"));
}

#[test]
fn files_are_listed_as_deep_and_documents_given_as_far_as_is_set() {
    for (settings, is_listed, is_given) in
        [("", false, true), ("resource_depth = 2\nmax_document_bytes = 10", true, false)]
    {
        let model = FakeModel::start(vec![
            Answer::call("skill_load", json!({"skill": "tides", "docs": ["notes.md"]})),
            Answer::text("Loaded."),
        ]);
        let world = set(&model, settings);
        world
            .file("home/.prowess/skills/tides/scripts/deep/inner.sh", "true\n")
            .file("home/.prowess/skills/tides/notes.md", "Spring tides are the highest.\n");
        let after = said(&world, &model, &["Load it"])[1].to_string();
        assert_eq!(after.contains("Spring tides are the highest."), is_given, "{settings}: {after}");
        let info = world.stdout(&["info", "tides"]);
        assert_eq!(info.contains("deep/inner.sh"), is_listed, "{settings}: {info}");
        let session = world.stdout(&["session", "-c", "load tides"]);
        assert_eq!(session.contains("deep/inner.sh"), is_listed, "{settings}: {session}");
    }
}

#[test]
fn a_skill_stays_loaded_in_chat_for_as_long_as_is_set() {
    let is_loaded = |request: &Value| request.to_string().contains("Run scripts/tides.sh.");
    for (lifetime, expected) in [
        ("", [true, true, true]),
        ("lifetime = \"session\"", [true, true, true]),
        ("lifetime = \"capped\"", [true, true, true]),
        ("lifetime = \"turn\"", [true, true, false]),
        ("lifetime = \"once\"", [true, false, false]),
    ] {
        let model = FakeModel::start(vec![
            Answer::call("skill_load", json!({"skill": "tides"})),
            Answer::call("ls", json!({"path": "/"})),
            Answer::text("Done."),
            Answer::text("Nothing."),
        ]);
        let world = set(&model, lifetime);
        let requests = said(&world, &model, &["Load it", "And now?"]);
        let loaded: Vec<bool> = requests[1..].iter().map(is_loaded).collect();
        assert_eq!(loaded, expected, "{lifetime}");
    }
}

/// `prowess mcp` sees no turns, but it counts the loaded skills.
#[test]
fn a_capped_skill_makes_room_over_mcp() {
    let model = FakeModel::start(Vec::new());
    let world = set(&model, "lifetime = \"capped\"\nmax_loaded_skills = 1");
    world.skill("home/.prowess/skills", "knots", "Ties knots.");
    let mut server = Server::start(&world, &[]);
    server.call("load_skill", &json!({"skill_name": "tides"}));
    let answer = server.call("load_skill", &json!({"skill_name": "knots"})).to_string();
    assert!(answer.contains("Skill 'tides' was unloaded to make room: it was used longest ago."), "{answer}");
    let again = server.call("load_skill", &json!({"skill_name": "tides"})).to_string();
    assert!(
        again.contains("Run scripts/tides.sh.") && again.contains("Skill 'knots' was unloaded"),
        "{again}"
    );
}

#[test]
fn sub_agents_inherit_what_is_loaded_if_that_is_set() {
    for (setting, expected) in
        [("", false), ("inherited = \"none\"", false), ("inherited = \"loaded\"", true)]
    {
        let is_of_child = |body: &Value| body["messages"].to_string().contains("Look it up for me.");
        let is_first = move |body: &Value| {
            is_of_child(body) && body["messages"].as_array().is_some_and(|messages| messages.len() == 2)
        };
        let model = FakeModel::start(vec![
            Answer::call("skill_load", json!({"skill": "tides"})),
            Answer::call("task", json!({"description": "Look it up for me."})),
            Answer::text("It is high.").when(is_first),
            Answer::text("Done."),
        ]);
        let world = set(&model, setting);
        let requests = said(&world, &model, &["Load it"]);
        let child = requests.iter().find(|body| is_first(body)).unwrap();
        assert_eq!(child.to_string().contains("Run scripts/tides.sh."), expected, "{setting}");
    }
}

#[test]
fn mcp_speaks_the_dialect_that_is_set_unless_an_option_names_another() {
    let listed = |world: &World, args: &[&str]| {
        let mut server = Server::start(world, args);
        let answer = server.request("tools/list", &json!({}));
        let tools = answer["result"]["tools"].as_array().unwrap().clone();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let model = FakeModel::start(Vec::new());
    assert!(listed(&set(&model, ""), &[]).contains(&"load_skill".to_owned()), "the default");
    for (dialect, load, _) in DIALECTS {
        let world = set(&model, &format!("dialect = \"{dialect}\""));
        for (named, tool, _) in DIALECTS {
            let of_setting = listed(&world, &[]);
            assert_eq!(of_setting.iter().any(|listed| listed == tool), named == dialect, "{of_setting:?}");
        }
        let of_option = listed(&world, &["--dialect", "trpc"]);
        assert!(of_option.contains(&"skill_load".to_owned()), "{load}: {of_option:?}");
    }
}

#[test]
fn mcp_and_the_session_list_what_discovery_and_manual_say() {
    let model = FakeModel::start(Vec::new());
    for (settings, expected) in [("", false), ("discovery = \"eager\"\nmanual = \"marked\"", true)] {
        let world = set(&model, settings);
        let mut server = Server::spawn(&world, &[]);
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let told = server.request("initialize", &hello)["result"]["instructions"].to_string();
        let session = world.stdout(&["session", "-c", "prompt"]);
        for told in [told, session] {
            assert!(told.contains("tides"), "{told}");
            assert_eq!(told.contains("(Manual only)"), expected, "{told}");
            assert_eq!(told.contains("1 script"), expected, "{told}");
        }
    }
}

#[test]
fn a_session_speaks_the_dialect_that_is_set_unless_an_option_names_another() {
    let model = FakeModel::start(Vec::new());
    let world = set(&model, "dialect = \"trpc\"\nlifetime = \"session\"");
    let first = |args: &[&str]| {
        let output = world.output(&[&["session", "--json"], args, &["-c", "tools"]].concat());
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(first(&[]).contains("skill_load"), "{}", first(&[]));
    assert!(first(&["--dialect", "deepagents"]).contains("load_skill"));
    let turned = world.stdout(&["session", "-c", "/tides", "-c", "turn", "-c", "prompt"]);
    assert!(turned.rsplit("turn").next().unwrap().contains("[Loaded]"), "{turned}");
    let mut command = world.command(&["session", "--json", "-c", "tools"]);
    let output = command.env("PROWESS_SKILLS_DIALECT", "opencode").output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains("skill_unload"));
    // A word that is none is an error, wherever it stands.
    world.file(super::CONFIG, "[skills]\ndialect = \"latin\"\n");
    let output = world.output(&["prompt"]);
    let told = world.told(&output);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(
        told.contains("`skills.dialect` must be `deepagents`, `trpc` or `opencode`, not `latin`"),
        "{told}"
    );
}

/// Servers that speak OpenAI's protocol differ in two fields.
#[test]
fn a_provider_is_asked_with_the_fields_that_it_knows() {
    for (settings, limit, other, effort) in [
        ("", "max_completion_tokens", "max_tokens", json!("high")),
        (
            "output_limit = \"max_tokens\"\nthinking = \"off\"\n",
            "max_tokens",
            "max_completion_tokens",
            Value::Null,
        ),
    ] {
        let model = FakeModel::start(vec![Answer::text("Hello.")]);
        let world = world(&model);
        configure(&world, &model.url(), settings);
        let text = std::fs::read_to_string(world.path(super::CONFIG)).unwrap();
        world.file(
            super::CONFIG,
            &text.replace("[model]\n", "[model]\neffort = \"high\"\nmax_output_tokens = 500\n"),
        );
        let asked = said(&world, &model, &["Hello"]).remove(0);
        assert_eq!((&asked[limit], &asked[other]), (&json!(500), &Value::Null), "{asked}");
        assert_eq!(asked["reasoning_effort"], effort, "{asked}");
    }
    let world = World::new();
    for (settings, expected) in [
        ("[provider.openai]\nthinking = \"tokens\"\n", "only with the api `anthropic`"),
        ("[provider.anthropic]\noutput_limit = \"max_tokens\"\n", "only for the api `openai`"),
    ] {
        world.file(super::CONFIG, settings);
        let told = world.run(&["config", "show"]);
        assert!(
            told.starts_with("exit 2") && told.contains("prowess.toml:2: ") && told.contains(expected),
            "{told}"
        );
    }
}
