//! What a hook's exit code and its JSON decide, and what they never do.

use prowess_agent::middleware::ToolPermissions;
use prowess_agent::{CallReply, NoWatcher, TurnOutcome, TurnStatus};
use prowess_permission::{Decision, Permissions, Policy, Rule, RuleSource};
use serde_json::{Value, json};

use super::{NOTE, ONE, Place, command, on, open};
use crate::agent::results;
use crate::says::{Says, all, calls, text};

/// A hook that prints this.
fn prints(output: &Value) -> Value {
    command(&format!("cat <<'EOF'\n{output}\nEOF"))
}

/// What a call of `add` comes to when a hook on `PreToolUse` prints this.
async fn called_when(output: &Value) -> String {
    let place = Place::new().await;
    let model = Says::new([calls(&[("a", "add", ONE)]), text("done")]);
    let mut thread = open(&place.agent(&model, on("PreToolUse", prints(output)))).await;
    thread.say("go", &NoWatcher).await.unwrap();
    results(&thread).remove(0)
}

#[tokio::test]
async fn json_on_stdout_decides() {
    let specific = |decision: &str| {
        json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": decision,
            "permissionDecisionReason": "not today"}})
    };
    let blocked = "Error: this call was blocked by a hook: not today";
    assert_eq!(called_when(&json!({"decision": "block", "reason": "not today"})).await, blocked);
    assert_eq!(called_when(&specific("deny")).await, blocked);
    assert_eq!(called_when(&specific("ask")).await, blocked, "a call that has begun can wait for nobody");
    assert_eq!(called_when(&specific("allow")).await, "1");
    assert_eq!(called_when(&json!({"suppressOutput": true})).await, "1");
    let unknown = called_when(&specific("maybe")).await;
    assert!(
        unknown.contains("it gave no verdict: its `permissionDecision` has the unknown value `maybe`"),
        "{unknown}"
    );
}

#[tokio::test]
async fn continue_false_ends_the_turn() {
    let place = Place::new().await;
    let model = Says::new([calls(&[("a", "add", ONE)]), text("never said")]);
    let own = on("PreToolUse", prints(&json!({"continue": false, "stopReason": "that is enough"})));
    let mut thread = open(&place.agent(&model, own)).await;
    let reason = "a hook ended the turn: that is enough".to_owned();
    assert_eq!(
        thread.say("go", &NoWatcher).await.unwrap(),
        TurnStatus::Ended(TurnOutcome::Stopped { reason })
    );
    assert_eq!(model.count(), 1);
    assert_eq!(results(&thread), ["Error: this call was blocked by a hook: that is enough"]);
}

#[tokio::test]
async fn additional_context_reaches_the_next_call() {
    let place = Place::new().await;
    let model = Says::new([calls(&[("a", "add", ONE)]), text("done")]);
    let output = json!({"hookSpecificOutput": {"additionalContext": "Sums are in cents."}});
    let mut thread = open(&place.agent(&model, on("PreToolUse", prints(&output)))).await;
    thread.say("go", &NoWatcher).await.unwrap();
    assert!(all(&model.request(1)).contains("\nSums are in cents.\n</hook>"));
}

/// Arguments that a hook wants have to pass what the others passed: the model is told to call again.
#[tokio::test]
async fn other_arguments_are_not_slipped_past_an_approval() {
    let place = Place::new().await;
    let model =
        Says::new([calls(&[("a", "add", ONE)]), calls(&[("b", "add", "{\"numbers\": [7]}")]), text("done")]);
    let output =
        json!({"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": {"numbers": [7]}}});
    let mut thread = open(&place.agent(&model, on("PreToolUse", prints(&output)))).await;
    thread.say("go", &NoWatcher).await.unwrap();
    let wanted = "Error: this call was blocked by a hook: it wants other arguments than those that were approved. \
         Call again with: {\"numbers\":[7]}";
    assert_eq!(results(&thread), [wanted, "7"]);
}

fn rules(decision: Decision) -> ToolPermissions {
    let rule = Rule::new("tool", "add", decision);
    ToolPermissions::new(Permissions::unattended(Policy::new().rules(RuleSource::User, [rule])))
}

