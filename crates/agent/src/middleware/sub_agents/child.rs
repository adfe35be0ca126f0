//! One task of a sub-agent: its thread, its questions and its response.

use std::sync::OnceLock;
use std::time::Duration;

use crate::agent::{Agent, AgentError, Thread, ThreadUpdate, TurnStatus, WaitingCall};
use crate::id::ThreadId;
use crate::message::Message;
use crate::middleware::cost_limit::ThreadCostLimit;
use crate::middleware::{Announcement, SkillsState};
use crate::thread::{ThreadError, has_events, sub_agent_thread};
use crate::thread_state::{
    CallQuestion, CallReply, Event, NextStep, StateChange, SubAgentCaller, TurnOutcome,
};
use crate::tool::{ToolAnswer, ToolContext, ToolOutput, permission};

/// How often to try a thread that another process, perhaps a dead one, has leased.
const TRY_EVERY: Duration = Duration::from_millis(500);

/// A task for a sub-agent.
pub(super) struct ChildTask<'a> {
    pub(super) name: &'a str,
    pub(super) agent: Agent,
    pub(super) task: String,
    pub(super) seeds: Vec<StateChange>,
    pub(super) timeout: Duration,
    pub(super) context: ToolContext<'a>,
    /// The skill whose `allowed-tools` approved a call of the sub-agent.
    pub(super) preapproved_by: OnceLock<String>,
}

