//! Modes, kits and recent use: what the model of a chat, and a client over MCP, gets to know.

use super::*;
use crate::mcp::Server;

const NAMES: [&str; 5] = ["anchor", "buoy", "chart", "dock", "eel"];

/// A world with five more skills, and this configuration of skills.
fn harbour(model: &FakeModel, settings: &str) -> World {
    let world = world(model);
    configure(&world, &model.url(), settings);
    for name in NAMES {
        world.file(&format!("home/.prowess/skills/{name}/SKILL.md"), &manifest(name));
    }
    world
}

fn manifest(name: &str) -> String {
    format!("---\nname: {name}\ndescription: Looks after {name}s of a harbour.\n---\n\nThe {name} text.\n")
}

fn system(request: &Value) -> &str {
    request["messages"][0]["content"].as_str().unwrap()
}

/// The names of the skills that an overview describes, in its order.
fn described(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| line.strip_prefix("- **")?.split("**: ").next())
        .filter(|name| !name.contains(' '))
        .collect()
}

#[test]
fn modes_decide_what_the_model_sees_finds_and_loads() {
    let model = FakeModel::start(vec![
        Answer::call("search_skills", json!({"query": "anchors buoys charts docks eels of a harbour"})),
        Answer::call("skill_load", json!({"skill": "anchor"})),
        Answer::call("skill_load", json!({"skill": "buoy"})),
        Answer::call("skill_load", json!({"skill": "chart"})),
        Answer::text("Done."),
        Answer::text("Started."),
    ]);
    let modes = "[skills.mode]\nanchor = \"manual\"\nbuoy = \"off\"\n\"ch*\" = \"name\"\ndock = \"pinned\"\nghost = \"off\"\n";
    let world = harbour(&model, modes);
    let told = world.run(&["chat", "look around"]);
    assert!(told.contains("[skills.mode]: no skill matches `ghost`"), "{told}");
    let requests = model.requests();
    let first = system(&requests[0]);
    assert_eq!(described(first), ["dock", "eel", "tides"], "{first}");
    assert!(
        first.contains("By name only (1): chart. Use `search_skills` to find out what they do."),
        "{first}"
    );
    assert!(!requests[0].to_string().contains("anchor") && !requests[0].to_string().contains("buoy"));
    let found = last(&requests[1]);
    assert!(found.contains("**chart**: Looks after charts") && found.contains("**eel**"), "{found}");
    assert!(!found.contains("anchor") && !found.contains("buoy"), "{found}");
    for request in &requests[2..4] {
        assert!(last(request).contains("unknown skill"), "{}", last(request));
    }
    assert!(all(&requests[4]).contains("The chart text."));

    // A person starts a manual skill, and learns why another one cannot be started.
    world.run(&["chat", "/anchor"]);
    assert!(all(&model.requests()[5]).contains("The anchor text."));
    let told = world.run(&["chat", "/buoy"]);
    assert!(told.contains("the skill /buoy is off: `skills.mode` in prowess.toml says so"), "{told}");
    assert_eq!(model.requests().len(), 6);
}

#[test]
fn people_see_the_modes() {
    let model = FakeModel::start(vec![]);
    let modes = "[skills.mode]\nanchor = \"manual\"\nbuoy = \"off\"\nchart = \"name\"\ndock = \"pinned\"\n[skills.kit]\nsmall = [\"eel\", \"buoy\"]\n";
    let world = harbour(&model, modes);
    insta::assert_snapshot!("list", world.run(&["list"]));
    insta::assert_snapshot!("list_of_a_kit", world.run(&["list", "--kit", "small"]));
    insta::assert_snapshot!("search", world.run(&["search", "harbour", "--kit", "small"]));
    insta::assert_snapshot!("slash_skills", told(&world, &["chat", "/skills"]));
    insta::assert_snapshot!("slash_skills_in_a_kit", told(&world, &["chat", "--kit", "small", "/skills"]));
    insta::assert_snapshot!("slash_kit", told(&world, &["chat", "--kit", "small", "/kit"]));
    let skills = world.json(&["list", "--json"]);
    let buoy = skills["skills"].as_array().unwrap().iter().find(|skill| skill["name"] == "buoy").unwrap();
    assert_eq!((&buoy["mode"], &buoy["status"]), (&json!("off"), &json!("off")));
    let both = world.run(&["list", "--kit", "off", "--kit", "small"]);
    assert!(
        both.contains("--kit: `off` uses all skills; it is not a kit, and cannot be combined with kits"),
        "{both}"
    );
    let wrong = world.run(&["list", "--kit", "smal"]);
    assert!(wrong.contains("--kit: there is no kit `smal`; did you mean `small`?"), "{wrong}");
    let prompt = world.stdout(&["prompt", "--form", "compact", "--kit", "small"]);
    assert_eq!(prompt, "- dock: Looks after docks of a harbour.\n- eel: Looks after eels of a harbour.\n");
}

