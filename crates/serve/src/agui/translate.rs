//! Turns what happens in a thread into the events of an AG-UI run.

use std::collections::{BTreeMap, HashSet, VecDeque};

use serde_json::{Value, json};

use crate::follow::{Followed, Rest};
use crate::view::{
    EventView, LoadedSkillView, LoggedEvent, MessageRole, MessageView, QuestionView, Replay, TodoView,
    UsageView,
};

/// Turns what happens into events. Each event that opens something has its end, in the order that AG-UI's verifier wants.
pub(crate) struct Translator {
    /// The ids as the client knows them.
    ids: Ids,
    /// The messages that the client has.
    known: HashSet<String>,
    /// The ids of messages begin like this.
    prefix: String,
    /// How many responses there were.
    responses: usize,
    /// What the client was told of the response in progress.
    text: Option<String>,
    reasoning: Option<String>,
    /// Whether the reasoning can still grow.
    is_reasoning: bool,
    /// How often the response began again.
    again: usize,
    /// Whether the client has messages that are not in the thread.
    is_stale: bool,
    state: State,
    usage: BTreeMap<String, UsageView>,
    out: VecDeque<Value>,
}

/// The ids of a run.
pub(crate) struct Ids {
    pub(crate) thread: String,
    pub(crate) run: String,
}

/// The state that the client sees.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    todos: Vec<TodoView>,
    skills: Vec<LoadedSkillView>,
    questions: Vec<QuestionView>,
    files: Vec<Value>,
}

impl Translator {
    /// Begins a run on a thread that is like this now. `said` are the messages that the run says.
    pub(crate) fn new(
        ids: Ids,
        thread: &str,
        replay: &Replay,
        files: Vec<Value>,
        said: &[MessageView],
    ) -> Self {
        let prefix = thread.to_owned();
        let mut translator = Self {
            ids,
            known: HashSet::new(),
            prefix,
            responses: 0,
            text: None,
            reasoning: None,
            is_reasoning: false,
            again: 0,
            is_stale: false,
            state: State {
                todos: replay.todos.clone(),
                skills: replay.skills.clone(),
                questions: replay.questions(),
                files,
            },
            usage: BTreeMap::new(),
            out: VecDeque::new(),
        };
        let Ids { thread: client_thread, run } = &translator.ids;
        let started =
            json!({"type": "RUN_STARTED", "threadId": client_thread, "runId": run, "protocolVersion": "1.0"});
        translator.out.push_back(started);
        let state = &translator.state;
        let snapshot = json!({
            "thread": thread,
            "todos": state.todos,
            "skills": state.skills,
            "questions": state.questions,
            "files": state.files,
        });
        translator.out.push_back(json!({"type": "STATE_SNAPSHOT", "snapshot": snapshot}));
        let mut messages = replay.messages_so_far();
        messages.extend(said.iter().filter(|new| !replay.has(&new.id)).cloned());
        translator.responses = translator.snapshot(&messages);
        translator
    }

    /// The next event.
    pub(crate) fn pop(&mut self) -> Option<Value> {
        self.out.pop_front()
    }

    fn push(&mut self, event: Value) {
        self.out.push_back(event);
    }

