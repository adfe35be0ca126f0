//! Tests of a process that drops a run or is killed.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prowess_workspace::executor::NoSink;
use prowess_workspace::{ContainerExecutor, Executor as _};

use super::engine::{Home, containers_of, directories_of, options};
use crate::home::{processes_with, unique};
use crate::modes::{Mode, again, alone};

alone!(a_dropped_run_leaves_nothing, many_runs_leave_nothing_behind);

/// Marks the processes of the victim.
const MARK: &str = "PROWESS_TEST_CONTAINER_VICTIM";
/// What its commands do after they started, if they do not only wait.
const ACTION: &str = "PROWESS_TEST_CONTAINER_ACTION";
/// How many containers it has.
const RUNS: usize = 6;

/// The process that is killed: its commands never end.
#[test]
fn victim() {
    let Ok(mark) = std::env::var(MARK) else { return };
    let action = std::env::var(ACTION).unwrap_or_else(|_| ":".to_owned());
    crate::modes::run("container::runtime::victim", Mode::User, async {
        let home = Arc::new(Home::new());
        let mut runs = Vec::new();
        for number in 0..RUNS {
            let (home, mark, action) = (Arc::clone(&home), mark.clone(), action.clone());
            runs.push(tokio::spawn(async move {
                let line = format!(
                    ": {mark}; setsid bash -c 'trap \"\" TERM HUP; exec -a {mark} sleep 600' & {action}; touch up{number}; sleep 600"
                );
                home.finish(home.command(&line)).await;
            }));
        }
        while std::fs::read_dir(home.path().join("work")).unwrap().count() < RUNS {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        println!("all are up");
        for run in runs {
            run.await.unwrap();
        }
    });
}

/// Checks that nothing is left. If the victim was killed before its container started to listen, the first process
/// waits for 15 seconds and starts nothing.
async fn none_left(mark: &str) {
    let until = Instant::now() + Duration::from_secs(40);
    while !processes_with(mark).is_empty() {
        assert!(Instant::now() < until, "{:?}", processes_with(mark));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Checks that the next executor removes everything of a dead process, after the engine has finished its last requests.
async fn swept(process: u32) {
    let until = Instant::now() + Duration::from_secs(180);
    let (mut calm, mut sweeps) = (0, 0);
    let (mut containers, mut directories) = (Vec::new(), Vec::new());
    while calm < 3 {
        assert!(Instant::now() < until, "after {sweeps} sweeps: {containers:?} {directories:?}");
        ContainerExecutor::new(options()).engine().await.unwrap();
        sweeps += 1;
        (containers, directories) = (containers_of(process), directories_of(process));
        calm = if containers.is_empty() && directories.is_empty() { calm + 1 } else { 0 };
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn case_70_a_killed_runtime_leaves_no_survivors() {
    let mark = unique("survivor");
    let mut command = again("container::runtime::victim", Mode::Root, false);
    let mut victim = command.env(MARK, &mark).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("all are up")));
    assert!(processes_with(&mark).len() >= 2 * RUNS);
    let process = victim.id();
    victim.kill().unwrap();
    victim.wait().unwrap();
    none_left(&mark).await;
    // The next executor removes what is left of the containers.
    swept(process).await;
}

#[tokio::test]
async fn case_70_nor_do_commands_that_stop_all_others() {
    let mark = unique("stopper");
    let mut command = again("container::runtime::victim", Mode::Root, false);
    command.env(MARK, &mark).env(ACTION, "sleep 0.2; kill -STOP -1");
    let mut victim = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("all are up")));
    assert!(processes_with(&mark).len() >= 2 * RUNS);
    victim.kill().unwrap();
    victim.wait().unwrap();
    let killed = Instant::now();
    none_left(&mark).await;
    assert!(killed.elapsed() < Duration::from_secs(10), "{:?}", killed.elapsed());
    swept(victim.id()).await;
}

#[tokio::test]
async fn case_70_nor_does_one_that_is_killed_while_it_starts() {
    for round in 0..4u64 {
        let mark = unique("early");
        let mut command = again("container::runtime::victim", Mode::Root, false);
        let mut victim =
            command.env(MARK, &mark).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Between the first start and the last.
        while containers_of(victim.id()).is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokio::time::sleep(Duration::from_millis(round * 150)).await;
        victim.kill().unwrap();
        victim.wait().unwrap();
        swept(victim.id()).await;
        none_left(&mark).await;
    }
}

async fn a_dropped_run_leaves_nothing() {
    let home = Home::new();
    let mark = unique("dropped");
    let up = home.path().join("work/up");
    // Once while it runs, and at several moments of its start.
    for moment in [None, Some(0), Some(50), Some(150), Some(300)] {
        let line = format!("touch up; setsid bash -c 'exec -a {mark} sleep 600' & sleep 600");
        let until = async {
            match moment {
                Some(moment) => tokio::time::sleep(Duration::from_millis(moment)).await,
                None => {
                    while !up.exists() {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                }
            }
        };
        tokio::select! {
            result = home.executor.run(home.command(&line), &NoSink) => panic!("it ended: {result:?}"),
            () = until => {}
        }
        assert!(processes_with(&mark).is_empty());
        let own = std::process::id();
        assert!(containers_of(own).is_empty() && directories_of(own).is_empty());
        assert_eq!(std::fs::read_dir(home.path().join("runs")).unwrap().count(), 0);
    }
}

async fn many_runs_leave_nothing_behind() {
    let home = Arc::new(Home::new());
    let runs: Vec<_> = (0..12)
        .map(|number| {
            let home = Arc::clone(&home);
            tokio::spawn(async move { home.says(&format!("echo {number}")).await })
        })
        .collect();
    for (number, run) in runs.into_iter().enumerate() {
        assert_eq!(run.await.unwrap(), format!("{number}\n"));
    }
    let own = std::process::id();
    assert!(containers_of(own).is_empty() && directories_of(own).is_empty());
    assert_eq!(std::fs::read_dir(home.path().join("runs")).unwrap().count(), 0);
}
