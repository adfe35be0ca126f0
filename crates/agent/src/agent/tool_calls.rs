//! Tool calls of one response: they run at the same time, and take effect in their order.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::Value;
use tracing::Instrument as _;

use super::next::NextTool;
use super::next_request;
use super::watcher::{ThreadUpdate, Watcher};
use super::{AgentError, Thread};
use crate::id::CallId;
use crate::middleware::contract::MiddlewareContext;
use crate::state::States;
use crate::telemetry;
use crate::thread::{ThreadError, has_events, sub_agent_thread};
use crate::thread_state::{Event, ReadyCall, StateChange, ThreadState};
use crate::tool::{Tool, ToolAnswer, ToolOutput, Tools};

/// How many tool calls of one response run at the same time, unless the options say otherwise.
pub(super) const DEFAULT_PARALLEL_CALLS: usize = 8;

/// A call whose tool exists and whose arguments are JSON.
pub(super) struct CallableCall {
    call: ReadyCall,
    arguments: Value,
    tool: Arc<dyn Tool>,
}

impl CallableCall {
    fn started(&self) -> Event {
        Event::ToolStarted { call: self.call.call.id.clone() }
    }
}

/// Finishes a call with the states of that moment.
type Finish = Box<dyn FnOnce(&States) -> ToolAnswer + Send>;

/// The state changes of answered calls, which take effect when all calls of the response are answered.
struct HeldBackChanges<'a> {
    states: &'a States,
    /// What middleware changed meanwhile.
    by_middleware: Vec<StateChange>,
    /// The changes of each call, in the order in which they take effect.
    by_calls: Vec<(CallId, Vec<StateChange>)>,
    /// The states with the changes of the first calls, and the number of those calls: each change is applied once.
    applied: Option<(usize, States)>,
}

impl<'a> HeldBackChanges<'a> {
    fn new(states: &'a States, state: &ThreadState) -> Self {
        let by_calls = state.held_back().map(|(call, changes)| (call.clone(), changes.to_vec())).collect();
        Self { states, by_middleware: Vec::new(), by_calls, applied: None }
    }

    /// The states with all changes so far.
    fn states(&mut self) -> &States {
        let until =
            self.by_calls.iter().rposition(|(_, changes)| !changes.is_empty()).map_or(0, |last| last + 1);
        if until == 0 && self.by_middleware.is_empty() {
            return self.states;
        }
        let (mut from, mut states) = self.applied.take().unwrap_or_else(|| {
            let mut states = self.states.clone();
            apply(&mut states, &self.by_middleware);
            (0, states)
        });
        for (_, changes) in &self.by_calls[from..until.max(from)] {
            apply(&mut states, changes);
        }
        from = from.max(until);
        &self.applied.insert((from, states)).1
    }

    /// Adds changes that middleware made meanwhile.
    fn add(&mut self, changes: &[StateChange]) {
        if !changes.is_empty() {
            self.by_middleware.extend_from_slice(changes);
            self.applied = None;
        }
    }

    /// Holds back the changes of an answer, and returns the answer to store.
    ///
    /// If the owner of a change cannot read it, the answer is replaced by an error: otherwise nobody could open the
    /// thread again.
    fn hold_back(&mut self, call: &CallId, mut answer: ToolAnswer) -> ToolAnswer {
        if let Err((owner, error)) = self.states.check(&answer.changes) {
            tracing::error!(owner, %error, "A tool made a state change that its owner cannot read");
            answer = crashed();
        }
        if let Some(at) = self.by_calls.iter().position(|(id, _)| id == call) {
            self.by_calls[at].1.clone_from(&answer.changes);
            // This call takes effect before calls that were finished already.
            if self.applied.as_ref().is_some_and(|(until, _)| at < *until) {
                self.applied = None;
            }
        }
        answer
    }
}

fn apply(states: &mut States, changes: &[StateChange]) {
    if let Err((owner, error)) = states.apply(changes) {
        tracing::error!(owner, %error, "A stored state change cannot be read");
    }
}

/// How far each call is.
struct Slots<'a> {
    calls: &'a [CallableCall],
    slots: Vec<Slot>,
    held_back: HeldBackChanges<'a>,
}

enum Slot {
    /// It runs.
    Open,
    /// It waits for the calls before it.
    Held(Finish),
    /// It is answered, or waits for a person.
    Closed,
}

impl<'a> Slots<'a> {
    fn new(calls: &'a [CallableCall], held_back: HeldBackChanges<'a>) -> Self {
        Self { calls, slots: calls.iter().map(|_| Slot::Open).collect(), held_back }
    }

    /// Takes the output of a call, and returns the events that follow: of this call, and of calls that waited for it.
    fn add(&mut self, index: usize, output: ToolOutput) -> Result<Vec<Event>, ThreadError> {
        let mut events = Vec::new();
        self.slots[index] = match output {
            ToolOutput::Done(answer) => {
                events.push(self.answered(index, answer));
                Slot::Closed
            }
            ToolOutput::Ask(question) => {
                let call = self.calls[index].call.call.id.clone();
                events.push(Event::Asked { call, question, by_tool: true });
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
                    events.push(self.answered(index, answer));
                }
                Slot::Closed => {}
            }
        }
        Ok(events)
    }

    fn answered(&mut self, index: usize, answer: ToolAnswer) -> Event {
        let call = &self.calls[index].call.call.id;
        Event::ToolAnswered { call: call.clone(), answer: self.held_back.hold_back(call, answer) }
    }
}