    /// Sends the whole conversation. Returns the number of responses in it.
    fn snapshot(&mut self, messages: &[MessageView]) -> usize {
        let (mut shown, mut responses) = (Vec::new(), 0);
        for message in messages {
            match message.role {
                // What the agent tells itself is no part of the conversation.
                MessageRole::User if message.by.is_some() => {}
                MessageRole::User => {
                    self.known.insert(message.id.clone());
                    shown.push(json!({"id": message.id, "role": "user", "content": message.text}));
                }
                MessageRole::Assistant => {
                    let id = format!("{}-{responses}", self.prefix);
                    responses += 1;
                    if let Some(reasoning) = &message.reasoning {
                        let id = format!("{id}-reasoning");
                        shown.push(json!({"id": id, "role": "reasoning", "content": reasoning}));
                    }
                    let mut view = json!({"id": id, "role": "assistant", "content": message.text});
                    if !message.calls.is_empty() {
                        let call = |call: &crate::view::CallView| {
                            let function =
                                json!({"name": call.name, "arguments": arguments(&call.arguments)});
                            json!({"id": call.id, "type": "function", "function": function})
                        };
                        view["toolCalls"] = message.calls.iter().map(call).collect();
                    }
                    shown.push(view);
                }
                MessageRole::Tool => {
                    let call = message.call.as_deref().unwrap_or_default();
                    let mut view = json!({"id": answer_id(call), "role": "tool", "toolCallId": call, "content": message.text});
                    if message.is_error {
                        view["error"] = message.text.as_str().into();
                    }
                    shown.push(view);
                }
            }
        }
        self.push(json!({"type": "MESSAGES_SNAPSHOT", "messages": shown}));
        responses
    }

    /// A notice for the person.
    pub(crate) fn notice(&mut self, text: &str) {
        self.push(json!({"type": "CUSTOM", "name": "prowess.notice", "value": {"text": text}}));
    }

    /// Progress of a tool call.
    fn progress(&mut self, call: &str, text: &str) {
        let value = json!({"toolCallId": call, "text": text});
        self.push(json!({"type": "CUSTOM", "name": "prowess.progress", "value": value}));
    }

    /// The files as they are now.
    pub(crate) fn files(&mut self, files: Vec<Value>) {
        let mut state = self.state.clone();
        state.files = files;
        self.change(state);
    }

    /// What happened. `replay` is the thread after it.
    pub(crate) fn take(&mut self, followed: &Followed, replay: &Replay) {
        match followed {
            Followed::SoFar { text, reasoning, progress } => {
                self.begin_again(text, reasoning);
                progress.iter().for_each(|(call, text)| self.progress(call, text));
            }
            Followed::Text(text) => self.text(text),
            Followed::Reasoning(text) => self.reasoning(text),
            Followed::Progress { call, text } => self.progress(call, text),
            Followed::Notice(text) => self.notice(text),
            Followed::Logged(logged) => self.logged(logged, replay),
            Followed::Rested(rest) => self.end(rest, replay),
        }
    }

    fn message_id(&self) -> String {
        let (prefix, number) = (&self.prefix, self.responses);
        match self.again {
            0 => format!("{prefix}-{number}"),
            again => format!("{prefix}-{number}-again-{again}"),
        }
    }

    fn reasoning_id(&self) -> String {
        format!("{}-reasoning", self.message_id())
    }

    fn begin_again(&mut self, text: &str, reasoning: &str) {
        if self.text.is_some() || self.reasoning.is_some() {
            self.close();
            (self.text, self.reasoning) = (None, None);
            self.again += 1;
            self.is_stale = true;
        }
        self.reasoning(reasoning);
        self.text(text);
    }

