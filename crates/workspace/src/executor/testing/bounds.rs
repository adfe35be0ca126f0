//! Tests of limits and of the network.

use std::time::Duration;

use super::{Trial, behaviours, err, out};
use crate::command::Exit;

behaviours!(
    memory_is_limited,
    processes_are_limited,
    a_fork_bomb_ends,
    open_files_are_limited,
    file_size_is_limited,
    temporary_space_is_limited,
    the_next_run_is_not_affected,
    no_core_is_dumped,
    there_is_no_network,
    names_are_not_resolved,
    host_processes_cannot_be_seen,
    privileges_cannot_be_gained,
);

async fn memory_is_limited(trial: Trial) {
    // bash doubles a string and needs nothing else.
    let mut command = trial.command("x=0123456789abcdef; while :; do x=$x$x; sleep 0.05; done");
    command.limits.memory = 128 << 20;
    let finished = trial.finish(command).await;
    assert!(
        finished.exit == Exit::OutOfMemory
            || finished.exit == Exit::Code(2)
            || finished.exit == Exit::Code(1),
        "{finished:?}"
    );
}

async fn processes_are_limited(trial: Trial) {
    let mut command = trial.command("for i in $(seq 200); do sleep 600 & done; echo all");
    command.limits.processes = 32;
    command.limits.timeout = Duration::from_secs(5);
    let finished = trial.finish(command).await;
    assert!(err(&finished).contains("fork") || finished.exit == Exit::TimedOut, "{finished:?}");
    assert!(
        !out(&finished).contains("all") || err(&finished).contains("Resource temporarily unavailable"),
        "{finished:?}"
    );
}

async fn a_fork_bomb_ends(trial: Trial) {
    let mut command = trial.command("b() { b | b & }; b; sleep 600");
    command.limits.timeout = Duration::from_secs(2);
    assert_eq!(trial.finish(command).await.exit, Exit::TimedOut);
}

async fn open_files_are_limited(trial: Trial) {
    let mut command = trial.command("ulimit -n");
    command.limits.open_files = 77;
    assert_eq!(out(&trial.finish(command).await), "77\n");
}

async fn file_size_is_limited(trial: Trial) {
    let mut command = trial.command("head -c 3000000 /dev/zero > big");
    command.limits.file_size = 1 << 20;
    assert_ne!(trial.finish(command).await.exit, Exit::Code(0));
    assert_eq!(std::fs::metadata(trial.path("work/big")).map_or(0, |metadata| metadata.len()), 1 << 20);
}

async fn temporary_space_is_limited(trial: Trial) {
    let mut command = trial.command("head -c 9000000 /dev/zero > /tmp/big");
    command.limits.temporary_bytes = 4 << 20;
    let finished = trial.finish(command).await;
    assert!(finished.exit == Exit::Code(1) && err(&finished).contains("No space left"), "{finished:?}");
}

async fn the_next_run_is_not_affected(trial: Trial) {
    let mut command = trial.command("x=0123456789abcdef; while :; do x=$x$x; sleep 0.05; done");
    command.limits.memory = 128 << 20;
    trial.finish(command).await;
    assert_eq!(trial.says("x=$(head -c 1000000 /dev/zero | tr '\\0' x); echo ${#x}").await, "1000000\n");
}

async fn no_core_is_dumped(trial: Trial) {
    assert_eq!(trial.says("ulimit -c; bash -c 'kill -SEGV $$' 2>/dev/null; ls").await, "0\n");
}

async fn there_is_no_network(trial: Trial) {
    let line = "for to in 127.0.0.1/22 1.1.1.1/53 ::1/22; do (: > /dev/tcp/$to) 2>/dev/null && echo $to; done; echo done";
    assert_eq!(trial.says(line).await, "done\n");
}

async fn names_are_not_resolved(trial: Trial) {
    assert_eq!(trial.says("(: > /dev/tcp/example.com/80) 2>/dev/null || echo none").await, "none\n");
}

async fn host_processes_cannot_be_seen(trial: Trial) {
    let own = std::process::id();
    let line = format!(
        "grep -l prowess /proc/*/comm 2>/dev/null; kill -0 {own} 2>/dev/null && [ {own} -gt 500 ] && echo reached; ls -d /proc/[0-9]* | wc -l"
    );
    let count: u32 = trial.says(&line).await.trim().parse().unwrap_or(u32::MAX);
    assert!(count < 12, "{count}");
}

async fn privileges_cannot_be_gained(trial: Trial) {
    assert_eq!(trial.says("grep NoNewPrivs /proc/self/status | cut -f2").await, "1\n");
}