#[tokio::test]
async fn a_hook_that_allows_widens_neither_a_denial_nor_a_question() {
    let allow = json!({"decision": "approve", "hookSpecificOutput": {"permissionDecision": "allow",
        "decision": {"behavior": "allow"}}});
    let own = json!({
        "PreToolUse": [{"hooks": [prints(&allow)]}],
        "PermissionRequest": [{"hooks": [prints(&allow)]}],
    });
    let place = Place::new().await;
    let model = Says::new([calls(&[("a", "add", ONE)]), text("done")]);
    let agent =
        place.builder(&model).middleware(rules(Decision::Deny)).middleware(place.hooks(own.clone())).build();
    let mut thread = open(&agent.unwrap()).await;
    thread.say("go", &NoWatcher).await.unwrap();
    assert_eq!(results(&thread), ["Error: 'add' is denied by the rules of this agent."]);

    let model = Says::new([calls(&[("a", "add", ONE)]), text("done")]);
    let agent = place.builder(&model).middleware(rules(Decision::Ask)).middleware(place.hooks(own)).build();
    let mut thread = open(&agent.unwrap()).await;
    assert!(matches!(thread.say("go", &NoWatcher).await.unwrap(), TurnStatus::Waiting(_)));
    let rejected = CallReply::Reject { message: "no".to_owned() };
    thread.reply("a", rejected, &NoWatcher).await.unwrap();
    assert_eq!(results(&thread), ["no"]);
}

/// A hook sees the arguments that are used, also those that a person put in the place of the model's.
#[tokio::test]
async fn hooks_see_what_a_person_edited() {
    let place = Place::new().await;
    let model = Says::new([calls(&[("a", "add", ONE)]), text("done")]);
    let own =
        json!({"PreToolUse": [{"hooks": [command(NOTE)]}], "PostToolUse": [{"hooks": [command(NOTE)]}]});
    let agent =
        place.builder(&model).middleware(rules(Decision::Ask)).middleware(place.hooks(own)).build().unwrap();
    let mut thread = open(&agent).await;
    thread.say("go", &NoWatcher).await.unwrap();
    let edited = CallReply::Edit { arguments: "{\"numbers\": [5]}".to_owned() };
    thread.reply("a", edited, &NoWatcher).await.unwrap();
    assert!(results(&thread)[0].ends_with("\n5"), "{:?}", results(&thread));
    let seen: Vec<Value> = place.log(thread.id()).iter().map(|told| told["tool_input"].clone()).collect();
    assert_eq!(seen, [json!({"numbers": [5]}), json!({"numbers": [5]})]);
}

#[tokio::test]
async fn other_exit_codes_block_nothing() {
    let place = Place::new().await;
    let model = Says::new([calls(&[("a", "add", ONE)]), text("done")]);
    let mut thread = open(&place.agent(&model, on("PreToolUse", command("echo oops >&2; exit 1")))).await;
    thread.say("go", &NoWatcher).await.unwrap();
    assert_eq!(results(&thread), ["1"]);
}

#[tokio::test]
async fn a_hook_that_hangs_is_killed_and_blocks_a_tool_and_nothing_else() {
    let place = Place::new().await;
    let model = Says::new([calls(&[("a", "add", ONE)]), text("done")]);
    let hang = json!({"type": "command", "command": "sleep 1000", "timeout": 0.5});
    let own = json!({
        "UserPromptSubmit": [{"hooks": [hang]}],
        "PreToolUse": [{"hooks": [hang]}],
        "Stop": [{"hooks": [hang]}],
    });
    let mut thread = open(&place.agent(&model, own)).await;
    assert_eq!(thread.say("go", &NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    assert_eq!(
        results(&thread),
        ["Error: this call was blocked by a hook: it gave no verdict: it took too long"]
    );
    assert_eq!(model.count(), 2);
}

#[tokio::test]
async fn a_hook_that_floods_is_bounded() {
    let place = Place::new().await;
    let model = Says::new([calls(&[("a", "add", ONE), ("b", "add", "{\"numbers\": [2]}")]), text("done")]);
    let long = "{ printf '{\"reason\": \"'; head -c 300000 /dev/zero | tr '\\0' x; printf '\"}'; }";
    let own = json!({
        "UserPromptSubmit": [{"hooks": [command("head -c 1000000 /dev/zero | tr '\\0' 'y'")]}],
        "PreToolUse": [{"hooks": [command(&format!("if grep -q '\\[1\\]'; then yes; else {long}; fi"))]}],
    });
    let mut thread = open(&place.agent(&model, own)).await;
    assert_eq!(thread.say("go", &NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    let results = results(&thread);
    assert_eq!(
        results[0],
        "Error: this call was blocked by a hook: it gave no verdict: it wrote too much output"
    );
    assert_eq!(results[1], "Error: this call was blocked by a hook: it gave no verdict: it printed too much");
    let prompt = all(&model.request(0));
    assert!(prompt.len() < 70_000 && prompt.contains("bytes left out"), "{}", prompt.len());
}
