//! `prowess chat` as a person drives it, with a model on this machine.

mod allowed_tools;
mod asking;
mod bombs;
mod broken;
mod checking;
mod compacting;
mod configured;
mod copying;
mod costs;
mod counting;
mod denied;
mod dialects;
mod evicted;
mod finishing;
mod forbidden;
mod given;
mod guarding;
mod hostile;
mod imitation;
mod kept_trust;
mod killed;
mod levels;
mod limits;
mod live_output;
mod long_conversation;
mod many_skills;
mod modes;
mod narrow;
mod one_tree;
mod other_project;
mod own_artifacts;
mod paths;
mod patience;
mod pipes;
mod prefix;
mod reaching;
mod rejecting;
mod reloading;
mod remembering;
mod restricting;
mod run_files;
mod seams;
mod secrets;
mod servers;
mod session;
mod skill_models;
mod small_window;
mod stopping;
mod sub_agents;
mod tools;
mod trusting;
mod typing;
mod windows;
mod workflows;
mod writable;

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::model::{Answer, FakeModel};
use crate::pty::Pty;
use crate::world::World;

/// The user and group of a plain user in these tests.
const PLAIN: u32 = 12_345;

const CONFIG: &str = "home/.config/prowess/prowess.toml";

/// A home in which this model answers, with a skill that has a script.
pub(crate) fn world(model: &FakeModel) -> World {
    let world = World::new();
    configure(&world, &model.url(), "");
    world
        .file(
            "home/.prowess/skills/tides/SKILL.md",
            "---\nname: tides\ndescription: Looks up tides. Use before boat trips.\n---\n\nRun scripts/tides.sh.\n",
        )
        .file("home/.prowess/skills/tides/scripts/tides.sh", "mkdir -p out; echo high > out/tide.txt; cat out/tide.txt\n");
    world
}

/// Names a model at an address, and whatever else is wanted.
fn configure(world: &World, url: &str, more: &str) {
    let text = format!(
        "[model]\nname = \"fake:m\"\ncontext_window = 100000\n[provider.fake]\napi = \"openai\"\nbase_url = \"{url}\"\n{more}"
    );
    world.file(CONFIG, &text);
}

/// A command as a plain user, to whom the whole world belongs.
fn as_plain_user(world: &World, ours: &Command) -> Command {
    // A plain user must be able to reach the program.
    let program = world.path("prowess");
    if !program.exists() {
        std::fs::copy(env!("CARGO_BIN_EXE_prowess"), &program).unwrap();
    }
    let owner = format!("{PLAIN}:{PLAIN}");
    assert!(Command::new("chown").args(["-R", &owner]).arg(world.path("")).status().unwrap().success());
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={PLAIN}"), &format!("--regid={PLAIN}"), "--clear-groups"]);
    command.arg("--").arg(&program).args(ours.get_args()).current_dir(world.path("project")).env_clear();
    command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

/// A conversation that has begun: the prompt is there.
pub(crate) fn begun(world: &World, args: &[&str], columns: u16, rows: u16) -> Pty {
    let args = [&["chat"], args].concat();
    let pty = Pty::start(world, &args, columns, rows);
    at_prompt(&pty);
    pty
}

/// Waits until the person is asked for a line.
pub(crate) fn at_prompt(pty: &Pty) -> String {
    pty.wait_until("the prompt", |screen| screen.lines().last() == Some(">"))
}

/// The model's answer to a call of `skill_run`.
fn runs(command: &str) -> Answer {
    Answer::call("skill_run", json!({"skill": "tides", "command": command}))
}

/// The text of the last message of a request.
fn last(request: &Value) -> String {
    let messages = request["messages"].as_array().unwrap();
    messages.last().unwrap()["content"].to_string()
}

/// Everything that a request says.
fn all(request: &Value) -> String {
    request["messages"].to_string()
}

/// Whether a request asks for a summary. Only the agent's own requests have tools.
fn is_summary(request: &Value) -> bool {
    request["tools"].as_array().is_none_or(Vec::is_empty)
}

/// One process for each line: all that it told on both streams.
fn said(world: &World, lines: &[String]) -> Vec<String> {
    let mut told = Vec::new();
    for line in lines {
        let resumed: &[&str] = if told.is_empty() { &[] } else { &["--resume", "last"] };
        told.push(world.run(&[&["chat", "--yes", "--trust-project"], resumed, &[line]].concat()));
    }
    told
}

/// What is shown, without what is different every time: paths, names of threads, times, tokens.
fn stable(world: &World, text: &str) -> String {
    let mut text = text.replace(&*world.path("").to_string_lossy(), "[WORLD]/");
    for (pattern, instead) in [
        (r"\d{4}-\d\d-\d\d-[a-z0-9]{6}", "[THREAD]"),
        (r"\d+\.\d s\b", "[TIME]"),
        (r#""duration_ms":\d+"#, r#""duration_ms":[TIME]"#),
        (r"process \d+", "process [PID]"),
        (r#"nonce="[0-9a-f]{16}""#, r#"nonce="[NONCE]""#),
        (r"workspaces/[0-9a-f]+\s*[0-9a-f]*/ws", "workspaces/[NAME]/ws"),
        (r", [\d.]+k? now", ", [N] now"),
        (r"\(\d[\d.]*k?\)", "([N])"),
        (r"[\d.]+k? of ([\d.]+k) tokens", "[N] of $1 tokens"),
        (r"\b[\d.]+k? tokens", "[N] tokens"),
        (r"\b\d+ %", "[N] %"),
        (r"(?m)^(  [A-Za-z _]+?) +[\d.]+k?(  |$)", "$1  [N]$2"),
    ] {
        text = regex::Regex::new(pattern).unwrap().replace_all(&text, instead).into_owned();
    }
    text
}

/// The name of the only thread, or of the one that changed last.
fn thread(world: &World) -> String {
    let output = world.output(&["chat", "/resume"]);
    let listed = String::from_utf8(output.stdout).unwrap();
    let first = listed.lines().next().unwrap();
    first.trim_start_matches(['+', ' ']).split(' ').next().unwrap().to_owned()
}

/// Whether a process has this word in its command line.
pub(crate) fn is_running(word: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|given| given == word.as_bytes())
    })
}

/// Waits, within bounds, for what no screen shows.
#[expect(clippy::disallowed_methods, reason = "a process that begins or ends in a sandbox tells nobody")]
pub(crate) fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "waited for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What a run says: its exit code, and its errors in one line each.
fn told(world: &World, args: &[&str]) -> String {
    stable(world, &world.run(args))
}
