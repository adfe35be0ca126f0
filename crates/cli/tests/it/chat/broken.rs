//! What is broken around a conversation: one line that says what to do.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use insta::assert_snapshot;

use super::*;

const STATE: &str = "home/.local/state/prowess";

#[test]
fn a_configuration_with_a_typo() {
    let world = World::new();
    world.file(CONFIG, "[model]\nnmae = \"offline\"\n");
    let mut all = told(&world, &["chat", "hello"]);
    world.file(CONFIG, "").file("project/prowess.toml", "[skills]\nmax_loded = 20\n");
    all.push_str(&told(&world, &["chat", "--trust-project", "hello"]));
    assert_snapshot!(all);
}

#[test]
fn a_key_that_is_missing_or_refused() {
    let model =
        FakeModel::start(vec![Answer::status(401, "Incorrect API key provided"), Answer::status(401, "no")]);
    let world = world(&model);
    let mut all = told(&world, &["chat", "--model", "openai:gpt-5.1", "hello"]);
    configure(&world, &model.url(), "key_env = \"FAKE_KEY\"\n");
    all.push_str(&told(&world, &["chat", "hello"]));
    let mut command = world.command(&["chat", "hello"]);
    let output = command.env("FAKE_KEY", "hush").output().unwrap();
    all.push_str(&stable(&world, &world.told(&output)));
    assert!(!all.contains("hush"));
    assert_snapshot!(all);
    assert_eq!(model.requests().len(), 1);
}

#[test]
fn an_endpoint_that_is_not_there() {
    let world = World::new();
    // An address at which nobody listens any more.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    configure(&world, &format!("http://127.0.0.1:{port}/v1"), "");
    let refused = told(&world, &["chat", "hello"]);
    assert_snapshot!(refused.replace(&port.to_string(), "[PORT]"));
}

#[test]
fn a_database_that_is_damaged_is_left_alone() {
    let world = World::new();
    let path = format!("{STATE}/threads.db");
    world.file(&path, &"this is no database\n".repeat(500));
    assert_snapshot!(told(&world, &["chat", "hello"]));
    let after = std::fs::read_to_string(world.path(&path)).unwrap();
    assert_eq!(after, "this is no database\n".repeat(500));
}

#[test]
fn a_state_directory_that_cannot_be_written() {
    let model = FakeModel::start(vec![Answer::text("Hello.")]);
    let world = world(&model);
    std::fs::create_dir_all(world.path(STATE)).unwrap();
    // Root may write everywhere but in a file system that is read-only.
    let state = world.path(STATE);
    let state = state.to_str().unwrap();
    let mut command = wrapped(&world, &["--ro-bind", state, state]);
    let output = command.args([env!("CARGO_BIN_EXE_prowess"), "chat", "hello"]).output().unwrap();
    assert_snapshot!(stable(&world, &world.told(&output)));
    world.file("home/.local/blocked", "");
    let mut command = world.command(&["chat", "hello"]);
    let output = command.env("XDG_STATE_HOME", world.path("home/.local/blocked")).output().unwrap();
    assert_snapshot!(stable(&world, &world.told(&output)));
    assert_eq!(model.requests().len(), 0);
}

#[test]
fn a_disk_that_is_full() {
    let model = FakeModel::start(vec![Answer::text("Hello."), Answer::text("Of course.")]);
    let world = world(&model);
    std::fs::create_dir_all(world.path(STATE)).unwrap();
    let state = world.path(STATE);
    let state = state.to_str().unwrap();
    let script = "prowess=$0; cd $HOME/../project; $prowess chat hello; head -c 9000000 /dev/zero > $1/filler 2> /dev/null; \
        $prowess chat --resume last 'is it full?'; echo code $?; rm $1/filler; $prowess chat --resume last 'are you there?'";
    // A file system of 4 MiB that only this process sees.
    let mut command = wrapped(&world, &["--size", "4194304", "--tmpfs", state]);
    let program = env!("CARGO_BIN_EXE_prowess");
    let output = command.args(["sh", "-c", script, program, state]).output().unwrap();
    assert_snapshot!(stable(&world, &world.told(&output)));
    let said = all(&model.requests()[1]);
    assert!(said.contains("hello") && said.contains("Hello."), "what was stored is there: {said}");
}

