//! What a person or a model reads when something is refused.

use std::time::Duration;

use prowess_permission::{Kind, Permissions, Policy, Refusal, ReplyError, Request};

use crate::{USER, deny, run};

#[tokio::test]
async fn refusals_say_what_and_what_to_do() {
    let nobody = |kind: &str, subjects: &[&str]| Refusal::NobodyToAsk {
        kind: Kind::parse(kind).unwrap(),
        subjects: subjects.iter().map(ToString::to_string).collect(),
        request: Box::new(Request::new(Kind::RUN, "")),
    };
    let rejected = |message: &str| Refusal::Rejected { message: Some(message.to_owned()) };
    let session = Permissions::unattended(Policy::new().with(USER, deny("skill", "secret-{x,y} *")));
    let denied = session.request(Request::new(Kind::SKILL, "secret-{x,y}")).await.unwrap_err();
    let refusals = [
        denied,
        nobody("run", &["git push"]),
        nobody("run", &["echo \"*\" \\ \n?"]),
        nobody("run", &["make", "make test"]),
        nobody("my.kind", &["x"]),
        nobody("run", &[&"long ".repeat(100)]),
        nobody("run", &[]),
        rejected("use `make`\n  instead\u{1b}[2J"),
        rejected(" \n"),
        Refusal::Rejected { message: None },
        Refusal::TimedOut {
            kind: Kind::RUN,
            subjects: vec!["make".to_owned()],
            after: Duration::from_secs(90),
        },
        Refusal::Cancelled,
    ];
    let lines: Vec<String> =
        refusals.iter().map(|refusal| format!("{}: {refusal}", refusal.code())).collect();
    assert!(lines.iter().all(|line| !line.contains(char::is_control)), "one line each");
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_reply_that_had_no_effect_says_why() {
    let id = "00000000000000aa-3".parse().unwrap();
    insta::assert_snapshot!(ReplyError::NotWaiting { id }, @"request 00000000000000aa-3 is not waiting for an answer; it was answered, refused or withdrawn before");
    let refusal = Refusal::Denied { kind: Kind::RUN, subject: "rm x".to_owned(), rule: None };
    insta::assert_snapshot!(ReplyError::Denied { refusal }, @"the answer was not used: Permission denied: run 'rm x' is denied by a rule.");
}

#[test]
fn a_request_has_a_line_for_the_person() {
    assert_eq!(run("make test").title, "run make test");
    assert_eq!(run("make").titled("Build it").title, "Build it");
}