#[test]
fn a_configured_kit_and_a_chosen_one_give_the_same_lists() {
    let model = FakeModel::start(vec![]);
    let kits = "[skills.mode]\nchart = \"off\"\nbuoy = \"off\"\ndock = \"pinned\"\n[skills.kit]\nsmall = [\"eel\", \"buoy\", \"ghost-*\"]\n";
    let world = harbour(&model, kits);
    let searches: [&[&str]; 5] =
        [&["list"], &["search", "harbour"], &["search", "anchors"], &["search", "zzz"], &["list", "--json"]];
    let chosen = searches.map(|search| world.run(&[search, &["--kit", "small"]].concat()));
    configure(&world, &model.url(), &format!("[skills]\nkits = [\"small\"]\n{kits}"));
    assert_eq!(searches.map(|search| world.run(search)), chosen);
    insta::assert_snapshot!("lists_of_a_kit", chosen[..4].join("\n"));
    assert!(!chosen[4].contains("chart") && chosen[4].contains("buoy"), "{}", chosen[4]);
    assert!(world.run(&["search", "anchors", "--kit", "off"]).contains("anchor\t"));
}

#[test]
fn thousands_of_skills_are_listed_in_part_and_searched() {
    let model =
        FakeModel::start(vec![Answer::call("skill_load", json!({"skill": "x-150"})), Answer::text("Done.")]);
    let world = harbour(&model, "[skills.mode]\nx-140 = \"pinned\"\n");
    for number in 0..1_200 {
        let name = format!("x-{number:03}");
        world.file(&format!("home/.prowess/skills/{name}/SKILL.md"), &manifest(&name));
    }
    let pty = begun(&world, &[], 100, 140);
    pty.type_line("/unload");
    pty.wait_for("no skill is loaded");
    at_prompt(&pty);
    pty.type_line("load it");
    model.wait_for_requests(2);
    at_prompt(&pty);
    pty.type_line("/unload");
    pty.wait_for("loaded: x-150; `/unload SKILL` takes one out");
    at_prompt(&pty);
    pty.type_line("/skills");
    // The world has one skill of its own.
    pty.wait_for("1,106 more: `/skills WORDS` searches them");
    at_prompt(&pty);
    let screen = pty.screen();
    let at =
        |text: &str| screen.find(text).unwrap_or_else(|| panic!("{text} is not on the screen: {screen}"));
    assert!(at("+ x-150") < at("x-140 (pinned)") && at("x-140 (pinned)") < at("  anchor "), "{screen}");
    pty.type_line("/skills x-777");
    pty.wait_for("  x-777  Looks after");
    at_prompt(&pty);
    pty.type_line("/skills qqqqq");
    pty.wait_for("No skill matches these words.");
}

