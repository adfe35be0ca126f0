//! Permissions as their users meet them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod asking;
mod config;
mod hostile;
mod paths;
mod properties;
mod stores;
mod wording;

use std::sync::Arc;

use prowess_permission::broker::{PermissionEvent, Subscription};
use prowess_permission::{
    Broker, Decision, Grant, Kind, PendingQuestion, Permissions, Policy, Question, Refusal, Rule, RuleSource,
};
use tokio::task::JoinHandle;

/// A broker, somebody who can answer, and one session with the default rules.
struct Desk {
    broker: Arc<Broker>,
    front_end: Subscription,
    session: Permissions,
}

impl Desk {
    fn new() -> Self {
        Self::of(Broker::in_memory())
    }

    fn of(broker: Arc<Broker>) -> Self {
        let front_end = broker.subscribe();
        let session = Permissions::new(Arc::clone(&broker), "one", Policy::new());
        Self { broker, front_end, session }
    }

    /// The same desk, with another session at it.
    fn other(&self, name: &str) -> Permissions {
        Permissions::new(Arc::clone(&self.broker), name, Policy::new())
    }

    /// Asks, and gives the ask as the front end sees it.
    async fn ask(&mut self, session: &Permissions, question: Question) -> (Arc<PendingQuestion>, Waiter) {
        let session = session.clone();
        let waiter = tokio::spawn(async move { session.request(question).await });
        (self.next_asked().await, waiter)
    }

    async fn asks(&mut self, subject: &str) -> (Arc<PendingQuestion>, Waiter) {
        let session = self.session.clone();
        self.ask(&session, run(subject)).await
    }

    async fn next_asked(&mut self) -> Arc<PendingQuestion> {
        loop {
            if let PermissionEvent::Asked(pending) = self.front_end.next().await.unwrap() {
                return pending;
            }
        }
    }
}

type Waiter = JoinHandle<Result<Grant, Refusal>>;

fn run(subject: &str) -> Question {
    Question::new(Kind::RUN, subject)
}

fn deny(kind: &str, pattern: &str) -> Vec<Rule> {
    vec![Rule::new(kind, pattern, Decision::Deny)]
}

fn decision(session: &Permissions, question: &Question) -> Decision {
    session.decide(question).decision
}

const USER: RuleSource = RuleSource::User;
