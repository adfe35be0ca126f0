//! The security cases of containers; each test has the number of its case.

use std::time::{Duration, Instant};

use prowess_workspace::{Exit, Level};

use super::engine::{Home, containers_of, directories_of, options};
use crate::executable::{EXIT_OF_I386, executable};
use crate::home::{processes_with, text, unique};
use crate::modes::alone;

alone!(
    case_46_fork_bomb,
    case_49_a_grandchild_that_ignores_term,
    cases_50_and_51_daemons,
    case_63_killing_the_parent,
);

/// Checks that nothing of this process is left: in the engine, on the disk, or as a process.
fn nothing_left(mark: &str) {
    assert_eq!(processes_with(mark), [""; 0].map(std::path::PathBuf::from));
    let own = std::process::id();
    assert!(containers_of(own).is_empty() && directories_of(own).is_empty());
}

async fn case_46_fork_bomb() {
    let home = Home::new();
    let mark = unique("bomb");
    let mut command = home.command(&format!(": {mark}; b() {{ b | b & }}; b; sleep 100"));
    command.limits.timeout = Duration::from_secs(2);
    let started = Instant::now();
    let finished = home.finish(command).await;
    assert_eq!(finished.exit, Exit::TimedOut, "{}", text(&finished));
    assert!(started.elapsed() < Duration::from_secs(30));
    nothing_left(&mark);
}

#[tokio::test]
async fn case_46_processes_are_counted_for_each_command() {
    let home = Home::new();
    let count = r#"perl -e 'while (1) { my $p = fork; last if !defined $p; if (!$p) { sleep 60; exit } $n++ } print $n; sleep 1'"#;
    let mut command = home.command(count);
    command.limits.processes = 40;
    let (one, two) = tokio::join!(home.finish(command.clone()), home.finish(command));
    for finished in [one, two] {
        let started: u64 = text(&finished).parse().unwrap();
        assert!((30..40).contains(&started), "{started}");
    }
}

#[tokio::test]
async fn case_47_memory_bomb() {
    let home = Home::new();
    let bombs = [
        r#"perl -e 'while (1) { push @a, "x" x (1 << 20); select undef, undef, undef, 0.003 }'"#,
        r#"perl -e '$x = "x" x (3 << 30); print "had it"'"#,
    ];
    for bomb in bombs {
        let mut command = home.command(bomb);
        command.limits.memory = 128 << 20;
        let finished = home.finish(command).await;
        assert_eq!(finished.exit, Exit::OutOfMemory, "{}", text(&finished));
        assert_eq!(finished.sandbox.level, Level::Container);
    }
    // If only a part was killed, the rest is reported separately.
    let mut command = home.command(&format!("{}; exit 0", bombs[1]));
    command.limits.memory = 128 << 20;
    let finished = home.finish(command).await;
    assert_eq!(finished.exit, Exit::Code(0));
    assert!(
        finished.warnings.contains(&prowess_workspace::RunWarning::ProcessOutOfMemory),
        "{:?}",
        finished.warnings
    );
}

#[tokio::test]
async fn case_48_disk_fill() {
    let fills = [
        "while :; do i=$((i+1)); head -c 2M /dev/zero > $OUTPUT_DIR/f$i; sleep 0.01; done",
        "exec 8>hidden; rm hidden; head -c 40M /dev/zero >&8; sleep 100",
        "mkdir hidden; exec 8>hidden/large; chmod 000 hidden; head -c 40M /dev/zero >&8; sleep 100",
    ];
    for fill in fills {
        let home = Home::new();
        let mut command = home.command(fill);
        command.limits.workspace_bytes = 20 << 20;
        let finished = home.finish(command).await;
        assert_eq!(finished.exit, Exit::WorkspaceFull, "{fill}: {}", text(&finished));
        assert!(!finished.warnings.is_empty());
    }
}

#[tokio::test]
async fn case_48_disk_fill_elsewhere() {
    let home = Home::new();
    let mut command = home.command(
        "for at in /tmp/x /dev/shm/x /tmp/home/x; do head -c 50M /dev/zero > $at && echo filled; rm -f $at; done; \
         for at in / /dev /work /etc /run /run/prowess /var/tmp /srv/volume /sys/fs/cgroup; do touch $at/x && echo open $at; done",
    );
    command.limits.temporary_bytes = 8 << 20;
    let said = text(&home.finish(command).await);
    assert!(!said.contains("filled") && !said.contains("open"), "{said}");
    assert!(said.contains("No space left"), "{said}");
}

