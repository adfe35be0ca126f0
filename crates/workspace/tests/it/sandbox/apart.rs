//! Case 97: a command that runs apart does not depend on files of other commands.

use std::os::unix::fs::PermissionsExt as _;

use prowess_workspace::executor::NoSink;
use prowess_workspace::{Command, Executor as _, Exit, Level, LocalExecutor, LocalOptions, Workspaces};

use crate::home::text;
use crate::modes::in_both_modes;

in_both_modes!(case_97_a_command_runs_apart, case_97_a_command_runs_apart_under_landlock,);

async fn case_97_a_command_runs_apart() {
    runs_apart(LocalOptions::default(), Level::Bwrap).await;
}

async fn case_97_a_command_runs_apart_under_landlock() {
    let mut options = LocalOptions::default();
    (options.least, options.strongest) = (Level::Landlock, Level::Landlock);
    runs_apart(options, Level::Landlock).await;
}

async fn runs_apart(options: LocalOptions, level: Level) {
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
    let workspace = Workspaces::open(place.path().join("workspaces")).unwrap().workspace("one").unwrap();
    let executor = LocalExecutor::new(options);
    let own = workspace.own_directory("hooks").unwrap();
    let plant = format!(
        "echo skill > $OUTPUT_DIR/note; echo 'raise SystemExit(9)' | tee json.py > $OUTPUT_DIR/json.py; \
         touch {0}/x /own/x 2>/dev/null; ls {0} /own 2>/dev/null; echo planted",
        own.display()
    );
    let finished = executor.run(Command::new(workspace.path(), "work", plant), &NoSink).await.unwrap();
    assert_eq!((text(&finished).as_str(), finished.sandbox.level), ("planted\n", level));
    let line = "python3 -c 'import json, sys; print(json.dumps(sys.path[0]))'; cat $OUTPUT_DIR/note; ls -A; \
                touch $WORK_DIR/x $OUTPUT_DIR/x $WORKSPACE_DIR/runs/x 2>/dev/null || echo closed; \
                echo \"[$RUN_DIR]\"; echo kept >> log; wc -l < log";
    for round in 1..=2 {
        let mut command = Command::new(workspace.path(), "", line);
        command.apart = Some(own.clone());
        let finished = executor.run(command, &NoSink).await.unwrap();
        let listed = if round == 1 { "" } else { "log\n" };
        let expected = format!("\"\"\nskill\n{listed}closed\n[]\n{round}\n");
        assert_eq!((text(&finished), finished.exit), (expected, Exit::Code(0)));
    }
    for part in ["work/x", "out/x", "runs/x"] {
        assert!(!workspace.path().join(part).exists(), "{part}");
    }
    // Its directory has the same limits as a workspace.
    let mut command = Command::new(workspace.path(), "", "head -c 40M /dev/zero > large; sleep 100");
    command.apart = Some(own);
    command.limits.workspace_bytes = 20 << 20;
    assert_eq!(executor.run(command, &NoSink).await.unwrap().exit, Exit::WorkspaceFull);
}
