//! Cases 70 and 71: prowess is killed, or has no sandbox.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prowess_workspace::executor::NoSink;
use prowess_workspace::executor::local::LocalOptions;
use prowess_workspace::{ExecuteError, Executor as _, Exit, Level, Missing};

use crate::home::{Home, processes_with, unique};
use crate::modes::{Mode, again, in_both_modes};

in_both_modes!(
    case_70_a_killed_runtime_leaves_no_survivors,
    case_70_nor_does_one_that_is_killed_while_it_starts,
    case_71_bwrap_missing,
    case_71_user_namespaces_off,
    case_71_no_proc_is_a_level_of_its_own,
    case_71_a_lower_level_needs_the_user_s_word,
    a_dropped_run_is_dead,
    a_run_that_is_ended_while_it_starts_leaves_nothing,
    many_runs_leave_nothing_behind,
    runs_that_never_began_leave_nothing_behind,
    a_dead_reaper_is_replaced,
    a_thread_that_ends_takes_no_command_with_it,
);

/// Marks the processes of the victim.
const MARK: &str = "PROWESS_TEST_VICTIM";

/// The process that is killed: it starts fifty endless commands.
#[test]
fn victim() {
    let Ok(mark) = std::env::var(MARK) else { return };
    crate::modes::run("sandbox::runtime::victim", Mode::User, async {
        let home = Arc::new(Home::new());
        let mut runs = Vec::new();
        for number in 0..50 {
            let (home, mark) = (Arc::clone(&home), mark.clone());
            runs.push(tokio::spawn(async move {
                let line = format!(": {mark}; touch up{number}; setsid bash -c 'trap \"\" TERM HUP; exec -a {mark} sleep 600' & sleep 600");
                home.finish(home.command(&line)).await;
            }));
        }
        let up = || std::fs::read_dir(home.path().join("work")).unwrap().count();
        while up() < 50 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        println!("all are up");
        for run in runs {
            run.await.unwrap();
        }
    });
}

/// Starts the victim as the current user.
fn start_victim(mark: &str) -> std::process::Child {
    let mut command = again("sandbox::runtime::victim", Mode::Root, false);
    command.env(MARK, mark).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

async fn none_left(mark: &str) {
    let until = Instant::now() + Duration::from_secs(20);
    while !processes_with(mark).is_empty() {
        assert!(Instant::now() < until, "{:?}", processes_with(mark));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn case_70_a_killed_runtime_leaves_no_survivors() {
    let mark = unique("survivor");
    let mut victim = start_victim(&mark);
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("all are up")));
    assert!(processes_with(&mark).len() >= 100);
    victim.kill().unwrap();
    victim.wait().unwrap();
    none_left(&mark).await;
}

async fn case_70_nor_does_one_that_is_killed_while_it_starts() {
    for round in 0..8u64 {
        let mark = unique("early");
        let mut victim = start_victim(&mark);
        // Between the first start and the last.
        while processes_with(&mark).is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(round * 7)).await;
        victim.kill().unwrap();
        victim.wait().unwrap();
        none_left(&mark).await;
    }
}

async fn case_71_bwrap_missing() {
    let programs = tempfile::tempdir().unwrap();
    symlink("/usr/bin/setpriv", programs.path().join("setpriv")).unwrap();
    let mut options = LocalOptions::default();
    options.programs = Some(vec![programs.path().to_owned()]);
    let home = Home::with(options);
    let error = home.executor.run(home.command("true"), &NoSink).await.unwrap_err();
    let ExecuteError::NoSandbox { what, remedy } = error else { panic!("{error}") };
    assert_eq!(what, "bubblewrap is not installed: bwrap was not found");
    assert!(remedy.starts_with("Install the package `bubblewrap`"), "{remedy}");
    assert!(matches!(home.executor.probe().await, Err(ExecuteError::NoSandbox { .. })));
}

