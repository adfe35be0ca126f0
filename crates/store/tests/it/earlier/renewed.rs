//! Tests of approvals of runs that earlier versions bound to an outdated wording.

use prowess_agent::{CallReply, NoWatcher, TurnOutcome, TurnStatus};
use prowess_models::ScriptedTurn as Says;
use serde_json::json;

use super::{Harbour, after, answered};

/// The run that was always allowed.
fn run() -> Says {
    Says::new().call("skill_run", json!({"skill": "kites", "command": "echo a kite"}))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_of_a_run_is_asked_for_once_more() {
    let harbour = Harbour::of_0_1().await;
    let mut thread = harbour.thread("new", [run(), after("a kite", "Done.")]).await;
    let turn = thread.say("The same again.", &NoWatcher).await.unwrap();
    assert!(matches!(turn, TurnStatus::Waiting(_)), "{turn:?}");
    assert_eq!(answered(&mut thread, CallReply::Always).await, TurnStatus::Ended(TurnOutcome::Responded));
    thread.close().await.unwrap();
    // From now on the approval is valid.
    let mut thread = harbour.thread("newer", [run(), after("a kite", "Done.")]).await;
    let turn = thread.say("The same again.", &NoWatcher).await.unwrap();
    assert_eq!(turn, TurnStatus::Ended(TurnOutcome::Responded));
}
