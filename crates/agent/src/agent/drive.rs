//! Does what the state machine asks for: records that it begins, acts, records what came of it.

use std::sync::Arc;

use tracing::Instrument as _;

use super::chain::NextModel;
use super::watch::{ThreadUpdate, Watcher};
use super::{AgentError, Thread, TurnStatus};
use crate::message::{AssistantPart, Content, Message, ToolCall};
use crate::middleware::{Jump, Middleware, MiddlewareAction, MiddlewareError};
use crate::model::{Model, ModelErrorKind, ModelRequest, ModelResponse, PromptSection, Usage, name_calls};
use crate::telemetry;
use crate::thread::ThreadError;
use crate::thread_state::{CallQuestion, Event, NextStep, ReadyCall, StateChange, TurnOutcome};
use crate::tool::ToolAnswer;

/// How many events are read at once.
const PAGE: usize = 1000;
/// How often a part is asked at one place, when it wants to be asked again.
const MAX_ROUNDS: usize = 8;

impl Thread {
    /// Goes on with a turn that was cut off, until it ends or waits for a person. Without one it does nothing.
    ///
    /// # Errors
    ///
    /// A part failed, or what happened could not be stored.
    pub async fn go_on(&mut self, watcher: &dyn Watcher) -> Result<TurnStatus, AgentError> {
        let span = telemetry::turn(self.id(), self.agent.name.as_deref(), self.agent.model.name());
        let turn = self.drive(watcher).instrument(span.clone()).await;
        telemetry::turned(&span, &turn);
        turn
    }

    async fn drive(&mut self, watcher: &dyn Watcher) -> Result<TurnStatus, AgentError> {
        self.catch_up_if_ahead().await?;
        loop {
            match self.run.next() {
                NextStep::Wait => return Ok(TurnStatus::Idle),
                NextStep::Ask(_) => return Ok(TurnStatus::Waiting(self.waiting())),
                _ if !self.begun => {
                    self.hook(Hook::BeforeAgent, watcher).await?;
                    self.begun = true;
                }
                NextStep::AskModel => self.ask_model(watcher).await?,
                NextStep::CallTools(calls) => {
                    // Nobody is asked about calls that cannot be made.
                    let (ready, answered) = self.sort(calls)?;
                    if !answered.is_empty() {
                        self.store(answered, watcher).await?;
                    } else if self.after_model(watcher).await? == Moved::No {
                        self.make(ready, watcher).await?;
                    }
                }
                NextStep::End(outcome) => {
                    if self.after_model(watcher).await? == Moved::No
                        && let Some(turn) = self.end(outcome, watcher).await?
                    {
                        return Ok(turn);
                    }
                }
            }
        }
    }

