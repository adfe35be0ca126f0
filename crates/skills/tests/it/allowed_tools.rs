//! The effects of `allowed-tools`.

use prowess_permission::{Decision, Granted, Kind, Question, Rule, RuleSource};
use prowess_skills::allowed_tools::{CheckedCall, ToolVerdict};
use prowess_skills::{AllowedTools, Dialect, SkillSession};

use crate::library::Library;

fn library() -> Library {
    Library::of(&["free"]).skill("git-help", "allowed-tools: Bash(git:*) Read\n", "Commit.")
}

async fn session(policy: AllowedTools) -> (Library, SkillSession) {
    let library = library();
    let session = library.session_with(Dialect::DeepAgents, |options| options.allowed_tools = policy).await;
    session.load("git-help", None).await.unwrap();
    (library, session)
}

fn bash(command: &str) -> CheckedCall<'_> {
    CheckedCall::new("execute").argument(command)
}

#[tokio::test]
async fn preapproval_spares_a_question_and_lifts_no_denial() {
    let (_library, session) = session(AllowedTools::Preapprove).await;
    let verdict = session.view().check_tool(bash("git status"));
    assert_eq!(verdict, ToolVerdict::Preapproved { skill: "git-help".into() });
    assert_eq!(verdict.applied_to(Decision::Ask), Decision::Allow);
    assert_eq!(verdict.applied_to(Decision::Allow), Decision::Allow);
    assert_eq!(verdict.applied_to(Decision::Deny), Decision::Deny);
    assert_eq!(session.view().check_tool(bash("git status; rm -rf /")), ToolVerdict::Pass);
    session.unload("git-help").unwrap();
    assert_eq!(session.view().check_tool(bash("git status")), ToolVerdict::Pass);
}

#[tokio::test]
async fn restriction_follows_the_patterns_and_the_loaded_skills() {
    let (_library, session) = session(AllowedTools::Restrict).await;
    assert_eq!(session.view().check_tool(bash("git status")), ToolVerdict::Pass);
    let blocked = session.view().check_tool(bash("make"));
    assert!(
        matches!(&blocked, ToolVerdict::Blocked { message } if message.contains("Allowed tools: Bash(git:*), Read."))
    );
    assert_eq!(blocked.applied_to(Decision::Allow), Decision::Deny);
    session.load("free", None).await.unwrap();
    assert!(matches!(session.view().check_tool(bash("make")), ToolVerdict::Blocked { .. }));
    session.unload("git-help").unwrap();
    assert_eq!(session.view().check_tool(bash("make")), ToolVerdict::Pass);
}

/// The list that counts is the one that was loaded, not what the file says by now.
#[tokio::test]
async fn a_changed_document_does_not_widen_what_was_loaded() {
    let (library, session) = session(AllowedTools::Preapprove).await;
    library.write(
        "git-help/SKILL.md",
        "---\nname: git-help\ndescription: G.\nallowed-tools: Bash\n---\nCommit.\n",
    );
    session.refresh(&library.catalog()).await;
    assert_eq!(session.view().check_tool(bash("make")), ToolVerdict::Pass);
}

/// Tools that run commands need an entry, and the other tools of a dialect do not.
#[tokio::test]
async fn the_tools_of_the_dialect_are_blocked_if_they_run_commands() {
    let library = library();
    for dialect in [Dialect::DeepAgents, Dialect::Trpc, Dialect::OpenCode] {
        let session =
            library.session_with(dialect, |options| options.allowed_tools = AllowedTools::Restrict).await;
        session.load("git-help", None).await.unwrap();
        for name in dialect.tool_names() {
            let verdict = session.view().check_tool(CheckedCall::new(name).argument("make"));
            let runs = ["skill_run", "skill_exec", "skill_write_stdin"].contains(&name);
            assert_eq!(matches!(verdict, ToolVerdict::Blocked { .. }), runs, "{name}");
            let git = session.view().check_run("free", CheckedCall::new(name).argument("git log"));
            assert_eq!(git, ToolVerdict::Pass, "{name}");
        }
    }
}

