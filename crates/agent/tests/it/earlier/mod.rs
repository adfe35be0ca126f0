//! Questions as version 1 stored them. `asked.jsonl` has one of each sort, as that version wrote it: they are in the
//! database of `crates/cli/tests/fixtures/0.1`, too.

use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use prowess_agent::id::CallId;
use prowess_agent::message::AssistantPart;
use prowess_agent::middleware::ToolPermissions;
use prowess_agent::model::ToolDefinition;
use prowess_agent::{
    Agent, CallReply, Event, MemoryThreads, Message, NoWatcher, Thread, ThreadId, ThreadStore, Tool,
    ToolAnswer, ToolCall, ToolContext, ToolOutput, TurnOutcome, TurnStatus, Usage,
};
use prowess_permission::{Action, Decision, Kind, Permissions, Policy, Question, RealPath, Rule, RuleSource};
use serde_json::{Value, json};

use crate::agent::results;
use crate::says::{Says, text};

const ASKED: &str = include_str!("asked.jsonl");

/// What was stored, and the event that it is today.
fn stored() -> Vec<(Value, Event)> {
    let read = |line: &str| (serde_json::from_str(line).unwrap(), serde_json::from_str(line).unwrap());
    ASKED.lines().map(read).collect()
}

fn stored_with(title: &str) -> (Value, Event) {
    let mut all = stored().into_iter();
    let is_it = |(value, _): &(Value, Event)| value["question"]["title"].as_str().unwrap().starts_with(title);
    all.find(is_it).unwrap_or_else(|| panic!("{title}"))
}

/// A question is what it was: its words, what rules and "always" see of it, and what an answer to it is bound to.
#[test]
fn every_sort_of_question_is_read() {
    for (before, event) in stored() {
        let Event::Asked { call, question, by_tool } = &event else { panic!("{event:?}") };
        let asked = question;
        let (before, question) = (&before["question"], &asked.question);
        let wording = question.wording();
        assert_eq!((call.as_str().is_empty(), json!(wording.title)), (false, before["title"].clone()));
        assert_eq!(*by_tool, before.get("request").is_some());
        if let Some(request) = before.get("request") {
            assert_eq!(json!(question.kind), request["kind"]);
            assert_eq!(json!(question.subjects), request["patterns"]);
            assert_eq!(json!(question.always), request["always"]);
            assert_eq!(json!(question.binding), request["binding"]);
        }
        for (name, detail) in before["details"].as_object().into_iter().flatten() {
            let is_said = !matches!(detail, Value::Null | Value::Bool(false));
            let shown = wording.details.iter().find(|shown| shown.name == *name).map(|shown| &shown.text);
            let told = detail.as_str().map_or_else(|| detail.to_string(), str::to_owned);
            assert_eq!(shown, is_said.then_some(&told), "{name}");
        }
        if let Some(fingerprint) = before.get("fingerprint") {
            assert_eq!(json!(question.fingerprint()), *fingerprint, "{}", wording.title);
        }
        assert_eq!(json!(asked.allowed), before.get("allowed").cloned().unwrap_or_else(|| json!([])));
        assert_eq!(asked.via.as_ref().map(|via| json!(via)), before.get("sub_agent").cloned());
        // Stored again, in today's form, it says the same. What it is an answer to is not believed a second time.
        let again: Event = serde_json::from_value(json!(event)).unwrap();
        let Event::Asked { question: again, .. } = &again else { panic!() };
        assert_eq!(
            (&again.allowed, &again.via, again.question.wording()),
            (&asked.allowed, &asked.via, wording)
        );
    }
}

#[test]
fn what_a_sub_agent_asked_says_where() {
    let (_, event) = stored_with("sub-agent general-purpose: ");
    let Event::Asked { question, .. } = event else { panic!() };
    let via = question.via.unwrap();
    assert_eq!((via.name.as_str(), via.number), ("general-purpose", 11));
    assert_eq!(via.thread.as_str(), "task-20b537dd68de3d80a2259cc1d13864b5");
}

