//! Summarisation: what is taken out, what stays, and what is never lost.

mod cases;
mod deaths;
mod making;
mod requests;
mod windows;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use prowess_agent::message::{AssistantPart, Content};
use prowess_agent::middleware::{Keep, Summarisation, Trigger};
use prowess_agent::{
    Agent, Event, MemoryThreads, Message, Model, Thread, ThreadId, ThreadStore, ToolAnswer, ToolCall,
    TurnOutcome, Usage,
};
use prowess_backend::{
    Backend, BackendError, Contents, Edit, Edited, Entry, Listing, ReadRange, VirtualPath, WriteMode,
};

use crate::says::Says;

/// A thread with this many messages, four to a turn.
async fn long_thread(store: &MemoryThreads, messages: usize) -> ThreadId {
    let id = ThreadId::new();
    let lease = store.lease(&id, "before", Duration::from_secs(60)).await.unwrap();
    let mut stored = 0;
    for turn in 0..messages / 4 {
        let call = ToolCall { id: "c".into(), name: "ls".to_owned(), arguments: "{}".to_owned() };
        let said = |parts| Event::ModelResponded {
            model: "says".to_owned(),
            message: Message::assistant(parts),
            usage: Usage::default(),
            finish: None,
        };
        let events = [
            Event::TurnStarted { messages: vec![Message::user(format!("question {turn}."))] },
            Event::ModelCalled { model: "says".to_owned() },
            said(vec![AssistantPart::ToolCall(call)]),
            Event::ToolStarted { call: "c".into() },
            Event::ToolAnswered { call: "c".into(), answer: ToolAnswer::text(format!("result {turn}.")) },
            Event::ModelCalled { model: "says".to_owned() },
            said(vec![AssistantPart::Text { text: format!("answer {turn}.") }]),
            Event::TurnEnded { outcome: TurnOutcome::Responded },
        ];
        store.append(&lease, stored, &events).await.unwrap();
        stored += events.len() as u64;
    }
    store.release(&lease).await.unwrap();
    id
}

fn history(id: &ThreadId) -> VirtualPath {
    VirtualPath::parse(&format!("/conversation_history/{id}.md")).unwrap()
}

async fn text_of(backend: &dyn Backend, path: &VirtualPath) -> String {
    let contents = backend.read(path, ReadRange::first(10_000_000)).await.unwrap();
    String::from_utf8(contents.bytes.to_vec()).unwrap()
}

/// The sections of a history, without their headings.
fn sections(file: &str) -> Vec<&str> {
    let mut sections = file.split("## Summarized at ");
    assert_eq!(sections.next(), Some(""), "it begins with a section");
    sections
        .map(|section| {
            let (at, body) = section.split_once("\n\n").unwrap();
            assert!(at.starts_with("20") && at.ends_with('Z'), "{at}");
            body.strip_suffix("\n\n").unwrap()
        })
        .collect()
}

/// Messages of text and calls as a history has them.
fn told(messages: &[Arc<Message>]) -> String {
    let lines = messages.iter().map(|message| {
        let calls = message.tool_calls().map(|call| format!("[calls {} with {}]", call.name, call.arguments));
        let parts: Vec<String> =
            Some(message.text()).filter(|text| !text.is_empty()).into_iter().chain(calls).collect();
        let who = match message.content {
            Content::User { .. } => "Human",
            Content::Assistant { .. } => "AI",
            Content::Tool(_) => "Tool",
        };
        format!("{who}: {}", parts.join("\n"))
    });
    lines.collect::<Vec<String>>().join("\n")
}

/// Summaries that come after so many messages, and leave so many.
fn after(messages: usize, keep: usize) -> impl Fn(Arc<Says>, Arc<dyn Backend>) -> Summarisation {
    move |model, backend| {
        Summarisation::new(model, backend).trigger(Trigger::Messages(messages)).keep(Keep::Messages(keep))
    }
}

/// No result without its call, and no call without its result.
pub(crate) fn pairs_are_whole(messages: &[Arc<Message>]) {
    let mut open = std::collections::VecDeque::new();
    for message in messages {
        match &message.content {
            Content::Tool(result) => {
                assert_eq!(open.pop_front(), Some(result.call.clone()), "a result without its call");
            }
            _ => {
                assert!(open.is_empty(), "a call without its result");
                open.extend(message.tool_calls().map(|call| call.id.clone()));
            }
        }
    }
    assert!(open.is_empty());
}

async fn thread(
    store: &Arc<MemoryThreads>,
    model: &Arc<impl Model + 'static>,
    summarisation: Summarisation,
    id: &ThreadId,
) -> Thread {
    let agent = Agent::builder(model.clone()).middleware(summarisation).store(store.clone()).build().unwrap();
    agent.open(id.clone()).await.unwrap()
}

/// A backend to which something happens when something is appended.
#[derive(Debug)]
struct Appends<A> {
    files: Arc<dyn Backend>,
    append: A,
}

#[async_trait]
trait Append: Send + Sync + std::fmt::Debug {
    async fn append(
        &self,
        files: &dyn Backend,
        path: &VirtualPath,
        bytes: Bytes,
    ) -> Result<Entry, BackendError>;
}

#[async_trait]
impl<A: Append> Backend for Appends<A> {
    async fn ls(&self, path: &VirtualPath) -> Result<Listing, BackendError> {
        self.files.ls(path).await
    }

    async fn stat(&self, path: &VirtualPath) -> Result<Entry, BackendError> {
        self.files.stat(path).await
    }

    async fn read(&self, path: &VirtualPath, range: ReadRange) -> Result<Contents, BackendError> {
        self.files.read(path, range).await
    }

    async fn write(&self, path: &VirtualPath, bytes: Bytes, mode: WriteMode) -> Result<Entry, BackendError> {
        self.files.write(path, bytes, mode).await
    }

    async fn append(&self, path: &VirtualPath, bytes: Bytes) -> Result<Entry, BackendError> {
        self.append.append(&*self.files, path, bytes).await
    }

    async fn edit(&self, path: &VirtualPath, edit: &Edit) -> Result<Edited, BackendError> {
        self.files.edit(path, edit).await
    }

    async fn delete(&self, path: &VirtualPath) -> Result<(), BackendError> {
        self.files.delete(path).await
    }
}