impl Thread {
    /// Makes calls, and stores each answer as soon as it is there.
    ///
    /// All calls see the states as they were when the model made its calls. Changes take effect when all are answered.
    pub(super) async fn call_tools(
        &mut self,
        calls: Vec<CallableCall>,
        watcher: &dyn Watcher,
    ) -> Result<(), AgentError> {
        let at_once = calls.len().min(self.agent.options.parallel_calls.max(1));
        self.store(calls[..at_once].iter().map(CallableCall::started).collect(), watcher).await?;
        // If this future is dropped, the log has events that this handle has not applied.
        self.is_ahead = true;
        let mut slots = Slots::new(&calls, HeldBackChanges::new(&self.states, &self.state));
        let mut events = Vec::new();
        let context = self.context();
        let start = |(index, call)| make(index, next(call, context, watcher));
        let mut waiting = calls.iter().enumerate();
        let mut running = FuturesUnordered::new();
        running.extend(waiting.by_ref().take(at_once).map(start));
        while let Some((index, output)) = self.held.keep_during(&*self.agent.store, running.next()).await? {
            let unstored = self.unstored();
            let unstored_changes: Vec<StateChange> = unstored.iter().flatten().cloned().collect();
            slots.held_back.add(&unstored_changes);
            let mut new: Vec<Event> =
                unstored.map(|changes| Event::StateChanged { changes }).into_iter().collect();
            new.extend(slots.add(index, output)?);
            let another = waiting.next();
            new.extend(another.map(|(_, call)| call.started()));
            if !new.is_empty() {
                let stored = self.events() + events.len() as u64;
                self.agent.store.append(&self.held.lease, stored, &new).await?;
                self.show(&new, stored, watcher);
                self.show_paid_by_tools(&new, &calls, watcher).await;
                events.append(&mut new);
            }
            running.extend(another.map(start));
        }
        drop(running);
        drop(slots);
        events.iter().try_for_each(|event| self.apply(event))?;
        self.is_ahead = false;
        Ok(())
    }

    /// Shows what tools paid models without a sub-agent. What a sub-agent paid was shown when it did.
    async fn show_paid_by_tools(&self, events: &[Event], calls: &[CallableCall], watcher: &dyn Watcher) {
        for event in events {
            let Event::ToolAnswered { call, answer } = event else { continue };
            let Some(made) = calls.iter().find(|made| made.call.call.id == *call) else { continue };
            if answer.spent.is_empty() {
                continue;
            }
            let sub_agent = sub_agent_thread(self.id(), &made.call.message);
            if let Ok(false) = has_events(&*self.agent.store, &sub_agent).await {
                watcher.update(ThreadUpdate::Paid { event: None, spent: &answer.spent });
            }
        }
    }

    /// Separates the calls that can be made from those whose answer is known: unknown tools, wrong arguments, and calls
    /// that must not be repeated.
    pub(super) fn sort_calls(
        &mut self,
        calls: Vec<ReadyCall>,
    ) -> Result<(Vec<CallableCall>, Vec<Event>), AgentError> {
        // The tools in the request to the model. Another process may have sent it; then those that there are now.
        let tools = match self.tools.take() {
            Some(tools) => tools,
            None => self.all_tools()?,
        };
        let (mut callable, mut answered) = (Vec::new(), Vec::new());
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
                (Some(tool), Ok(arguments)) => {
                    callable.push(CallableCall { tool: Arc::clone(tool), arguments, call })
                }
            }
        }
        self.tools = Some(tools);
        Ok((callable, answered))
    }

    /// All tools that the agent has now.
    pub(super) fn all_tools(&self) -> Result<Tools, AgentError> {
        next_request::tools(self.context())
    }
}

fn next<'a>(
    callable: &'a CallableCall,
    context: MiddlewareContext<'a>,
    watcher: &'a dyn Watcher,
) -> NextTool<'a> {
    let ReadyCall { call, message, approved, always, consultation, .. } = &callable.call;
    NextTool {
        call,
        message,
        arguments: &callable.arguments,
        approved: *approved,
        always: *always,
        consultation: consultation.as_ref(),
        tool: &*callable.tool,
        context,
        middleware: context.middleware,
        watcher,
    }
}

/// Makes a call. If its tool panics, the answer is an error.
async fn make(index: usize, next: NextTool<'_>) -> (usize, ToolOutput) {
    let span = telemetry::tool_call(next.context.thread, next.call);
    let output = AssertUnwindSafe(next.call()).catch_unwind().instrument(span.clone()).await;
    (index, telemetry::record_output(span, output.unwrap_or_else(|_| crashed().into()), crashed))
}

/// The answer of a tool that panicked.
fn crashed() -> ToolAnswer {
    ToolAnswer::error("Error: the tool crashed.")
}
