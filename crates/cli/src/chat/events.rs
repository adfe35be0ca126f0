//! The events of a chat: what a screen shows, and what `--json` prints, one object per line.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use prowess_agent::agent::BY_MIDDLEWARE;
use prowess_agent::id::CallId;
use prowess_agent::middleware::{Counting, SkillsState, Summarisation, WindowPart, WindowUse};
use prowess_agent::thread_state::StateChange;
use prowess_agent::tool::{ToolAnswer, ToolData};
use prowess_agent::{CallReply, Event, ThreadId, ThreadUpdate, ToolCall, TurnOutcome, WaitingCall};
use prowess_permission::{Question, Wording};
use prowess_skills::SkillDelta;
use serde::Serialize;
use serde_json::Value;

use super::made::{LeftOut, MadeFile};
use super::run_files::RunFiles;
use super::window_notice;

/// How far file times may lag behind the clock.
const TICK: Duration = Duration::from_millis(10);

/// An event of a chat.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ChatEvent {
    /// A thread is open.
    Thread {
        id: ThreadId,
        model: String,
        /// How many messages it has already.
        messages: usize,
    },
    /// A piece of the model's text.
    Text { text: String },
    /// A piece of the model's reasoning.
    Reasoning { text: String },
    /// The model's response is complete.
    Said { model: String, input_tokens: u64, output_tokens: u64 },
    /// A tool is called.
    Call {
        call: CallId,
        tool: String,
        arguments: Value,
        /// The arguments with paths as a person knows them.
        #[serde(skip)]
        for_person: Value,
    },
    /// A tool reports progress.
    Progress { call: CallId, text: String },
    /// A tool answered.
    Result {
        call: CallId,
        tool: String,
        text: String,
        is_error: bool,
        milliseconds: Option<u64>,
        /// The result as data: the end of a command, or who refused the call.
        data: Option<ToolData>,
        /// The skill whose `allowed-tools` approved the call, so that nobody was asked.
        preapproved_by: Option<String>,
    },
    /// A run wrote a file, or saved an artifact.
    File {
        call: CallId,
        name: String,
        /// Its path on this machine.
        path: Option<String>,
        bytes: Option<u64>,
        /// The command that gets the artifact.
        fetch: Option<String>,
    },
    /// What the turn made. Comes before the end of the turn, if it made anything.
    Made {
        files: Vec<MadeFile>,
        /// How many more there are.
        more: usize,
        /// What these are.
        left_out: LeftOut,
        /// The directory for results, if some of them are there.
        directory: Option<String>,
    },
    /// A skill was loaded.
    Loaded { skill: String, tokens: usize },
    /// A skill was unloaded.
    Unloaded { skill: String, reason: Value },
    /// A person must reply.
    Question {
        call: CallId,
        tool: String,
        /// The wording of the question.
        #[serde(flatten)]
        wording: Box<Wording>,
        /// The question as it is stored.
        question: Box<Question>,
    },
    /// A person, or `--yes`, replied.
    Replied { call: CallId, reply: CallReply },
    /// A summary replaced this many messages.
    Compacted { messages: usize },
    /// Estimated tokens of the next model call.
    Context { tokens: u64, window: Option<u64>, skills: usize, skill_tokens: u64, cost: Option<String> },
    /// What fills the context window: the answer to `/context`.
    Window {
        tokens: u64,
        window: Option<u64>,
        free: Option<u64>,
        counted: &'static str,
        /// The tokenizer, if prowess counted with one.
        tokenizer: Option<String>,
        /// The factor that the thread learned.
        factor: Option<f64>,
        parts: Vec<WindowPart>,
    },
    /// The turn is over.
    Ended {
        outcome: TurnOutcome,
        /// The text of the last response.
        #[serde(rename = "answer")]
        response: Option<String>,
    },
    /// A notice for the person.
    Note { text: String },
}

/// Turns updates of a thread into events, with the names and times of calls.
#[derive(Debug, Default)]
pub(crate) struct EventTranslator {
    calls: BTreeMap<CallId, (ToolCall, Option<Instant>)>,
    /// How many messages a summary replaced.
    cut: usize,
    /// The files that runs write.
    files: Option<RunFiles>,
}

impl EventTranslator {
    /// Switches to another thread.
    pub(super) fn open(&mut self, cut: usize, files: RunFiles) {
        (self.cut, self.files) = (cut, Some(files));
    }

    /// Adds calls that were made before.
    pub(crate) fn add_calls(&mut self, calls: impl IntoIterator<Item = ToolCall>) {
        self.calls.extend(calls.into_iter().map(|call| (call.id.clone(), (call, None))));
    }

    /// What the turn made, if it made anything.
    pub(super) fn take_made(&mut self) -> Option<ChatEvent> {
        self.files.as_mut()?.take_made()
    }

