//! Hooks of skills: when they are active, where they run, and who lets them.

use std::sync::Arc;

use prowess_agent::middleware::Skills;
use prowess_agent::{Agent, NoWatcher};
use prowess_catalog::{Catalog, Root, ScanOptions};
use prowess_permission::{Decision, Permissions, Policy, Rule, RuleSource};
use prowess_skills::SkillSession;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{NOTE, ONE, Place, command, on, open};
use crate::agent::results;
use crate::says::{Says, all, calls, text};

const GUARD: &str = r#"hooks:
  PreToolUse:
    - matcher: "add"
      hooks:
        - type: command
          command: "test -f SKILL.md && scripts/check.sh"
        - type: http
          url: https://example.com
  SkillLoad:
    - hooks:
        - type: prompt
          prompt: Mind the numbers.
  SkillUnload:
    - hooks:
        - type: command
          command: cat > $WORK_DIR/unloaded
          once: true
"#;

/// A skill `guard` with these hooks.
fn catalog(hooks: &str) -> (TempDir, Catalog) {
    use std::os::unix::fs::PermissionsExt;
    let root = tempfile::tempdir().unwrap();
    std::fs::set_permissions(root.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let scripts = root.path().join("guard/scripts");
    std::fs::create_dir_all(&scripts).unwrap();
    std::fs::write(scripts.join("check.sh"), "#!/bin/sh\necho \"$SKILL_NAME says no\" >&2\nexit 2\n")
        .unwrap();
    std::fs::set_permissions(scripts.join("check.sh"), PermissionsExt::from_mode(0o755)).unwrap();
    let document = format!("---\nname: guard\ndescription: Guards numbers.\n{hooks}---\nGuard them.\n");
    std::fs::write(root.path().join("guard/SKILL.md"), document).unwrap();
    let catalog = Catalog::discover(&[Root::explicit(root.path())], &ScanOptions::default());
    (root, catalog)
}

fn skills(catalog: &Catalog, rules: &[(&str, &str, Decision)]) -> Skills {
    let rules: Vec<Rule> =
        rules.iter().map(|(kind, pattern, decision)| Rule::new(kind, pattern, *decision)).collect();
    let catalog = catalog.clone();
    Skills::new(move |_| {
        let permissions = Permissions::unattended(Policy::new().rules(RuleSource::User, rules.clone()));
        SkillSession::builder(catalog.clone()).permissions(permissions)
    })
}

fn agent(place: &Place, model: &Arc<Says>, skills: Skills, own: Value) -> Agent {
    place.builder(model).middleware(skills).middleware(place.hooks(own)).build().unwrap()
}

const LOAD: &str = "{\"skill_name\": \"guard\"}";

#[tokio::test]
async fn hooks_of_a_skill_run_in_its_directory_while_it_is_loaded() {
    let place = Place::new().await;
    let (_root, catalog) = catalog(GUARD);
    let model = Says::new([
        calls(&[("a", "add", ONE)]),
        calls(&[("b", "load_skill", LOAD)]),
        calls(&[("c", "add", ONE)]),
        calls(&[("d", "unload_skill", LOAD)]),
        calls(&[("e", "add", ONE)]),
        text("done"),
    ]);
    let skills = skills(&catalog, &[("hook", "guard *", Decision::Allow)]);
    let own = on("Stop", command("ls $SKILLS_DIR > seen"));
    let mut thread = open(&agent(&place, &model, skills, own)).await;
    thread.say("go", &NoWatcher).await.unwrap();
    let results = results(&thread);
    assert_eq!((results[0].as_str(), results[4].as_str()), ("1", "1"));
    assert_eq!(results[2], "Error: this call was blocked by a hook of the skill 'guard': guard says no");
    let minded = |number| all(&model.request(number)).matches("\nMind the numbers.\n</hook>").count();
    assert_eq!([minded(1), minded(2), minded(3)], [0, 1, 1]);
    assert!(all(&model.request(2)).contains("<hook event=\"SkillLoad\" skill=\"guard\">"));
    let workspace = place.runner.workspaces.workspace(thread.id().as_str()).unwrap();
    let told = std::fs::read_to_string(workspace.path().join("work/unloaded")).unwrap();
    let told: Value = serde_json::from_str(&told).unwrap();
    let seen = std::fs::read_to_string(place.own(thread.id()).join("seen")).unwrap();
    assert_eq!(seen, "", "the user's hooks see no skill");
    assert_eq!((&told["hook_event_name"], &told["skill"]), (&json!("SkillUnload"), &json!("guard")));
}

#[tokio::test]
async fn a_skill_hook_without_permission_does_not_run() {
    for rules in [
        &[][..],
        &[("hook", "guard *", Decision::Ask)],
        &[("hook", "guard Stop", Decision::Allow)],
        &[("hook", "guard *", Decision::Allow), ("hook", "guard PreToolUse", Decision::Deny)],
        // What the model may not run, a hook may not run either.
        &[("hook", "guard *", Decision::Allow), ("run", "guard *", Decision::Deny)],
    ] {
        let place = Place::new().await;
        let (_root, catalog) = catalog(GUARD);
        let model =
            Says::new([calls(&[("a", "load_skill", LOAD)]), calls(&[("b", "add", ONE)]), text("done")]);
        let mut thread = open(&agent(&place, &model, skills(&catalog, rules), json!({}))).await;
        thread.say("go", &NoWatcher).await.unwrap();
        assert_eq!(results(&thread)[1], "1", "{rules:?}");
    }
}

#[tokio::test]
async fn skill_load_and_skill_unload_are_told_to_the_users_hooks() {
    let place = Place::new().await;
    let (_root, catalog) = catalog("");
    let model =
        Says::new([calls(&[("a", "load_skill", LOAD)]), calls(&[("b", "unload_skill", LOAD)]), text("done")]);
    let own = json!({
        "SkillLoad": [{"matcher": "guard", "hooks": [command(NOTE)]}, {"matcher": "other", "hooks": [command(NOTE)]}],
        "SkillUnload": [{"hooks": [command(NOTE)]}],
    });
    let mut thread = open(&agent(&place, &model, skills(&catalog, &[]), own)).await;
    thread.say("go", &NoWatcher).await.unwrap();
    let log = place.log(thread.id());
    let told: Vec<(&Value, &Value)> =
        log.iter().map(|told| (&told["hook_event_name"], &told["skill"])).collect();
    assert_eq!(told, [(&json!("SkillLoad"), &json!("guard")), (&json!("SkillUnload"), &json!("guard"))]);
}

/// Tools of skills are answered in the order of their calls; hooks hear of them as of all others.
#[tokio::test]
async fn post_tool_use_hears_of_the_tools_of_skills() {
    let place = Place::new().await;
    let (_root, catalog) = catalog("");
    let model = Says::new([calls(&[("a", "load_skill", LOAD)]), text("done")]);
    let own = json!({"PostToolUse": [{"matcher": "load_skill", "hooks": [command(NOTE)]}]});
    let mut thread = open(&agent(&place, &model, skills(&catalog, &[]), own)).await;
    thread.say("go", &NoWatcher).await.unwrap();
    let log = place.log(thread.id());
    assert!(log[0]["tool_response"].as_str().unwrap().contains("Guard them."), "{log:?}");
}

/// Nothing that a skill's hook does to itself opens the door that it guards.
#[tokio::test]
async fn a_skill_hook_that_hangs_or_floods_lets_nothing_pass() {
    for (line, why) in [
        ("sleep 1000", "it took too long"),
        ("yes", "it was killed, with exit code 137"),
        ("head -c 300000 /dev/zero | tr '\\0' '{'", "it printed too much"),
        ("scripts/missing.sh; kill -9 $$", "it was killed, with exit code 137"),
    ] {
        let hooks = format!(
            "hooks:\n  PreToolUse:\n    - hooks:\n        - type: command\n          timeout: 1.5\n          command: {}\n",
            json!(line)
        );
        let place = Place::new().await;
        let (_root, catalog) = catalog(&hooks);
        let model =
            Says::new([calls(&[("a", "load_skill", LOAD)]), calls(&[("b", "add", ONE)]), text("done")]);
        let skills = skills(&catalog, &[("hook", "guard PreToolUse", Decision::Allow)]);
        let mut thread = open(&agent(&place, &model, skills, json!({}))).await;
        thread.say("go", &NoWatcher).await.unwrap();
        let wanted =
            format!("Error: this call was blocked by a hook of the skill 'guard': it gave no verdict: {why}");
        assert_eq!(results(&thread)[1], wanted, "{line}");
    }
}