async fn case_49_a_grandchild_that_ignores_term() {
    let home = Home::new();
    let mark = unique("deaf");
    let line = format!(
        "trap '' TERM; (trap '' TERM; bash -c 'trap \"\" TERM; exec -a {mark} sleep 600') & wait; sleep 600"
    );
    let mut command = home.command(&line);
    command.limits.timeout = Duration::from_millis(800);
    assert_eq!(home.finish(command).await.exit, Exit::TimedOut);
    nothing_left(&mark);
}

async fn cases_50_and_51_daemons() {
    let home = Home::new();
    let (holder, daemon) = (unique("holder"), unique("daemon"));
    let line = format!(
        "setsid bash -c 'trap \"\" HUP TERM; exec -a {holder} sleep 600' & \
         perl -e 'use POSIX; exit if fork; POSIX::setsid(); exit if fork; close STDOUT; close STDERR; \
         exec {{q(sleep)}} q({daemon}), 600'; sleep 0.1; echo done"
    );
    assert_eq!(home.says(&line).await, "done\n");
    nothing_left(&holder);
    nothing_left(&daemon);
}

#[tokio::test]
async fn cases_55_and_56_nothing_of_the_host_shows() {
    let home = Home::new();
    let said = home
        .says("env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; ls /root /home/* ~/.ssh; cat /etc/shadow; cat /etc/passwd")
        .await;
    for (name, _) in
        std::env::vars().filter(|(name, _)| name.starts_with("CARGO") || name.starts_with("PROWESS"))
    {
        assert!(!said.contains(&name), "{name} in {said}");
    }
    assert!(!said.contains("root:*") && !said.contains("root:$"), "{said}");
    // The command does not get the variables of the image.
    let own = home.says("env").await;
    assert!(!own.contains("leaked") && !own.contains("IMAGE_VARIABLE"), "{own}");
}

#[tokio::test]
async fn case_57_no_network() {
    let home = Home::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let line = format!(
        "for to in 127.0.0.1/{port} 1.1.1.1/53 ::1/{port}; do (: > /dev/tcp/$to) 2>/dev/null && echo $to; \
         done; ls /sys/class/net"
    );
    assert_eq!(home.says(&line).await, "lo\n");
}

#[tokio::test]
async fn cases_58_to_61_system_calls() {
    let home = Home::new();
    // Called by number, because some have no program. The upper half of an argument does not count.
    let calls = [
        ("unix", "socket", "1, 1, 0"),
        ("unix-high", "socket", "(1 << 32) | 1, 1, 0"),
        ("netlink", "socket", "16, 3, 0"),
        ("packet", "socket", "17, 3, 0"),
        ("vsock", "socket", "40, 1, 0"),
        ("pair", "socketpair", "1, 2, 0, $room"),
        ("userns", "unshare", "0x10000000"),
        ("clone", "clone", "0x10000011, 0, 0, 0, 0"),
        ("ptrace", "ptrace", "0, 0, 0, 0"),
        ("read", "process_vm_readv", "$$, 0, 0, 0, 0, 0"),
        ("uring", "io_uring_setup", "1, $room"),
        ("bpf", "bpf", "0, 0, 0"),
        ("keys", "keyctl", "0, -3, 0"),
        ("mount", "mount", "0, 0, 0, 0, 0"),
    ];
    let number = |name: &str| match name {
        "socket" => libc::SYS_socket,
        "socketpair" => libc::SYS_socketpair,
        "unshare" => libc::SYS_unshare,
        "clone" => libc::SYS_clone,
        "ptrace" => libc::SYS_ptrace,
        "process_vm_readv" => libc::SYS_process_vm_readv,
        "io_uring_setup" => libc::SYS_io_uring_setup,
        "bpf" => libc::SYS_bpf,
        "keyctl" => libc::SYS_keyctl,
        _ => libc::SYS_mount,
    };
    let line = |(label, name, arguments): &(&str, &str, &str)| {
        format!(
            "print qq({label} ), (syscall({}, {arguments}) < 0 ? $! + 0 : q(passed)), qq(\\n);",
            number(name)
        )
    };
    let script: String = calls.iter().map(line).collect();
    let said = home.says(&format!("perl -e '$room = qq(\\0) x 200; {script}'")).await;
    let expected: String = calls.iter().map(|(label, ..)| format!("{label} 1\n")).collect();
    assert_eq!(said, expected);
    // A filter cannot read its flags, so the call does not exist.
    let line = format!("perl -e 'print syscall({}, 0, 0) < 0 ? $! + 0 : q(passed)'", libc::SYS_clone3);
    assert_eq!(home.says(&line).await, libc::ENOSYS.to_string());
    // Calls that programs need are allowed: threads, pipes, internet sockets.
    let needed = "use Socket; socketpair(A, B, AF_UNIX, SOCK_STREAM, 0) or die; socket(C, AF_INET, SOCK_STREAM, 0) or die; print qq(ok\\n)";
    assert_eq!(home.says(&format!("perl -e '{needed}'")).await, "ok\n");
}

