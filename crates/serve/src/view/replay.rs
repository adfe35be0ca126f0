//! Reads a log into its public form.

use std::collections::{BTreeMap, BTreeSet};

use prowess_agent::id::MessageId;
use prowess_agent::middleware::FollowedFiles;
use prowess_agent::thread::StoredEvent;
use prowess_agent::thread_state::{CallQuestion, CallReply, ThreadState, edited_answer};
use prowess_agent::{Event, ToolCall, TurnLimits};

use super::{
    EventView, LoadedSkillView, LoggedEvent, MessageRole, MessageView, Places, QuestionView, TodoView, time,
};
use crate::live::ends_response;
use crate::view::event::ChangesView;

/// A turn in a log.
#[derive(Clone, Debug)]
struct TurnRange {
    /// The event that began it.
    number: u64,
    /// How many events before it ended what was said before them.
    ends: u64,
    /// The event that ended it.
    ended: Option<u64>,
    /// The messages that began it.
    said: Vec<MessageId>,
}

/// What became of a question.
pub(crate) enum Asked {
    /// It waits for a reply.
    Waits(Box<QuestionView>),
    /// Somebody replied, or its turn ended.
    Settled,
    /// The thread has no such question.
    Never,
}

/// A log that is read from its beginning: what its events say to clients, and what the thread is like after them.
#[derive(Clone)]
pub(crate) struct Replay {
    thread: String,
    places: Places,
    /// Whether only what a stream needs is kept: no messages.
    is_light: bool,
    calls: BTreeMap<String, ToolCall>,
    /// The calls whose arguments a person changed.
    edited: BTreeSet<String>,
    /// The questions that wait, by their call.
    questions: BTreeMap<String, QuestionView>,
    /// The numbers of all questions so far.
    asked: BTreeSet<u64>,
    /// The answers to the calls of the last response.
    answers: Vec<MessageView>,
    pub(crate) state: ThreadState,
    pub(crate) skills: Vec<LoadedSkillView>,
    pub(crate) todos: Vec<TodoView>,
    /// What the log says about the thread's files.
    pub(crate) files: FollowedFiles,
    /// The number of the last event.
    pub(crate) last: u64,
    /// How many events ended what was said before them.
    pub(crate) ends: u64,
    /// The number of the event that began the turn in progress.
    pub(crate) turn: Option<u64>,
    turns: Vec<TurnRange>,
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
            edited: BTreeSet::new(),
            questions: BTreeMap::new(),
            asked: BTreeSet::new(),
            answers: Vec::new(),
            state: ThreadState::new(TurnLimits::default()),
            skills: Vec::new(),
            todos: Vec::new(),
            files: FollowedFiles::default(),
            last: 0,
            ends: 0,
            turn: None,
            turns: Vec::new(),
            bytes: 0,
            responses: Vec::new(),
        }
    }

    /// A replay for a stream of the events after this one. It keeps no conversation, and begins with the turn of that event:
    /// no event refers to an earlier turn.
    pub(crate) fn light(&self, after: u64) -> Self {
        let begun = self.turns.iter().rev().find(|turn| turn.number <= after.saturating_add(1));
        let (number, ends) = begun.map_or((1, 0), |turn| (turn.number, turn.ends));
        let new = Self::new(&self.thread, self.places.clone());
        Self { is_light: true, last: number - 1, ends, ..new }
    }

    /// The event that ended the turn of a message, and whether another turn followed. `None` without such a turn.
    pub(crate) fn turn_of(&self, message: &str) -> Option<(Option<u64>, bool)> {
        let mut turns = self.turns.iter();
        let turn = turns.find(|turn| turn.said.iter().any(|said| said.as_str() == message))?;
        Some((turn.ended, turns.next().is_some()))
    }

    /// The number of the last event up to this one after which no turn is in progress.
    pub(crate) fn before_turn(&self, through: u64) -> u64 {
        let begun = self.turns.iter().rev().find(|turn| turn.number <= through);
        begun
            .filter(|turn| turn.ended.is_none_or(|ended| ended > through))
            .map_or(through, |turn| turn.number - 1)
    }

    /// Reads the next event.
    pub(crate) fn read(&mut self, stored: &StoredEvent) -> LoggedEvent {
        // An event that does not fit is still shown; the worker reports the damage.
        if !self.is_light {
            let _ = self.state.apply(&stored.event);
            self.bytes += bytes_of(&stored.event);
            if let Event::TurnStarted { messages: said } = &stored.event {
                let said = said.iter().map(|message| message.id.clone()).collect();
                self.turns.push(TurnRange { number: stored.number, ends: self.ends, ended: None, said });
            }
            if matches!(stored.event, Event::TurnEnded { .. })
                && let Some(turn) = self.turns.last_mut()
            {
                turn.ended = Some(stored.number);
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
                self.edited.clear();
                self.questions.clear();
            }
            Event::TurnEnded { .. } => {
                self.turn = None;
                self.questions.clear();
            }
            Event::ModelResponded { model, message, usage, .. } => {
                self.answers.clear();
                for call in message.tool_calls() {
                    self.edited.remove(call.id.as_str());
                    self.calls.insert(call.id.as_str().to_owned(), call.clone());
                }
                if !self.is_light {
                    self.responses.push((stored.number, time(stored.at), model.clone(), *usage));
                }
            }
            Event::Asked { call, question: asked, .. } => {
                question = self.question(stored, call.as_str(), asked);
                self.asked.insert(stored.number);
                if let Some(question) = question.clone() {
                    self.questions.insert(question.call.clone(), question);
                }
            }
            Event::Replied { call, reply } => {
                let question = self.questions.remove(call.as_str());
                replied = question.as_ref().map(|question| question.number);
                if let CallReply::Edit { arguments } = reply
                    && question.is_some_and(|question| question.can_edit)
                    && let Some(known) = self.calls.get_mut(call.as_str())
                {
                    known.arguments.clone_from(arguments);
                    self.edited.insert(call.as_str().to_owned());
                }
            }
            Event::ToolAnswered { call, answer } => {
                self.change(&ChangesView::of(&answer.changes));
                let answer = MessageView {
                    id: String::new(),
                    role: MessageRole::Tool,
                    text: self.answer(call.as_str(), &self.places.shown(&answer.text)),
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
            Event::StateChanged { changes } => {
                self.change(&ChangesView::of(changes));
                changes.iter().for_each(|change| self.files.read(change));
            }
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

    /// What the model reads if a tool answers with this text. If a person changed the arguments, the model reads that too.
    pub(crate) fn answer(&self, call: &str, text: &str) -> String {
        match self.calls.get(call).filter(|_| self.edited.contains(call)) {
            Some(edited) => edited_answer(&self.places.shown(&edited.arguments), text),
            None => text.to_owned(),
        }
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

    /// What became of the question with this number.
    pub(crate) fn question_of(&self, number: &str) -> Asked {
        let Ok(number) = number.parse() else { return Asked::Never };
        match self.questions.values().find(|question| question.number == number) {
            Some(question) => Asked::Waits(Box::new(question.clone())),
            None if self.asked.contains(&number) => Asked::Settled,
            None => Asked::Never,
        }
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

    /// The texts of the conversation.
    pub(crate) fn texts(&self) -> impl DoubleEndedIterator<Item = String> {
        self.state.messages().iter().map(|message| self.places.shown(&message.text()))
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
    let mut counted = CountedBytes(0);
    let _ = serde_json::to_writer(&mut counted, event);
    match event {
        // Until the next response, an answer is there twice, as calls and their arguments.
        Event::ToolAnswered { .. } | Event::ModelResponded { .. } => LEAST + 2 * counted.0,
        _ => LEAST + counted.0,
    }
}

/// Counts what is written.
struct CountedBytes(usize);

impl std::io::Write for CountedBytes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
