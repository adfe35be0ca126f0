//! What must hold of a run, at any moment and at its end. It is read from the database and the ledger alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use prowess_agent::message::Content;
use prowess_agent::thread::StoredEvent;
use prowess_agent::{
    Event, Message, ThreadId, ThreadState, ThreadStore, ToolCall, ToolResult, TurnOutcome, Usage,
};
use prowess_store::SqliteStore;

use super::driver::is_over;
use super::ledger::{self, Done, Ledger, is_idempotent};
use super::script::{Answer, COST, DONE, NO, Place, RUN, SAID, TASK, thread, token};

/// What the model is told of a call when nobody knows what came of it.
const UNKNOWN: &str = "it is not known whether it took effect";

/// A run as it stands.
#[derive(Debug)]
pub(super) struct Look {
    threads: BTreeMap<ThreadId, Log>,
    ledger: Ledger,
    /// What the model no longer sees of the run, as its file has it.
    history: String,
}

#[derive(Debug)]
struct Log {
    events: Vec<StoredEvent>,
    run: ThreadState,
    /// How often each call was begun, as the log has it, by token.
    started: BTreeMap<String, usize>,
    asked: usize,
    replied: usize,
}

/// What became of the calls of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Calls of which the model was told that nobody knows.
    pub(super) unknown: usize,
    /// Calls that were begun more than once.
    pub(super) repeated: usize,
}

impl Look {
    /// Looks at a copy, which nobody else opens: what was killed stays as it is until the next process comes.
    pub(super) async fn at(place: &Place) -> Self {
        let copies = tempfile::tempdir().unwrap();
        let copy = copies.path().join("a.db");
        for beside in ["", "-wal"] {
            let from = beside_of(&place.database, beside);
            if from.exists() {
                std::fs::copy(from, beside_of(&copy, beside)).unwrap();
            }
        }
        Self::of(&SqliteStore::open(&copy).await.unwrap(), place).await
    }

    /// Looks at a database. Whatever is there must replay.
    pub(super) async fn of(store: &SqliteStore, place: &Place) -> Self {
        let mut threads = BTreeMap::new();
        for info in store.list(usize::MAX).await.unwrap() {
            let events = store.events(&info.id, 0, usize::MAX).await.unwrap();
            assert_eq!(events.len() as u64, info.events);
            threads.insert(info.id.clone(), Log::of(&info.id, events));
        }
        let history = place.files.join(format!("conversation_history/{}.md", thread()));
        let history = std::fs::read_to_string(history).unwrap_or_default();
        Self { threads, ledger: ledger::read(&place.ledger), history }
    }

    pub(super) fn is_over(&self) -> bool {
        self.threads.get(&thread()).is_some_and(|log| is_over(&log.run))
    }

    /// How many events there are.
    pub(super) fn events(&self) -> usize {
        self.threads.values().map(|log| log.events.len()).sum()
    }

    /// What holds at any moment, after another one: nothing that was stored is gone or another, and nothing was begun
    /// that is not stored, or begun again that must not be.
    pub(super) fn check(&self, earlier: Option<&Self>) {
        for (id, before) in earlier.iter().flat_map(|earlier| &earlier.threads) {
            assert!(self.threads[id].events.starts_with(&before.events), "{id} goes on from what it had");
        }
        for (id, log) in &self.threads {
            log.check(id);
        }
        self.check_history();
        assert!(self.threads.len() <= 1 + tasks(), "each task has one thread");
        for ((id, token), done) in &self.ledger {
            let log = &self.threads[&id.parse::<ThreadId>().unwrap()];
            // What a person changed was begun under the name that the model gave it.
            let started = log.started.get(&token.replace("edited", "changed")).copied().unwrap_or_default();
            assert!(done.begun <= started, "{id} {token}: begun {} times, {started} stored", done.begun);
            assert!(done.finished <= done.begun);
            if !is_idempotent(tool(id, token)) {
                assert_eq!(done.begun, 1, "{id} {token}");
            }
        }
    }

