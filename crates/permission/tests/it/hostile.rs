//! The hostile cases that are about permissions, by their numbers.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;

use prowess_permission::broker::ReplyError;
use prowess_permission::{
    Action, Broker, Decision, FileApprovals, Granted, Kind, Pattern, Permissions, Policy, Question, Refusal,
    Reply, Rule,
};
use serde_json::json;

use crate::{Desk, USER, decision, deny, run};

#[tokio::test]
async fn case_20_a_shadowing_or_changed_skill_does_not_inherit_an_always() {
    let mut desk = Desk::new();
    desk.session.set(USER, vec![Rule::new("skill", "*", Decision::Ask)]);
    let skill = |binding: &str| Question::new(Kind::SKILL, "pdf").binding(binding);
    let (pending, waiter) = desk.ask(&desk.session.clone(), skill("sha256:1 /user/pdf")).await;
    desk.broker.reply(pending.id, Reply::Always).await.unwrap();
    waiter.await.unwrap().unwrap();

    assert_eq!(decision(&desk.session, &skill("sha256:1 /user/pdf")), Decision::Allow);
    assert_eq!(decision(&desk.session, &skill("sha256:2 /user/pdf")), Decision::Ask, "changed");
    assert_eq!(decision(&desk.session, &skill("sha256:1 /project/pdf")), Decision::Ask, "shadowing");
    assert_eq!(decision(&desk.session, &Question::new(Kind::SKILL, "pdf")), Decision::Ask, "unbound");
}

#[tokio::test]
async fn case_20_an_approval_without_a_binding_covers_no_request_with_one() {
    let mut desk = Desk::new();
    let (pending, _waiter) = desk.asks("make").await;
    desk.broker.reply(pending.id, Reply::Always).await.unwrap();
    assert_eq!(decision(&desk.session, &run("make")), Decision::Allow);
    assert_eq!(decision(&desk.session, &run("make").binding("")), Decision::Ask);
}

#[tokio::test]
async fn case_72_a_name_with_a_star_is_literal_in_what_is_saved() {
    let directory = tempfile::tempdir().unwrap();
    let store = || Arc::new(FileApprovals::at(directory.path().join("approvals.json")));
    let mut desk = Desk::of(Broker::open(store(), "p").await.unwrap());
    let (pending, waiter) = desk.asks(r"rm *\?").await;
    desk.broker.reply(pending.id, Reply::Always).await.unwrap();
    waiter.await.unwrap().unwrap();

    let desk = Desk::of(Broker::open(store(), "p").await.unwrap());
    assert_eq!(desk.broker.remembered()[0].pattern.as_str(), r"rm \*\\\?");
    assert_eq!(decision(&desk.session, &run(r"rm *\?")), Decision::Allow);
    for other in ["rm -rf x", "rm x", r"rm a\b", r"rm \*\\\?"] {
        assert_eq!(decision(&desk.session, &run(other)), Decision::Ask, "{other}");
    }
}

#[tokio::test]
async fn case_73_always_for_a_command_does_not_cover_a_longer_one() {
    let mut desk = Desk::new();
    let (pending, waiter) = desk.asks("git status").await;
    desk.broker.reply(pending.id, Reply::Always).await.unwrap();
    waiter.await.unwrap().unwrap();
    assert_eq!(decision(&desk.session, &run("git status")), Decision::Allow);
    for other in ["git status; rm", "git status -s", "git status\nrm", " git status", "git status "] {
        assert_eq!(decision(&desk.session, &run(other)), Decision::Ask, "{other:?}");
    }
    let both = run("git status").subject("rm -r .");
    assert_eq!(decision(&desk.session, &both), Decision::Ask, "every subject must be covered");
}

