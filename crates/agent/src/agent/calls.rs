//! The calls of one answer, made at the same time and finished in their order.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::Value;
use tracing::Instrument as _;

use super::chain::NextTool;
use super::watch::{ThreadUpdate, Watcher};
use super::{AgentError, Thread};
use crate::id::CallId;
use crate::middleware::{Middleware, MiddlewareContext};
use crate::state::States;
use crate::telemetry;
use crate::thread::ThreadError;
use crate::thread_state::{Event, ReadyCall, StateChange, ThreadState};
use crate::tool::{Tool, ToolAnswer, ToolOutput, Tools};

/// A call that can be made.
pub(super) struct Ready {
    call: ReadyCall,
    arguments: Value,
    tool: Arc<dyn Tool>,
}

impl Ready {
    fn started(&self) -> Event {
        Event::ToolStarted { call: self.call.call.id.clone() }
    }
}

/// Finishes a call, given the states at that time.
type Finish = Box<dyn FnOnce(&States) -> ToolAnswer + Send>;

/// The changes of calls that are answered, while others of the same answer are not: they are not in effect yet.
struct HeldBack<'a> {
    states: &'a States,
    /// What parts changed meanwhile.
    by_parts: Vec<StateChange>,
    /// For each call, in the order in which they take effect.
    by_calls: Vec<(CallId, Vec<StateChange>)>,
    /// The states with the changes of the first so many calls, so that each change is made once.
    made: Option<(usize, States)>,
}

impl<'a> HeldBack<'a> {
    fn new(states: &'a States, run: &ThreadState) -> Self {
        let by_calls = run.held_back().map(|(call, changes)| (call.clone(), changes.to_vec())).collect();
        Self { states, by_parts: Vec::new(), by_calls, made: None }
    }

    /// The states as they will be when nothing else changes.
    fn states(&mut self) -> &States {
        let until =
            self.by_calls.iter().rposition(|(_, changes)| !changes.is_empty()).map_or(0, |last| last + 1);
        if until == 0 && self.by_parts.is_empty() {
            return self.states;
        }
        let (mut from, mut states) = self.made.take().unwrap_or_else(|| {
            let mut states = self.states.clone();
            make(&mut states, &self.by_parts);
            (0, states)
        });
        for (_, changes) in &self.by_calls[from..until.max(from)] {
            make(&mut states, changes);
        }
        from = from.max(until);
        &self.made.insert((from, states)).1
    }

    /// Takes what parts changed meanwhile.
    fn changed(&mut self, changes: &[StateChange]) {
        if !changes.is_empty() {
            self.by_parts.extend_from_slice(changes);
            self.made = None;
        }
    }

    /// The answer of a call as it is stored. One with changes that their owners cannot read is not: nobody could open the
    /// thread again.
    fn take(&mut self, call: &CallId, mut answer: ToolAnswer) -> ToolAnswer {
        if let Err((owner, error)) = self.states.check(&answer.changes) {
            tracing::error!(owner, %error, "A tool made a change that nobody can read");
            answer = failed();
        }
        if let Some(at) = self.by_calls.iter().position(|(id, _)| id == call) {
            self.by_calls[at].1.clone_from(&answer.changes);
            // One that waited while others were finished takes effect before them.
            if self.made.as_ref().is_some_and(|(until, _)| at < *until) {
                self.made = None;
            }
        }
        answer
    }
}

fn make(states: &mut States, changes: &[StateChange]) {
    if let Err((owner, error)) = states.apply(changes) {
        tracing::error!(owner, %error, "A change that was stored cannot be read");
    }
}

/// What came of each call so far.
struct Slots<'a> {
    ready: &'a [Ready],
    slots: Vec<Slot>,
    held_back: HeldBack<'a>,
}

enum Slot {
    /// Nothing yet.
    Open,
    /// It is to be finished after those before it.
    Held(Finish),
    /// It is answered, or waits for a person.
    Closed,
}

impl<'a> Slots<'a> {
    fn new(ready: &'a [Ready], held_back: HeldBack<'a>) -> Self {
        Self { ready, slots: ready.iter().map(|_| Slot::Open).collect(), held_back }
    }

    /// Takes what came of a call. Gives what is known now, of this call and of others.
    fn put(&mut self, index: usize, output: ToolOutput) -> Result<Vec<Event>, ThreadError> {
        let mut known = Vec::new();
        self.slots[index] = match output {
            ToolOutput::Done(answer) => {
                known.push(self.answered(index, answer));
                Slot::Closed
            }
            ToolOutput::Ask(asking) => {
                let call = self.ready[index].call.call.id.clone();
                known.push(Event::Asked { call, asking, by_tool: true });
                Slot::Closed
            }
            ToolOutput::InOrder(finish) => Slot::Held(finish),
            ToolOutput::Unstored(error) => return Err(error),
        };
        for index in 0..self.slots.len() {
            match std::mem::replace(&mut self.slots[index], Slot::Closed) {
                Slot::Open => {
                    self.slots[index] = Slot::Open;
                    break;
                }
                Slot::Held(finish) => {
                    let answer = finish(self.held_back.states());
                    known.push(self.answered(index, answer));
                }
                Slot::Closed => {}
            }
        }
        Ok(known)
    }

