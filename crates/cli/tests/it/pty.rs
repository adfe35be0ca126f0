//! The binary in a terminal of its own: what a person types, and what is on the screen.

use std::io::{Read as _, Write as _};
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use pty_process::blocking::Command;

use crate::world::World;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(20);

/// `prowess` in a pseudo terminal. It is killed with the test.
pub(crate) struct Pty {
    terminal: Arc<pty_process::blocking::Pty>,
    child: Child,
    seen: Arc<(Mutex<Seen>, Condvar)>,
}

struct Seen {
    parser: vt100::Parser,
    /// All bytes that were written to the terminal, by the program and by the terminal itself, which echoes.
    written: Vec<u8>,
    /// Whether nobody writes to the terminal any more.
    is_closed: bool,
}

impl Seen {
    /// The rows of the screen without blanks at their ends, and without empty rows at the end.
    fn screen(&self) -> String {
        let columns = self.parser.screen().size().1.get();
        let rows: Vec<String> =
            self.parser.screen().rows(0, columns).map(|row| row.trim_end().to_owned()).collect();
        rows.join("\n").trim_end().to_owned()
    }
}

impl Pty {
    /// Runs `prowess` in the world's project, on a screen of this size.
    pub(crate) fn start(world: &World, args: &[&str], columns: u16, rows: u16) -> Self {
        let mut command = world.command(args);
        command.env("TERM", "xterm-256color");
        Self::run(command, columns, rows)
    }

    /// Runs a command that is ready, on a screen of this size.
    pub(crate) fn run(command: std::process::Command, columns: u16, rows: u16) -> Self {
        let (terminal, other) = pty_process::blocking::open().unwrap();
        terminal.resize(pty_process::Size::new(rows, columns)).unwrap();
        let child = Command::from(command).spawn(other).unwrap();
        let terminal = Arc::new(terminal);
        let parser = vt100::Parser::new(rows.try_into().unwrap(), columns.try_into().unwrap(), 10_000);
        let seen =
            Arc::new((Mutex::new(Seen { parser, written: Vec::new(), is_closed: false }), Condvar::new()));
        let (from, to) = (Arc::clone(&terminal), Arc::clone(&seen));
        std::thread::spawn(move || {
            let (seen, changed) = &*to;
            let mut bytes = [0; 4096];
            // Once nobody has the other end, reading is an error.
            while let Ok(read @ 1..) = (&*from).read(&mut bytes) {
                let mut seen = seen.lock().unwrap();
                seen.parser.process(&bytes[..read]);
                seen.written.extend_from_slice(&bytes[..read]);
                drop(seen);
                changed.notify_all();
            }
            seen.lock().unwrap().is_closed = true;
            changed.notify_all();
        });
        Self { terminal, child, seen }
    }

    /// Types a line and the return key.
    pub(crate) fn type_line(&self, text: &str) {
        self.press(format!("{text}\r"));
    }

    /// Presses keys: `\x03` is Ctrl-C, `\x04` Ctrl-D, `\t` completion.
    pub(crate) fn press(&self, keys: impl AsRef<[u8]>) {
        (&*self.terminal).write_all(keys.as_ref()).unwrap();
    }

    /// Types a line where the program reads none yet, and waits until the terminal has taken it in.
    pub(crate) fn type_ahead(&self, text: &str) {
        let before = self.seen.0.lock().unwrap().written.len();
        self.type_line(text);
        let is_echoed = |seen: &Seen| {
            let new = &seen.written[before..];
            new.windows(text.len()).any(|window| window == text.as_bytes())
        };
        let seen = self.wait_seen(is_echoed);
        assert!(is_echoed(&seen), "waited for the echo of {text:?} on\n{}", framed(&seen.screen()));
    }

    /// Waits until a text is on the screen, and gives the screen. A line that the screen wrapped counts as one.
    pub(crate) fn wait_for(&self, text: &str) -> String {
        self.wait_until(&format!("{text:?} to come"), |screen| screen.contains(text))
    }

    /// Waits until a text has gone from the screen, and gives the screen.
    pub(crate) fn wait_gone(&self, text: &str) -> String {
        self.wait_until(&format!("{text:?} to go"), |screen| !screen.contains(text))
    }