#[test]
fn case_74_a_name_does_not_match_a_longer_name() {
    let policy = Policy::empty().rules(USER, [Rule::new("skill", "foo", Decision::Allow)]);
    assert_eq!(policy.decide(&Kind::SKILL, "foo").decision, Decision::Allow);
    for other in ["foo-bar", "a-foo", "Foo", "fo", "foo\n", "foo ", ""] {
        assert_eq!(policy.decide(&Kind::SKILL, other).decision, Decision::Ask, "{other:?}");
    }
    assert_eq!(policy.decide(&Kind::parse("skills").unwrap(), "foo").decision, Decision::Ask);
}

#[tokio::test]
async fn case_75_a_deny_added_while_an_ask_waits_wins() {
    for reply in [Reply::Once, Reply::Always] {
        let mut desk = Desk::new();
        let (pending, waiter) = desk.asks("rm x").await;
        desk.session.set(USER, deny("run", "rm *"));
        let answered = desk.broker.reply(pending.id, reply).await;
        assert!(matches!(answered, Err(ReplyError::NotWaiting { .. })), "refused when the rule came");
        assert!(matches!(waiter.await.unwrap(), Err(Refusal::Denied { .. })));
        assert_eq!(desk.broker.remembered(), []);
    }
}

#[tokio::test]
async fn case_75_a_deny_stands_over_what_was_approved_before() {
    let mut desk = Desk::new();
    let (pending, waiter) = desk.asks("rm x").await;
    desk.broker.reply(pending.id, Reply::Always).await.unwrap();
    waiter.await.unwrap().unwrap();
    desk.session.set(USER, deny("run", "rm *"));
    assert_eq!(decision(&desk.session, &run("rm x")), Decision::Deny);
    assert!(matches!(desk.session.request(run("rm x")).await, Err(Refusal::Denied { .. })));
}

#[tokio::test]
async fn case_76_concurrent_asks_are_independent_and_a_second_reply_is_refused() {
    let mut desk = Desk::new();
    let (first, first_waiter) = desk.asks("a").await;
    let (second, second_waiter) = desk.asks("b").await;
    let (third, third_waiter) = desk.asks("a").await;
    assert_ne!(first.id, third.id);

    desk.broker.reply(second.id, Reply::Once).await.unwrap();
    assert_eq!(second_waiter.await.unwrap().unwrap().how(), Granted::Once);
    assert_eq!(desk.broker.pending().len(), 2, "the others still wait");
    for reply in [Reply::Once, Reply::Always, Reply::Reject { message: None }] {
        let again = desk.broker.reply(second.id, reply).await;
        assert!(matches!(again, Err(ReplyError::NotWaiting { id }) if id == second.id));
    }
    assert_eq!(desk.broker.pending().len(), 2, "a refused reply has no effect");

    desk.broker.reply(first.id, Reply::Once).await.unwrap();
    let grant = first_waiter.await.unwrap().unwrap();
    assert!(grant.covers(&run("a")) && !grant.covers(&run("b")));
    assert!(!third_waiter.is_finished(), "once is for one ask, not for its like");
    assert_eq!(desk.broker.pending()[0].id, third.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn case_76_many_at_once_get_their_own_answers() {
    let mut desk = Desk::new();
    let waiters: Vec<_> = (0..64)
        .map(|number| {
            let session = desk.other(&number.to_string());
            tokio::spawn(async move { (number, session.request(run(&number.to_string())).await) })
        })
        .collect();
    for _ in 0..64 {
        let pending = desk.next_asked().await;
        let even = pending.session.parse::<u32>().unwrap() % 2 == 0;
        let reply = if even { Reply::Once } else { Reply::Reject { message: Some(pending.session.clone()) } };
        desk.broker.reply(pending.id, reply).await.unwrap();
    }
    for waiter in waiters {
        let (number, answer) = waiter.await.unwrap();
        match answer {
            Ok(grant) => assert!(number % 2 == 0 && grant.covers(&run(&number.to_string()))),
            Err(refusal) => {
                assert!(number % 2 == 1);
                assert_eq!(refusal, Refusal::Rejected { message: Some(number.to_string()) });
            }
        }
    }
}

#[tokio::test]
async fn case_77_an_answer_to_an_earlier_process_is_no_answer_to_this_one() {
    let mut before = Desk::new();
    let (old, waiter) = before.asks("rm x").await;
    waiter.abort();
    let mut after = Desk::new();
    let (_new, waiter) = after.asks("rm y").await;
    let late = after.broker.reply(old.id, Reply::Always).await;
    assert!(matches!(late, Err(ReplyError::NotWaiting { .. })));
    assert!(!waiter.is_finished());
    assert_eq!(after.broker.remembered(), []);
}

#[tokio::test]
async fn case_77_a_process_killed_between_ask_and_reply_leaves_no_allow() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("approvals.json");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hostile::child_that_approves_once_and_then_waits", "--ignored", "--nocapture"])
        .env("PROWESS_TEST_APPROVALS", &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("waiting for an answer")));
    child.kill().unwrap();
    child.wait().unwrap();

    let broker = Broker::open(Arc::new(FileApprovals::at(&path)), "p").await.unwrap();
    let session = Permissions::new(broker, "after", Policy::new());
    assert_eq!(decision(&session, &run("make")), Decision::Allow, "what was answered is kept");
    assert_eq!(decision(&session, &run("rm x")), Decision::Ask, "what was not is not");
    assert!(session.broker().pending().is_empty());
}