#[test]
fn a_kit_is_chosen_for_a_chat_and_changed_in_it() {
    let answers = (0..4).map(|_| Answer::text("Done.")).collect();
    let model = FakeModel::start(answers);
    let kits = "[skills]\nkits = [\"small\"]\n[skills.kit]\nsmall = [\"eel\"]\nlarge = [\"a*\", \"b*\"]\n[skills.mode]\ndock = \"pinned\"\n";
    let world = harbour(&model, kits);
    let pty = begun(&world, &[], 100, 40);
    let say = |line: &str, requests: usize| {
        pty.type_line(line);
        model.wait_for_requests(requests);
        at_prompt(&pty);
    };
    say("one", 1);
    pty.type_line("/kit large");
    pty.wait_for("in use: large; the model sees 3 skills");
    at_prompt(&pty);
    say("two", 2);
    pty.type_line("/kit nothing");
    pty.wait_for("there is no kit `nothing`");
    at_prompt(&pty);
    pty.type_line("/kit off");
    pty.wait_for("the model sees all skills (6 skills)");
    at_prompt(&pty);
    say("three", 3);
    world.run(&["chat", "--kit", "small", "--kit", "large", "four"]);
    let requests = model.requests();
    let seen: Vec<Vec<&str>> = requests.iter().map(|request| described(system(request))).collect();
    assert_eq!(seen[0], ["dock", "eel"]);
    assert_eq!(seen[1], ["dock", "anchor", "buoy"]);
    assert_eq!(seen[2], ["dock", "anchor", "buoy", "chart", "eel", "tides"]);
    assert_eq!(seen[3], ["dock", "anchor", "buoy", "eel"]);
}

#[test]
fn a_trusted_project_can_only_narrow() {
    let model = FakeModel::start(vec![Answer::text("Done."), Answer::text("Done.")]);
    let own = "[skills]\nkits = [\"mine\"]\n[skills.overview]\nbudget = 300\n[skills.mode]\nanchor = \"manual\"\nbuoy = \"off\"\nchart = \"name\"\n[skills.kit]\nmine = [\"anchor\", \"buoy\", \"chart\", \"dock\", \"x-*\"]\n";
    let world = harbour(&model, own);
    for number in 0..60 {
        let name = format!("x-{number}");
        world.file(&format!("home/.prowess/skills/{name}/SKILL.md"), &manifest(&name));
    }
    let project = "[skills]\nkits = [\"all\"]\nmanual = \"marked\"\n[skills.overview]\nbudget = \"off\"\n[skills.mode]\n\"*\" = \"pinned\"\nanchor = \"pinned\"\nbuoy = \"full\"\nchart = \"pinned\"\n[skills.kit]\nall = [\"*\"]\nmine = [\"*\"]\n";
    world.file("project/.git/HEAD", "ref: x\n").file("project/prowess.toml", project);
    world.stdout(&["trust", "--yes"]);
    let told = world.run(&["chat", "hello"]);
    assert!(told.contains("a project's file can only make skills less visible"), "{told}");
    assert!(told.contains("`skills.overview.budget` has no effect"), "{told}");
    let request = &model.requests()[0];
    let text = system(request);
    assert!(!request.to_string().contains("anchor") && !request.to_string().contains("buoy"), "{text}");
    assert!(!text.contains("after charts") && !text.contains("eel"), "{text}");
    assert!(text.contains("search_skills") && !text.contains("after x-59s of a harbour"), "{text}");

    // What it narrows counts.
    let project =
        "[skills.mode]\n\"x-*\" = \"off\"\ndock = \"name\"\n[skills.kit]\nmine = [\"dock\", \"x-*\"]\n";
    world.file("project/prowess.toml", project);
    world.stdout(&["trust", "--yes"]);
    world.run(&["chat", "hello"]);
    let request = &model.requests()[1];
    assert!(system(request).contains("By name only (1): dock."), "{}", system(request));
    assert!(!request.to_string().contains("chart") && !request.to_string().contains("x-1"), "{request}");
}