/// Asks what this version asks in the place of version 1.
#[derive(Debug)]
struct Gated {
    /// None if it asks nothing.
    question: Option<Question>,
    made: Arc<Mutex<u32>>,
}

#[async_trait]
impl Tool for Gated {
    fn definition(&self) -> Arc<ToolDefinition> {
        let parameters = json!({"type": "object"});
        Arc::new(ToolDefinition::new("ls", "Does it.", parameters))
    }

    async fn call(&self, _: Value, context: ToolContext<'_>) -> ToolOutput {
        let rules = ["skill", "write", "read", "mcp"].map(|kind| Rule::new(kind, "*", Decision::Ask));
        let permissions = Permissions::unattended(Policy::new().rules(RuleSource::User, rules));
        if let Some(question) = self.question.clone()
            && let Err(output) = context.pass(&permissions, question).await
        {
            return output;
        }
        *self.made.lock().unwrap() += 1;
        ToolAnswer::text("done").into()
    }
}

/// A thread in which version 1 stored a question, whose call does today what `question` says.
async fn waiting(asked: Event, question: Option<&Question>, made: &Arc<Mutex<u32>>) -> (CallId, Thread) {
    let Event::Asked { call, by_tool, .. } = &asked else { panic!("{asked:?}") };
    let (id, by_tool) = (call.clone(), *by_tool);
    let call = ToolCall { id: id.clone(), name: "ls".to_owned(), arguments: r#"{"path":"/"}"#.to_owned() };
    let message = Message::assistant(vec![AssistantPart::ToolCall(call)]);
    let model = "says".to_owned();
    let mut events = vec![
        Event::TurnStarted { messages: vec![Message::user("go")] },
        Event::ModelCalled { model: model.clone() },
        Event::ModelResponded { model, message, usage: Usage::default(), finish: None },
    ];
    events.extend(by_tool.then(|| Event::ToolStarted { call: id.clone() }));
    events.push(asked);
    let (store, thread) = (Arc::new(MemoryThreads::new()), ThreadId::new());
    let lease = store.lease(&thread, "version 1", std::time::Duration::from_secs(9)).await.unwrap();
    store.append(&lease, 0, &events).await.unwrap();
    store.release(&lease).await.unwrap();
    let tool = Gated { question: question.cloned(), made: Arc::clone(made) };
    let builder = Agent::builder(Says::new([text("ok")])).store(store).tool(Arc::new(tool));
    let agent = match by_tool {
        true => builder.build().unwrap(),
        false => {
            let rules = [Rule::new("tool", "ls", Decision::Ask)];
            let permissions = Permissions::unattended(Policy::new().rules(RuleSource::User, rules));
            builder.middleware(ToolPermissions::new(permissions)).build().unwrap()
        }
    };
    (id, agent.open(thread).await.unwrap())
}

/// The reply to a question of version 1 is one to the same question of today, and to no other.
#[tokio::test]
async fn a_reply_is_taken_as_stored() {
    let file = |path: &str| RealPath::elsewhere(path);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut gated = Vec::new();
    let (value, event) = stored_with("load the skill");
    let details = &value["question"]["details"];
    let action = Action::LoadSkill {
        skill: text(&details["skill"]),
        location: text(&details["location"]),
        origin: text(&details["origin"]),
        digest: Some(text(&details["digest"])),
        arguments: None,
    };
    let binding = text(&value["question"]["request"]["binding"]);
    gated.push((event, Question::new(Kind::SKILL, "tides").binding(binding).action(action)));
    let (_, event) = stored_with("write /tmp/prowess-earlier/project/new.txt");
    let question = Question::about_file(Kind::WRITE, file("/tmp/prowess-earlier/project/new.txt"));
    gated.push((event, question.action(Action::WriteFile { content: "Tuesday: windy\n".to_owned() })));
    let (_, event) = stored_with("write /tmp/prowess-earlier/project/log.txt");
    let question = Question::about_file(Kind::WRITE, file("/tmp/prowess-earlier/project/log.txt"));
    let action = Action::EditFile {
        old_string: "calm".to_owned(),
        new_string: "rough".to_owned(),
        replace_all: false,
        difference: None,
        lines: None,
    };
    gated.push((event, question.action(action)));
    let (value, event) = stored_with("let skill 'tides' read the file");
    let notes = Path::new("/tmp/prowess-earlier/home/notes.txt");
    let question = Question::about_file(Kind::READ, RealPath::known(notes, notes, false));
    let action = Action::AddInput {
        skill: "tides".to_owned(),
        command: text(&value["question"]["details"]["command"]),
        is_directory: false,
        with_secrets: Vec::new(),
    };
    gated.push((event, question.action(action)));
    let (value, event) = stored_with("call a tool of the MCP server");
    let action = Action::CallServerTool {
        server: "pier".to_owned(),
        tool: "depth".to_owned(),
        description: text(&value["question"]["details"]["description"]),
        arguments: value["question"]["details"]["arguments"].as_object().unwrap().clone(),
        because_of: Vec::new(),
    };
    let binding = text(&value["question"]["request"]["binding"]);
    let mcp: Kind = serde_json::from_value(json!("mcp")).unwrap();
    gated.push((event, Question::new(mcp, "pier depth").binding(binding).action(action)));
    for (asked, question) in gated {
        let made = Arc::new(Mutex::new(0));
        let (id, mut thread) = waiting(asked.clone(), Some(&question), &made).await;
        assert!(matches!(thread.go_on(&NoWatcher).await.unwrap(), TurnStatus::Waiting(_)), "nobody answered");
        let turn = thread.reply(&id, CallReply::Approve, &NoWatcher).await.unwrap();
        assert_eq!(
            (turn, *made.lock().unwrap()),
            (TurnStatus::Ended(TurnOutcome::Responded), 1),
            "{question:?}"
        );
        let (id, mut thread) = waiting(asked.clone(), Some(&question), &made).await;
        let no = CallReply::Reject { message: "not this".to_owned() };
        thread.reply(&id, no, &NoWatcher).await.unwrap();
        assert_eq!((results(&thread)[0].contains("not this"), *made.lock().unwrap()), (true, 1));
        // The call means something else by now.
        let (id, mut thread) = waiting(asked, Some(&question.subject("another")), &made).await;
        let turn = thread.reply(&id, CallReply::Approve, &NoWatcher).await.unwrap();
        assert!(matches!(turn, TurnStatus::Waiting(_)), "{turn:?}");
        assert_eq!(*made.lock().unwrap(), 1);
    }
}

/// The same for a call that waits before it is made.
#[tokio::test]
async fn a_reply_to_a_call_that_waits_is_taken_as_stored() {
    let (_, event) = stored_with("call 'ls'");
    let Event::Asked { question, .. } = &event else { panic!() };
    assert_eq!(
        question.question.action,
        Action::CallTool { tool: "ls".to_owned(), arguments: r#"{"path":"/"}"#.to_owned() }
    );
    let made = Arc::new(Mutex::new(0));
    let (id, mut thread) = waiting(event.clone(), None, &made).await;
    let no = CallReply::Reject { message: "not this".to_owned() };
    thread.reply(&id, no, &NoWatcher).await.unwrap();
    assert_eq!((results(&thread), *made.lock().unwrap()), (vec!["not this".to_owned()], 0));
    let (id, mut thread) = waiting(event, None, &made).await;
    let turn = thread.reply(&id, CallReply::Approve, &NoWatcher).await.unwrap();
    assert_eq!((turn, *made.lock().unwrap()), (TurnStatus::Ended(TurnOutcome::Responded), 1));
}