    /// The events of an update.
    pub(crate) fn update(&mut self, update: ThreadUpdate<'_>) -> Vec<ChatEvent> {
        match update {
            ThreadUpdate::Text(text) => vec![ChatEvent::Text { text: text.to_owned() }],
            ThreadUpdate::Reasoning(text) => vec![ChatEvent::Reasoning { text: text.to_owned() }],
            ThreadUpdate::Progress(call, text) => {
                vec![ChatEvent::Progress { call: call.clone(), text: text.to_owned() }]
            }
            ThreadUpdate::Notice(text) => vec![ChatEvent::Note { text: text.to_owned() }],
            ThreadUpdate::Stored(event) => self.stored(event),
            ThreadUpdate::SubAgentTool(call, answer) => {
                // Its runs started after the call did.
                let begun = self.calls.get(call).and_then(|(_, begun)| *begun);
                self.note_made(call, answer, begun)
            }
            _ => Vec::new(),
        }
    }

    /// Notes what a tool made, and returns the events about files of a run.
    fn note_made(&mut self, call: &CallId, answer: &ToolAnswer, begun: Option<Instant>) -> Vec<ChatEvent> {
        let Some(files) = &mut self.files else { return Vec::new() };
        match &answer.data {
            Some(ToolData::ChangedFile(file)) => {
                files.changed(file);
                Vec::new()
            }
            Some(ToolData::Ran(ran)) => {
                let since = begun.and_then(|begun| SystemTime::now().checked_sub(begun.elapsed() + TICK));
                files.of_run(call, ran, since)
            }
            _ => Vec::new(),
        }
    }

    fn stored(&mut self, event: &Event) -> Vec<ChatEvent> {
        match event {
            Event::ModelResponded { model, message, usage, .. } => {
                self.add_calls(message.tool_calls().cloned());
                // A line that a person typed became a call. No model said anything.
                if model == BY_MIDDLEWARE {
                    return Vec::new();
                }
                let (input_tokens, output_tokens) = (usage.input, usage.output);
                vec![ChatEvent::Said { model: model.clone(), input_tokens, output_tokens }]
            }
            Event::ToolStarted { call } => {
                let Some((known, begun)) = self.calls.get_mut(call) else { return Vec::new() };
                *begun = Some(Instant::now());
                let arguments = known.parsed().unwrap_or_else(|_| Value::String(known.arguments.clone()));
                let for_person = with_real_paths(&arguments, self.files.as_ref());
                vec![ChatEvent::Call { call: call.clone(), tool: known.name.clone(), arguments, for_person }]
            }
            Event::ToolAnswered { call, answer } => {
                let mut events = skills(&answer.changes);
                let (tool, begun) = match self.calls.get(call) {
                    Some((known, begun)) => (known.name.clone(), *begun),
                    None => (String::new(), None),
                };
                let milliseconds =
                    begun.map(|begun| u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX));
                let files = self.note_made(call, answer, begun);
                let (text, is_error, data) = (answer.text.clone(), answer.is_error, answer.data.clone());
                events.push(ChatEvent::Result {
                    call: call.clone(),
                    tool,
                    text,
                    is_error,
                    milliseconds,
                    data,
                    preapproved_by: answer.preapproved_by.clone(),
                });
                events.extend(files);
                events
            }
            Event::StateChanged { changes } => {
                let notices = changes.iter().filter_map(Summarisation::notice);
                let notes = notices.map(|notice| ChatEvent::Note { text: window_notice::text(&notice) });
                skills(changes).into_iter().chain(notes).collect()
            }
            Event::Replied { call, reply } => {
                // Other calls that this reply ends have their own events.
                let reply = match reply.clone() {
                    CallReply::RejectAll { message } => CallReply::Reject { message },
                    reply => reply,
                };
                vec![ChatEvent::Replied { call: call.clone(), reply }]
            }
            Event::Compacted { cut, .. } => {
                let before = std::mem::replace(&mut self.cut, *cut);
                vec![ChatEvent::Compacted { messages: cut.saturating_sub(before) }]
            }
            _ => Vec::new(),
        }
    }
}

impl ChatEvent {
    /// The event for what fills the context window.
    pub(super) fn window(used: &WindowUse) -> Self {
        let (counted, tokenizer, factor) = match &used.counting {
            Counting::Provider => ("provider", None, None),
            Counting::Tokenizer { name, factor } => ("tokenizer", Some(name.clone()), *factor),
            Counting::Estimate { factor } => ("estimate", None, *factor),
            _ => ("estimate", None, None),
        };
        Self::Window {
            tokens: used.total(),
            window: used.window,
            free: used.free(),
            counted,
            tokenizer,
            factor: factor.map(|factor| factor as f64 / 1000.0),
            parts: used.parts.clone(),
        }
    }

    /// The event for a question that waits.
    pub(crate) fn question(waiting: &WaitingCall) -> Self {
        Self::Question {
            call: waiting.call.id.clone(),
            tool: waiting.call.name.clone(),
            wording: Box::new(waiting.question.wording()),
            question: Box::new(waiting.question.clone()),
        }
    }
}

