//! Tests of commands in a terminal.

use std::fs::File;
use std::io::Write as _;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use rustix::pipe::{PipeFlags, pipe_with};

use super::{Trial, behaviours, out};
use crate::command::{Command, Exit, Finished, Input};
use crate::executor::{OutputSink, Stream};

behaviours!(
    without_one_there_is_no_terminal,
    a_terminal_is_all_three_streams,
    a_terminal_has_no_echo_and_plain_lines,
    questions_are_asked_in_a_terminal,
    a_terminal_can_be_opened_by_name,
    an_interrupt_can_be_typed,
    the_end_of_input_ends_the_input_of_a_terminal,
    the_end_of_input_ends_an_open_line,
    a_daemon_does_not_outlive_its_terminal,
);

/// Waits for each question in turn and types its answer.
struct TypedAnswers {
    turns: Mutex<Turns>,
}

struct Turns {
    seen: String,
    left: Vec<(&'static str, &'static [u8])>,
    to: Option<File>,
}

impl OutputSink for TypedAnswers {
    fn piece(&self, _: Stream, bytes: &[u8]) {
        let Ok(mut turns) = self.turns.lock() else { return };
        turns.seen.push_str(&String::from_utf8_lossy(bytes));
        if let Some((question, answer)) = turns.left.first().copied()
            && turns.seen.ends_with(question)
        {
            turns.left.remove(0);
            let written = turns.to.as_mut().map(|to| to.write_all(answer));
            assert!(matches!(written, Some(Ok(()))), "the answer cannot be written");
            if turns.left.is_empty() {
                turns.to = None;
            }
        }
    }
}

fn terminal(trial: &Trial, line: &str) -> Command {
    let mut command = trial.command(line);
    command.terminal = true;
    command
}

/// Runs a command in a terminal and answers its questions.
async fn talk(trial: &Trial, line: &str, turns: &[(&'static str, &'static [u8])]) -> Finished {
    let Ok((from, to)) = pipe_with(PipeFlags::CLOEXEC) else { panic!("no pipe") };
    let mut command = terminal(trial, line);
    command.stdin = Input::Pipe(from.into());
    command.limits.timeout = Duration::from_secs(20);
    let turns = Turns { seen: String::new(), left: turns.to_vec(), to: Some(to.into()) };
    let answers = TypedAnswers { turns: Mutex::new(turns) };
    match trial.executor.run(command, &answers).await {
        Ok(finished) => finished,
        Err(error) => panic!("it did not start: {error}"),
    }
}

async fn without_one_there_is_no_terminal(trial: Trial) {
    assert_eq!(trial.says("for n in 0 1 2; do [ -t $n ] && echo $n; done; echo none").await, "none\n");
}

async fn a_terminal_is_all_three_streams(trial: Trial) {
    let command = terminal(&trial, "for n in 0 1 2; do [ -t $n ] && echo $n; done; echo err >&2");
    let finished = trial.finish(command).await;
    assert_eq!((out(&finished).as_str(), finished.stderr.total), ("0\n1\n2\nerr\n", 0));
}

async fn a_terminal_has_no_echo_and_plain_lines(trial: Trial) {
    let mut command = terminal(&trial, "read -r a; read -r b; echo \"$b $a\"");
    command.stdin = Input::Bytes(Bytes::from_static(b"one\ntwo\n"));
    assert_eq!(out(&trial.finish(command).await), "two one\n");
}

async fn questions_are_asked_in_a_terminal(trial: Trial) {
    let line = "read -rp 'Name? ' name; read -rp 'Colour: ' colour; echo \"$name is $colour\"";
    let finished = talk(&trial, line, &[("Name? ", b"Ferris\n"), ("Colour: ", b"orange\n")]).await;
    assert_eq!(out(&finished), "Name? Colour: Ferris is orange\n");
}

async fn a_terminal_can_be_opened_by_name(trial: Trial) {
    let line = "printf 'secret: ' > /dev/tty; read -rs word < /dev/tty; echo \"${#word}\"";
    let finished = talk(&trial, line, &[("secret: ", b"twelve\n")]).await;
    assert_eq!(out(&finished), "secret: 6\n");
}

async fn an_interrupt_can_be_typed(trial: Trial) {
    let line = "trap 'echo caught; exit 3' INT; echo ready; while true; do sleep 0.1; done";
    let finished = talk(&trial, line, &[("ready\n", b"\x03")]).await;
    assert_eq!(finished.exit, Exit::Code(3), "{finished:?}");
    assert!(out(&finished).ends_with("caught\n"), "{finished:?}");
}

async fn the_end_of_input_ends_the_input_of_a_terminal(trial: Trial) {
    let finished = talk(&trial, "echo ready; cat; echo end", &[("ready\n", b"line\n")]).await;
    assert_eq!(out(&finished), "ready\nline\nend\n");
    assert_eq!(out(&trial.finish(terminal(&trial, "cat; echo end")).await), "end\n");
}

async fn the_end_of_input_ends_an_open_line(trial: Trial) {
    let mut command = terminal(&trial, "cat; echo end");
    command.stdin = Input::Bytes(Bytes::from_static(b"open"));
    command.limits.timeout = Duration::from_secs(20);
    assert_eq!(out(&trial.finish(command).await), "openend\n");
}

async fn a_daemon_does_not_outlive_its_terminal(trial: Trial) {
    let finished = talk(&trial, "setsid sleep 1000 & echo begun", &[]).await;
    assert_eq!((finished.exit, out(&finished).as_str()), (Exit::Code(0), "begun\n"));
    assert!(finished.duration < Duration::from_secs(15), "{:?}", finished.duration);
}
