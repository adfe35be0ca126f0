//! The calls of one answer, made at the same time and finished in their order.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::Value;
use tracing::Instrument as _;

use super::chain::NextTool;
use super::watch::{Sight, Watcher};
use super::{AgentError, Thread};
use crate::middleware::{Middleware, Moment};
use crate::run::{Call, Event};
use crate::telemetry;
use crate::thread::ThreadError;
use crate::tool::{Tool, ToolAnswer, ToolOutput, Tools};

/// A call that can be made.
pub(super) struct Ready {
    call: Call,
    arguments: Value,
    tool: Arc<dyn Tool>,
}

impl Ready {
    fn started(&self) -> Event {
        Event::ToolStarted { call: self.call.call.id.clone() }
    }
}

/// What is known of a call.
enum Known {
    Answer(ToolAnswer),
    Question(Value),
}

/// What came of each call so far.
struct Slots(Vec<Slot>);

enum Slot {
    /// Nothing yet.
    Open,
    /// It is to be finished after those before it.
    Held(Box<dyn FnOnce() -> ToolAnswer + Send>),
    /// It is answered, or waits for a person.
    Closed,
}

impl Slots {
    /// Takes what came of a call. Gives what is known now, by the numbers of the calls.
    fn put(&mut self, index: usize, output: ToolOutput) -> Result<Vec<(usize, Known)>, ThreadError> {
        let mut known = Vec::new();
        self.0[index] = match output {
            ToolOutput::Done(answer) => {
                known.push((index, Known::Answer(answer)));
                Slot::Closed
            }
            ToolOutput::Ask(question) => {
                known.push((index, Known::Question(question)));
                Slot::Closed
            }
            ToolOutput::InOrder(finish) => Slot::Held(finish),
            ToolOutput::Unstored(error) => return Err(error),
        };
        for (index, slot) in self.0.iter_mut().enumerate() {
            match std::mem::replace(slot, Slot::Closed) {
                Slot::Open => {
                    *slot = Slot::Open;
                    break;
                }
                Slot::Held(finish) => {
                    known.push((index, Known::Answer(finish())));
                }
                Slot::Closed => {}
            }
        }
        Ok(known)
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
        let mut slots = Slots(ready.iter().map(|_| Slot::Open).collect());
        let mut events = Vec::new();
        let (moment, parts) = (self.moment(), &self.parts[..]);
        let start = |(index, ready)| made(index, next(ready, moment, parts, watcher));
        let mut waiting = ready.iter().enumerate();
        let mut running = FuturesUnordered::new();
        running.extend(waiting.by_ref().take(at_once).map(start));
        while let Some((index, output)) = self.hold.during(&*self.agent.store, running.next()).await? {
            let known = slots.put(index, output)?.into_iter();
            let mut new: Vec<Event> = self.unstored().into_iter().collect();
            new.extend(known.map(|(index, known)| self.event(&ready[index], known)));
            let another = waiting.next();
            new.extend(another.map(|(_, ready)| ready.started()));
            if !new.is_empty() {
                let stored = self.stored + events.len() as u64;
                self.agent.store.append(&self.hold.lease, stored, &new).await?;
                new.iter().for_each(|event| watcher.see(Sight::Stored(event)));
                events.append(&mut new);
            }
            running.extend(another.map(start));
        }
        drop(running);
        events.iter().try_for_each(|event| self.fold(event))?;
        self.is_ahead = false;
        Ok(())
    }

    /// What is stored of a call. Changes that their owners cannot read are not: nobody could open the thread again.
    fn event(&self, ready: &Ready, known: Known) -> Event {
        let call = ready.call.call.id.clone();
        match known {
            Known::Question(question) => Event::Asked { call, question, by_tool: true },
            Known::Answer(answer) => match self.states.check(&answer.changes) {
                Ok(()) => Event::ToolAnswered { call, answer },
                Err((owner, error)) => {
                    tracing::error!(owner, %error, "A tool made a change that nobody can read");
                    Event::ToolAnswered { call, answer: failed() }
                }
            },
        }
    }

    /// Parts calls that can be made from those whose answer is known already.
    pub(super) fn sort(&mut self, calls: Vec<Call>) -> Result<(Vec<Ready>, Vec<Event>), AgentError> {
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
    moment: Moment<'a>,
    parts: &'a [Arc<dyn Middleware>],
    watcher: &'a dyn Watcher,
) -> NextTool<'a> {
    let Call { call, message, approved, always, consulted, .. } = &ready.call;
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
