//! Requests about files, and the names that rules know them by.

use std::path::Path;

use prowess_permission::{
    Broker, Decision, Granted, Kind, Permissions, Policy, Question, RealPath, Rule, RuleSource, Verdict,
};

fn place(real: &str, spelled: &str) -> RealPath {
    RealPath::known(Path::new(real), Path::new(spelled), false)
}

fn judged(rules: impl IntoIterator<Item = Rule>, place: RealPath) -> Verdict {
    Policy::new().rules(RuleSource::User, rules).evaluate(&Question::about_file(Kind::READ, place))
}

#[test]
fn a_name_that_leads_to_a_file_denies_and_never_allows() {
    let allow = |pattern| Rule::new("read", pattern, Decision::Allow);
    let deny = |pattern| Rule::new("read", pattern, Decision::Deny);
    let linked = || place("/data/a", "/site/link");
    assert_eq!(judged([allow("*"), deny("/site/*")], linked()).decision, Decision::Deny);
    assert_eq!(judged([allow("*"), deny("/data/*")], linked()).decision, Decision::Deny);
    assert_eq!(judged([allow("/site/*")], linked()).decision, Decision::Ask);
    assert_eq!(judged([allow("/data/*")], linked()).decision, Decision::Ask);
    assert_eq!(judged([allow("/data/*"), allow("/site/*")], linked()).decision, Decision::Allow);
}

/// Rules in code may name paths of a store of files. They deny by these, and allow nothing on this machine.
#[test]
fn a_path_in_a_store_is_held_against_rules_for_it() {
    let stored = || place("/data/private/a", "/data/private/a").backend_paths(["/private/a".to_owned()]);
    let rule = |pattern, action| Rule::new("read", pattern, action);
    let verdict = judged([rule("*", Decision::Allow), rule("/private/*", Decision::Deny)], stored());
    assert_eq!((verdict.decision, verdict.subject.as_str()), (Decision::Deny, "/private/a"));
    assert_eq!(judged([rule("/private/*", Decision::Allow)], stored()).decision, Decision::Ask);
    let only = [rule("*", Decision::Deny), rule("/data/*", Decision::Allow)];
    assert_eq!(judged(only, stored()).decision, Decision::Allow, "`*` says nothing of the store");
}

#[test]
fn case_counts_for_what_is_allowed_alone_where_it_does_not_count() {
    let folded = || RealPath::known(Path::new("/data/PRIVATE/A"), Path::new("/data/PRIVATE/A"), true);
    let rule = |action| Rule::new("read", "/data/private/*", action);
    assert_eq!(judged([rule(Decision::Deny)], folded()).decision, Decision::Deny);
    assert_eq!(judged([rule(Decision::Allow)], folded()).decision, Decision::Ask);
    let exact = place("/data/PRIVATE/A", "/data/PRIVATE/A");
    assert_eq!(judged([rule(Decision::Deny)], exact).decision, Decision::Ask, "another file");
}

#[tokio::test]
async fn an_approval_of_the_real_path_covers_what_leads_there() {
    let broker = Broker::in_memory();
    let rules = [Rule::new("read", "*", Decision::Allow), Rule::new("read", "/site/*", Decision::Ask)];
    let permissions = Permissions::new(broker.clone(), "one", Policy::new().rules(RuleSource::User, rules));
    let linked = || Question::about_file(Kind::READ, place("/data/a", "/site/link"));
    assert!(permissions.request(linked()).await.is_err(), "the link is asked about");
    broker.remember(&Question::new(Kind::READ, "/data/a")).await.unwrap();
    assert!(permissions.request(linked()).await.is_err(), "one that is not of a real path");
    broker.remember(&linked()).await.unwrap();
    assert_eq!(permissions.request(linked()).await.unwrap().how(), Granted::Remembered);
    let elsewhere = Question::about_file(Kind::READ, place("/data/b", "/site/link"));
    assert!(permissions.request(elsewhere).await.is_err(), "the link leads elsewhere now");
}
