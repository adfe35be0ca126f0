//! Reads a thread's log, and stores events in it.

use std::sync::Arc;

use super::reply::AskedQuestion;
use super::watcher::{ThreadUpdate, Watcher};
use super::{AgentError, Thread};
use crate::middleware::contract::MiddlewareError;
use crate::state::States;
use crate::thread::ThreadError;
use crate::thread_state::{Event, NextStep, StateChange, ThreadState};

/// How many events one request to the store reads.
const PAGE: usize = 1000;

impl Thread {
    /// Catches up with the log if this handle may be ahead of it: an earlier store failed, or its future was dropped.
    pub(crate) async fn catch_up_if_ahead(&mut self) -> Result<(), AgentError> {
        if !self.is_ahead {
            return Ok(());
        }
        // Renewing waits for the store: after it, an append that nobody waited for is either stored or refused.
        self.held.renew(&*self.agent.store).await?;
        self.catch_up().await
    }

    /// Reads the log from its beginning, and opens the middleware for it.
    pub(super) async fn catch_up(&mut self) -> Result<(), AgentError> {
        let agent = Arc::clone(&self.agent);
        self.state = ThreadState::new(agent.options.limits);
        self.states = States::default();
        for factory in &agent.middleware {
            if let Some(state) = factory.state() {
                self.states.add(factory.name(), state);
            }
        }
        (self.applied, self.responses_seen, self.has_begun) = (0, 0, false);
        self.unstored_start.clear();
        self.questions.clear();
        self.middleware.clear();
        self.read().await?;
        self.is_resumed = self.state.next() != NextStep::Wait;
        for factory in &agent.middleware {
            let opened = factory.open(self.id(), &self.states);
            let opened = self.held.keep_during(&*agent.store, opened).await?;
            self.middleware.push(opened.map_err(AgentError::of(factory.name()))?);
        }
        // Reports two tools of the same name before anything is stored.
        self.all_tools()?;
        self.tools = None;
        self.is_ahead = false;
        Ok(())
    }

    /// Reads the events after those that this handle has applied, and applies them.
    async fn read(&mut self) -> Result<(), AgentError> {
        loop {
            let store = &self.agent.store;
            let page = store.events(&self.held.lease.thread, self.applied, PAGE).await?;
            let is_last = page.len() < PAGE;
            for stored in page {
                let thread = self.held.lease.thread.clone();
                let damaged =
                    |problem: String| ThreadError::Damaged { thread, number: stored.number, problem };
                self.apply(&stored.event).map_err(|error| damaged(error.to_string()))?;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Stores the unstored changes of the middleware, and then these events.
    pub(super) async fn store(
        &mut self,
        events: Vec<Event>,
        watcher: &dyn Watcher,
    ) -> Result<(), AgentError> {
        if self.is_ahead {
            return Err(AgentError::Reopen);
        }
        // In an append of its own: if the events are misplaced, the changes must not be lost with them.
        if let Some(changes) = self.unstored() {
            self.append(vec![Event::StateChanged { changes }], watcher).await?;
        }
        self.append(events, watcher).await
    }

    /// Applies events, appends them to the log and shows them.
    async fn append(&mut self, events: Vec<Event>, watcher: &dyn Watcher) -> Result<(), AgentError> {
        // A misplaced event fails here and is not stored. Once one is applied, this handle is ahead of the log.
        let before = self.events();
        for event in &events {
            self.apply(event)?;
            self.is_ahead = true;
        }
        let mut all = std::mem::take(&mut self.unstored_start);
        all.extend(events);
        if all.is_empty() {
            return Ok(());
        }
        self.is_ahead = true;
        self.agent.store.append(&self.held.lease, before, &all).await?;
        self.is_ahead = false;
        self.show(&all, before, watcher);
        Ok(())
    }

    /// Shows events that were stored after so many others, and what models were paid for them.
    pub(super) fn show(&self, events: &[Event], before: u64, watcher: &dyn Watcher) {
        for (event, number) in events.iter().zip(before + 1..) {
            watcher.update(ThreadUpdate::Stored(event));
            if let Some(spent) = event.own_spent().filter(|spent| !spent.is_empty()) {
                watcher.update(ThreadUpdate::Paid { event: Some((self.id(), number)), spent: &spent });
            }
        }
    }

    /// The state changes that middleware made outside of a call.
    pub(super) fn unstored(&self) -> Option<Vec<StateChange>> {
        let changes: Vec<_> = self.middleware.iter().flat_map(|middleware| middleware.unstored()).collect();
        (!changes.is_empty()).then_some(changes)
    }

    /// Applies an event to the thread's state, to the states of the middleware and to the open questions.
    pub(super) fn apply(&mut self, event: &Event) -> Result<(), AgentError> {
        let changes = self.state.apply(event)?;
        let applied = self.states.apply(&changes);
        applied.map_err(|(owner, error)| {
            AgentError::of(&owner)(MiddlewareError::new("read a stored change of its state", error))
        })?;
        self.note_question(event);
        self.applied += 1;
        Ok(())
    }

    fn note_question(&mut self, event: &Event) {
        match event {
            Event::Asked { call, question, .. } => {
                let (number, question) = (self.applied + 1, question.clone());
                self.questions.push(AskedQuestion { call: call.clone(), number, question });
            }
            Event::TurnStarted { .. } | Event::TurnEnded { .. } => self.questions.clear(),
            Event::Replied { call, .. } => self.questions.retain(|asked| asked.call != *call),
            _ => {}
        }
    }
}
