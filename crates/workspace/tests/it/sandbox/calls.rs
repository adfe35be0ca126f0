//! Cases 59 to 61 and 64: system calls that could break out.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use prowess_workspace::Exit;

use crate::executable::{EXIT_OF_I386, executable};
use crate::home::{Home, text};
use crate::modes::in_both_modes;

in_both_modes!(
    case_59_calls_on_others_and_on_the_kernel,
    case_60_i386_calls,
    case_60_x32_calls,
    case_61_no_user_namespace,
    case_64_no_typing_into_a_terminal,
    threads_and_children_work_all_the_same,
);

/// Makes these calls, and checks that each fails with this error.
async fn fails_with(calls: &[(&str, i64, [i64; 5])], errno: i32) {
    let home = Home::new();
    let list: Vec<String> = calls
        .iter()
        .map(|(name, number, arguments)| {
            format!("[q({name}), {number}, {}]", arguments.map(|one| one.to_string()).join(", "))
        })
        .collect();
    let program = format!(
        "perl -e 'for my $c ({}) {{ my ($name, $n, @a) = @$c; my $r = syscall($n, @a); print qq($name $r $!\\n) if $r != -1 or $! != {errno} }} print qq(done\\n)'",
        list.join(", ")
    );
    assert_eq!(home.says(&program).await, "done\n");
}

const EPERM: i32 = 1;
const ENOSYS: i32 = 38;
const NEW_USER: i64 = 0x1000_0000;
const SIGCHLD: i64 = 17;

#[cfg(target_arch = "x86_64")]
async fn case_59_calls_on_others_and_on_the_kernel() {
    let none = [0; 5];
    let calls = [
        ("ptrace", 101, none),
        ("process_vm_readv", 310, none),
        ("process_vm_writev", 311, none),
        ("kcmp", 312, none),
        ("pidfd_getfd", 438, none),
        ("io_uring_setup", 425, [8, 0, 0, 0, 0]),
        ("io_uring_enter", 426, none),
        ("io_uring_register", 427, none),
        ("bpf", 321, none),
        ("perf_event_open", 298, none),
        ("userfaultfd", 323, none),
        ("keyctl", 250, none),
        ("add_key", 248, none),
        ("request_key", 249, none),
        ("mount", 165, none),
        ("umount2", 166, none),
        ("pivot_root", 155, none),
        ("chroot", 161, none),
        ("open_tree", 428, none),
        ("move_mount", 429, none),
        ("fsopen", 430, none),
        ("mount_setattr", 442, none),
        ("setns", 308, none),
        ("open_by_handle_at", 304, none),
        ("kexec_load", 246, none),
        ("init_module", 175, none),
        ("finit_module", 313, none),
        ("reboot", 169, none),
        ("syslog", 103, none),
        ("settimeofday", 164, none),
        ("personality", 135, [0x0040_0000, 0, 0, 0, 0]),
    ];
    fails_with(&calls, EPERM).await;
    // Calls newer than the filter do not exist.
    fails_with(&[("new", 467, none), ("newest", 1000, none)], ENOSYS).await;
}

#[cfg(target_arch = "x86_64")]
async fn case_60_i386_calls() {
    let home = Home::new();
    let program = home.path().join("work/i386");
    std::fs::File::create(&program).unwrap().write_all(&executable(&EXIT_OF_I386)).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let finished = home.run("exec ./i386").await;
    // Killed by the filter, or by a fault if the kernel has no i386 calls.
    assert!(matches!(finished.exit, Exit::Signal(31 | 11)), "{:?} {}", finished.exit, text(&finished));
}

#[cfg(target_arch = "x86_64")]
async fn case_60_x32_calls() {
    let x32 = 0x4000_0000;
    fails_with(
        &[("socket", x32 + 41, [1, 1, 0, 0, 0]), ("getpid", x32 + 39, [0; 5]), ("ptrace", x32 + 521, [0; 5])],
        ENOSYS,
    )
    .await;
}

#[cfg(target_arch = "x86_64")]
async fn case_61_no_user_namespace() {
    fails_with(
        &[("unshare", 272, [NEW_USER, 0, 0, 0, 0]), ("clone", 56, [NEW_USER | SIGCHLD, 0, 0, 0, 0])],
        EPERM,
    )
    .await;
    fails_with(&[("clone with other namespaces", 56, [0x2000_0000 | SIGCHLD, 0, 0, 0, 0])], EPERM).await;
    fails_with(&[("clone3", 435, [0; 5])], ENOSYS).await;
    let home = Home::new();
    let said = home.says("unshare -Ur true 2>/dev/null && echo made; cat /proc/sys/user/max_user_namespaces; (echo 9 > /proc/sys/user/max_user_namespaces) 2>/dev/null && echo raised; grep CapEff /proc/self/status; grep NoNewPrivs /proc/self/status; grep Seccomp: /proc/self/status").await;
    assert!(said.contains("CapEff:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n"), "{said}");
    assert!(!said.contains("made") && !said.contains("raised"), "{said}");
}

#[cfg(target_arch = "x86_64")]
async fn case_64_no_typing_into_a_terminal() {
    let (sti, linux) = (0x5412, 0x541c);
    fails_with(
        &[
            ("TIOCSTI", 16, [0, sti, 0, 0, 0]),
            ("TIOCSTI with high bits", 16, [0, sti + (1 << 32), 0, 0, 0]),
            ("TIOCLINUX", 16, [0, linux, 0, 0, 0]),
        ],
        EPERM,
    )
    .await;
    let home = Home::new();
    assert_eq!(
        home.says(
            "ps -o tty= -p $$ 2>/dev/null | tr -d ' ' | head -c 1; (: > /dev/tty) 2>/dev/null || echo none"
        )
        .await
        .replace('?', ""),
        "none\n"
    );
}

async fn threads_and_children_work_all_the_same() {
    let home = Home::new();
    assert_eq!(
        home.says("seq 3 | sort -r --parallel=4 | xargs -P 3 -n 1 echo | sort; sh -c 'exit 7'; echo $?")
            .await,
        "1\n2\n3\n7\n"
    );
    if std::path::Path::new("/usr/bin/node").exists() {
        let line = "node -e 'const {Worker} = require(\"worker_threads\"); new Worker(\"console.log(require(\\\"child_process\\\").execSync(\\\"echo hi\\\").toString())\", {eval: true})'";
        let mut command = home.command(line);
        command.limits.memory = 2 << 30;
        let finished = home.finish(command).await;
        assert_eq!(text(&finished).trim(), "hi", "{:?}", finished.exit);
    }
}