    fn answered(&mut self, index: usize, answer: ToolAnswer) -> Event {
        let call = &self.ready[index].call.call.id;
        Event::ToolAnswered { call: call.clone(), answer: self.held_back.take(call, answer) }
    }
}

impl Thread {
    /// Makes calls, and stores the answer of each as soon as it is known. The states stay as they were when the model
    /// made its calls: changes take effect when all are answered.
    pub(super) async fn make(&mut self, ready: Vec<Ready>, watcher: &dyn Watcher) -> Result<(), AgentError> {
        let at_once = ready.len().min(self.agent.options.parallel_calls.max(1));
        self.store(ready[..at_once].iter().map(Ready::started).collect(), watcher).await?;
        // Should this future be dropped, the log has what this handle does not know of.
        self.is_ahead = true;
        let mut slots = Slots::new(&ready, HeldBack::new(&self.states, &self.run));
        let mut events = Vec::new();
        let (moment, parts) = (self.moment(), &self.parts[..]);
        let start = |(index, ready)| made(index, next(ready, moment, parts, watcher));
        let mut waiting = ready.iter().enumerate();
        let mut running = FuturesUnordered::new();
        running.extend(waiting.by_ref().take(at_once).map(start));
        while let Some((index, output)) = self.hold.during(&*self.agent.store, running.next()).await? {
            let unstored = self.unstored();
            let unstored_changes: Vec<StateChange> = unstored.iter().flatten().cloned().collect();
            slots.held_back.changed(&unstored_changes);
            let mut new: Vec<Event> =
                unstored.map(|changes| Event::StateChanged { changes }).into_iter().collect();
            new.extend(slots.put(index, output)?);
            let another = waiting.next();
            new.extend(another.map(|(_, ready)| ready.started()));
            if !new.is_empty() {
                let stored = self.events() + events.len() as u64;
                self.agent.store.append(&self.hold.lease, stored, &new).await?;
                new.iter().for_each(|event| watcher.update(ThreadUpdate::Stored(event)));
                events.append(&mut new);
            }
            running.extend(another.map(start));
        }
        drop(running);
        drop(slots);
        events.iter().try_for_each(|event| self.fold(event))?;
        self.is_ahead = false;
        Ok(())
    }

    /// Parts calls that can be made from those whose answer is known already.
    pub(super) fn sort(&mut self, calls: Vec<ReadyCall>) -> Result<(Vec<Ready>, Vec<Event>), AgentError> {
        // Those that the model was told of, unless that was another process.
        let tools = match self.tools.take() {
            Some(tools) => tools,
            None => self.all_tools()?,
        };
        let (mut ready, mut answered) = (Vec::new(), Vec::new());
        for call in calls {
            let id = call.call.id.clone();
            let error = |text: String| Event::ToolAnswered { call: id, answer: ToolAnswer::error(text) };
            match (tools.get(&call.call.name), call.call.parsed()) {
                (None, _) => answered.push(error(tools.unknown(&call.call.name))),
                (Some(tool), _) if call.interrupted && !tool.is_idempotent() => {
                    answered.push(call.unknown_outcome())
                }
                (Some(_), Err(problem)) => {
                    answered.push(error(format!("Error: {}: {problem}", call.call.name)))
                }
                (Some(tool), Ok(arguments)) => ready.push(Ready { tool: Arc::clone(tool), arguments, call }),
            }
        }
        self.tools = Some(tools);
        Ok((ready, answered))
    }

    /// All tools that there are now.
    pub(super) fn all_tools(&self) -> Result<Tools, AgentError> {
        let mut tools = Tools::default();
        let own = self.agent.tools.iter().cloned();
        for tool in own.chain(self.parts.iter().flat_map(|part| part.tools(self.moment()))) {
            tools.add(tool)?;
        }
        Ok(tools)
    }
}

fn next<'a>(
    ready: &'a Ready,
    moment: MiddlewareContext<'a>,
    parts: &'a [Arc<dyn Middleware>],
    watcher: &'a dyn Watcher,
) -> NextTool<'a> {
    let ReadyCall { call, message, approved, always, consulted, .. } = &ready.call;
    NextTool {
        call,
        message,
        arguments: &ready.arguments,
        approved: *approved,
        always: *always,
        consulted: consulted.as_ref(),
        tool: &*ready.tool,
        moment,
        parts,
        watcher,
    }
}

/// Makes a call, whatever its tool does.
async fn made(index: usize, next: NextTool<'_>) -> (usize, ToolOutput) {
    let span = telemetry::tool(next.moment.thread, next.call);
    let output = AssertUnwindSafe(next.call()).catch_unwind().instrument(span.clone()).await;
    (index, telemetry::called(span, output.unwrap_or_else(|_| failed().into()), failed))
}

fn failed() -> ToolAnswer {
    ToolAnswer::error("Error: the tool failed in a way it was not made for.")
}
