//! `prowess mcp`: a server as an MCP client starts it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::world::{World, examples};

/// No answer of these tests takes as long.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server, and a client of the revision 2025-11-25 that talks to it.
pub(crate) struct Server {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    next: u64,
}

impl Server {
    /// A server that nobody has talked to.
    pub(crate) fn spawn(world: &World, args: &[&str]) -> Self {
        let mut command = world.command(&[&["mcp"], args].concat());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let input = child.stdin.take();
        Self { child, input, lines, next: 0 }
    }

    pub(crate) fn start(world: &World, args: &[&str]) -> Self {
        let mut server = Self::spawn(world, args);
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let told = server.request("initialize", &hello);
        assert_eq!(told["result"]["serverInfo"]["name"], "prowess", "{told}");
        server.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        server
    }

    fn write(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn begin(&mut self, method: &str, params: &Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// The answer to a request. Whatever else comes on standard output has to be a message, too.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.begin(method, params);
        loop {
            let line = self.lines.recv_timeout(PATIENCE).unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(message["jsonrpc"], "2.0");
            if message["id"] == id {
                return message;
            }
        }
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.request("tools/call", &json!({"name": tool, "arguments": arguments}))["result"].clone()
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Closes its input, and gives its exit code and what it wrote to standard error.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        drop(self.input.take());
        self.ended()
    }

    fn ended(self) -> (Option<i32>, String) {
        let (send, ended) = channel();
        std::thread::spawn(move || send.send(self.child.wait_with_output().unwrap()));
        let output = ended.recv_timeout(PATIENCE).unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }
}

fn is_running(argument: &str) -> bool {
    let lines = std::fs::read_dir("/proc").unwrap().flatten();
    let mut lines = lines.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.any(|line| line == format!("sleep\0{argument}\0").as_bytes())
}

/// Looks until it is so: nobody is told when a process of others begins or ends.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    let (_open, never) = channel::<()>();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        never.recv_timeout(Duration::from_millis(10)).unwrap_err();
    }
}

#[test]
fn a_client_starts_it_and_it_ends_with_its_input() {
    let world = World::new();
    let root = examples();
    let mut server = Server::start(&world, &["--only", "--root", &root]);
    let loaded = server.call("load_skill", &json!({"skill_name": "python-math"}));
    assert!(loaded["content"][0]["text"].as_str().unwrap().contains("<skill name=\"python-math\""));
    let listed = server.request("skills/list", &json!({}));
    assert_eq!(listed["result"]["skills"].as_array().unwrap().len(), 7);
    assert_eq!(server.end(), (Some(0), String::new()));
}

#[test]
fn nothing_is_written_but_messages_and_all_of_them() {
    let world = World::new();
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
    ];
    let input: String = messages.iter().map(|message| format!("{message}\n")).collect();
    // The most that is logged goes to standard error.
    let output = world.fed(&["-vvv", "mcp", "--only", "--root", &examples()], input);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let ids: Vec<Value> =
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].clone()).collect();
    assert_eq!(ids, [1, 2]);
    // A look whether there is a server is no mistake, and what is no message is no reason to end otherwise.
    assert_eq!(world.output(&["mcp", "--only", "--root", &examples()]).status.code(), Some(0));
}