impl ChildTask<'_> {
    /// Starts or continues the task, and returns the output of the tool call.
    pub(super) async fn run(self) -> ToolOutput {
        let id = sub_agent_thread(self.context.thread, self.context.message);
        let (mut seeds, mut changes) = (None, Vec::new());
        match has_events(&**self.context.middleware.store, &id).await {
            Ok(true) => {}
            Ok(false) => {
                let starts = Announcement::SubAgentStarts { name: self.name, task: &self.task };
                let reaction = self.context.announce(starts).await;
                if let Some(objection) = reaction.objection {
                    let text = format!("Error: the sub-agent was not started: {objection}");
                    return ToolAnswer { changes: reaction.changes, ..ToolAnswer::error(text) }.into();
                }
                (seeds, changes) = (Some(&self.seeds[..]), reaction.changes);
            }
            Err(error) => return failed(error.into()),
        }
        let mut thread = match open(&self.agent, &id, seeds).await {
            Ok(thread) => thread,
            Err(error) => return failed(error),
        };
        let turn = self.turn(&mut thread).await;
        let output = self.output(&thread, turn).await;
        // Skills of servers that led the sub-agent also lead the agent that reads its response.
        if SkillsState::of(self.context.states).is_some() {
            changes.extend(SkillsState::of(thread.states()).map(SkillsState::led).unwrap_or_default());
        }
        // If this fails, the lease ends by itself.
        let _ = thread.close().await;
        match output {
            ToolOutput::Done(mut answer) => {
                if let Some(limit) = self.context.middleware.find::<ThreadCostLimit>() {
                    limit.note_in_parent(&id);
                }
                let stopped = Announcement::SubAgentStopped { name: self.name, answer: &answer.text };
                let reaction = self.context.announce(stopped).await;
                answer.changes.extend(changes.into_iter().chain(reaction.changes));
                answer.preapproved_by(self.preapproved_by.into_inner()).into()
            }
            output => output,
        }
    }

    /// Lets the sub-agent work, as long as it may.
    async fn turn(&self, thread: &mut Thread) -> Result<TurnStatus, AgentError> {
        let progress = self.context.progress;
        let watcher = move |update: ThreadUpdate<'_>| match update {
            ThreadUpdate::Stored(Event::ModelResponded { message, .. }) => {
                for call in message.tool_calls() {
                    progress(&format!("{}: {}", self.name, call.name));
                }
            }
            ThreadUpdate::Stored(Event::ToolAnswered { answer, .. }) => {
                if let Some(skill) = &answer.preapproved_by {
                    let _ = self.preapproved_by.set(skill.clone());
                }
                self.context.watcher.update(ThreadUpdate::SubAgentTool(self.context.call, answer));
            }
            // A sub-agent of this sub-agent.
            ThreadUpdate::SubAgentTool(_, answer) => {
                self.context.watcher.update(ThreadUpdate::SubAgentTool(self.context.call, answer));
            }
            // The output of its commands.
            ThreadUpdate::Progress(_, text) => progress(text),
            ThreadUpdate::Notice(text) => self.context.notice(&format!("{}: {text}", self.name)),
            ThreadUpdate::Paid { .. } => self.context.watcher.update(update),
            _ => {}
        };
        let reply = self.reply(thread);
        let turn = async {
            match (thread.state().next(), reply) {
                (NextStep::Wait, _) if thread.state().messages().is_empty() => {
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

    /// The person's reply to the sub-agent's question, if the sub-agent still waits for it.
    fn reply(&self, thread: &Thread) -> Option<(WaitingCall, CallReply)> {
        let consultation = self.context.consultation?;
        let via = consultation.question.via.as_ref().filter(|via| via.thread == *thread.id())?;
        let waiting = thread.waiting().into_iter().find(|waiting| via.number == waiting.number)?;
        let reply = match consultation.reply.clone()? {
            CallReply::Reject { message } if consultation.rejects_all => CallReply::RejectAll { message },
            reply => reply,
        };
        Some((waiting, reply))
    }

    async fn output(&self, thread: &Thread, turn: Result<TurnStatus, AgentError>) -> ToolOutput {
        let outcome = match turn {
            Ok(TurnStatus::Waiting(waiting)) => match waiting.into_iter().next() {
                Some(first) => return ToolOutput::Ask(self.question(thread, first)),
                None => TurnOutcome::Silent,
            },
            Ok(TurnStatus::Ended(outcome)) => outcome,
            // It ended earlier, before the parent stored its response.
            Ok(TurnStatus::Idle) => thread.state().outcome().cloned().unwrap_or(TurnOutcome::Silent),
            Err(error) => {
                return match failed(error) {
                    ToolOutput::Done(answer) => {
                        ToolAnswer { spent: thread.state().spent().clone(), ..answer }.into()
                    }
                    output => output,
                };
            }
        };
        let response = thread.last_response().unwrap_or_default();
        let answer = match outcome {
            TurnOutcome::Responded => ToolAnswer::text(response),
            outcome => {
                let text = format!("Error: the sub-agent ended without a response: {outcome}. {response}");
                ToolAnswer::error(text.trim_end())
            }
        };
        ToolAnswer { spent: thread.state().spent().clone(), ..answer }.into()
    }

    /// The sub-agent's question, as its parent's thread asks it.
    fn question(&self, thread: &Thread, waiting: WaitingCall) -> Box<CallQuestion> {
        let via = SubAgentCaller {
            name: self.name.to_owned(),
            thread: thread.id().clone(),
            number: waiting.number,
        };
        Box::new(CallQuestion {
            question: waiting.question.by(self.name),
            // Keeps what the parent's own gate has allowed for this call.
            allowed: permission::allowed_before(self.context.consultation),
            via: Some(via),
        })
    }
}

/// The output of a call whose sub-agent could not continue. If the store failed, it fails for the parent too.
fn failed(error: AgentError) -> ToolOutput {
    match error {
        AgentError::Thread(error @ ThreadError::Store { .. }) => ToolOutput::Unstored(error),
        error => ToolAnswer::error(format!("Error: the sub-agent could not continue: {error}")).into(),
    }
}

/// Opens a thread, or creates it with its seeds. If a dead process still has the lease, it waits until the lease ends.
async fn open(agent: &Agent, id: &ThreadId, seeds: Option<&[StateChange]>) -> Result<Thread, AgentError> {
    let lasts = agent.lease();
    let until = tokio::time::Instant::now() + lasts + TRY_EVERY;
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
                tokio::time::sleep(TRY_EVERY.min(lasts)).await;
            }
            opened => return opened,
        }
    }
}
