//! Asking, answering, and everything that ends the waiting.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use prowess_permission::approval::StoreError;
use prowess_permission::broker::{PermissionEvent, QuestionOutcome, ReplyError};
use prowess_permission::{
    Approval, ApprovalStore, Broker, BrokerOptions, Decision, Granted, Kind, MemoryApprovals, NoAsker,
    Pattern, Permissions, Policy, Question, Refusal, Replies, Reply, Rule, Stopped,
};

use crate::{Desk, USER, decision, deny, run};

#[tokio::test]
async fn always_answers_the_others_that_it_covers() {
    let mut desk = Desk::new();
    let strict = desk.other("strict");
    let (pending, first) =
        desk.ask(&desk.session.clone(), run("git log").always([Pattern::parse("git *").unwrap()])).await;
    let (_, covered) = desk.ask(&desk.other("two"), run("git diff")).await;
    let (_, both) = desk.ask(&desk.other("two"), run("git diff").subject("ls")).await;
    let (_, bound) = desk.ask(&desk.other("two"), run("git diff").binding("x")).await;
    let (_, other_kind) = desk.ask(&desk.other("two"), Question::new(Kind::TOOL, "git diff")).await;
    let (_, denied) = desk.ask(&strict, run("git push")).await;

    desk.broker.reply(pending.id, Reply::Always).await.unwrap();
    assert_eq!(first.await.unwrap().unwrap().how(), Granted::Always);
    assert_eq!(covered.await.unwrap().unwrap().how(), Granted::Remembered);
    assert_eq!(denied.await.unwrap().unwrap().how(), Granted::Remembered);
    assert_eq!(desk.broker.pending().len(), 3);
    assert!(!both.is_finished() && !bound.is_finished() && !other_kind.is_finished());

    let later = desk.session.request(run("git fetch")).await.unwrap();
    assert_eq!(later.how(), Granted::Remembered);
    strict.set(USER, deny("run", "git push *"));
    assert_eq!(decision(&strict, &run("git push")), Decision::Deny, "each session has its own rules");
    assert_eq!(decision(&desk.session, &run("git push")), Decision::Allow);
}

#[tokio::test]
async fn reject_rejects_what_the_same_session_waits_for() {
    let mut desk = Desk::new();
    let (pending, first) = desk.asks("a").await;
    let (_, second) = desk.asks("b").await;
    let (_, other) = desk.ask(&desk.other("two"), run("a")).await;
    let message = Some("use make".to_owned());
    desk.broker.reply(pending.id, Reply::Reject { message: message.clone() }).await.unwrap();
    assert_eq!(first.await.unwrap().unwrap_err(), Refusal::Rejected { message: message.clone() });
    assert_eq!(second.await.unwrap().unwrap_err(), Refusal::Rejected { message });
    assert!(!other.is_finished());
    assert_eq!(desk.broker.pending()[0].session, "two");
}