#[test]
fn pinned_skills_without_room_are_a_notice() {
    let model = FakeModel::start(vec![Answer::text("Done.")]);
    let world = harbour(&model, "[skills.overview]\nbudget = 100\n[skills.mode]\n\"*\" = \"pinned\"\n");
    for number in 0..20 {
        let name = format!("task-{number}");
        world.file(&format!("home/.prowess/skills/{name}/SKILL.md"), &manifest(&name));
    }
    let told = world.run(&["chat", "hello"]);
    let requests = model.requests();
    let text = system(&requests[0]);
    // Descriptions give way before skills do, and the notice is true.
    assert!(text.contains("- User (14): anchor, buoy, chart, dock, eel, task-0, task-1"), "{text}");
    assert!(text.contains("12 more skills: use `search_skills`"), "{text}");
    assert!(text.contains("There is no room for all descriptions"), "{text}");
    let notice = "the pinned skills do not fit into the overview of 100 tokens: 14 by name only, 12 left out; pin fewer";
    assert!(told.contains(notice), "{told}");
    let (_, errors) = Server::start(&world, &[]).end();
    assert!(errors.contains("the pinned skills do not fit into the overview of 100 tokens"), "{errors}");
}

#[test]
fn skills_that_were_used_come_first_in_the_next_chat() {
    let model = FakeModel::start(vec![
        Answer::call("skill_load", json!({"skill": "eel"})),
        Answer::call("skill_load", json!({"skill": "chart"})),
        Answer::text("Done."),
        Answer::text("Done."),
        Answer::text("Done."),
        Answer::text("Done."),
    ]);
    let world = harbour(&model, "");
    let first = begun(&world, &[], 100, 40);
    first.type_line("look");
    model.wait_for_requests(3);
    at_prompt(&first);
    first.type_line("and again");
    model.wait_for_requests(4);
    at_prompt(&first);
    first.type_line("/quit");
    first.wait_for("continue with");
    let store = world.path("home/.local/state/prowess/recent-skills.json");
    eventually("the used skills", || store.exists());
    world.run(&["chat", "what now"]);
    let requests = model.requests();
    let seen: Vec<Vec<&str>> = requests
        .iter()
        .map(|request| {
            let names = described(system(request));
            names.into_iter().map(|name| name.trim_end_matches("** [Loaded]")).collect()
        })
        .collect();
    let by_name = ["anchor", "buoy", "chart", "dock", "eel", "tides"];
    for (at, names) in seen[..4].iter().enumerate() {
        let names: Vec<&&str> = by_name.iter().filter(|name| names.contains(name)).collect();
        assert_eq!(names, seen[at].iter().collect::<Vec<_>>(), "a conversation keeps its order");
    }
    assert_eq!(seen[4], ["chart", "eel", "anchor", "buoy", "dock", "tides"]);

    // Names only, and a damaged file does no harm.
    let text = std::fs::read_to_string(&store).unwrap();
    assert!(text.contains("\"chart\"") && !text.contains("Looks after"), "{text}");
    std::fs::write(&store, "{").unwrap();
    world.run(&["chat", "what now"]);
    assert_eq!(described(system(&model.requests()[5])), by_name);
}