#[test]
fn what_is_no_message_does_not_end_it() {
    let world = World::new();
    let mut server = Server::start(&world, &["--only", "--root", &examples()]);
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let id = json!("../".repeat(1000));
    let lines: [Vec<u8>; 7] = [
        b"no json".to_vec(),
        b"\xff\xfe".to_vec(),
        b"{}".to_vec(),
        b"[1]".to_vec(),
        deep.clone().into_bytes(),
        format!("{{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/list\",\"params\":{{\"x\":{deep}}}}}")
            .into_bytes(),
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"}).to_string().into_bytes(),
    ];
    let input = server.input.as_mut().unwrap();
    for line in lines {
        input.write_all(&line).unwrap();
        input.write_all(b"\n").unwrap();
    }
    // More than a line may have.
    input.write_all(&vec![b' '; 17 << 20]).unwrap();
    input.write_all(b"\n").unwrap();
    let loaded = server.call("load_skill", &json!({"skill_name": "python-math"}));
    assert_ne!(loaded["isError"], true);
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn a_client_that_listens_does_not_delay_the_end() {
    let world = World::new();
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let listen = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen",
        "params": {"notifications": {"toolsListChanged": true}, "_meta": meta.clone()}});
    let mut server = Server::spawn(&world, &["--only", "--root", &examples()]);
    server.write(&listen);
    let begun: Value = serde_json::from_str(&server.lines.recv_timeout(PATIENCE).unwrap()).unwrap();
    assert_eq!(begun["method"], "notifications/subscriptions/acknowledged");
    // It listens once the server has noticed that it wrote the acknowledgement, which it does at some time of its own.
    server.next = 1;
    for _ in 0..20 {
        server.request("tools/list", &json!({ "_meta": meta }));
    }
    // The end of the input ends what listens, and that has a result.
    drop(server.input.take());
    let last: Value = serde_json::from_str(&server.lines.recv_timeout(PATIENCE).unwrap()).unwrap();
    assert_eq!((&last["id"], last["result"].is_object()), (&json!(1), true), "{last}");
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn rules_trust_and_configuration_count() {
    let world = World::new();
    world
        .skill("home/.prowess/skills", "tides", "Looks up tides. Use at sea.")
        .skill("home/.prowess/skills", "kites", "Builds kites. Use in wind.")
        .skill("project/.prowess/skills", "local", "Is the project's. Use here.")
        .file(
            "home/.config/prowess/prowess.toml",
            "[agent.mcp.permission.skill]\n\"tides\" = \"deny\"\n\"kites\" = \"ask\"\n",
        );
    let mut server = Server::start(&world, &[]);
    let listed = server.request("skills/list", &json!({}));
    let names: Vec<&Value> = listed["result"]["skills"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["frontmatter"]["name"])
        .collect();
    assert_eq!(names, ["kites"]);
    let refused = server.call("load_skill", &json!({"skill_name": "kites"}));
    assert!(refused["content"][0]["text"].as_str().unwrap().contains("add at the end of [permission.skill]"));
    let (code, told) = server.end();
    assert_eq!(code, Some(0));
    assert!(told.contains("this project is not trusted"), "{told}");

    let mut server = Server::start(&world, &["--trust-project"]);
    let loaded = server.call("load_skill", &json!({"skill_name": "local"}));
    assert_ne!(loaded["isError"], true);
    server.end();
}

#[test]
fn what_a_trusted_project_changes_is_not_trusted_any_more() {
    let world = World::new();
    world.skill("project/.prowess/skills", "local", "Is the project's. Use here.");
    world.file("project/.prowess/skills/local/scripts/a.sh", "echo a\n");
    world.stdout(&["trust", "--yes"]);
    let mut server = Server::start(&world, &[]);
    assert_eq!(
        server.request("resources/read", &json!({"uri": "skill://local/scripts/a.sh"}))["result"]["contents"]
            [0]["text"],
        "echo a\n"
    );
    // No catalog knows this file, but whoever trusted the project does.
    world.file("project/.prowess/skills/local/scripts/a.sh", "echo other\n");
    until("it is still served", || {
        server.request("skills/list", &json!({}))["result"]["skills"].as_array().unwrap().is_empty()
    });
    assert!(
        server.request("resources/read", &json!({"uri": "skill://local/scripts/a.sh"}))["error"].is_object()
    );
    server.end();
}

