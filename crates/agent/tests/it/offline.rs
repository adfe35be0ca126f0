//! From a question to a sandboxed run without a key or a network: the offline model over the example skills.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use prowess_agent::middleware::Skills;
use prowess_agent::{Agent, NoWatcher, ThreadId, TurnOutcome, TurnStatus};
use prowess_catalog::{Catalog, Root, ScanOptions};
use prowess_models::Offline;
use prowess_permission::{Decision, Permissions, Policy, Rule, RuleSource};
use prowess_skills::{Dialect, RunSetup, SessionOptions, SkillSession};
use prowess_workspace::{Artifacts, LocalExecutor, LocalOptions, Runner, Workspaces};

#[tokio::test]
async fn a_question_becomes_a_run_of_the_right_skill() {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o711)).unwrap();
    let examples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/skills");
    let catalog = Catalog::discover(&[Root::explicit(examples)], &ScanOptions::default());
    let runner = Runner {
        workspaces: Workspaces::open(scratch.path().join("workspaces")).unwrap(),
        artifacts: Some(Arc::new(Artifacts::in_memory())),
        executor: Some(Arc::new(LocalExecutor::new(LocalOptions::default()))),
    };
    let skills = Skills::new(move |thread| {
        let rule = Rule::new("run", "*", Decision::Allow);
        SkillSession::builder(catalog.clone())
            .options(SessionOptions::new(Dialect::Trpc))
            .permissions(Permissions::unattended(Policy::new().rules(RuleSource::User, [rule])))
            .runs(RunSetup::new(runner.clone(), thread.as_str()))
    });
    let agent = Agent::builder(Arc::new(Offline)).middleware(skills).build().unwrap();
    let mut thread = agent.open(ThreadId::new()).await.unwrap();
    let turn = thread.say("Compute the first Fibonacci numbers.", &NoWatcher).await.unwrap();
    assert_eq!(turn, TurnStatus::Ended(TurnOutcome::Responded));
    let answer = thread.last_response().unwrap();
    assert!(answer.contains("not a language model") && answer.contains("python-math"), "{answer}");
    let results = crate::agent::results(&thread);
    assert!(results.iter().any(|text| text.contains("\"exit_code\":0")), "{results:?}");
    assert!(results.iter().any(|text| text.contains("\"level\":\"bwrap\"")), "{results:?}");
}
