//! Cases 46 to 51 and 63: processes, memory and space.

use std::time::{Duration, Instant};

use prowess_workspace::{Exit, Level};

use crate::home::{Home, processes_with, text, unique};
use crate::modes::in_both_modes;

in_both_modes!(
    case_46_fork_bomb,
    case_46_processes_are_counted_for_each_command,
    case_47_memory_bomb,
    case_48_disk_fill_by_bytes,
    case_48_disk_fill_by_entries,
    case_48_disk_fill_by_files_without_names,
    case_48_disk_fill_where_nobody_can_look,
    case_48_disk_fill_elsewhere,
    case_48_a_large_file_stops_its_writer,
    case_49_a_grandchild_that_ignores_term,
    case_49_grace_is_used_by_who_listens,
    case_50_a_daemon_that_holds_stdout,
    case_51_a_daemon_left_behind,
    case_63_killing_the_parent,
);

async fn case_46_fork_bomb() {
    let home = Home::new();
    let mark = unique("bomb");
    let mut command = home.command(&format!(": {mark}; b() {{ b | b & }}; b; sleep 100"));
    command.limits.timeout = Duration::from_secs(2);
    let started = Instant::now();
    let finished = home.finish(command).await;
    assert_eq!(finished.exit, Exit::TimedOut, "{}", text(&finished));
    assert!(started.elapsed() < Duration::from_secs(30));
    assert_eq!(processes_with(&mark), [""; 0].map(std::path::PathBuf::from));
}

async fn case_46_processes_are_counted_for_each_command() {
    let home = Home::new();
    // Two at once do not affect each other.
    let count = r#"perl -e 'while (1) { my $p = fork; last if !defined $p; if (!$p) { sleep 60; exit } $n++ } print $n; sleep 1'"#;
    let mut command = home.command(count);
    command.limits.processes = 40;
    let (one, two) = tokio::join!(home.finish(command.clone()), home.finish(command));
    for finished in [one, two] {
        let started: u64 = text(&finished).parse().unwrap();
        assert!((30..40).contains(&started), "{started}");
    }
}