    fn text(&mut self, piece: &str) {
        if piece.is_empty() {
            return;
        }
        self.close_reasoning();
        let id = self.message_id();
        if self.text.is_none() {
            self.push(json!({"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"}));
        }
        self.text.get_or_insert_default().push_str(piece);
        self.push(json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": piece}));
    }

    fn reasoning(&mut self, piece: &str) {
        if piece.is_empty() {
            return;
        }
        let id = self.reasoning_id();
        if self.reasoning.is_none() {
            self.is_reasoning = true;
            self.push(json!({"type": "REASONING_START", "messageId": id}));
            self.push(json!({"type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning"}));
        }
        if !self.is_reasoning {
            // Reasoning after the text began: the conversation is sent again at the end.
            self.is_stale = true;
            return;
        }
        self.reasoning.get_or_insert_default().push_str(piece);
        self.push(json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": id, "delta": piece}));
    }

    fn close_reasoning(&mut self) {
        if std::mem::take(&mut self.is_reasoning) {
            let id = self.reasoning_id();
            self.push(json!({"type": "REASONING_MESSAGE_END", "messageId": id}));
            self.push(json!({"type": "REASONING_END", "messageId": id}));
        }
    }

    /// Ends what is open.
    fn close(&mut self) {
        self.close_reasoning();
        if self.text.is_some() {
            let id = self.message_id();
            self.push(json!({"type": "TEXT_MESSAGE_END", "messageId": id}));
        }
    }

    fn logged(&mut self, logged: &LoggedEvent, replay: &Replay) {
        let mut state = self.state.clone();
        match &logged.event {
            EventView::TurnStarted { messages } => {
                state.questions.clear();
                for message in messages.iter().filter(|message| message.by.is_none()) {
                    self.said_elsewhere(message);
                }
            }
            EventView::Imported { .. } => self.is_stale = true,
            EventView::Responded { model, message, usage, .. } => {
                self.responded(message);
                let sum = self.usage.entry(model.clone()).or_default();
                sum.input = sum.input.saturating_add(usage.input);
                sum.output = sum.output.saturating_add(usage.output);
                sum.cached = sum.cached.saturating_add(usage.cached);
            }
            EventView::ToolAnswered { call, text, changes, .. } => {
                let (id, text) = (answer_id(call), replay.answer(call, text));
                self.push(json!({"type": "TOOL_CALL_RESULT", "messageId": id, "toolCallId": call, "content": text, "role": "tool"}));
                self.changed(changes, &mut state);
            }
            EventView::StateChanged(changes) => self.changed(changes, &mut state),
            EventView::Asked(question) => state.questions.push(QuestionView::clone(question)),
            EventView::Replied { call, .. } => state.questions.retain(|question| question.call != *call),
            EventView::Compacted { messages, .. } => {
                self.push(
                    json!({"type": "CUSTOM", "name": "prowess.compacted", "value": {"messages": messages}}),
                );
            }
            EventView::TurnEnded { .. } => state.questions.clear(),
            _ => {}
        }
        self.change(state);
    }

    /// A message that another client said.
    fn said_elsewhere(&mut self, message: &MessageView) {
        if self.known.insert(message.id.clone()) && !message.text.is_empty() {
            let id = &message.id;
            self.push(json!({"type": "TEXT_MESSAGE_START", "messageId": id, "role": "user"}));
            self.push(json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": message.text}));
            self.push(json!({"type": "TEXT_MESSAGE_END", "messageId": id}));
        }
    }

    fn responded(&mut self, message: &MessageView) {
        if let Some(reasoning) = &message.reasoning
            && self.reasoning.is_none()
        {
            self.reasoning(reasoning);
        }
        let told = self.text.as_deref().unwrap_or_default();
        match message.text.strip_prefix(told) {
            Some(rest) => self.text(rest),
            None => self.is_stale = true,
        }
        self.close();
        let parent = self.message_id();
        for call in &message.calls {
            let id = &call.id;
            self.push(json!({"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": call.name, "parentMessageId": parent}));
            let arguments = arguments(&call.arguments);
            self.push(json!({"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": arguments}));
            self.push(json!({"type": "TOOL_CALL_END", "toolCallId": id}));
        }
        (self.text, self.reasoning, self.again) = (None, None, 0);
        self.responses += 1;
    }

    fn changed(&mut self, changes: &crate::view::ChangesView, state: &mut State) {
        for skill in &changes.loaded {
            self.skill(skill, "loaded");
        }
        for name in &changes.unloaded {
            if let Some(skill) = state.skills.iter().find(|skill| skill.name == *name).cloned() {
                self.skill(&skill, "unloaded");
            }
        }
        let gone = |skill: &LoadedSkillView| {
            changes.unloaded.contains(&skill.name) || changes.loaded.iter().any(|new| new.name == skill.name)
        };
        state.skills.retain(|skill| !gone(skill));
        state.skills.extend(changes.loaded.iter().cloned());
        if let Some(todos) = &changes.todos {
            state.todos.clone_from(todos);
        }
    }

    fn skill(&mut self, skill: &LoadedSkillView, state: &str) {
        let LoadedSkillView { name, tokens, digest } = skill;
        let value = json!({"name": name, "digest": digest, "tokens": tokens, "state": state});
        self.push(json!({"type": "CUSTOM", "name": "prowess.skills", "value": value}));
    }

    /// Tells the client what is new in the state.
    fn change(&mut self, state: State) {
        let mut delta = Vec::new();
        let mut part = |path: &str, is_new: bool, value: Value| {
            if is_new {
                delta.push(json!({"op": "replace", "path": path, "value": value}));
            }
        };
        let old = &self.state;
        part("/todos", old.todos != state.todos, json!(state.todos));
        part("/skills", old.skills != state.skills, json!(state.skills));
        part("/questions", old.questions != state.questions, json!(state.questions));
        part("/files", old.files != state.files, json!(state.files));
        self.state = state;
        if !delta.is_empty() {
            self.push(json!({"type": "STATE_DELTA", "delta": delta}));
        }
    }

    fn end(&mut self, rest: &Rest, replay: &Replay) {
        self.close();
        (self.text, self.reasoning) = (None, None);
        if std::mem::take(&mut self.is_stale) {
            self.snapshot(&replay.messages_so_far());
        }
        let finished = |outcome: Value| {
            let Ids { thread, run } = &self.ids;
            json!({"type": "RUN_FINISHED", "threadId": thread, "runId": run, "outcome": outcome})
        };
        let mut last = match rest {
            Rest::Ended { outcome, reason } => match outcome.as_str() {
                "cancelled" => finished(json!({"type": "cancelled"})),
                "answered" | "silent" | "cut_off" | "stopped" => {
                    let mut last = finished(json!({"type": "success"}));
                    last["result"] = json!({"outcome": outcome, "reason": reason});
                    last
                }
                code => json!({"type": "RUN_ERROR", "message": reason, "code": code}),
            },
            Rest::Waiting if !self.state.questions.is_empty() => {
                let interrupts: Vec<Value> = self.state.questions.iter().map(interrupt).collect();
                finished(json!({"type": "interrupt", "interrupts": interrupts}))
            }
            Rest::Waiting | Rest::Idle => finished(json!({"type": "success"})),
            Rest::Lost => json!({
                "type": "RUN_ERROR",
                "code": "resume",
                "message": "The stream ended before the turn. The turn goes on: start a run without a new message to join it.",
            }),
        };
        let usage: Vec<Value> = self
            .usage
            .iter()
            .map(|(model, usage)| {
                let input = usage.input.saturating_add(usage.cached);
                json!({
                    "model": model,
                    "inputTokens": input,
                    "outputTokens": usage.output,
                    "totalTokens": input.saturating_add(usage.output),
                    "cachedInputTokens": usage.cached,
                })
            })
            .collect();
        if !usage.is_empty() {
            last["usage"] = usage.into();
        }
        self.push(last);
    }
}

/// The id of a tool's answer.
fn answer_id(call: &str) -> String {
    format!("{call}-answer")
}

fn arguments(arguments: &Value) -> String {
    match arguments {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// A question as an interrupt.
fn interrupt(question: &QuestionView) -> Value {
    let mut replies = vec!["approve", "always", "reject", "reject_all", "edit"];
    replies.retain(|reply| match *reply {
        "always" => question.can_always,
        "edit" => question.can_edit,
        _ => true,
    });
    let mut properties = json!({
        "reply": {"type": "string", "enum": replies},
        "message": {"type": "string", "description": "The reason of a rejection. The model reads it."},
    });
    if question.can_edit {
        properties["arguments"] = json!({"type": "object", "description": "The new arguments, for `edit`."});
    }
    json!({
        "id": question.number.to_string(),
        "reason": "tool_call",
        "message": question.title,
        "toolCallId": question.call,
        "responseSchema": {
            "type": "object",
            "properties": properties,
            "required": ["reply"],
            "additionalProperties": false,
        },
        "metadata": {"question": question},
    })
}
