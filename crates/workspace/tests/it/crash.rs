//! Tests of a process that is killed during many runs.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prowess_workspace::stage::StageSource;
use prowess_workspace::{
    InputMode, LocalExecutor, LocalOptions, RunContext, RunError, RunInput, RunReport, RunRequest, Runner,
    Workspaces,
};

use crate::home::{processes_with, unique};
use crate::modes::{Mode, again, in_both_modes};

in_both_modes!(the_next_start_uses_the_workspace_of_a_killed_runtime);

/// The directory of the victim, whose last name marks its processes.
const AT: &str = "PROWESS_TEST_CRASH";
const RUNS: usize = 50;

fn runner(at: &Path) -> Runner {
    Runner {
        workspaces: Workspaces::open(at.join("workspaces")).unwrap(),
        artifacts: None,
        executor: Some(Arc::new(LocalExecutor::new(LocalOptions::default()))),
    }
}

/// Runs a command with a linked input at its own path.
async fn run(runner: &Runner, at: PathBuf, number: usize, line: String) -> Result<RunReport, RunError> {
    let skill = at.join("kit");
    let find = move |_: &str| Some(StageSource::Directory(skill.clone()));
    let host = |_: &Path| true;
    let mut request = RunRequest::new("kit", line);
    let given = at.join(if number.is_multiple_of(2) { "given.txt" } else { "kit" });
    request.inputs = vec![RunInput {
        from: format!("host://{}", given.display()),
        to: Some(format!("work/inputs/{number}")),
        mode: InputMode::Link,
    }];
    let mut context = RunContext::new(&find);
    context.input_gate = &host;
    context.limits.timeout = Duration::from_secs(300);
    runner.run("crash", request, context).await
}

/// The process that is killed: it starts fifty endless commands in one workspace.
#[test]
fn victim() {
    let Ok(at) = std::env::var(AT) else { return };
    crate::modes::run("crash::victim", Mode::User, async {
        let (at, runner) = (PathBuf::from(&at), Arc::new(runner(at.as_ref())));
        let mark = at.file_name().unwrap().to_str().unwrap().to_owned();
        for number in 0..RUNS {
            let (runner, at) = (Arc::clone(&runner), at.clone());
            let line = format!("touch work/up{number}; bash -c 'exec -a {mark} sleep 600' & sleep 600");
            tokio::spawn(async move { run(&runner, at, number, line).await });
        }
        let work = runner.workspaces.workspace("crash").unwrap().path().join("work");
        let up = || std::fs::read_dir(&work).unwrap().filter(|entry| is_up(entry.as_ref().unwrap())).count();
        while up() < RUNS {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        println!("all are up");
        std::future::pending::<()>().await;
    });
}

fn is_up(entry: &std::fs::DirEntry) -> bool {
    entry.file_name().to_string_lossy().starts_with("up")
}

async fn the_next_start_uses_the_workspace_of_a_killed_runtime() {
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o711)).unwrap();
    let mark = unique("crash");
    let at = place.path().join(&mark);
    std::fs::create_dir_all(at.join("kit")).unwrap();
    std::fs::set_permissions(&at, PermissionsExt::from_mode(0o711)).unwrap();
    std::fs::write(at.join("kit/SKILL.md"), "text").unwrap();
    std::fs::write(at.join("given.txt"), "given").unwrap();
    let mut victim = again("crash::victim", Mode::Root, false);
    let mut victim = victim.env(AT, &at).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("all are up")));
    assert!(processes_with(&mark).len() >= RUNS);
    victim.kill().unwrap();
    victim.wait().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while !processes_with(&mark).is_empty() {
        assert!(Instant::now() < until, "{:?}", processes_with(&mark));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The placeholders of linked inputs are gone, so their paths can be used again. Staged skills are still valid.
    let runner = runner(&at);
    let source = StageSource::Directory(at.join("kit"));
    assert_eq!(runner.stage("crash", "kit", &source).await.unwrap().copied, 0);
    let inputs = runner.workspaces.workspace("crash").unwrap().path().join("work/inputs");
    assert_eq!(std::fs::read_dir(inputs).unwrap().count(), 0);
    for number in [0, 1, RUNS - 1] {
        let line = format!("ls work/inputs/{number}; ls work | grep -c up; cat SKILL.md");
        let report = run(&runner, at.clone(), number, line).await.unwrap();
        assert!(report.stdout.ends_with(&format!("\n{RUNS}\ntext")), "{report:?}");
    }
}
