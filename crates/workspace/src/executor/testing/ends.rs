//! Tests of how commands end.

use std::time::{Duration, Instant};

use super::{RecordedOutput, Trial, behaviours, err, out};
use crate::command::{Exit, Stop};
use crate::executor::{NoSink, OutputSink, Stream};

behaviours!(
    success_is_zero,
    codes_are_reported,
    a_signal_is_reported,
    an_own_signal_can_be_handled,
    an_unknown_program_is_127,
    a_file_that_is_no_program_is_126,
    an_empty_command_succeeds,
    a_syntax_error_is_reported,
    a_pipe_ends_with_its_last,
    pipefail_can_be_set,
    a_timeout_ends_it,
    a_timeout_keeps_what_was_written,
    grace_lets_it_finish,
    without_grace_it_is_killed,
    a_tree_is_killed,
    background_work_ends_with_the_command,
    the_duration_is_reported,
    dropping_a_run_ends_it,
    a_run_follows_a_dropped_one,
    a_missing_directory_is_refused,
    a_directory_outside_is_refused,
    a_nul_in_the_command_is_refused,
    an_endless_command_line_is_refused,
    a_relative_shell_is_refused,
    another_shell_can_be_used,
    the_sandbox_level_is_reported,
    a_command_can_be_stopped,
    what_was_stopped_before_it_began_ends_at_once,
);

async fn success_is_zero(trial: Trial) {
    assert_eq!(trial.run("true").await.exit, Exit::Code(0));
}

async fn codes_are_reported(trial: Trial) {
    for code in [1, 2, 42, 127, 255] {
        assert_eq!(trial.run(&format!("exit {code}")).await.exit, Exit::Code(code));
    }
}

async fn a_signal_is_reported(trial: Trial) {
    for signal in [9, 15, 11] {
        assert_eq!(trial.run(&format!("kill -{signal} $$")).await.exit, Exit::Signal(signal));
    }
}

async fn an_own_signal_can_be_handled(trial: Trial) {
    let finished = trial.run("trap 'echo caught; exit 5' USR1; kill -USR1 $$; echo not reached").await;
    assert_eq!((finished.exit, out(&finished).as_str()), (Exit::Code(5), "caught\n"));
}

async fn an_unknown_program_is_127(trial: Trial) {
    let finished = trial.run("no-such-program").await;
    assert_eq!(finished.exit, Exit::Code(127));
    assert!(err(&finished).contains("no-such-program"));
}

async fn a_file_that_is_no_program_is_126(trial: Trial) {
    assert_eq!(trial.run("echo text > file; ./file").await.exit, Exit::Code(126));
}

async fn an_empty_command_succeeds(trial: Trial) {
    assert_eq!(trial.run("").await.exit, Exit::Code(0));
}

async fn a_syntax_error_is_reported(trial: Trial) {
    let finished = trial.run("if then").await;
    assert!(
        matches!(finished.exit, Exit::Code(1 | 2)) && err(&finished).contains("syntax error"),
        "{finished:?}"
    );
}

async fn a_pipe_ends_with_its_last(trial: Trial) {
    assert_eq!(trial.run("false | true").await.exit, Exit::Code(0));
}

async fn pipefail_can_be_set(trial: Trial) {
    assert_eq!(trial.run("set -o pipefail; false | true").await.exit, Exit::Code(1));
}

async fn a_timeout_ends_it(trial: Trial) {
    let mut command = trial.command("sleep 600");
    command.limits.timeout = Duration::from_millis(500);
    let started = Instant::now();
    assert_eq!(trial.finish(command).await.exit, Exit::TimedOut);
    assert!(started.elapsed() < Duration::from_secs(30));
}

async fn a_timeout_keeps_what_was_written(trial: Trial) {
    let mut command = trial.command("echo before; sleep 600; echo after");
    command.limits.timeout = Duration::from_secs(2);
    assert_eq!(out(&trial.finish(command).await), "before\n");
}

async fn grace_lets_it_finish(trial: Trial) {
    let mut command =
        trial.command("trap 'echo saved > $OUTPUT_DIR/state; exit 0' TERM; while :; do sleep 0.05; done");
    command.limits.timeout = Duration::from_secs(2);
    command.limits.grace = Duration::from_secs(20);
    assert_eq!(trial.finish(command).await.exit, Exit::TimedOut);
    assert_eq!(super::read(&trial.path("out/state")), "saved\n");
}

async fn without_grace_it_is_killed(trial: Trial) {
    let mut command = trial.command("trap '' TERM; while :; do sleep 0.05; done");
    command.limits.timeout = Duration::from_millis(500);
    let started = Instant::now();
    assert_eq!(trial.finish(command).await.exit, Exit::TimedOut);
    assert!(started.elapsed() < Duration::from_secs(30));
}