/// A command in other mounts, in the world.
fn wrapped(world: &World, mounts: &[&str]) -> Command {
    let mut command = Command::new("bwrap");
    command.args(["--dev-bind", "/", "/"]).args(mounts).arg("--");
    command.current_dir(world.path("project")).env_clear().env("HOME", world.path("home"));
    command.env("PATH", std::env::var_os("PATH").unwrap()).stdin(std::process::Stdio::null());
    command
}

#[test]
fn files_beside_threads_are_for_this_user_alone() {
    let model = FakeModel::start(vec![Answer::text("Hello.")]);
    let world = world(&model);
    assert_eq!(world.output(&["chat", "hello"]).status.code(), Some(0));
    for name in ["threads.db", "threads"] {
        let mode = std::fs::metadata(world.path(STATE).join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name}: {mode:o}");
    }
}

#[test]
fn no_home_is_no_place_for_threads() {
    let world = World::new();
    let mut command = world.command(&["chat", "hello"]);
    let output = command.env_remove("HOME").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_snapshot!(world.told(&output));
}

#[test]
fn a_disk_that_fills_up_in_a_conversation() {
    let model = FakeModel::start(vec![
        Answer::text("Hello."),
        Answer::text(&("x".repeat(3 << 20) + " end")),
        Answer::text("In few words."),
    ]);
    let world = world(&model);
    std::fs::create_dir_all(world.path(STATE)).unwrap();
    let state = world.path(STATE);
    // A file system of 2 MiB that only this process sees.
    let mut command = wrapped(&world, &["--size", "2097152", "--tmpfs", state.to_str().unwrap()]);
    command.args([env!("CARGO_BIN_EXE_prowess"), "chat"]).env("TERM", "xterm-256color");
    let mut pty = Pty::run(command, 300, 20);
    at_prompt(&pty);
    pty.type_line("hello");
    pty.wait_for("Hello.");
    at_prompt(&pty);
    pty.type_line("talk");
    pty.wait_for("make room");
    at_prompt(&pty);
    pty.type_line("shorter");
    pty.wait_for("In few words.");
    at_prompt(&pty);
    let screen = stable(&world, &pty.screen());
    assert_snapshot!(screen.split("end\n").last().unwrap());
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0));
}

#[test]
fn threads_that_others_may_write_are_not_used() {
    use std::os::unix::fs::PermissionsExt as _;
    let model = FakeModel::start(vec![Answer::text("Hello.")]);
    let world = world(&model);
    world.stdout(&["chat", "hello"]);
    let file = world.path("home/.local/state/prowess/threads.db");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    let told = told(&world, &["chat", "again"]);
    assert!(
        told.starts_with("exit 2")
            && told.contains("others can write to")
            && told.contains("run `chmod 600` on it"),
        "{told}"
    );
    std::fs::remove_file(&file).unwrap();
    // Opening it would wait for somebody to write to it.
    std::process::Command::new("mkfifo").arg(&file).status().unwrap();
    let told = super::told(&world, &["chat", "again"]);
    assert!(told.starts_with("exit 2") && told.contains("is not a file: remove it"), "{told}");
}

/// A conversation whose thread cannot be opened again ends: it does not go on in one that nobody keeps.
#[test]
fn a_thread_that_cannot_be_opened_again_ends_the_program() {
    let model = FakeModel::start(vec![Answer::text("Hello.")]);
    let world = world(&model);
    let mut pty = begun(&world, &[], 80, 30);
    pty.type_line("hello");
    pty.wait_for("Hello.");
    at_prompt(&pty);
    let beside = world.path("home/.local/state/prowess/threads");
    std::fs::remove_dir_all(&beside).unwrap();
    std::fs::write(&beside, "").unwrap();
    pty.type_line("/model offline");
    assert_eq!(pty.wait(), Some(2));
    assert!(pty.screen().contains("cannot create"), "{}", pty.screen());
}