#[test]
fn a_client_over_mcp_gets_the_kit_and_a_fixed_order() {
    let model = FakeModel::start(vec![]);
    let kits = "[skills.kit]\nsmall = [\"eel\", \"dock\", \"anchor\", \"buoy\"]\n[skills.mode]\nanchor = \"manual\"\nbuoy = \"off\"\n";
    let world = harbour(&model, kits);
    world.file("home/.prowess/skills/anchor/references/steps.md", "Heave.\n");
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let instructions = |server: &mut Server| {
        let told = server.request("initialize", &hello);
        told["result"]["instructions"].as_str().unwrap().to_owned()
    };
    let mut server = Server::spawn(&world, &["--kit", "small"]);
    let first = instructions(&mut server);
    assert_eq!(described(&first), ["dock", "eel"], "{first}");
    let found = server.call("search_skills", &json!({"query": "anchor buoy chart dock eel"})).to_string();
    assert!(found.contains("**dock**") && !found.contains("**chart**"), "{found}");
    assert!(!found.contains("**anchor**") && !found.contains("**buoy**"), "{found}");
    for name in ["chart", "anchor", "buoy"] {
        let refused = server.call("load_skill", &json!({"skill_name": name}));
        assert_eq!(refused["isError"], true, "{refused}");
    }
    // A person starts a manual skill as a prompt.
    let prompts = server.request("prompts/list", &json!({}))["result"]["prompts"].to_string();
    assert!(
        prompts.contains("\"anchor\"") && !prompts.contains("\"buoy\"") && !prompts.contains("\"chart\"")
    );
    // No client can offer it to its model as a resource.
    let resources = server.request("resources/list", &json!({})).to_string();
    assert!(resources.contains("skill://eel/SKILL.md"), "{resources}");
    for name in ["anchor", "buoy", "chart"] {
        assert!(!resources.contains(name), "{resources}");
        let uri = format!("skill://{name}/SKILL.md");
        let refused = server.request("resources/read", &json!({"uri": uri}));
        assert!(refused["error"].is_object(), "{refused}");
    }
    // The prompt may name its other files.
    let steps = server.request("resources/read", &json!({"uri": "skill://anchor/references/steps.md"}));
    assert!(steps.to_string().contains("Heave."), "{steps}");
    let loaded = server.call("load_skill", &json!({"skill_name": "eel"}));
    assert!(loaded.to_string().contains("The eel text."), "{loaded}");
    let (code, errors) = server.end();
    assert_eq!(code, Some(0), "{errors}");

    // The next server begins with what was used.
    let mut server = Server::spawn(&world, &["--kit", "small"]);
    assert_eq!(described(&instructions(&mut server)), ["eel", "dock"]);
    server.end();
    let wrong = world.run(&["mcp", "--kit", "tiny"]);
    assert!(
        wrong.contains("--kit: there is no kit `tiny`; did you mean `small`?")
            || wrong.contains("there is no kit `tiny`; use `small`"),
        "{wrong}"
    );
}

#[test]
fn a_long_description_is_a_diagnostic() {
    let world = World::new();
    let long = format!("Counts fish. {}", "More fish. ".repeat(200));
    world.file(
        "home/.prowess/skills/fish/SKILL.md",
        &format!("---\nname: fish\ndescription: {long}\n---\n\nCount.\n"),
    );
    let says = "characters, 1024 are allowed; the overview cuts the rest off";
    let checked = world.run(&["check", &world.path("home/.prowess/skills/fish").to_string_lossy()]);
    assert!(checked.contains(says), "{checked}");
    let listed = world.run(&["list", "--diagnostics"]);
    assert!(listed.contains(says), "{listed}");
    let summary = world.run(&["list"]);
    assert!(
        summary.contains("1 description too long and cut in the overview; see `prowess list"),
        "{summary}"
    );
}

/// The files of a skill that is off, or outside the kit, are as hidden from commands as those of a denied skill.
#[test]
fn commands_do_not_read_skills_that_are_off() {
    for settings in
        ["[skills.mode]\nhidden = \"off\"\n", "[skills]\nkits = [\"k\"]\n[skills.kit]\nk = [\"tides\"]\n"]
    {
        let run = |command: &str| Answer::call("skill_run", json!({"skill": "tides", "command": command}));
        let model = FakeModel::start(vec![
            run("cat /project/.prowess/skills/hidden/SKILL.md"),
            run("cat /project/.prowess/skills/*/SKILL.md"),
            Answer::call("read_file", json!({"file_path": "/project/.prowess/skills/hidden/SKILL.md"})),
            Answer::text("Done."),
        ]);
        let world = harbour(&model, settings);
        world.file(
            "project/.prowess/skills/hidden/SKILL.md",
            "---\nname: hidden\ndescription: Is hidden.\n---\n\nA secret way.\n",
        );
        world.stdout(&["trust", "--yes"]);
        world.run(&["chat", "--yes", "read it"]);
        let requests = model.requests();
        assert_eq!(requests.len(), 4);
        assert!(!all(&requests[3]).contains("A secret way."), "{settings}: {}", all(&requests[3]));
    }
}
