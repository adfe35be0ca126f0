//! Skills and tools of other MCP servers in a conversation, and `prowess servers`. The server is prowess itself.

use insta::assert_snapshot;

use super::*;

/// A home with a server `docs`, which has these skills, and more configuration.
fn with_server(model: &FakeModel, more: &str) -> World {
    let world = World::new();
    serve(&world, "Run scripts/tides.sh.");
    let shelf = world.path("shelf");
    let program = env!("CARGO_BIN_EXE_prowess");
    let server = format!("[mcp.docs]\ncommand = [{program:?}, \"mcp\", \"--only\", \"--root\", {shelf:?}]\n");
    configure(&world, &model.url(), &format!("{server}{more}"));
    world
}

/// Puts the server's skill on its shelf.
fn serve(world: &World, body: &str) {
    let head = "---\nname: tides\ndescription: Looks up tides.\nallowed-tools: Bash\n---\n";
    world
        .file("shelf/tides/SKILL.md", &format!("{head}\n{body}\n"))
        .file("shelf/tides/scripts/tides.sh", "echo high\n");
}

fn loads() -> Answer {
    Answer::call("skill_load", json!({"skill": "docs:tides"}))
}

fn runs_it() -> Answer {
    Answer::call("skill_run", json!({"skill": "docs:tides", "command": "sh scripts/tides.sh"}))
}

fn told(world: &World, args: &[&str]) -> String {
    stable(world, &world.run(args))
}

#[test]
fn servers_are_shown_and_their_skills_before_anybody_loads_them() {
    let model = FakeModel::start(Vec::new());
    let world = with_server(&model, "[mcp.gone]\ncommand = [\"no-such-program-here\"]\n");
    let cases: [&[&str]; 7] = [
        &["servers"],
        &["servers", "docs"],
        &["servers", "docs", "tides"],
        &["servers", "docs", "docs:tides"],
        &["servers", "docs", "nothing"],
        &["servers", "dosc"],
        &["servers", "gone", "tides"],
    ];
    let all: Vec<String> =
        cases.iter().map(|args| format!("$ {}\n{}", args.join(" "), told(&world, args))).collect();
    assert_snapshot!(all.join("\n"));
    let json = world.json(&["servers", "docs", "--json"]);
    assert_eq!(json[0]["skills"][0]["name"], "docs:tides");
    assert_eq!(world.run(&["servers"]).matches("docs__load_skill").count(), 1);
    let json = world.json(&["servers", "docs", "tides", "--json"]);
    assert_eq!(json["name"], "docs:tides");
    assert_eq!(json["files"][1]["path"], "scripts/tides.sh");
    assert!(json["text"].as_str().unwrap().contains("Run scripts/tides.sh."), "{json}");
    let none = World::new();
    assert!(none.run(&["servers"]).contains("there are no servers; add [mcp.LABEL] to"));
}

/// A server that has tools, and does not list them.
const FAILING: &str = r#"
while read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case $line in
    *'"initialize"'*) answer='"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"f","version":"1"}}' ;;
    *) answer='"error":{"code":-32601,"message":"not now"}' ;;
  esac
  [ -z "$id" ] || printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$answer"
done
"#;

#[test]
fn the_exit_code_says_whether_all_servers_answered() {
    let model = FakeModel::start(Vec::new());
    let world = with_server(&model, "");
    // Where nothing can be kept all of it is fetched, and no server is to blame.
    world.file("home/.cache/prowess", "no directory\n");
    let uncached = world.output(&["servers"]);
    assert_eq!(uncached.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&uncached.stderr).contains("files of MCP servers are not cached"));
    let script = world.file("failing.sh", FAILING).path("failing.sh");
    let world_of_one = World::new();
    configure(&world_of_one, &model.url(), &format!("[mcp.failing]\ncommand = [\"sh\", {script:?}]\n"));
    let failing = world_of_one.output(&["servers", "failing"]);
    let told = String::from_utf8_lossy(&failing.stderr);
    assert!(told.contains("server `failing` refused `tools/list`: not now"), "{told}");
    assert_eq!(failing.status.code(), Some(1));
}

#[test]
fn programs_start_in_the_home_or_where_the_configuration_says() {
    let model = FakeModel::start(Vec::new());
    let world = World::new();
    serve(&world, "Run scripts/tides.sh.");
    let (shelf, program) = (world.path("shelf"), env!("CARGO_BIN_EXE_prowess"));
    let started = world.path("started");
    let script = format!("pwd >> {started:?}; exec {program:?} mcp --only --root {shelf:?}");
    for (more, place) in
        [("", "home"), ("directory = \"~/\"\n", "home"), ("directory = \"WORLD/shelf\"\n", "shelf")]
    {
        let more = more.replace("WORLD", world.path("").to_str().unwrap().trim_end_matches('/'));
        configure(
            &world,
            &model.url(),
            &format!("[mcp.docs]\ncommand = [\"sh\", \"-c\", {script:?}]\n{more}"),
        );
        world.stdout(&["servers"]);
        let started = std::fs::read_to_string(&started).unwrap();
        assert_eq!(started.lines().last(), world.path(place).to_str(), "{more}");
    }
    configure(&world, &model.url(), "[mcp.docs]\ncommand = [\"sh\"]\ndirectory = \"here\"\n");
    assert!(world.run(&["servers"]).contains("write `here` as an absolute path, or with a leading ~/"));
}