fn skills(changes: &[StateChange]) -> Vec<ChatEvent> {
    let events = |delta| match delta {
        SkillDelta::Loaded { skill, .. } | SkillDelta::Reloaded { skill, .. } => {
            Some(ChatEvent::Loaded { skill: skill.name, tokens: skill.tokens })
        }
        SkillDelta::Unloaded { name, reason } => {
            let reason = serde_json::to_value(reason).unwrap_or_default();
            Some(ChatEvent::Unloaded { skill: name, reason })
        }
        _ => None,
    };
    changes.iter().filter_map(SkillsState::delta).filter_map(events).collect()
}

/// Arguments of a call, with the paths of files as a person knows them.
fn with_real_paths(arguments: &Value, files: Option<&RunFiles>) -> Value {
    let mut shown = arguments.clone();
    for key in ["file_path", "path", "from", "to"] {
        let real = arguments[key].as_str().and_then(|path| files?.for_person(path));
        if let Some(real) = real {
            shown[key] = real.into();
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use prowess_permission::Kind;

    use super::*;

    /// One of each, in the order of the page. A type that is missing here does not compile.
    fn each() -> Vec<ChatEvent> {
        let (call, text) = (|| CallId::from("c"), || "x".to_owned());
        let all = vec![
            ChatEvent::Thread { id: ThreadId::new(), model: text(), messages: 1 },
            ChatEvent::Text { text: text() },
            ChatEvent::Reasoning { text: text() },
            ChatEvent::Said { model: "m".to_owned(), input_tokens: 1, output_tokens: 1 },
            ChatEvent::Call { call: call(), tool: text(), arguments: Value::Null, for_person: Value::Null },
            ChatEvent::Progress { call: call(), text: text() },
            ChatEvent::Result {
                call: call(),
                tool: text(),
                text: text(),
                is_error: false,
                milliseconds: None,
                data: None,
                preapproved_by: None,
            },
            ChatEvent::File { call: call(), name: text(), path: None, bytes: None, fetch: None },
            ChatEvent::Made { files: Vec::new(), more: 1, left_out: LeftOut::default(), directory: None },
            ChatEvent::Loaded { skill: text(), tokens: 1 },
            ChatEvent::Unloaded { skill: text(), reason: Value::Null },
            ChatEvent::Question {
                call: call(),
                tool: text(),
                wording: Box::new(Question::new(Kind::RUN, "x").wording()),
                question: Box::new(Question::new(Kind::RUN, "x")),
            },
            ChatEvent::Replied { call: call(), reply: CallReply::Approve },
            ChatEvent::Compacted { messages: 1 },
            ChatEvent::Ended { outcome: TurnOutcome::Responded, response: None },
            ChatEvent::Context { tokens: 1, window: None, skills: 1, skill_tokens: 1, cost: None },
            ChatEvent::window(&WindowUse::default()),
            ChatEvent::Note { text: text() },
        ];
        for event in &all {
            match event {
                ChatEvent::Thread { .. }
                | ChatEvent::Text { .. }
                | ChatEvent::Reasoning { .. }
                | ChatEvent::Said { .. }
                | ChatEvent::Call { .. }
                | ChatEvent::Progress { .. }
                | ChatEvent::Result { .. }
                | ChatEvent::File { .. }
                | ChatEvent::Made { .. }
                | ChatEvent::Loaded { .. }
                | ChatEvent::Unloaded { .. }
                | ChatEvent::Question { .. }
                | ChatEvent::Replied { .. }
                | ChatEvent::Compacted { .. }
                | ChatEvent::Ended { .. }
                | ChatEvent::Context { .. }
                | ChatEvent::Window { .. }
                | ChatEvent::Note { .. } => {}
            }
        }
        all
    }

    #[test]
    fn the_page_names_every_type_and_field() {
        let page =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/chat.md")).unwrap();
        let events = page.split("\n## Events\n").nth(1).unwrap().split("\n## ").next().unwrap();
        let quoted =
            |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
        let rows = events.lines().filter(|line| line.starts_with("| `"));
        let documented: BTreeMap<String, Vec<String>> = rows
            .map(|row| {
                let cells: Vec<&str> = row.split('|').collect();
                let mut fields = quoted(cells[2]);
                fields.sort();
                (quoted(cells[1]).remove(0), fields)
            })
            .collect();
        let known: BTreeMap<String, Vec<String>> = each()
            .iter()
            .map(|event| {
                let value = serde_json::to_value(event).unwrap();
                let fields = value.as_object().unwrap().keys().filter(|key| *key != "type");
                let mut fields: Vec<String> = fields.cloned().collect();
                fields.sort();
                (value["type"].as_str().unwrap().to_owned(), fields)
            })
            .collect();
        assert_eq!(documented, known);
    }
}