async fn case_71_user_namespaces_off() {
    // bubblewrap itself reports that no user namespace can be made.
    let programs = tempfile::tempdir().unwrap();
    std::fs::set_permissions(programs.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    symlink("/usr/bin/setpriv", programs.path().join("setpriv")).unwrap();
    let shim = programs.path().join("bwrap");
    std::fs::write(&shim, "#!/bin/sh\nexec /usr/bin/bwrap --dev-bind / / --unshare-user --disable-userns -- /usr/bin/bwrap \"$@\"\n").unwrap();
    std::fs::set_permissions(&shim, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut options = LocalOptions::default();
    options.programs = Some(vec![programs.path().to_owned()]);
    let home = Home::with(options);
    let error = home.executor.run(home.command("true"), &NoSink).await.unwrap_err();
    let ExecuteError::NoSandbox { what, remedy } = error else { panic!("{error}") };
    assert!(what.starts_with("bubblewrap cannot make a sandbox: bwrap: "), "{what}");
    assert!(remedy.contains("Allow user namespaces"), "{remedy}");
}

async fn case_71_a_lower_level_needs_the_user_s_word() {
    let mut options = LocalOptions::default();
    options.strongest = Level::None;
    for least in [Level::Bwrap, Level::BwrapNoproc, Level::Landlock] {
        options.least = least;
        assert!(Home::with(options.clone()).executor.probe().await.is_err());
    }
    options.least = Level::None;
    let home = Home::with(options);
    let finished = home.run("echo $WORK_DIR; echo $API_KEY; pwd; exit 3").await;
    let work = home.path().join("work").display().to_string();
    let said = String::from_utf8_lossy(&finished.stdout.head).into_owned();
    assert_eq!((finished.exit, said), (Exit::Code(3), format!("{work}\n\n{work}\n")));
    assert_eq!(finished.sandbox.level, Level::None);
    assert!(finished.sandbox.missing.contains(&Missing::Isolation));
    // Its processes still end with it.
    let mark = unique("bare");
    let mut command = home.command(&format!("bash -c 'exec -a {mark} sleep 600' & sleep 600"));
    command.limits.timeout = Duration::from_millis(500);
    assert_eq!(home.finish(command).await.exit, Exit::TimedOut);
    none_left(&mark).await;
}

async fn case_71_no_proc_is_a_level_of_its_own() {
    // If a part of /proc is hidden, as in most containers, nobody can mount a new one.
    let programs = tempfile::tempdir().unwrap();
    std::fs::set_permissions(programs.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    symlink("/usr/bin/setpriv", programs.path().join("setpriv")).unwrap();
    let shim = programs.path().join("bwrap");
    let script = "#!/bin/sh\nexec /usr/bin/bwrap --dev-bind / / --die-with-parent --ro-bind /dev/null /proc/version -- /usr/bin/bwrap \"$@\"\n";
    std::fs::write(&shim, script).unwrap();
    std::fs::set_permissions(&shim, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut options = LocalOptions::default();
    options.programs = Some(vec![programs.path().to_owned()]);
    let error = Home::with(options.clone()).executor.probe().await.unwrap_err();
    assert!(error.to_string().contains("allow the level `bwrap-noproc`"), "{error}");
    options.least = Level::BwrapNoproc;
    let home = Home::with(options);
    let finished = home.run("ls /proc 2>/dev/null | wc -l; echo ok > $OUTPUT_DIR/x; (: > /dev/tcp/1.1.1.1/53) 2>/dev/null || echo none").await;
    assert_eq!(finished.sandbox.level, Level::BwrapNoproc);
    assert!(
        finished.sandbox.missing.iter().any(|one| matches!(one, Missing::Proc { .. })),
        "{:?}",
        finished.sandbox
    );
    assert_eq!(finished.stdout.head, b"0\nnone\n");
    let mark = unique("noproc");
    let mut command = home.command(&format!("setsid bash -c 'exec -a {mark} sleep 600' & sleep 600"));
    command.limits.timeout = Duration::from_millis(700);
    assert_eq!(home.finish(command).await.exit, Exit::TimedOut);
    none_left(&mark).await;
}

async fn runs_that_never_began_leave_nothing_behind() {
    for level in [Level::Bwrap, Level::Landlock, Level::None] {
        let mut options = LocalOptions::default();
        (options.strongest, options.least) = (level, level);
        let home = Home::with(options);
        let mut refused = home.command("true");
        refused.environment.insert("LD_PRELOAD".into(), "x".into());
        assert!(matches!(home.executor.run(refused, &NoSink).await, Err(ExecuteError::Refused(_))));
        // A file in the place of a directory makes the start fail, if inputs can be linked.
        std::fs::write(home.path().join("work/file"), "x").unwrap();
        let mut failing = home.command("true");
        failing.read_only.push(("/usr".into(), "work/file/x".into()));
        assert!(home.executor.run(failing, &NoSink).await.is_err());
        let left: Vec<_> = std::fs::read_dir(home.path().join("runs")).unwrap().collect();
        assert!(left.is_empty(), "{level:?}: {left:?}");
    }
}

async fn a_dead_reaper_is_replaced() {
    let home = Home::new();
    assert_eq!(home.says("echo one").await, "one\n");
    let own = std::process::id().to_string();
    let ours = |process: &std::path::PathBuf| {
        let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
        stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)) == Some(&own)
    };
    let reapers: Vec<_> = processes_with("while read -r what group").into_iter().filter(ours).collect();
    assert_eq!(reapers.len(), 1, "{reapers:?}");
    let number = reapers[0].file_name().unwrap().to_str().unwrap().parse().unwrap();
    let reaper = rustix::process::Pid::from_raw(number).unwrap();
    rustix::process::kill_process(reaper, rustix::process::Signal::KILL).unwrap();
    // It is dead when it has no command line any more.
    while processes_with("while read -r what group").contains(&reapers[0]) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for _ in 0..3 {
        assert_eq!(home.says("echo two").await, "two\n");
    }
}

async fn a_dropped_run_is_dead() {
    let home = Home::new();
    let mark = unique("dropped");
    let up = home.path().join("work/up");
    let command =
        home.command(&format!("bash -c 'trap \"\" TERM; exec -a {mark} sleep 600' & touch up; sleep 600"));
    let is_up = async {
        while !up.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        finished = home.finish(command) => panic!("{finished:?}"),
        () = is_up => {}
    }
    assert!(processes_with(&mark).is_empty());
}

/// The run is ended at every moment of its start, even right after bubblewrap made the first process.
async fn a_run_that_is_ended_while_it_starts_leaves_nothing() {
    let mark = unique("early");
    let home = Arc::new(Home::new());
    home.run("true").await;
    for moment in 0..120 {
        let after = Duration::from_micros(moment * 100);
        let (dropped, stopped) =
            (home.command(&format!(": {mark}; sleep 60")), home.command(&format!(": {mark}; sleep 60")));
        let _ = tokio::time::timeout(after, home.executor.run(dropped, &NoSink)).await;
        let stop = stopped.stop.clone();
        let stopping = async {
            tokio::time::sleep(after).await;
            stop.stop();
        };
        let (ended, ()) = tokio::join!(home.executor.run(stopped, &NoSink), stopping);
        assert_eq!(ended.unwrap().exit, Exit::Cancelled);
    }
    let left = processes_with(&mark);
    assert!(left.is_empty(), "{left:?}");
}

async fn many_runs_leave_nothing_behind() {
    let mark = unique("many");
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let home = Arc::new(Home::new());
    let at = home.path().display().to_string();
    // Others mount and unmount on the same machine.
    let is_ours =
        |mount: &&str| mount.contains(&at) || mount.contains("/newroot") || mount.contains("/oldroot");
    let mounts = || {
        let all = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        all.lines().filter(is_ours).map(str::to_owned).collect::<Vec<_>>()
    };
    home.run("true").await;
    let open = descriptors();
    let files = || ["skills", "work", "out", "runs"].map(|part| entries(&home.path().join(part)));
    let kept = files();
    for _ in 0..25 {
        let runs = (0..8).map(|_| {
            let (home, mark) = (Arc::clone(&home), mark.clone());
            tokio::spawn(async move { home.says(&format!(": {mark}; echo ok; sleep 60 &")).await })
        });
        for run in runs.collect::<Vec<_>>() {
            assert_eq!(run.await.unwrap(), "ok\n");
        }
    }
    assert!(processes_with(&mark).is_empty());
    assert_eq!(mounts(), [""; 0]);
    assert!(descriptors() <= open + 2, "{} {open}", descriptors());
    assert_eq!(files(), kept);
    drop(home);
    assert_eq!(groups(), 0);
}

fn entries(directory: &std::path::Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

/// The control groups of this process.
fn groups() -> usize {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let Some(path) = own.lines().find_map(|line| line.split_once(":memory:")) else { return 0 };
    let at = format!("/sys/fs/cgroup/memory{}", path.1);
    let name = format!("prowess-{}-", std::process::id());
    std::fs::read_dir(at)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&name))
        .count()
}

async fn a_thread_that_ends_takes_no_command_with_it() {
    let home = Arc::new(Home::new());
    let (send, received) = std::sync::mpsc::channel();
    // The thread that requested the run ends while the command runs.
    let there = Arc::clone(&home);
    let handle = tokio::runtime::Handle::current();
    std::thread::spawn(move || {
        send.send(handle.spawn(async move { there.says("sleep 0.3; echo lived").await })).unwrap();
    })
    .join()
    .unwrap();
    let run = received.recv().unwrap();
    assert_eq!(run.await.unwrap(), "lived\n");
}