#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn case_60_calls_of_other_abis() {
    let home = Home::new();
    // Killed by the filter, or by a fault if the kernel has no i386 calls.
    let program = home.path().join("work/i386");
    std::fs::write(&program, executable(&EXIT_OF_I386)).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let finished = home.run("exec ./i386").await;
    assert!(matches!(finished.exit, Exit::Signal(31 | 11)), "{:?} {}", finished.exit, text(&finished));
    // Killed or unknown: socket, getpid and ptrace.
    for call in ["41, 1, 1, 0", "39", "521, 0, 0, 0, 0"] {
        let line = format!("exec perl -e 'print syscall(0x40000000 + {call}) < 0 ? $! + 0 : q(passed)'");
        let finished = home.run(&line).await;
        let is_unknown = finished.exit == Exit::Code(0) && text(&finished) == libc::ENOSYS.to_string();
        assert!(finished.exit == Exit::Signal(31) || is_unknown, "{call}: {finished:?}");
    }
}

#[tokio::test]
async fn case_62_system_and_skills_are_read_only() {
    let home = Home::new();
    std::fs::write(home.path().join("skills/kept"), "kept").unwrap();
    let line = "for at in /usr/x /etc/x /bin/x /proc/sys/kernel/hostname /skills/kept /work/x; do \
                (echo x > $at) 2>/dev/null && echo $at; done; mv /skills /work/work 2>/dev/null; \
                chmod 777 /skills 2>/dev/null && echo mode; grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp:' /proc/self/status";
    assert_eq!(
        home.says(line).await,
        "CapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n"
    );
    assert_eq!(std::fs::read(home.path().join("skills/kept")).unwrap(), b"kept");
}

async fn case_63_killing_the_parent() {
    let home = Home::new();
    let mark = unique("killer");
    // Nothing can kill the first process. Killing the processes beside it ends the container.
    let line = format!(
        "kill -9 1; kill -STOP 1; echo here; setsid sleep 600 & : {mark}; kill -9 -1; echo still; sleep 600"
    );
    let started = Instant::now();
    let finished = home.run(&line).await;
    assert!(text(&finished).starts_with("here\n"), "{finished:?}");
    assert!(started.elapsed() < Duration::from_secs(30), "{finished:?}");
    nothing_left(&mark);
}

#[tokio::test]
async fn the_lifeline_is_not_the_command_s() {
    let home = Home::new();
    let said = home
        .says("cd /run/prowess; (echo x > life) 2>/dev/null && echo wrote; chmod 600 life 2>/dev/null && echo mode; \
               rm -f life 2>/dev/null && echo gone; ls")
        .await;
    assert!(
        said.contains("life\n") && !["wrote", "mode", "gone"].iter().any(|bad| said.contains(bad)),
        "{said}"
    );
}

#[tokio::test]
async fn processors_are_limited() {
    let mut options = options();
    options.processors = 0.5;
    let home = Home::with(options);
    let said = home.says("cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null").await;
    assert!(said.starts_with("50000"), "{said}");
}

#[tokio::test]
async fn secrets_have_no_names_while_the_command_runs() {
    let home = Home::new();
    // The greeting and the first listing are not synchronized.
    let line = "for try in {1..50}; do ls /run/prowess | grep -qE 'environment|stdin' || break; sleep 0.1; done; \
                ls /run/prowess; echo $TOKEN; cat; ls -l /proc/self/fd | grep -c prowess";
    let mut command = home.command(line);
    command.environment.insert("TOKEN".to_owned(), "hunter2".to_owned());
    command.stdin = prowess_workspace::command::Input::Bytes("typed\n".into());
    let said = text(&home.finish(command).await);
    assert_eq!(said, "filter\nlife\ntold\ntree\nhunter2\ntyped\n1\n");
}