    /// What the model no longer sees is in a file, once; also when the process died before that was stored.
    fn check_history(&self) {
        let Some(log) = self.threads.get(&thread()) else { return };
        for (number, message) in log.run.messages().iter().enumerate() {
            for call in message.tool_calls() {
                let written = format!("[calls {} with {}]", call.name, call.arguments);
                let times = self.history.matches(&written).count();
                let must = usize::from(number < log.run.cut());
                assert!((must..=1).contains(&times), "{written} is there {times} times");
            }
        }
        let sections = self.history.matches("## Summarized at").count();
        let cuts = log.cuts();
        assert!((cuts..=cuts + 1).contains(&sections), "{sections} sections for {cuts} cuts");
    }

    /// What holds at the end: every answer and every result is there once, and was paid once.
    pub(super) fn check_whole(&self) -> Tally {
        self.check(None);
        let mut tally = Tally::default();
        let mut answers = 0;
        let (mut asked, mut questions) = (0, 0);
        for (id, log) in &self.threads {
            let script = script(id);
            let said = if script.len() == RUN.len() { SAID.len() } else { 1 };
            let calls: usize = script.iter().map(|answer| answer.len()).sum();
            let messages = log.run.messages().iter().filter(|message| is_scripted(message)).count();
            assert_eq!(messages, script.len() + calls + said, "{id} is whole");
            assert_eq!(log.run.outcome(), Some(&TurnOutcome::Responded));
            assert_eq!(log.asked, log.replied, "{id}: every question has its reply");
            answers += log.answers();
            let signs = script.iter().flat_map(|answer| *answer).filter(|(tool, _)| *tool == "sign").count();
            if *id == thread() {
                asked = log.asked;
            } else {
                assert_eq!(log.asked, signs, "{id} asks once for each");
            }
            questions += signs;
            self.tally(id, log, &mut tally);
        }
        assert_eq!(self.threads.len(), 1 + tasks());
        assert_eq!(answers, 50);
        assert_eq!(asked, questions, "the person is asked once for each");
        let log = &self.threads[&thread()];
        assert!(log.cuts() > 2);
        let mut cost = Usage::default();
        (0..50 + log.cuts()).for_each(|_| cost += COST);
        assert_eq!(log.run.usage(), cost, "every answer and every summary is paid once");
        tally
    }

    /// What the results say is what the ledger says.
    fn tally(&self, id: &ThreadId, log: &Log, tally: &mut Tally) {
        for (call, result) in log.results() {
            let token = token(call).replace("changed", "edited");
            let done = self.ledger.get(&(id.to_string(), token.clone())).copied().unwrap_or_default();
            let what = format!("{id} {token}: {done:?}, {}", result.text);
            match call.name.as_str() {
                "task" => assert_eq!(result.text, DONE, "{what}"),
                "write_todos" => assert!(!result.is_error, "{what}"),
                _ if token.contains("refused") => {
                    assert_eq!((result.text.as_str(), done), (NO, Done::default()), "{what}");
                }
                _ if result.text.contains(UNKNOWN) => {
                    assert!(!is_idempotent(&call.name), "{what}");
                    assert_eq!(log.started[self::token(call)], 1, "{what}");
                    tally.unknown += 1;
                }
                _ => {
                    let shown = result.text.lines().last();
                    assert_eq!(shown, Some(format!("done {token}").as_str()), "{what}");
                    assert!(done.finished > 0 && !result.is_error, "{what}");
                    assert_eq!(result.text.contains("The user changed"), token.contains("edited"), "{what}");
                    tally.repeated += usize::from(done.begun > 1);
                }
            }
        }
    }
}

impl Log {
    fn of(id: &ThreadId, events: Vec<StoredEvent>) -> Self {
        let mut run = ThreadState::default();
        let (mut started, mut asked, mut replied) = (BTreeMap::new(), 0, 0);
        let mut calls: Vec<ToolCall> = Vec::new();
        for StoredEvent { number, event, .. } in &events {
            run.apply(event).unwrap_or_else(|error| panic!("event {number} of {id}: {error}"));
            match event {
                Event::ModelResponded { message, .. } => calls = message.tool_calls().cloned().collect(),
                Event::ToolStarted { call: started_call } => {
                    let call = calls.iter().find(|call| call.id == *started_call).unwrap();
                    *started.entry(token(call).to_owned()).or_default() += 1;
                }
                Event::Asked { .. } => asked += 1,
                Event::Replied { .. } => replied += 1,
                Event::TurnEnded { outcome } => assert_eq!(*outcome, TurnOutcome::Responded, "{id}"),
                _ => {}
            }
        }
        Self { events, run, started, asked, replied }
    }