#[tokio::test]
async fn programs_can_use_their_own_tool_names() {
    let library = library();
    let session = library
        .session_with(Dialect::DeepAgents, |options| {
            options.allowed_tools = AllowedTools::Restrict;
            options.tools.aliases.insert("Bash".into(), vec!["terminal".into()]);
            options.tools.always_allowed.insert("clock".into());
        })
        .await;
    session.load("git-help", None).await.unwrap();
    let check = |name, argument| session.view().check_tool(CheckedCall::new(name).argument(argument));
    assert_eq!(check("terminal", Some("git log")), ToolVerdict::Pass);
    assert_eq!(check("clock", None), ToolVerdict::Pass);
    assert!(matches!(check("execute", Some("git log")), ToolVerdict::Blocked { .. }));
}

/// The commands of a skill need the list of this skill, and no list is about loading skills.
#[tokio::test]
async fn a_skill_does_not_vouch_for_another_skill() {
    let library = Library::of(&["free"]).skill(
        "git-help",
        "allowed-tools: Bash(git:*) Skill skill_load load_skill\n",
        "Commit.",
    );
    let session = library
        .session_with(Dialect::DeepAgents, |options| options.allowed_tools = AllowedTools::Preapprove)
        .await;
    session.load("git-help", None).await.unwrap();
    session.load("free", None).await.unwrap();
    let call = CheckedCall::new("skill_run").argument("git log");
    let own = ToolVerdict::Preapproved { skill: "git-help".into() };
    assert_eq!(session.view().check_run("git-help", call), own);
    assert_eq!(session.view().check_run("free", call), ToolVerdict::Pass);
    assert_eq!(session.view().check_tool(call), ToolVerdict::Pass);
    for name in ["load_skill", "skill_load", "skill"] {
        assert_eq!(session.view().check_tool(CheckedCall::new(name)), ToolVerdict::Pass, "{name}");
    }
}

/// A skill that is denied by now speaks for nothing any more.
#[tokio::test]
async fn a_denied_skill_preapproves_nothing() {
    let (_library, session) = session(AllowedTools::Preapprove).await;
    assert!(matches!(session.view().check_tool(bash("git log")), ToolVerdict::Preapproved { .. }));
    session.permissions().set(RuleSource::Session, vec![Rule::new("skill", "git-help", Decision::Deny)]);
    assert_eq!(session.view().check_tool(bash("git log")), ToolVerdict::Pass);
}

/// A state that claims more than the documents say brings no permissions.
#[tokio::test]
async fn a_forged_state_preapproves_nothing() {
    let (library, session) = session(AllowedTools::Preapprove).await;
    let mut saved = serde_json::to_value(session.save()).unwrap();
    saved["skills_loaded"] = serde_json::json!(["git-help", "free", "ghost"]);
    let mut details = saved["skill_details"]["git-help"].clone();
    details["allowed_tools"] = serde_json::json!(["Bash"]);
    saved["skill_details"]["git-help"] = details.clone();
    for name in ["free", "ghost"] {
        details["name"] = serde_json::json!(name);
        saved["skill_details"][name] = details.clone();
    }
    let saved = serde_json::from_value(saved).unwrap();
    let forged = library.builder().options(session.options().clone()).saved_state(saved).build().await;
    assert_eq!(forged.state().loaded().len(), 3);
    assert_eq!(forged.view().check_tool(bash("make")), ToolVerdict::Pass);
    assert_eq!(forged.view().check_tool(bash("git log")), ToolVerdict::Pass);
}

/// The gate gives a grant for what is preapproved, and none for what is denied.
#[tokio::test]
async fn a_preapproved_call_gets_its_grant_from_the_gate() {
    let (_library, session) = session(AllowedTools::Preapprove).await;
    let request = Question::new(Kind::RUN, "git log");
    let grant = session.permissions().request_preapproved(&request).unwrap();
    assert_eq!(grant.how(), Granted::Preapproved);
    session.permissions().set(RuleSource::User, vec![Rule::new("run", "git *", Decision::Deny)]);
    assert!(session.permissions().request_preapproved(&request).is_err());
}