/// The names of the skills that are served.
fn names(server: &mut Server) -> Vec<String> {
    let listed = server.request("skills/list", &json!({}));
    let skills = listed["result"]["skills"].as_array().unwrap().iter();
    skills.map(|entry| entry["frontmatter"]["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_project_that_is_trusted_no_more_has_no_skills_and_no_rules() {
    let world = World::new();
    world
        .skill("home/.prowess/skills", "tides", "Looks up tides. Use at sea.")
        .skill("project/.prowess/skills", "local", "Is the project's. Use here.")
        .file("home/.config/prowess/prowess.toml", "[permission.skill]\n\"tides\" = \"ask\"\n")
        .file("project/prowess.toml", "[permission.skill]\n\"tides\" = \"allow\"\n");
    world.stdout(&["trust", "--yes"]);
    let mut server = Server::start(&world, &[]);
    assert_eq!(names(&mut server), ["local", "tides"]);
    assert_ne!(server.call("load_skill", &json!({"skill_name": "tides"}))["isError"], true);
    server.call("unload_skill", &json!({"skill_name": "tides"}));
    world.stdout(&["trust", "--revoke"]);
    until("it is still served", || names(&mut server) == ["tides"]);
    assert_eq!(server.call("load_skill", &json!({"skill_name": "tides"}))["isError"], true);
    server.end();
}

#[test]
fn what_a_trusted_projects_configuration_allows_counts_no_more_once_it_changes() {
    let world = World::new();
    world
        .skill("home/.prowess/skills", "tides", "Looks up tides. Use at sea.")
        .skill("home/.prowess/skills", "kites", "Builds kites. Use in wind.")
        .file("home/.config/prowess/prowess.toml", "[permission.skill]\n\"kites\" = \"deny\"\n")
        .file("project/prowess.toml", "[permission.skill]\n\"tides\" = \"deny\"\n\"kites\" = \"allow\"\n");
    world.stdout(&["trust", "--yes"]);
    let mut server = Server::start(&world, &[]);
    assert_eq!(names(&mut server), ["kites"]);
    world.file("project/prowess.toml", "[permission.skill]\n\"tides\" = \"allow\" # or not\n");
    until("the old rules allow, or do not forbid", || names(&mut server).is_empty());
    world.stdout(&["trust", "--yes"]);
    until("the new rules do not count", || names(&mut server) == ["tides"]);
    server.end();
}

#[test]
fn what_cannot_be_looked_for_is_not_served_until_it_can() {
    let world = World::new();
    let rules = "[permission.skill]\n\"tides\" = \"allow\"\n";
    world
        .skill("home/.prowess/skills", "tides", "Looks up tides. Use at sea.")
        .file("home/.config/prowess/prowess.toml", rules);
    let mut server = Server::start(&world, &[]);
    assert_eq!(names(&mut server), ["tides"]);
    world.file("home/.config/prowess/prowess.toml", "[permission");
    until("it is still served", || names(&mut server).is_empty());
    world.file("home/.config/prowess/prowess.toml", rules);
    until("it is not served again", || names(&mut server) == ["tides"]);
    let (_, told) = server.end();
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(told.starts_with("cannot look for skills, so none are served until this is fixed: "), "{told}");
}

#[test]
fn what_the_extension_does_not_serve_is_told() {
    let world = World::new();
    world.skill("home/.prowess/skills", "many", "Has many files. Use in tests.");
    for number in 0..512 {
        world.file(&format!("home/.prowess/skills/many/{number}.txt"), "");
    }
    let mut server = Server::start(&world, &[]);
    assert_eq!(server.request("skills/list", &json!({}))["result"]["skills"], json!([]));
    let (_, told) = server.end();
    assert_eq!(told, "`many` is not served by the Skills extension: more than 512 files\n");
}

/// A world with a workspace that commands can reach, and a rule that lets them run.
fn running() -> (World, String) {
    let world = World::new();
    world
        .skill("home/.prowess/skills", "kit", "Runs. Use in tests.")
        .file("home/.config/prowess/prowess.toml", "[permission.run]\n\"kit *\" = \"allow\"\n");
    let kept = world.path("kept");
    std::fs::create_dir(&kept).unwrap();
    for path in [&kept, kept.parent().unwrap()] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let kept = kept.to_string_lossy().into_owned();
    (world, kept)
}

#[test]
fn no_process_is_left_when_it_ends() {
    for (by_signal, seconds) in [(false, "98765"), (true, "98766")] {
        let (world, kept) = running();
        let mut server = Server::start(&world, &["--run", "--workspace", &kept]);
        let ran = server.call("skill_run", &json!({"skill": "kit", "command": "echo ran"}));
        assert_eq!(ran["structuredContent"]["stdout"], "ran\n", "{ran}");
        server.begin("tools/call", &json!({"name": "skill_run", "arguments": {"skill": "kit", "command": format!("exec sleep {seconds}")}}));
        until("it does not run", || is_running(seconds));
        let code = if by_signal {
            let id = server.child.id().to_string();
            assert!(std::process::Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
            server.ended().0
        } else {
            server.end().0
        };
        assert_eq!(code, Some(if by_signal { 143 } else { 0 }));
        until("a process is left", || !is_running(seconds));
    }
}

#[test]
fn the_client_configuration_has_the_command() {
    let world = World::new();
    for host in ["claude-code", "codex", "cursor", "opencode", "vscode", "zed"] {
        let output = world.output(&["mcp", "--root", "skills", "--print-config", host]);
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{told}");
        assert!(
            told.starts_with("add this to ") && told.ends_with("; if the file does not exist, create it\n"),
            "{told}"
        );
        let text = String::from_utf8(output.stdout).unwrap();
        let root = world.path("project/skills");
        assert!(
            text.contains(&*root.to_string_lossy()) && text.contains(env!("CARGO_BIN_EXE_prowess")),
            "{text}"
        );
        assert!(!text.contains("print-config") && !text.contains(host) || host == "opencode", "{text}");
        if host == "codex" {
            text.parse::<toml::Table>().unwrap();
        } else {
            serde_json::from_str::<Value>(&text).unwrap();
        }
    }
}