#[test]
fn a_servers_skill_is_asked_about_and_so_is_whatever_runs() {
    let model = FakeModel::start(vec![loads(), runs_it(), Answer::text("High.")]);
    // What rules allow is no answer while a server's words are in the conversation.
    let world =
        with_server(&model, "[permission.run]\n\"*\" = \"allow\"\n[permission.skill]\n\"*\" = \"allow\"\n");
    assert_snapshot!(told(&world, &["chat", "is it high?"]));
    let prompt = all(&model.requests()[0]);
    assert!(prompt.contains("**docs:tides**: Looks up tides. (From: MCP server docs)"), "{prompt}");
    assert!(!prompt.contains("Recommended tools"), "nobody granted them");

    let pty = Pty::start(&world, &["chat", "--resume", "last"], 100, 24);
    let question = pty.wait_for("allow it?");
    assert_snapshot!(stable(&world, &question));
    pty.type_line("y");
    let question =
        pty.wait_until("the run", |screen| screen.contains("run in skill") && screen.ends_with("[y/n]"));
    let (_, question) = question.split_once("run in skill").unwrap();
    assert!(!question.contains("always"), "it is asked each time: {question}");
    pty.type_line("y");
    pty.wait_for("High.");
    let answered = all(&model.requests()[2]);
    assert!(answered.contains("MCP server docs") && answered.contains("high"), "{answered}");
}

#[test]
fn a_change_at_the_server_is_asked_about_again() {
    let unloads = || Answer::call("skill_unload", json!({"skill": "docs:tides"}));
    let model = FakeModel::start(vec![
        loads(),
        Answer::text("Loaded."),
        unloads(),
        loads(),
        Answer::text("Loaded unasked."),
        unloads(),
        loads(),
    ]);
    let world = with_server(&model, "");
    let mut pty = begun(&world, &[], 100, 30);
    pty.type_line("load it");
    pty.wait_for("allow it?");
    pty.type_line("a");
    pty.wait_for("Loaded.");
    at_prompt(&pty);
    pty.type_line("/quit");
    assert_eq!(pty.wait(), Some(0));
    let again = told(&world, &["chat", "--resume", "last", "load it again"]);
    assert!(again.contains("Loaded unasked."), "it is what was approved: {again}");
    // Not the document: one of its other files.
    world.file("shelf/tides/scripts/tides.sh", "echo low\n");
    let changed = told(&world, &["chat", "--resume", "last", "once more"]);
    assert!(changed.contains("a question is waiting: load the skill 'docs:tides'"), "{changed}");
}

/// The rules of a sub-agent count for tools of servers, too.
#[test]
fn a_sub_agent_has_its_own_rules_for_tools_of_servers() {
    let task = |name: &str| Answer::call("task", json!({"description": "Look.", "subagent_type": name}));
    let model = FakeModel::start(vec![
        task("closed"),
        Answer::call("docs__load_skill", json!({"skill_name": "tides"})),
        Answer::text("I could not."),
        Answer::text("It could not."),
        task("open"),
        Answer::call("docs__load_skill", json!({"skill_name": "tides"})),
        Answer::text("I could."),
        Answer::text("It could."),
    ]);
    let world = with_server(
        &model,
        "[agent.closed]\ndescription = \"Reads.\"\n[agent.closed.permission]\nmcp = \"deny\"\n\
         [agent.open]\ndescription = \"Asks.\"\n[agent.open.permission]\nmcp = \"allow\"\n",
    );
    assert_eq!(world.stdout(&["chat", "look"]), "It could not.\n");
    assert_eq!(world.stdout(&["chat", "look"]), "It could.\n");
    let requests = model.requests();
    let has_tool = |request: &Value| request["tools"].to_string().contains("docs__load_skill");
    assert!(has_tool(&requests[0]) && !has_tool(&requests[1]) && has_tool(&requests[5]));
    assert!(!all(&requests[2]).contains("Run scripts/tides.sh."), "{}", all(&requests[2]));
    assert!(last(&requests[6]).contains("Run scripts/tides.sh."), "{}", last(&requests[6]));
}

#[test]
fn tools_of_servers_are_offered_and_asked_about() {
    let call = || Answer::call("docs__load_skill", json!({"skill_name": "tides"}));
    let model = FakeModel::start(vec![call(), Answer::text("Done."), call(), Answer::text("Denied.")]);
    let world = with_server(&model, "");
    assert_snapshot!(told(&world, &["chat", "use the tool"]));
    assert_snapshot!(told(&world, &["chat", "--resume", "last", "--yes", "/context"]));
    assert!(last(&model.requests()[1]).contains("Run scripts/tides.sh."));
    let world = with_server(
        &model,
        "[permission.mcp]\n\"docs *\" = \"deny\"\n[permission.mcp_skill]\n\"*\" = \"deny\"\n",
    );
    world.output(&["chat", "again"]);
    let request = &model.requests()[2];
    assert!(
        !request.to_string().contains("docs__load_skill") && !all(request).contains("docs:tides"),
        "{request}"
    );
}