/// A command line in which a detached process makes a file grow.
const GROWS: &str = "(setsid bash -c 'trap \"\" TERM HUP; while :; do echo x >> $WORK_DIR/grows; sleep 0.02; done' &) ; \
                     while [ ! -s $WORK_DIR/grows ]; do sleep 0.01; done";

/// Whether the file has stopped growing, some time after its writer should be dead.
async fn has_stopped(trial: &Trial) -> bool {
    let size = || std::fs::metadata(trial.path("work/grows")).map_or(0, |metadata| metadata.len());
    let before = size();
    tokio::time::sleep(Duration::from_millis(300)).await;
    before > 0 && size() == before
}

async fn a_tree_is_killed(trial: Trial) {
    let mut command = trial.command(&format!("{GROWS}; sleep 600"));
    command.limits.timeout = Duration::from_secs(2);
    assert_eq!(trial.finish(command).await.exit, Exit::TimedOut);
    assert!(has_stopped(&trial).await);
}

async fn background_work_ends_with_the_command(trial: Trial) {
    let started = Instant::now();
    assert_eq!(trial.run(GROWS).await.exit, Exit::Code(0));
    assert!(started.elapsed() < Duration::from_secs(30));
    assert!(has_stopped(&trial).await);
}

async fn the_duration_is_reported(trial: Trial) {
    let finished = trial.run("sleep 0.3").await;
    assert!(finished.duration >= Duration::from_millis(300) && finished.duration < Duration::from_secs(30));
}

async fn dropping_a_run_ends_it(trial: Trial) {
    let grows = trial.path("work/grows");
    let command = trial.command(&format!("{GROWS}; sleep 600"));
    let up = async {
        while std::fs::metadata(&grows).map_or(0, |metadata| metadata.len()) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        result = trial.executor.run(command, &NoSink) => panic!("it ended: {result:?}"),
        () = up => {}
    }
    assert!(has_stopped(&trial).await);
}

async fn a_run_follows_a_dropped_one(trial: Trial) {
    let dropped = tokio::time::timeout(Duration::from_millis(100), trial.run("sleep 600")).await;
    assert!(dropped.is_err());
    assert_eq!(trial.says("echo next").await, "next\n");
}

async fn a_missing_directory_is_refused(trial: Trial) {
    let mut command = trial.command("true");
    command.directory = "work/absent".to_owned();
    assert!(trial.refusal(command).await.contains("work/absent"));
}

async fn a_directory_outside_is_refused(trial: Trial) {
    for directory in ["..", "../..", "/etc", "work/../../x"] {
        let mut command = trial.command("true");
        command.directory = directory.to_owned();
        assert!(trial.refusal(command).await.contains(directory));
    }
}

async fn a_nul_in_the_command_is_refused(trial: Trial) {
    trial.refusal(trial.command("echo a\0b")).await;
}

async fn an_endless_command_line_is_refused(trial: Trial) {
    trial.refusal(trial.command(&format!("echo {}", "x".repeat(1 << 20)))).await;
}

async fn a_relative_shell_is_refused(trial: Trial) {
    let mut command = trial.command("true");
    command.shell = "work/sh".to_owned();
    trial.refusal(command).await;
}

async fn another_shell_can_be_used(trial: Trial) {
    let mut command = trial.command("echo ${BASH_VERSION:-none}");
    command.shell = "/bin/sh".to_owned();
    assert!(trial.finish(command).await.exit == Exit::Code(0));
}

async fn the_sandbox_level_is_reported(trial: Trial) {
    let level = trial.run("true").await.sandbox.level;
    match trial.executor.probe().await {
        Ok(sandbox) => assert_eq!(sandbox.level, level),
        Err(error) => panic!("{error}"),
    }
}

async fn a_command_can_be_stopped(trial: Trial) {
    struct Stops(RecordedOutput, Stop);
    impl OutputSink for Stops {
        fn piece(&self, stream: Stream, bytes: &[u8]) {
            self.0.piece(stream, bytes);
            self.1.stop();
        }
    }
    let mut command = trial.command("echo begun; (trap '' TERM; setsid sleep 1000 &); sleep 1000; echo no");
    let stop = Stop::default();
    command.stop = stop.clone();
    let stops = Stops(RecordedOutput::default(), stop);
    let Ok(finished) = trial.executor.run(command, &stops).await else { panic!("it did not start") };
    assert_eq!((finished.exit, out(&finished).as_str()), (Exit::Cancelled, "begun\n"));
    assert!(finished.duration < Duration::from_secs(30));
}

async fn what_was_stopped_before_it_began_ends_at_once(trial: Trial) {
    let command = trial.command("sleep 1000");
    command.stop.stop();
    let exit = trial.finish(command).await.exit;
    assert_eq!(exit, Exit::Cancelled);
}