#[tokio::test]
async fn new_rules_end_waiting_questions() {
    let mut desk = Desk::new();
    let (_, allowed) = desk.asks("ls").await;
    let (_, denied) = desk.asks("rm x").await;
    let (_, neither) = desk.asks("make").await;
    let (_, elsewhere) = desk.ask(&desk.other("two"), run("rm x")).await;
    let rules = vec![Rule::new("run", "ls *", Decision::Allow), Rule::new("run", "rm *", Decision::Deny)];
    desk.session.set(USER, rules);
    assert_eq!(allowed.await.unwrap().unwrap().how(), Granted::Rule);
    assert!(matches!(denied.await.unwrap(), Err(Refusal::Denied { subject, .. }) if subject == "rm x"));
    assert!(!neither.is_finished() && !elsewhere.is_finished());
    assert_eq!(desk.broker.pending().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_question_waits_no_longer_than_its_timeout() {
    let options = BrokerOptions::new("p").timeout(Duration::from_secs(60));
    let broker = Broker::with_options(Arc::new(MemoryApprovals::new()), options).await.unwrap();
    let mut desk = Desk::of(broker);
    let (pending, waiter) = desk.asks("make").await;
    tokio::time::advance(Duration::from_secs(59)).await;
    assert!(!waiter.is_finished());
    tokio::time::advance(Duration::from_secs(2)).await;
    assert!(matches!(waiter.await.unwrap(), Err(Refusal::TimedOut { .. })));
    assert_eq!(outcome(desk.front_end.next().await), QuestionOutcome::TimedOut);
    let late = desk.broker.reply(pending.id, Reply::Once).await;
    assert!(matches!(late, Err(ReplyError::NotWaiting { .. })));
}

#[tokio::test]
async fn dropping_the_future_withdraws_the_question() {
    let mut desk = Desk::new();
    let (pending, waiter) = desk.asks("make").await;
    waiter.abort();
    assert!(waiter.await.unwrap_err().is_cancelled());
    assert_eq!(outcome(desk.front_end.next().await), QuestionOutcome::Cancelled);
    assert!(desk.broker.pending().is_empty());
    assert!(!desk.broker.cancel(pending.id));
}

#[tokio::test]
async fn a_program_can_withdraw_questions() {
    let mut desk = Desk::new();
    let (pending, first) = desk.asks("a").await;
    let (_, second) = desk.asks("b").await;
    let (_, other) = desk.ask(&desk.other("two"), run("a")).await;
    assert!(desk.broker.cancel(pending.id));
    assert_eq!(first.await.unwrap().unwrap_err(), Refusal::Cancelled);
    assert_eq!(desk.broker.cancel_session("one"), 1);
    assert_eq!(second.await.unwrap().unwrap_err(), Refusal::Cancelled);
    assert!(!other.is_finished());
}

#[tokio::test]
async fn when_the_last_front_end_goes_what_waits_is_refused() {
    let mut desk = Desk::new();
    let second = desk.broker.subscribe();
    let mut watching = desk.broker.observe();
    let (_, waiter) = desk.asks("make").await;
    drop(desk.front_end);
    assert_eq!(desk.broker.pending().len(), 1, "another can still answer");
    drop(second);
    assert!(
        matches!(waiter.await.unwrap(), Err(Refusal::NobodyToAsk { subjects, .. }) if subjects == ["make"])
    );
    assert!(matches!(watching.next().await, Some(PermissionEvent::Asked(_))));
    assert_eq!(outcome(watching.next().await), QuestionOutcome::NobodyToAsk);
}

#[tokio::test]
async fn a_front_end_that_comes_later_sees_what_waits() {
    let mut desk = Desk::new();
    let (pending, _waiter) = desk.asks("make").await;
    let mut later = desk.broker.subscribe();
    assert_eq!(later.next().await, Some(PermissionEvent::Asked(pending)));
    assert_eq!(later.try_next(), None);
}

#[tokio::test]
async fn a_slow_front_end_loses_no_waiting_question() {
    let mut desk = Desk::new();
    let mut slow = desk.broker.subscribe();
    let (first, first_waiter) = desk.asks("first").await;
    assert_eq!(slow.next().await.unwrap().id(), first.id);
    desk.broker.reply(first.id, Reply::Once).await.unwrap();
    first_waiter.await.unwrap().unwrap();
    for number in 0..2000 {
        let (pending, waiter) = desk.asks(&number.to_string()).await;
        desk.broker.reply(pending.id, Reply::Once).await.unwrap();
        waiter.await.unwrap().unwrap();
    }
    let (last, _waiter) = desk.asks("last").await;

    let mut seen = Vec::new();
    while let Some(event) = slow.try_next() {
        seen.push(event);
    }
    assert!(seen.len() < 600, "{} events kept for somebody who does not read", seen.len());
    assert!(seen.contains(&PermissionEvent::Asked(last)));
    let replied = seen.iter().find(|event| event.id() == first.id).unwrap();
    assert!(matches!(replied, PermissionEvent::Replied { .. }), "what became of an ask it has seen");
}

#[tokio::test]
async fn events_end_with_the_broker() {
    let broker = Broker::in_memory();
    let mut watching = broker.observe();
    drop(broker);
    assert_eq!(watching.next().await, None);
}

struct BrokenStore;

#[async_trait]
impl ApprovalStore for BrokenStore {
    async fn load(&self, project: &str) -> Result<Vec<Approval>, StoreError> {
        let of = |project: &str| Approval {
            project: project.to_owned(),
            kind: Kind::RUN,
            pattern: Pattern::literal(project),
            binding: None,
        };
        Ok(vec![of(project), of("elsewhere")])
    }

    async fn add(&self, _: &[Approval]) -> Result<(), StoreError> {
        Err(StoreError::Other("the disk is full".into()))
    }

    async fn remove(&self, _: &Approval) -> Result<(), StoreError> {
        Err(StoreError::Other("the disk is full".into()))
    }
}

#[tokio::test]
async fn a_store_that_fails_is_reported_and_the_answer_still_holds() {
    let mut desk = Desk::of(Broker::open(Arc::new(BrokenStore), "p").await.unwrap());
    assert_eq!(decision(&desk.session, &run("p")), Decision::Allow);
    assert_eq!(decision(&desk.session, &run("elsewhere")), Decision::Ask, "another project's");
    let (pending, waiter) = desk.asks("make").await;
    let error = desk.broker.reply(pending.id, Reply::Always).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "allowed, but the approval could not be saved and lasts until this process exits: the disk is full"
    );
    assert_eq!(waiter.await.unwrap().unwrap().how(), Granted::Always);
    assert_eq!(desk.session.request(run("make")).await.unwrap().how(), Granted::Remembered);

    let approval = desk.broker.remembered().pop().unwrap();
    assert!(desk.broker.forget(&approval).await.is_err());
    assert_eq!(decision(&desk.session, &run("make")), Decision::Ask, "forgotten all the same");
}

#[tokio::test]
async fn what_is_forgotten_is_asked_about_again() {
    let store = Arc::new(MemoryApprovals::new());
    let mut desk = Desk::of(Broker::open(store.clone(), "p").await.unwrap());
    let (pending, waiter) = desk.asks("make").await;
    desk.broker.reply(pending.id, Reply::Always).await.unwrap();
    waiter.await.unwrap().unwrap();
    assert_eq!(store.load("p").await.unwrap(), desk.broker.remembered());
    assert_eq!(store.load("q").await.unwrap(), []);

    let approval = desk.broker.remembered().pop().unwrap();
    desk.broker.forget(&approval).await.unwrap();
    assert_eq!(store.load("p").await.unwrap(), []);
    assert_eq!(decision(&desk.session, &run("make")), Decision::Ask);
}

#[tokio::test]
async fn what_is_denied_is_known_without_asking() {
    let session = Permissions::unattended(Policy::new().rules(USER, deny("skill", "secret-*")));
    assert!(session.is_denied(&Kind::SKILL, "secret-plans"));
    assert!(!session.is_denied(&Kind::SKILL, "pdf"));
    assert!(!session.is_denied(&Kind::RUN, "make"), "asking is not denying");
}

#[tokio::test]
async fn events_and_replies_are_plain_json() {
    let mut desk = Desk::new();
    let (pending, _waiter) = desk.asks("make").await;
    let text = serde_json::to_string(&PermissionEvent::Asked(Arc::clone(&pending))).unwrap();
    assert!(
        text.starts_with(&format!(r#"{{"type":"asked","id":"{}","session":"one""#, pending.id)),
        "{text}"
    );
    assert_eq!(
        serde_json::from_str::<PermissionEvent>(&text).unwrap(),
        PermissionEvent::Asked(pending.clone())
    );

    let reply: Reply = serde_json::from_str(r#"{"reply":"once"}"#).unwrap();
    desk.broker.reply(pending.id, reply).await.unwrap();
    let text = serde_json::to_string(&desk.front_end.next().await.unwrap()).unwrap();
    assert!(text.ends_with(r#""session":"one","outcome":{"result":"granted","how":"once"}}"#), "{text}");
    let reject: Reply = serde_json::from_str(r#"{"reply":"reject"}"#).unwrap();
    assert_eq!(reject, Reply::Reject { message: None });
    assert!(serde_json::from_str::<Reply>(r#"{"reply":"yes"}"#).is_err());
}

fn outcome(event: Option<PermissionEvent>) -> QuestionOutcome {
    match event {
        Some(PermissionEvent::Replied { outcome, .. }) => outcome,
        other => panic!("expected a reply, and got {other:?}"),
    }
}

#[tokio::test]
async fn a_front_end_that_goes_away_has_not_answered() {
    for keeps in [true, false] {
        let broker = Broker::in_memory();
        let front_end = broker.subscribe();
        let session = Permissions::new(Arc::clone(&broker), "one", Policy::new());
        let waiter = tokio::spawn(async move {
            if keeps {
                session.pass(run("make"), &Replies::default()).await
            } else {
                session.pass(run("make"), &NoAsker).await
            }
        });
        while broker.pending().is_empty() {
            tokio::task::yield_now().await;
        }
        drop(front_end);
        match waiter.await.unwrap() {
            Err(Stopped::Asks(question)) => assert!(keeps && question.subjects == ["make"]),
            Err(Stopped::Refused(refusal)) => assert!(!keeps && refusal.code() == "nobody_to_ask"),
            Ok(_) => panic!("nobody answered"),
        }
    }
}