    fn answers(&self) -> usize {
        let is_answer = |stored: &&StoredEvent| matches!(stored.event, Event::ModelResponded { .. });
        self.events.iter().filter(is_answer).count()
    }

    /// How often messages were taken out of the model's sight.
    fn cuts(&self) -> usize {
        let is_cut = |stored: &&StoredEvent| matches!(stored.event, Event::Compacted { .. });
        self.events.iter().filter(is_cut).count()
    }

    /// The conversation is the script's, as far as it goes: no message twice, none missing, each in its place.
    fn check(&self, id: &ThreadId) {
        let mut said: Vec<&str> = Vec::new();
        let messages = self.run.messages();
        let names: BTreeSet<&str> = messages.iter().map(|message| message.id.as_str()).collect();
        assert_eq!(names.len(), messages.len(), "{id}: a message is there twice");
        let mut rest = messages.iter().filter(|message| is_scripted(message));
        let speaks = |message: Option<&std::sync::Arc<Message>>| {
            message.is_none_or(|message| matches!(message.content, Content::User { .. }))
        };
        assert!(speaks(rest.next()), "{id}");
        for answer in script(id) {
            let Some(message) = rest.next() else { break };
            let calls: Vec<(&str, &str)> =
                message.tool_calls().map(|call| (call.name.as_str(), token(call))).collect();
            assert_eq!(calls, *answer, "{id}: after {said:?}");
            said.extend(calls.iter().map(|(_, token)| *token));
            if answer.is_empty() {
                assert_eq!(message.text(), DONE);
                assert!(speaks(rest.next()), "{id}");
            }
            for call in message.tool_calls() {
                let Some(result) = rest.next() else { break };
                let Content::Tool(result) = &result.content else { panic!("{id}: {call:?} has no result") };
                assert_eq!((&result.call, &result.name), (&call.id, &call.name), "{id}");
            }
        }
        assert_eq!(rest.next(), None, "{id}: nothing comes after the last");
        for (token, count) in &self.started {
            let tool = tool(id.as_str(), token);
            let may_repeat = is_idempotent(tool) || matches!(tool, "task" | "write_todos");
            assert!(may_repeat || *count == 1, "{id}: {token} was begun {count} times");
        }
    }

    /// Every call with its result.
    fn results(&self) -> impl Iterator<Item = (&ToolCall, &ToolResult)> {
        let messages = self.run.messages();
        let calls = messages.iter().flat_map(|message| message.tool_calls());
        let results = messages.iter().filter_map(|message| match &message.content {
            Content::Tool(result) => Some(result),
            _ => None,
        });
        calls.zip(results)
    }
}

fn beside_of(path: &Path, beside: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(beside);
    name.into()
}

/// Whether a message is of the script. What the model is told again after a compaction is not.
pub(super) fn is_scripted(message: &Message) -> bool {
    let text = message.text();
    !text.starts_with("[Note about skills") && !text.starts_with("[Your list of todos")
}

fn script(id: &ThreadId) -> &'static [Answer] {
    if *id == thread() { &RUN } else { &TASK }
}

/// How many tasks there are.
fn tasks() -> usize {
    RUN.iter().flat_map(|answer| *answer).filter(|(tool, _)| *tool == "task").count()
}

/// The tool that a token is for.
fn tool(id: &str, token: &str) -> &'static str {
    let answers: &[Answer] = if id == thread().as_str() { &RUN } else { &TASK };
    let token = token.replace("edited", "changed");
    answers.iter().flat_map(|answer| *answer).find(|(_, known)| *known == token).unwrap().0
}