    /// Waits until the screen is as it should be.
    pub(crate) fn wait_until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let is_shown = |seen: &Seen| is_so(&seen.parser.screen().contents()) || is_so(&seen.screen());
        let seen = self.wait_seen(|seen| is_shown(seen) || seen.is_closed);
        let (is_shown, screen) = (is_shown(&seen), seen.screen());
        drop(seen);
        assert!(is_shown, "waited for {what} on\n{}", framed(&screen));
        screen
    }

    fn wait_seen(&self, is_enough: impl Fn(&Seen) -> bool) -> MutexGuard<'_, Seen> {
        let (seen, changed) = &*self.seen;
        changed.wait_timeout_while(seen.lock().unwrap(), PATIENCE, |seen| !is_enough(seen)).unwrap().0
    }

    /// What is on the screen: rows without blanks at their ends, and without empty rows at the end.
    pub(crate) fn screen(&self) -> String {
        self.seen.0.lock().unwrap().screen()
    }

    /// The screen and all that was scrolled off it.
    pub(crate) fn everything(&self) -> String {
        let mut seen = self.seen.0.lock().unwrap();
        let columns = seen.parser.screen().size().1.get();
        let mut rows = Vec::new();
        for back in (1..=seen.parser.screen().scrollback_len()).rev() {
            seen.parser.screen_mut().set_scrollback(back);
            rows.extend(seen.parser.screen().rows(0, columns).next().map(|row| row.trim_end().to_owned()));
        }
        seen.parser.screen_mut().set_scrollback(0);
        rows.push(seen.screen());
        rows.join("\n")
    }

    /// Gives the terminal another size.
    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        let mut seen = self.seen.0.lock().unwrap();
        seen.parser.set_size(rows.try_into().unwrap(), columns.try_into().unwrap());
        self.terminal.resize(pty_process::Size::new(rows, columns)).unwrap();
    }

    /// The most memory that the program has had so far, in KiB.
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// The program's process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the program, without a chance to tidy up.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the end of the program and of all that writes to the terminal; gives its exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        let is_closed = self.wait_seen(|seen| seen.is_closed).is_closed;
        assert!(is_closed, "waited for the end on\n{}", framed(&self.screen()));
        self.child.wait().unwrap().code()
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        // It has ended, or a test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn framed(screen: &str) -> String {
    screen.lines().map(|line| format!("  | {line}\n")).collect()
}

#[test]
fn a_list_is_as_wide_as_the_screen() {
    let world = World::new();
    world.skill(
        "home/.prowess/skills",
        "tides",
        "Notes when the tide is high. Use it whenever somebody plans a walk.",
    );
    let mut pty = Pty::start(&world, &["list"], 50, 8);
    assert_eq!(pty.wait(), Some(0));
    insta::assert_snapshot!(pty.screen(), @r"
    NAME   SOURCE  DESCRIPTION
    tides  user    Notes when the tide is high. Use i…

    1 skill
    ");
}

#[test]
fn a_session_is_typed_in_and_left() {
    let world = World::new();
    world.skill("home/.prowess/skills", "tides", "Notes when the tide is high.");
    let mut pty = Pty::start(&world, &["session"], 80, 100);
    let at_prompt = |pty: &Pty| {
        pty.wait_until("the prompt", |screen| screen.lines().last().is_some_and(|row| row.trim_end() == ">"))
    };
    at_prompt(&pty);
    pty.type_line("load tides");
    pty.wait_for("Do it.");
    at_prompt(&pty);
    pty.type_line("unload tides");
    pty.wait_for("'tides' has been unloaded");
    at_prompt(&pty);
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0), "{}", pty.everything());
}

#[test]
fn ctrl_c_comes_through_the_terminal() {
    let world = World::new();
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "trap 'echo stopped; exit 7' INT; echo ready; while :; do read line; done"]);
    command.current_dir(world.path("project"));
    let mut pty = Pty::run(command, 40, 5);
    pty.wait_for("ready");
    pty.press("\x03");
    pty.wait_for("stopped");
    assert_eq!(pty.wait(), Some(7));
}

#[test]
fn programs_learn_the_size_of_the_screen() {
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "stty size; read line; printf '\\033[H\\033[J'; stty size; seq 9; read line"]);
    let mut pty = Pty::run(command, 40, 5);
    pty.wait_for("5 40");
    pty.resize(30, 4);
    pty.type_line("");
    pty.wait_gone("5 40");
    pty.wait_until("the last rows", |screen| screen == "7\n8\n9");
    assert!(pty.everything().contains("4 30\n1\n2\n3\n"), "{}", pty.everything());
    pty.type_line("");
    assert_eq!(pty.wait(), Some(0));
}

#[test]
fn a_program_that_is_killed_has_no_code() {
    let world = World::new();
    let mut pty = Pty::start(&world, &["session"], 40, 10);
    pty.wait_for(">");
    pty.kill();
    assert_eq!(pty.wait(), None);
}
