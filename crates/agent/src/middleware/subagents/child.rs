//! The thread of one task: begun, gone on with, asked for, ended.

use std::time::Duration;

use crate::agent::{Agent, AgentError, Thread, ThreadUpdate, TurnStatus, WaitingCall};
use crate::id::ThreadId;
use crate::message::Message;
use crate::middleware::Announcement;
use crate::middleware::{SkillsState, consult, cost_limit};
use crate::thread::{ThreadError, is_there, sub_agent_thread};
use crate::thread_state::{
    CallQuestion, CallReply, Event, NextStep, StateChange, SubAgentCaller, TurnOutcome,
};
use crate::tool::{ToolAnswer, ToolContext, ToolOutput};

/// How often it is looked whether a thread is free that a dead process has.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A task for a sub-agent.
pub(super) struct Work<'a> {
    pub(super) name: &'a str,
    pub(super) agent: Agent,
    pub(super) task: String,
    pub(super) seeds: Vec<StateChange>,
    pub(super) timeout: Duration,
    pub(super) context: ToolContext<'a>,
}

impl Work<'_> {
    pub(super) async fn done(self) -> ToolOutput {
        let id = sub_agent_thread(self.context.thread, self.context.message);
        let (mut seeds, mut changes) = (None, Vec::new());
        match is_there(&**self.context.moment.store, &id).await {
            Ok(true) => {}
            Ok(false) => {
                let starts = Announcement::SubAgentStarts { name: self.name, task: &self.task };
                let heard = self.context.announce(starts).await;
                if let Some(objection) = heard.objection {
                    let text = format!("Error: the sub-agent was not started: {objection}");
                    return ToolAnswer { changes: heard.changes, ..ToolAnswer::error(text) }.into();
                }
                (seeds, changes) = (Some(&self.seeds[..]), heard.changes);
            }
            Err(error) => return failed(error.into()),
        }
        let mut thread = match open(&self.agent, &id, seeds).await {
            Ok(thread) => thread,
            Err(error) => return failed(error),
        };
        let turn = self.turn(&mut thread).await;
        let output = self.output(&thread, turn).await;
        // What led the sub-agent leads whoever reads its answer.
        if SkillsState::of(self.context.states).is_some() {
            changes.extend(SkillsState::of(thread.states()).map(SkillsState::led).unwrap_or_default());
        }
        // Its time ends the lease if this does not.
        let _ = thread.close().await;
        match output {
            ToolOutput::Done(mut answer) => {
                if let Some(limit) = self.context.moment.part::<cost_limit::Opened>() {
                    limit.told(&id);
                }
                let stopped = Announcement::SubAgentStopped { name: self.name, answer: &answer.text };
                let heard = self.context.announce(stopped).await;
                answer.changes.extend(changes.into_iter().chain(heard.changes));
                answer.into()
            }
            output => output,
        }
    }

    /// Lets the sub-agent go on, for as long as it may.
    async fn turn(&self, thread: &mut Thread) -> Result<TurnStatus, AgentError> {
        let progress = self.context.progress;
        let watcher = move |sight: ThreadUpdate<'_>| {
            if let ThreadUpdate::Stored(Event::ModelAnswered { message, .. }) = sight {
                for call in message.tool_calls() {
                    progress(&format!("{}: {}", self.name, call.name));
                }
            }
        };
        let reply = self.reply(thread);
        let turn = async {
            match (thread.run().next(), reply) {
                (NextStep::Wait, _) if thread.run().messages().is_empty() => {
                    thread.say_all(vec![Message::by_agent(self.task.as_str())], &watcher).await
                }
                (_, Some((waiting, reply))) => thread.reply(&waiting, reply, &watcher).await,
                _ => thread.go_on(&watcher).await,
            }
        };
        match tokio::time::timeout(self.timeout, turn).await {
            Ok(turn) => turn,
            Err(_) => {
                thread.cancel(&watcher).await?;
                let reason = format!("it took longer than {} seconds", self.timeout.as_secs());
                Ok(TurnStatus::Ended(TurnOutcome::Stopped { reason }))
            }
        }
    }

    /// The reply to what the sub-agent asked, if it still waits for that.
    fn reply(&self, thread: &Thread) -> Option<(WaitingCall, CallReply)> {
        let consulted = self.context.consulted?;
        let via = consulted.asking.via.as_ref().filter(|via| via.thread == *thread.id())?;
        let waiting = thread.waiting().into_iter().find(|waiting| via.number == waiting.number)?;
        let reply = match consulted.reply.clone()? {
            CallReply::Reject { message } if consulted.rejects_all => CallReply::RejectAll { message },
            reply => reply,
        };
        Some((waiting, reply))
    }

    async fn output(&self, thread: &Thread, turn: Result<TurnStatus, AgentError>) -> ToolOutput {
        let outcome = match turn {
            Ok(TurnStatus::Waiting(waiting)) => match waiting.into_iter().next() {
                Some(first) => return ToolOutput::Ask(self.asking(thread, first)),
                None => TurnOutcome::Silent,
            },
            Ok(TurnStatus::Ended(outcome)) => outcome,
            // It ended before, and nobody heard of it.
            Ok(TurnStatus::Idle) => thread.run().outcome().cloned().unwrap_or(TurnOutcome::Silent),
            Err(error) => {
                return match failed(error) {
                    ToolOutput::Done(answer) => {
                        ToolAnswer { spent: thread.run().spent().clone(), ..answer }.into()
                    }
                    output => output,
                };
            }
        };
        let said = thread.answer().unwrap_or_default();
        let answer = match outcome {
            TurnOutcome::Answered => ToolAnswer::text(said),
            outcome => {
                let text = format!("Error: the sub-agent ended without an answer: {outcome}. {said}");
                ToolAnswer::error(text.trim_end())
            }
        };
        ToolAnswer { spent: thread.run().spent().clone(), ..answer }.into()
    }

    /// What the sub-agent asks, as its parent's thread asks it.
    fn asking(&self, thread: &Thread, waiting: WaitingCall) -> Box<CallQuestion> {
        let via = SubAgentCaller {
            name: self.name.to_owned(),
            thread: thread.id().clone(),
            number: waiting.number,
        };
        Box::new(CallQuestion {
            question: waiting.question.by(self.name),
            // What is allowed is the sub-agent's; what the parent's own gate allowed for this call stays with it.
            allowed: consult::allowed_before(self.context.consulted),
            via: Some(via),
        })
    }
}

/// What a call gives when its sub-agent could not go on. A store that fails fails for the parent as well.
fn failed(error: AgentError) -> ToolOutput {
    match error {
        AgentError::Thread(error @ ThreadError::Store { .. }) => ToolOutput::Unstored(error),
        error => ToolAnswer::error(format!("Error: the sub-agent could not go on: {error}")).into(),
    }
}

/// Opens a thread, or begins it with its seeds, once a process that died while it had it has lost it.
async fn open(agent: &Agent, id: &ThreadId, seeds: Option<&[StateChange]>) -> Result<Thread, AgentError> {
    let lasts = agent.lease();
    let until = tokio::time::Instant::now() + lasts + LOOK_EVERY;
    loop {
        let seeded = match seeds {
            Some(seeds) => agent.seed(id, seeds.to_vec()).await,
            None => Ok(()),
        };
        let opened = match seeded {
            Ok(()) => agent.open(id.clone()).await,
            Err(error) => Err(error),
        };
        match opened {
            Err(AgentError::Thread(ThreadError::Leased { .. })) if tokio::time::Instant::now() < until => {
                tokio::time::sleep(LOOK_EVERY.min(lasts)).await;
            }
            opened => return opened,
        }
    }
}
