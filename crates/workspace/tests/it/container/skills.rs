//! Tests of the skills that a container sees.

use std::sync::Arc;

use prowess_workspace::stage::StageSource;
use prowess_workspace::{ContainerExecutor, RunContext, RunInput, RunRequest, Runner, Workspaces};

use super::engine::options;
use crate::place::Scratch;

/// A run does not see a skill that another run staged, unless an input names it.
#[tokio::test]
async fn only_the_skills_of_a_run_are_there() {
    let scratch = Scratch::new();
    std::fs::set_permissions(scratch.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
    for name in ["kit", "hushed"] {
        let skill = scratch.path().join(name);
        std::fs::create_dir(&skill).unwrap();
        std::fs::write(skill.join("SKILL.md"), format!("text of {name}\n")).unwrap();
    }
    let runner = Runner {
        workspaces: Workspaces::open(scratch.path().join("workspaces")).unwrap(),
        artifacts: None,
        executor: Some(Arc::new(ContainerExecutor::new(options()))),
    };
    let find = |name: &str| Some(StageSource::Directory(scratch.path().join(name)));
    let run = async |request: RunRequest| runner.run("one", request, RunContext::new(&find)).await.unwrap();
    let report = run(RunRequest::new("hushed", "cat SKILL.md")).await;
    assert_eq!(report.stdout, "text of hushed\n", "{report:?}");
    let line = "cat SKILL.md $SKILLS_DIR/hushed/SKILL.md; ls $SKILLS_DIR; touch $SKILLS_DIR/x SKILL.md || echo closed";
    let mut request = RunRequest::new("kit", line);
    request.output_files = vec!["skills/**".to_owned()];
    let report = run(request.clone()).await;
    assert_eq!(report.stdout, "text of kit\nkit\nclosed\n", "{report:?}");
    let collected: Vec<_> = report.output_files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(collected, ["skills/kit/SKILL.md"]);
    request.inputs = vec![RunInput::copy("skill://hushed/SKILL.md")];
    let report = run(request).await;
    assert_eq!(report.stdout, "text of kit\ntext of hushed\nhushed\nkit\nclosed\n", "{report:?}");
}