async fn case_47_memory_bomb() {
    let home = Home::new();
    let mut command = home
        .command(r#"perl -e 'while (1) { push @a, "x" x (1 << 20); select undef, undef, undef, 0.003 }'"#);
    command.limits.memory = 128 << 20;
    let finished = home.finish(command).await;
    assert_eq!(finished.exit, Exit::OutOfMemory, "{}", text(&finished));
    assert_eq!(finished.sandbox.level, Level::Bwrap);
    // Later commands are not affected.
    assert_eq!(home.says("echo alive").await, "alive\n");
    // A command that allocates faster than the checks fails too.
    let mut command = home.command(r#"perl -e '$x = "x" x (3 << 30); print "had it"'"#);
    command.limits.memory = 128 << 20;
    let finished = home.finish(command).await;
    assert!(finished.exit != Exit::Code(0) && !text(&finished).contains("had it"), "{finished:?}");
}

async fn case_48_disk_fill_by_bytes() {
    let home = Home::new();
    let mut command =
        home.command("while :; do i=$((i+1)); head -c 2M /dev/zero > $OUTPUT_DIR/f$i; sleep 0.01; done");
    command.limits.workspace_bytes = 20 << 20;
    let finished = home.finish(command).await;
    assert_eq!(finished.exit, Exit::WorkspaceFull, "{}", text(&finished));
    assert!(!finished.warnings.is_empty());
}

async fn case_48_disk_fill_by_entries() {
    let home = Home::new();
    let mut command = home.command("while :; do i=$((i+1)); mkdir $i; done");
    command.limits.workspace_entries = 100;
    let finished = home.finish(command).await;
    assert_eq!(finished.exit, Exit::WorkspaceFull, "{}", text(&finished));
}

async fn case_48_disk_fill_by_files_without_names() {
    let home = Home::new();
    let mut command = home.command("exec 8>hidden; rm hidden; head -c 40M /dev/zero >&8; sleep 100");
    command.limits.workspace_bytes = 20 << 20;
    let finished = home.finish(command).await;
    assert_eq!(finished.exit, Exit::WorkspaceFull, "{}", text(&finished));
}

async fn case_48_disk_fill_where_nobody_can_look() {
    for mode in ["000", "111", "444"] {
        let home = Home::new();
        let mut command = home.command(&format!(
            "mkdir hidden; exec 8>hidden/large; chmod {mode} hidden; head -c 40M /dev/zero >&8; sleep 100"
        ));
        command.limits.workspace_bytes = 20 << 20;
        let finished = home.finish(command).await;
        assert_eq!(finished.exit, Exit::WorkspaceFull, "{mode}: {}", text(&finished));
        let hidden = home.path().join("work/hidden");
        std::fs::set_permissions(hidden, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    }
}

async fn case_48_disk_fill_elsewhere() {
    let home = Home::new();
    let mut command = home.command(
        "for at in /tmp/x /dev/shm/x /tmp/home/x; do head -c 50M /dev/zero > $at && echo filled; rm -f $at; done; \
         touch /x || touch /dev/x || touch /work/x || touch /etc/x || echo closed",
    );
    command.limits.temporary_bytes = 8 << 20;
    let said = text(&home.finish(command).await);
    assert!(!said.contains("filled") && said.contains("closed"), "{said}");
    assert!(said.contains("No space left"), "{said}");
}

async fn case_48_a_large_file_stops_its_writer() {
    let home = Home::new();
    let mut command = home.command("exec head -c 5M /dev/zero > large");
    command.limits.file_size = 1 << 20;
    let finished = home.finish(command).await;
    assert_eq!(finished.exit, Exit::Signal(25), "{}", text(&finished));
    assert_eq!(home.path().join("work/large").metadata().unwrap().len(), 1 << 20);
}

async fn case_49_a_grandchild_that_ignores_term() {
    let home = Home::new();
    let mark = unique("deaf");
    let line = format!(
        "trap '' TERM; (trap '' TERM; bash -c 'trap \"\" TERM; exec -a {mark} sleep 600') & wait; sleep 600"
    );
    let mut command = home.command(&line);
    command.limits.timeout = Duration::from_millis(800);
    let started = Instant::now();
    let finished = home.finish(command).await;
    assert_eq!(finished.exit, Exit::TimedOut);
    assert!(started.elapsed() < Duration::from_secs(20));
    assert!(processes_with(&mark).is_empty());
}

async fn case_49_grace_is_used_by_who_listens() {
    let home = Home::new();
    let mut command = home.command("trap 'echo bye; exit 0' TERM; while :; do sleep 0.05; done");
    command.limits.timeout = Duration::from_secs(1);
    command.limits.grace = Duration::from_secs(20);
    let started = Instant::now();
    let finished = home.finish(command).await;
    assert_eq!((finished.exit, &finished.stdout.head[..]), (Exit::TimedOut, &b"bye\n"[..]));
    assert!(started.elapsed() < Duration::from_secs(15), "it did not have to wait for the end of its grace");
}

async fn case_50_a_daemon_that_holds_stdout() {
    let home = Home::new();
    let mark = unique("holder");
    let started = Instant::now();
    let finished = home
        .run(&format!("setsid bash -c 'trap \"\" HUP TERM; exec -a {mark} sleep 600' & sleep 0.1; echo done"))
        .await;
    assert_eq!((finished.exit, text(&finished).as_str()), (Exit::Code(0), "done\n"));
    assert!(started.elapsed() < Duration::from_secs(20));
    assert!(processes_with(&mark).is_empty());
}

async fn case_51_a_daemon_left_behind() {
    let home = Home::new();
    let mark = unique("daemon");
    let line = format!(
        "perl -e 'use POSIX; exit if fork; POSIX::setsid(); exit if fork; close STDOUT; close STDERR; \
         open STDIN, q(/dev/null); exec {{q(sleep)}} q({mark}), 600'; sleep 0.1; echo done"
    );
    assert_eq!(home.says(&line).await, "done\n");
    assert!(processes_with(&mark).is_empty());
}

async fn case_63_killing_the_parent() {
    let home = Home::new();
    let finished =
        home.run("kill -9 1; kill -9 $PPID; kill -STOP 1; echo here; kill -9 -1; echo still").await;
    assert!(text(&finished).contains("here"), "{finished:?}");
    // It can reach only itself; this process and the next command live.
    assert_eq!(home.says("echo next").await, "next\n");
    assert_eq!(
        home.says(&format!("kill -0 {} 2>/dev/null || echo unknown", std::process::id())).await,
        "unknown\n"
    );
}
