//! Reads a log into its public form.

use std::collections::BTreeMap;

use prowess_agent::thread::StoredEvent;
use prowess_agent::thread_state::{CallQuestion, ThreadState};
use prowess_agent::{Event, ToolCall, TurnLimits};

use super::{
    EventView, LoadedSkillView, LoggedEvent, MessageRole, MessageView, Places, QuestionView, TodoView, time,
};
use crate::live::ends_response;
use crate::view::event::ChangesView;

/// A log that is read from its beginning: what its events say to clients, and what the thread is like after them.
pub(crate) struct Replay {
    thread: String,
    places: Places,
    /// Whether only what a stream needs is kept: no messages.
    is_light: bool,
    calls: BTreeMap<String, ToolCall>,
    /// The questions that wait, by their call.
    questions: BTreeMap<String, QuestionView>,
    /// The answers to the calls of the last response.
    answers: Vec<MessageView>,
    pub(crate) state: ThreadState,
    pub(crate) skills: Vec<LoadedSkillView>,
    pub(crate) todos: Vec<TodoView>,
    /// The number of the last event.
    pub(crate) last: u64,
    /// How many events ended what was said before them.
    pub(crate) ends: u64,
    /// The number of the event that began the turn in progress.
    pub(crate) turn: Option<u64>,
    /// The events that began turns, each with the number of ends before it.
    turns: Vec<(u64, u64)>,
    /// About how many bytes the replay takes.
    pub(crate) bytes: usize,
    /// The model responses, with their numbers.
    pub(crate) responses: Vec<(u64, String, String, prowess_agent::Usage)>,
}

impl Replay {
    pub(crate) fn new(thread: &str, places: Places) -> Self {
        Self {
            thread: thread.to_owned(),
            places,
            is_light: false,
            calls: BTreeMap::new(),
            questions: BTreeMap::new(),
            answers: Vec::new(),
            state: ThreadState::new(TurnLimits::default()),
            skills: Vec::new(),
            todos: Vec::new(),
            last: 0,
            ends: 0,
            turn: None,
            turns: Vec::new(),
            bytes: 0,
            responses: Vec::new(),
        }
    }

    /// A replay of the same thread that has read nothing yet.
    pub(crate) fn fresh(&self, _: u64) -> Self {
        Self::new(&self.thread, self.places.clone())
    }

    /// A replay for a stream of the events after this one. It keeps no conversation, and begins with the turn of that event:
    /// no event refers to an earlier turn.
    pub(crate) fn light(&self, after: u64) -> Self {
        let begun = self.turns.iter().rev().find(|(number, _)| *number <= after.saturating_add(1));
        let (number, ends) = begun.copied().unwrap_or((1, 0));
        Self { is_light: true, last: number - 1, ends, ..self.fresh(after) }
    }

    /// Reads the next event.
    pub(crate) fn read(&mut self, stored: &StoredEvent) -> LoggedEvent {
        // An event that does not fit is still shown; the worker reports the damage.
        if !self.is_light {
            let _ = self.state.apply(&stored.event);
            self.bytes += bytes_of(&stored.event);
            if matches!(stored.event, Event::TurnStarted { .. }) {
                self.turns.push((stored.number, self.ends));
            }
        }
        self.last = stored.number;
        self.ends += u64::from(ends_response(&stored.event));
        let (mut question, mut replied) = (None, None);
        match &stored.event {
            Event::TurnStarted { .. } => {
                self.turn = Some(stored.number);
                // Calls of earlier turns ask nothing any more.
                self.calls.clear();
                self.questions.clear();
            }
            Event::TurnEnded { .. } => {
                self.turn = None;
                self.questions.clear();
            }
            Event::ModelResponded { model, message, usage, .. } => {
                self.answers.clear();
                for call in message.tool_calls() {
                    self.calls.insert(call.id.as_str().to_owned(), call.clone());
                }
                if !self.is_light {
                    self.responses.push((stored.number, time(stored.at), model.clone(), *usage));
                }
            }
            Event::Asked { call, question: asked, .. } => {
                question = self.question(stored, call.as_str(), asked);
                if let Some(question) = question.clone() {
                    self.questions.insert(question.call.clone(), question);
                }
            }
            Event::Replied { call, .. } => {
                replied = self.questions.remove(call.as_str()).map(|question| question.number);
            }
            Event::ToolAnswered { call, answer } => {
                self.change(&ChangesView::of(&answer.changes));
                let answer = MessageView {
                    id: String::new(),
                    role: MessageRole::Tool,
                    text: self.places.shown(&answer.text),
                    reasoning: None,
                    calls: Vec::new(),
                    call: Some(call.as_str().to_owned()),
                    is_error: answer.is_error,
                    by: None,
                };
                if !self.is_light {
                    self.answers.push(answer);
                }
            }
            Event::StateChanged { changes } => self.change(&ChangesView::of(changes)),
            _ => {}
        }
        let mut event = EventView::new(&stored.event, question, &self.places);
        if let EventView::Replied { question, .. } = &mut event {
            *question = replied;
        }
        LoggedEvent { number: stored.number, at: time(stored.at), event }
    }