#[tokio::test]
#[ignore = "run by the test above, in a process of its own"]
async fn child_that_approves_once_and_then_waits() {
    let Some(path) = std::env::var_os("PROWESS_TEST_APPROVALS") else { return };
    let mut desk = Desk::of(Broker::open(Arc::new(FileApprovals::at(path)), "p").await.unwrap());
    let (pending, waiter) = desk.asks("make").await;
    desk.broker.reply(pending.id, Reply::Always).await.unwrap();
    waiter.await.unwrap().unwrap();
    let (_pending, waiter) = desk.asks("rm x").await;
    println!("waiting for an answer");
    let _ = waiter.await;
}

#[tokio::test]
async fn case_78_nobody_to_ask_is_a_refusal() {
    let session = Permissions::default();
    assert!(matches!(session.request(run("make")).await, Err(Refusal::NobodyToAsk { .. })));
    let _watching = session.broker().observe();
    assert!(
        matches!(session.request(run("make")).await, Err(Refusal::NobodyToAsk { .. })),
        "somebody who only watches cannot answer"
    );
    assert!(session.request(Question::new(Kind::SKILL, "pdf")).await.is_ok(), "what needs no asking");
}

#[tokio::test]
async fn case_78_a_request_without_subjects_is_covered_by_nothing() {
    let mut desk = Desk::new();
    let mut question = run("x").always([Pattern::any()]);
    let (pending, waiter) = desk.ask(&desk.session.clone(), question.clone()).await;
    desk.broker.reply(pending.id, Reply::Always).await.unwrap();
    waiter.await.unwrap().unwrap();
    question.subjects.clear();
    assert_eq!(decision(&desk.session, &question), Decision::Ask);
}

#[tokio::test]
async fn case_79_arguments_changed_after_approval_are_asked_about_again() {
    let mut desk = Desk::new();
    let call = |path: &str| {
        let arguments = json!({ "path": path, "force": true }).to_string();
        Question::new(Kind::TOOL, "delete").action(Action::CallTool { tool: "delete".to_owned(), arguments })
    };
    let (pending, waiter) = desk.ask(&desk.session.clone(), call("a.txt")).await;
    assert_eq!(pending.fingerprint, call("a.txt").fingerprint());
    desk.broker.reply(pending.id, Reply::Once).await.unwrap();
    let grant = waiter.await.unwrap().unwrap();
    assert!(grant.covers(&call("a.txt")));
    assert!(!grant.covers(&call("/etc/passwd")));
    assert!(!grant.covers(&call("a.txt").subject("more")));
    assert!(!grant.covers(&call("a.txt").binding("x")));

    let (again, waiter) = desk.ask(&desk.session.clone(), call("/etc/passwd")).await;
    assert_ne!(again.fingerprint, pending.fingerprint);
    assert!(!waiter.is_finished());
}
