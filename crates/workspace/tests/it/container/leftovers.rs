//! Cases 94, 95 and 97 in containers.

use prowess_workspace::executor::NoSink;
use prowess_workspace::{Command, Executor as _, Exit, Workspaces};

use super::engine::{Home, options};
use crate::home::text;

#[tokio::test]
async fn case_94_set_ids_are_refused() {
    let home = Home::new();
    let line = "cd $OUTPUT_DIR; touch a; for mode in 4755 2755; do chmod $mode a 2>/dev/null && echo passed; done; \
                chmod 755 a; python3 -c 'import os; os.open(\"b\", os.O_CREAT | os.O_WRONLY, 0o6755)' 2>/dev/null && echo passed; \
                echo done";
    assert_eq!(text(&home.finish(home.command(line)).await), "done\n");
}

#[tokio::test]
async fn case_94_set_ids_are_gone_when_the_container_ends() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new();
    // An engine with its own filter lets commands do this.
    let file = home.path().join("out/program");
    std::fs::write(&file, "").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o6755)).unwrap();
    assert_eq!(home.finish(home.command("true")).await.exit, Exit::Code(0));
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o7777, 0o755);
}

#[tokio::test]
async fn case_95_files_in_memory_count() {
    let home = Home::new();
    let line =
        r#"head -c 60M /dev/zero > /tmp/x; exec perl -e '$x = "x" x (96 << 20); print "had it"; sleep 100'"#;
    let mut command = home.command(line);
    command.limits.memory = 128 << 20;
    let finished = home.finish(command).await;
    assert_eq!(finished.exit, Exit::OutOfMemory, "{}", text(&finished));
}

#[tokio::test]
async fn case_97_a_command_runs_apart() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
    let workspace = Workspaces::open(place.path().join("workspaces")).unwrap().workspace("one").unwrap();
    let executor = prowess_workspace::ContainerExecutor::new(options());
    let plant = "echo skill > $OUTPUT_DIR/note; touch planted.py; ls /own 2>/dev/null; echo planted";
    let finished = executor.run(Command::new(workspace.path(), "work", plant), &NoSink).await.unwrap();
    assert_eq!(text(&finished), "planted\n");
    let line = "python3 -c 'import planted' 2>/dev/null && echo used; pwd; cat $OUTPUT_DIR/note; touch $WORK_DIR/x 2>/dev/null || echo closed; \
                echo kept >> log; wc -l < log";
    for round in 1..=2 {
        let mut command = Command::new(workspace.path(), "", line);
        command.apart = Some(workspace.own_directory("hooks").unwrap());
        let finished = executor.run(command, &NoSink).await.unwrap();
        assert_eq!(text(&finished), format!("/own\nskill\nclosed\n{round}\n"));
    }
}
