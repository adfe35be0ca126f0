//! What a session logs.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use prowess_skills::{Budgets, SessionOptions};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::library::{Library, session_in_backend};

/// Keeps the fields of every event of this crate.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<BTreeMap<&'static str, String>>>>);

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("prowess_skills")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        fields.0.insert("level", event.metadata().level().to_string());
        self.0.lock().unwrap().push(fields.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn every_change_and_every_failure_is_logged() {
    let library = Library::of(&["a", "b", "gone"]).web_research();
    let recorder = Recorder::default();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    tracing::subscriber::with_default(recorder.clone(), || {
        runtime.block_on(async {
            let mut options = SessionOptions::default();
            options.budgets = Budgets::new(2, None);
            let session = library.builder().options(options).build().await;
            session.load("web-research", None).await.unwrap();
            session.load("a", None).await.unwrap();
            session.load("b", None).await.unwrap_err();
            session.unload("web-research").unwrap();
            library.remove("gone");
            session.load("gone", None).await.unwrap_err();
        });
    });
    let events = recorder.0.lock().unwrap();
    let told: Vec<String> = events
        .iter()
        .map(|event| library.told(&format!("{} {}", event["level"], event["message"])))
        .collect();
    assert_eq!(
        told,
        [
            "INFO Skill 'web-research' loaded (3 resources discovered)",
            "INFO Skill 'a' loaded (0 resources discovered)",
            "WARN Skill loading limit reached (2/2)",
            "INFO Skill 'web-research' unloaded (1/2 slots available)",
            "ERROR Failed to read SKILL.md at /skills/gone/SKILL.md",
        ]
    );
    assert_eq!(events[0]["skill"], "\"web-research\"");
    assert_eq!(events[0]["resources"], "3");
    assert_eq!(events[3]["reason"], "Asked");
}

#[test]
fn resources_that_cannot_be_listed_are_logged() {
    let recorder = Recorder::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tracing::subscriber::with_default(recorder.clone(), || {
        runtime.block_on(async {
            let manifest = "---\nname: deploy\ndescription: Ships.\n---\n";
            let session =
                session_in_backend(&[("/skills/deploy/SKILL.md", manifest)], &["/skills/deploy"]).await;
            session.load("deploy", None).await.unwrap();
        });
    });
    let events = recorder.0.lock().unwrap();
    assert_eq!(events[0]["level"], "WARN");
    assert!(events[0]["message"].starts_with("Failed to list resources for skill 'deploy'"), "{events:?}");
}

/// Remembers the names of events, with their fields.
#[derive(Clone, Default)]
struct Named(Arc<Mutex<Vec<NamedEvent>>>);

type NamedEvent = (String, BTreeMap<&'static str, String>);

impl Subscriber for Named {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("prowess_skills")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.0.lock().unwrap().push((event.metadata().name().to_owned(), fields.0));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn every_answer_of_a_tool_is_an_event() {
    let library = Library::of(&["a"]);
    let named = Named::default();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    tracing::subscriber::with_default(named.clone(), || {
        runtime.block_on(async {
            let session = library.session_in(prowess_skills::Dialect::DeepAgents).await;
            for name in ["a", "none"] {
                let _ = session.call("load_skill", serde_json::json!({"skill_name": name})).await;
            }
        });
    });
    let told = named.0.lock().unwrap();
    let answers: Vec<_> = told.iter().filter(|(name, _)| name == "tool.response").collect();
    let field = |at: usize, field: &str| answers[at].1[field].as_str();
    assert_eq!(answers.len(), 2);
    assert_eq!(
        [field(0, "tool"), field(0, "is_error"), field(0, "changes")],
        ["\"load_skill\"", "false", "1"]
    );
    assert_eq!([field(1, "is_error"), field(1, "changes")], ["true", "0"]);
}