    fn question(&self, stored: &StoredEvent, call: &str, asked: &CallQuestion) -> Option<QuestionView> {
        let call = self.calls.get(call)?;
        Some(QuestionView::new(&self.thread, stored.number, stored.at, call, asked, &self.places))
    }

    fn change(&mut self, changes: &ChangesView) {
        let gone = |skill: &LoadedSkillView| {
            changes.unloaded.contains(&skill.name) || changes.loaded.iter().any(|new| new.name == skill.name)
        };
        self.skills.retain(|skill| !gone(skill));
        self.skills.extend(changes.loaded.iter().cloned());
        if let Some(todos) = &changes.todos {
            self.todos.clone_from(todos);
        }
    }

    /// The questions that wait, in the order in which they were asked.
    pub(crate) fn questions(&self) -> Vec<QuestionView> {
        let mut questions: Vec<QuestionView> = self.questions.values().cloned().collect();
        questions.sort_by_key(|question| question.number);
        questions
    }

    /// A text without paths of the server.
    pub(crate) fn shown(&self, text: &str) -> String {
        self.places.shown(text)
    }

    /// Lines of a command's output without paths of the server.
    pub(crate) fn shown_lines(&self, text: &str) -> String {
        self.places.shown_lines(text)
    }

    /// The conversation.
    pub(crate) fn messages(&self) -> Vec<MessageView> {
        let view = |message: &prowess_agent::Message| {
            let mut view = MessageView::from(message);
            if view.role == MessageRole::Tool {
                view.text = self.places.shown(&view.text);
            }
            view
        };
        self.state.messages().iter().map(|message| view(message)).collect()
    }

    /// The conversation, with the answers that the model does not have yet because other calls of its response wait.
    pub(crate) fn messages_so_far(&self) -> Vec<MessageView> {
        let mut messages = self.messages();
        let last = messages.iter().rposition(|message| message.role == MessageRole::Assistant);
        let has = |answer: &&MessageView| {
            messages[last.unwrap_or(0)..].iter().any(|known| known.call == answer.call)
        };
        let new: Vec<MessageView> = self.answers.iter().filter(|answer| !has(answer)).cloned().collect();
        messages.extend(new);
        messages
    }

    /// Whether the conversation has a message.
    pub(crate) fn has(&self, message: &str) -> bool {
        self.state.messages().iter().any(|known| known.id.as_str() == message)
    }
}

/// About how many bytes an event adds to a replay.
fn bytes_of(event: &Event) -> usize {
    const LEAST: usize = 256;
    let of = |messages: &[prowess_agent::Message]| {
        messages.iter().map(|message| message.text().len()).sum::<usize>()
    };
    LEAST
        + match event {
            Event::TurnStarted { messages }
            | Event::Imported { messages }
            | Event::MessagesAdded { messages } => of(messages),
            Event::ModelResponded { message, .. } => {
                let calls: usize = message.tool_calls().map(|call| call.arguments.len()).sum();
                message.text().len() + 2 * calls
            }
            // Until the next response, it is there twice.
            Event::ToolAnswered { answer, .. } => 2 * answer.text.len(),
            Event::Compacted { summary, .. } => summary.text().len(),
            _ => 0,
        }
}