    /// Reads the thread's log and comes to where it stands.
    pub(super) async fn read(&mut self) -> Result<(), AgentError> {
        loop {
            let store = &self.agent.store;
            let page = store.events(&self.hold.lease.thread, self.told, PAGE).await?;
            let is_last = page.len() < PAGE;
            for stored in page {
                let thread = self.hold.lease.thread.clone();
                let damaged =
                    |problem: String| ThreadError::Damaged { thread, number: stored.number, problem };
                self.fold(&stored.event).map_err(|error| damaged(error.to_string()))?;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Stores what the parts have not stored yet, and then events.
    pub(super) async fn store(
        &mut self,
        events: Vec<Event>,
        watcher: &dyn Watcher,
    ) -> Result<(), AgentError> {
        if self.is_ahead {
            return Err(AgentError::Reopen);
        }
        // Apart, so that it is not lost with events that cannot follow.
        if let Some(changes) = self.unstored() {
            self.append(vec![Event::StateChanged { changes }], watcher).await?;
        }
        self.append(events, watcher).await
    }

    /// Stores what is owed and then events, goes on from them and shows them.
    async fn append(&mut self, events: Vec<Event>, watcher: &dyn Watcher) -> Result<(), AgentError> {
        // What cannot follow is not stored. From the first that can, this handle is ahead of the log until all are.
        let before = self.events();
        for event in &events {
            self.fold(event)?;
            self.is_ahead = true;
        }
        let mut all = std::mem::take(&mut self.owed);
        all.extend(events);
        if all.is_empty() {
            return Ok(());
        }
        self.is_ahead = true;
        self.agent.store.append(&self.hold.lease, before, &all).await?;
        self.is_ahead = false;
        for event in &all {
            watcher.update(ThreadUpdate::Stored(event));
        }
        Ok(())
    }

    /// What changed in the parts' states while nobody asked them.
    pub(super) fn unstored(&self) -> Option<Vec<StateChange>> {
        let changes: Vec<_> = self.parts.iter().flat_map(|part| part.unstored()).collect();
        (!changes.is_empty()).then_some(changes)
    }

    /// Goes on from an event.
    pub(super) fn fold(&mut self, event: &Event) -> Result<(), AgentError> {
        let changes = self.run.apply(event)?;
        let applied = self.states.apply(&changes);
        applied.map_err(|(part, error)| {
            AgentError::of(&part)(MiddlewareError::new("read a stored change of its state", error))
        })?;
        self.note(event);
        self.told += 1;
        Ok(())
    }

    fn note(&mut self, event: &Event) {
        match event {
            Event::Asked { call, asking, .. } => {
                self.questions.push((call.clone(), self.told + 1, asking.clone()));
            }
            Event::TurnStarted { .. } | Event::TurnEnded { .. } => self.questions.clear(),
            Event::Replied { call, .. } => self.questions.retain(|(asked, ..)| asked != call),
            _ => {}
        }
    }

    async fn ask_model(&mut self, watcher: &dyn Watcher) -> Result<(), AgentError> {
        match self.hook(Hook::BeforeModel, watcher).await? {
            Moved::No | Moved::Again | Moved::ToModel => {}
            Moved::Settled | Moved::Away => return Ok(()),
        }
        if self.run.next() != NextStep::AskModel {
            return Ok(());
        }
        let tools = self.all_tools()?;
        let (mut request, changes) = self.hold.during(&*self.agent.store, self.request()).await??;
        request.tools = tools.definitions().to_vec();
        self.tools = Some(tools);
        let model = Arc::clone(&self.agent.model);
        self.asks(&*model, changes, watcher).await?;
        let next = NextModel { request, model, moment: self.moment(), parts: &self.parts, watcher };
        let answered = self.hold.during(&*self.agent.store, next.ask()).await?;
        let event = match answered.map(named) {
            Ok(answer) => Event::ModelAnswered {
                model: answer.model,
                message: answer.message,
                usage: answer.usage,
                finish: answer.finish,
            },
            Err(error) => Event::ModelFailed { error },
        };
        self.store(vec![event], watcher).await
    }

    /// Notes that the model is asked, and stores what changes with it.
    ///
    /// What is asked twice costs tokens and nothing else, so that it is asked is stored with its answer. After a call that
    /// was cut off it is stored before: a process that dies in every call of the model comes to the limit of its steps.
    async fn asks(
        &mut self,
        model: &dyn Model,
        changes: Vec<StateChange>,
        watcher: &dyn Watcher,
    ) -> Result<(), AgentError> {
        let asked = Event::ModelAsked { model: model.name().to_owned() };
        let was_cut_off = self.is_resumed || !self.owed.is_empty();
        if was_cut_off || !changes.is_empty() {
            let changed = (!changes.is_empty()).then_some(Event::StateChanged { changes });
            self.store(changed.into_iter().chain([asked]).collect(), watcher).await?;
            self.is_resumed = false;
            return Ok(());
        }
        self.store(Vec::new(), watcher).await?;
        self.fold(&asked)?;
        self.owed.push(asked);
        Ok(())
    }

    /// What the model would be asked if it were asked now, before any part has its say about it. Nothing is stored.
    ///
    /// # Errors
    ///
    /// A part failed, or the store did.
    pub async fn preview(&mut self) -> Result<ModelRequest, AgentError> {
        self.catch_up_if_ahead().await?;
        let tools = self.all_tools()?;
        let (mut request, _) = self.hold.during(&*self.agent.store, self.request()).await??;
        request.tools = tools.definitions().to_vec();
        Ok(request)
    }

    /// Asks one part what it wants done before the model is asked, also when no turn is going on, and does it. Says whether
    /// there is a part of that name.
    pub(crate) async fn ask_one(&mut self, part: &str, watcher: &dyn Watcher) -> Result<bool, AgentError> {
        self.catch_up_if_ahead().await?;
        let Some(part) = self.parts.iter().find(|candidate| candidate.name() == part).cloned() else {
            return Ok(false);
        };
        self.ask_part(&part, Hook::BeforeModel, watcher).await?;
        Ok(true)
    }

    /// What the model is asked: sections from the most to the least stable, and the conversation. And what has to change for
    /// the sections to be true.
    async fn request(&self) -> Result<(ModelRequest, Vec<StateChange>), AgentError> {
        let (mut request, mut changes) = (ModelRequest::default(), Vec::new());
        let own = self.agent.prompt.iter().map(|text| PromptSection {
            owner: "agent".to_owned(),
            text: text.clone(),
            is_stable: true,
        });
        request.system.extend(own);
        for part in &self.parts {
            let added = part.sections(self.moment()).await.map_err(AgentError::of(part.name()))?;
            request.system.extend(added.sections);
            changes.extend(added.changes);
        }
        request.system.sort_by_key(|section| !section.is_stable);
        request.messages = self.run.view().cloned().collect();
        Ok((request, changes))
    }

    /// Asks the parts what follows from the model's last answer, once.
    async fn after_model(&mut self, watcher: &dyn Watcher) -> Result<Moved, AgentError> {
        let answers = self.run.answers();
        if self.heard == answers {
            return Ok(Moved::No);
        }
        let moved = self.hook(Hook::AfterModel, watcher).await?;
        self.heard = answers;
        Ok(moved)
    }

    /// Ends the turn, unless a part wants it to go on and it may.
    pub(super) async fn end(
        &mut self,
        outcome: TurnOutcome,
        watcher: &dyn Watcher,
    ) -> Result<Option<TurnStatus>, AgentError> {
        // From the last to the first: what a part puts away at the end is there if one after it wants to go on.
        for part in self.parts.clone().into_iter().rev() {
            // Should this future be dropped, the part may think that what it did is stored.
            self.is_ahead = true;
            let asked = part.after_agent(self.moment(), &outcome);
            let acts = self.hold.during(&*self.agent.store, asked).await?;
            self.is_ahead = false;
            let mut acts = acts.map_err(AgentError::of(part.name()))?;
            acts.retain(|act| match act {
                MiddlewareAction::Tell(_) | MiddlewareAction::Jump(Jump::Model(_)) => may_go_on(&outcome),
                MiddlewareAction::Change(_) => true,
                _ => false,
            });
            if self.obey(part.name(), acts, watcher).await? != Moved::No {
                return Ok(None);
            }
        }
        self.store(vec![Event::TurnEnded { outcome: outcome.clone() }], watcher).await?;
        self.tools = None;
        Ok(Some(TurnStatus::Ended(outcome)))
    }

    /// Asks all parts at one place, until one wants the turn to go on elsewhere.
    async fn hook(&mut self, hook: Hook, watcher: &dyn Watcher) -> Result<Moved, AgentError> {
        let mut moved = Moved::No;
        for part in self.parts.clone() {
            match self.ask_part(&part, hook, watcher).await? {
                Moved::No | Moved::Again => {}
                Moved::Settled => moved = Moved::Settled,
                jumped @ (Moved::ToModel | Moved::Away) => return Ok(jumped),
            }
        }
        Ok(moved)
    }

    /// Asks one part at one place, and again for as long as it wants to be.
    async fn ask_part(
        &mut self,
        part: &Arc<dyn Middleware>,
        hook: Hook,
        watcher: &dyn Watcher,
    ) -> Result<Moved, AgentError> {
        for _ in 0..MAX_ROUNDS {
            // Should this future be dropped, the part may think that what it did is stored.
            self.is_ahead = true;
            let moment = self.moment();
            let asked = async {
                match hook {
                    Hook::BeforeAgent => part.before_agent(moment).await,
                    Hook::BeforeModel => part.before_model(moment).await,
                    Hook::AfterModel => part.after_model(moment).await,
                }
            };
            let acts = self.hold.during(&*self.agent.store, asked).await?;
            self.is_ahead = false;
            let acts = acts.map_err(AgentError::of(part.name()))?;
            match self.obey(part.name(), acts, watcher).await? {
                Moved::Again => {}
                moved => return Ok(moved),
            }
        }
        Ok(Moved::No)
    }

    /// Does what a part wants.
    async fn obey(
        &mut self,
        part: &str,
        acts: Vec<MiddlewareAction>,
        watcher: &dyn Watcher,
    ) -> Result<Moved, AgentError> {
        let mut moved = Moved::No;
        let mut events = Vec::new();
        for act in acts {
            events.push(match act {
                MiddlewareAction::Change(change) => Event::StateChanged { changes: vec![change] },
                MiddlewareAction::Ask { call, question } => {
                    moved = Moved::Settled;
                    let asking = Box::new(CallQuestion::from(*question));
                    Event::Asked { call, asking, by_tool: false }
                }
                MiddlewareAction::Approve { call } => {
                    moved = Moved::Settled;
                    Event::Approved { call, by: part.to_owned() }
                }
                MiddlewareAction::Answer { call, text, is_error, data } => {
                    moved = Moved::Settled;
                    let answer = ToolAnswer { text, is_error, data, ..ToolAnswer::default() };
                    Event::ToolAnswered { call, answer }
                }
                MiddlewareAction::Compact { cut, summary, spent } => Event::Compacted { cut, summary, spent },
                MiddlewareAction::Tell(messages) => {
                    if matches!(self.run.next(), NextStep::End(_)) {
                        moved = Moved::Settled;
                    }
                    told(messages)
                }
                MiddlewareAction::Jump(Jump::Again) => {
                    // Whoever wants nothing stored would be asked the same.
                    if moved == Moved::No && !events.is_empty() {
                        moved = Moved::Again;
                    }
                    break;
                }
                MiddlewareAction::Jump(jump) => {
                    // Where it goes on depends on calls that were settled. All else is stored with it, so that no crash
                    // comes between.
                    if moved == Moved::Settled {
                        self.store(std::mem::take(&mut events), watcher).await?;
                    }
                    moved = self.jump(jump, &mut events);
                    break;
                }
            });
        }
        self.store(events, watcher).await?;
        Ok(moved)
    }

    /// Adds what happens when a turn goes on elsewhere.
    fn jump(&self, jump: Jump, events: &mut Vec<Event>) -> Moved {
        if let Jump::Model(_) | Jump::Tools(_) = jump {
            events.extend(self.leave());
        }
        match jump {
            Jump::End(outcome) => {
                events.push(Event::Stopped { outcome });
                Moved::Away
            }
            Jump::Model(messages) => {
                if !messages.is_empty() {
                    events.push(told(messages));
                }
                Moved::ToModel
            }
            Jump::Tools(calls) => {
                let mut parts: Vec<_> = calls.into_iter().map(AssistantPart::ToolCall).collect();
                name_calls(&mut parts);
                let model = "middleware".to_owned();
                let (message, usage) = (Message::assistant(parts), Usage::default());
                events.push(Event::ModelAsked { model: model.clone() });
                events.push(Event::ModelAnswered { model, message, usage, finish: None });
                Moved::Away
            }
            Jump::Again => Moved::No,
        }
    }

    /// What brings the turn back to where the model is asked.
    fn leave(&self) -> Vec<Event> {
        let skipped = |call: ToolCall| Event::ToolAnswered {
            call: call.id,
            answer: ToolAnswer::error("Error: this call was not made."),
        };
        match self.run.next() {
            NextStep::CallTools(calls) => {
                let begun_or_not = |call: ReadyCall| match call.interrupted {
                    true => call.unknown_outcome(),
                    false => skipped(call.call),
                };
                let waiting = self.run.waiting().into_iter().map(skipped);
                calls.into_iter().map(begun_or_not).chain(waiting).collect()
            }
            NextStep::Ask(calls) => calls.into_iter().map(skipped).collect(),
            NextStep::End(_) => vec![Event::Told { messages: Vec::new() }],
            NextStep::Wait | NextStep::AskModel => Vec::new(),
        }
    }
}

/// What a part says in a person's place, marked as such.
fn told(messages: Vec<Message>) -> Event {
    Event::Told { messages: messages.into_iter().map(Message::not_by_person).collect() }
}

/// An answer whose calls have names of their own, whoever put it together.
fn named(mut answer: ModelResponse) -> ModelResponse {
    if let Content::Assistant { parts } = &mut answer.message.content {
        name_calls(parts);
    }
    answer
}

/// Whether a turn that is to end may go on: it has not taken all that it may, and nobody ended it.
fn may_go_on(outcome: &TurnOutcome) -> bool {
    match outcome {
        TurnOutcome::Answered | TurnOutcome::Silent | TurnOutcome::CutOff => true,
        TurnOutcome::Failed { error } => error.kind == ModelErrorKind::ContextTooLong,
        TurnOutcome::Refused
        | TurnOutcome::TooManySteps { .. }
        | TurnOutcome::TooManyTokens { .. }
        | TurnOutcome::WindowFull { .. }
        | TurnOutcome::Cancelled
        | TurnOutcome::Stopped { .. } => false,
    }
}

/// Whether it has to be looked again what comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    /// No.
    No,
    /// The same part is to be asked again.
    Again,
    /// Calls were settled, or the turn does not end.
    Settled,
    /// The model is to be asked; no other part is.
    ToModel,
    /// The turn goes on elsewhere; no other part is asked.
    Away,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hook {
    BeforeAgent,
    BeforeModel,
    AfterModel,
}
