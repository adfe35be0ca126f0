//! A server that does not answer is named while it is waited for.

use super::*;

/// A home with a server that is there and never says anything.
fn with_silent_server(model: &FakeModel) -> World {
    let world = World::new();
    let server = "[mcp.silent]\ncommand = [\"sh\", \"-c\", \"while read -r line; do :; done\"]\n";
    configure(&world, &model.url(), server);
    world
}

#[test]
fn a_server_that_hangs_is_named_on_the_screen() {
    let model = FakeModel::start(Vec::new());
    let world = with_silent_server(&model);
    let mut pty = Pty::start(&world, &["chat"], 80, 20);
    let screen = pty.wait_for("waiting for server silent…");
    assert!(!screen.lines().any(|line| line == ">"), "it is still waited for:\n{screen}");
    pty.kill();
}

/// A server that connects, and then does not say which skills it has.
const MUTE: &str = r#"
while read -r line; do
  case $line in
    *'"initialize"'*)
      id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
      printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/skills":{}}},"serverInfo":{"name":"m","version":"1"}}}\n' "$id" ;;
  esac
done
"#;

#[test]
fn a_server_that_hangs_later_is_named_in_a_pipe() {
    let model = FakeModel::start(Vec::new());
    let world = World::new();
    let script = world.file("mute.sh", MUTE).path("mute.sh");
    configure(&world, &model.url(), &format!("[mcp.mute]\ncommand = [\"sh\", {script:?}]\n"));
    let mut child = world.command(&["chat", "hello"]).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let errors = std::io::BufReader::new(child.stderr.take().unwrap());
    let told = std::io::BufRead::lines(errors).map_while(Result::ok).find(|line| line.contains("mute"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(told.as_deref(), Some("waiting for server mute…"));
}
