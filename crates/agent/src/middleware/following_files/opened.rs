//! The files of an open thread.

use std::sync::{Arc, Mutex as StdMutex, MutexGuard, OnceLock, PoisonError};

use async_trait::async_trait;
use prowess_backend::Backend;
use serde::Deserialize as _;
use tokio::sync::Mutex;

use super::state::{FollowDelta, FollowedFiles};
use super::{FileStorage, NAME, StorageError};
use crate::agent::NextTool;
use crate::id::ThreadId;
use crate::middleware::{Middleware, MiddlewareAction, MiddlewareContext, MiddlewareError};
use crate::state::State as _;
use crate::thread::{ThreadError, ThreadStore, possible_sub_agents, sub_agent_thread};
use crate::thread_state::{Event, NextStep, StateChange, TurnOutcome};
use crate::tool::{ToolAnswer, ToolKind, ToolOutput};

/// How many events one request to the store reads.
const PAGE: usize = 1000;

const RESTORE: &str = "restore the thread's files";

/// The files of a thread, which its sub-agents share.
#[derive(Debug)]
pub(super) struct SharedFiles {
    /// The thread whose files these are.
    pub(super) thread: ThreadId,
    pub(super) storage: Arc<dyn FileStorage>,
    /// Held during a restore and a capture, so that there is one at a time.
    pub(super) state: Mutex<SharedState>,
}

#[derive(Debug, Default)]
pub(super) struct SharedState {
    /// Whether the local files were restored. If not, they can be anything, and are not captured.
    is_ready: bool,
    /// The files as they were last captured or restored, or as they must be restored.
    files: FollowedFiles,
    /// The number of the last change of a person that the local files have.
    applied: u64,
}

impl SharedFiles {
    /// Opens the files for a thread: this one, or one of its sub-agents.
    pub(super) async fn open(&self, thread: &ThreadId, files: &FollowedFiles) -> Result<(), MiddlewareError> {
        let mut state = self.state.lock().await;
        // If the thread is only opened again, this process had it all the time, and the local files are newer than the log. A
        // sub-agent finds the files of the thread for which it works. They are older only if another process died.
        let is_newer = files.number > state.files.number;
        let is_own = *thread == self.thread;
        if is_newer || is_own && !state.is_ready && files.number == state.files.number {
            state.must_become(files);
        }
        // Those of the thread itself are restored when the turn goes on: without them, it can still be cancelled.
        if is_newer && !is_own {
            self.make_ready(&mut state).await.map_err(|error| self.failed(RESTORE, error))?;
        }
        Ok(())
    }

    /// Restores the files, unless they are.
    async fn make_ready(&self, state: &mut SharedState) -> Result<(), StorageError> {
        if !state.is_ready {
            self.storage.restore(&state.files).await?;
            (state.is_ready, state.applied) = (true, state.files.changed);
        }
        Ok(())
    }

    /// The same, for those who have no lock.
    pub(super) async fn ready(&self) -> Result<(), StorageError> {
        self.make_ready(&mut *self.state.lock().await).await
    }

    fn failed(&self, action: &str, error: StorageError) -> MiddlewareError {
        if self.storage.passes(&error) {
            MiddlewareError::unavailable(action, error)
        } else {
            MiddlewareError::new(action, error)
        }
    }
}

impl SharedState {
    /// The files must be restored from these.
    fn must_become(&mut self, files: &FollowedFiles) {
        *self = Self { is_ready: false, files: files.clone(), applied: 0 };
    }
}

/// The middleware of an open thread.
#[derive(Debug)]
pub(super) struct OpenFiles {
    pub(super) opened: Arc<Opened>,
    /// The same files for other middleware.
    pub(super) backend: OnceLock<Arc<dyn Backend>>,
}

/// The files of an open thread.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) shared: Arc<SharedFiles>,
    is_own: bool,
    log: StdMutex<Log>,
}

/// What the log of the thread has.
#[derive(Debug)]
struct Log {
    /// The number of the last capture that it has, or that waits to be stored.
    number: u64,
    unstored: Vec<StateChange>,
    /// Whether the logs of sub-agents were looked at that another process left.
    has_looked: bool,
}

impl OpenFiles {
    pub(super) fn new(shared: Arc<SharedFiles>, thread: &ThreadId, files: &FollowedFiles) -> Self {
        let is_own = *thread == shared.thread;
        let log = Log { number: files.number, unstored: Vec::new(), has_looked: false };
        let opened = Opened { shared, is_own, log: StdMutex::new(log) };
        Self { opened: Arc::new(opened), backend: OnceLock::new() }
    }
}

impl Opened {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Restores files of a log that names none, and stores those that are there. Returns what must be told.
    pub(super) async fn begin(&self) -> Result<Option<String>, StorageError> {
        if self.is_own {
            self.shared.ready().await?;
        }
        self.settle().await
    }

    /// Stores what changed. The next write to the log has it first. Returns what must be told.
    pub(super) async fn settle(&self) -> Result<Option<String>, StorageError> {
        let shared = &self.shared;
        let mut state = shared.state.lock().await;
        if !state.is_ready {
            return Err("the thread's files are not restored".into());
        }
        let mut notice = None;
        if let Some(captured) = shared.storage.capture(state.files.family()).await? {
            let (number, changed) = (state.files.number + 1, state.applied);
            let (inventory, family) = (captured.inventory, captured.family);
            state.files.apply(FollowDelta::Captured { number, inventory, family, changed });
            notice = captured.notice;
        }
        // A sub-agent may have stored what this log does not have.
        let (number, changed) = (state.files.number, state.applied);
        let mut log = self.log();
        if number > log.number
            && let (Some(inventory), Some(family)) = (state.files.inventory(), state.files.family())
        {
            let (inventory, family) = (inventory.to_owned(), family.to_owned());
            let delta = FollowDelta::Captured { number, inventory, family, changed };
            log.unstored.push(StateChange::new::<FollowedFiles>(NAME, &delta));
            log.number = number;
        }
        Ok(notice)
    }

    /// Restores the files, unless they are, and makes the changes of people that the log has and the local files do not.
    async fn take_changes(&self, context: MiddlewareContext<'_>) -> Result<(), MiddlewareError> {
        let shared = &self.shared;
        let mut state = shared.state.lock().await;
        shared.make_ready(&mut state).await.map_err(|error| shared.failed(RESTORE, error))?;
        let Some(files) = context.states.get::<FollowedFiles>(NAME).filter(|_| self.is_own) else {
            return Ok(());
        };
        for (number, change) in files.changes_after(state.applied) {
            let applied = shared.storage.apply(files.family(), change).await;
            applied.map_err(|error| shared.failed("take in a file of a person", error))?;
            state.applied = *number;
        }
        Ok(())
    }

    /// Restores what sub-agents stored before a process died: their logs have it, and that of the thread does not.
    async fn look_at_sub_agents(&self, context: MiddlewareContext<'_>) -> Result<(), StorageError> {
        if !self.is_own || std::mem::replace(&mut self.log().has_looked, true) {
            return Ok(());
        }
        let NextStep::CallTools(calls) = context.thread_state.next() else { return Ok(()) };
        let tasks = calls
            .iter()
            .filter(|call| call.interrupted && context.tool_kind(&call.call.name) == Some(ToolKind::Task));
        let mut threads: Vec<ThreadId> =
            tasks.map(|call| sub_agent_thread(context.thread, &call.message)).collect();
        if threads.is_empty() {
            return Ok(());
        }
        // Calls that begin meanwhile wait for it.
        let mut state = self.shared.state.lock().await;
        let mut files = state.files.clone();
        while let Some(thread) = threads.pop() {
            threads.extend(read_files(&**context.store, &thread, &mut files).await?);
        }
        if files.number > state.files.number {
            state.must_become(&files);
        }
        self.shared.make_ready(&mut state).await
    }
}

/// Reads the captures in the log of a sub-agent. Returns the threads that its own sub-agents may have.
async fn read_files(
    store: &dyn ThreadStore,
    thread: &ThreadId,
    files: &mut FollowedFiles,
) -> Result<Vec<ThreadId>, ThreadError> {
    let (mut after, mut below) = (0, Vec::new());
    loop {
        let page = match store.events(thread, after, PAGE).await {
            Err(ThreadError::NotFound(_)) => return Ok(below),
            page => page?,
        };
        for stored in &page {
            after = stored.number;
            below.extend(possible_sub_agents(thread, &stored.event));
            let Event::StateChanged { changes } = &stored.event else { continue };
            for change in changes.iter().filter(|change| change.owner == NAME) {
                // Nobody posts to the thread of a sub-agent.
                if let Ok(delta @ FollowDelta::Captured { .. }) = FollowDelta::deserialize(&change.delta) {
                    files.apply(delta);
                }
            }
        }
        if page.len() < PAGE {
            return Ok(below);
        }
    }
}

/// The output of a call that was not made. If the store of threads failed, the call is made later.
fn not_made(error: StorageError) -> ToolOutput {
    match error.downcast::<ThreadError>() {
        Ok(error) if matches!(*error, ThreadError::Store { .. }) => ToolOutput::Unstored(*error),
        Ok(error) => unmade(&error),
        Err(error) => unmade(&error),
    }
}

fn unmade(error: &dyn std::fmt::Display) -> ToolOutput {
    ToolAnswer::error(format!("Error: the call was not made: {error}")).into()
}

/// The answer of a call whose files could not be stored. What it said may name them.
fn not_stored(answer: ToolAnswer, why: &str) -> ToolAnswer {
    let text = format!(
        "Error: the call was made, but the files that it changed could not be stored: {why}. The next call tries again; \
         files that are not stored are gone when this turn has ended."
    );
    ToolAnswer { text, is_error: true, data: None, ..answer }
}

fn with_notice(answer: ToolAnswer, notice: Option<&str>) -> ToolAnswer {
    match notice {
        Some(notice) => ToolAnswer { text: format!("{}\n\n{notice}", answer.text), ..answer },
        None => answer,
    }
}

#[async_trait]
impl Middleware for OpenFiles {
    fn name(&self) -> &str {
        NAME
    }

    async fn before_agent(
        &self,
        context: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        self.opened.take_changes(context).await.map(|()| Vec::new())
    }

    async fn before_model(
        &self,
        context: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        self.opened.take_changes(context).await.map(|()| Vec::new())
    }

    async fn wrap_tool_call(&self, context: MiddlewareContext<'_>, next: NextTool<'_>) -> ToolOutput {
        if let Err(error) = self.opened.look_at_sub_agents(context).await {
            self.opened.log().has_looked = false;
            return not_made(error);
        }
        // Another call may have failed to restore them.
        if let Err(error) = self.opened.shared.ready().await {
            return not_made(error);
        }
        let output = next.call().await;
        match (output, self.opened.settle().await) {
            (ToolOutput::Done(answer), Ok(notice)) => with_notice(answer, notice.as_deref()).into(),
            (ToolOutput::Done(answer), Err(error)) => not_stored(answer, &error.to_string()).into(),
            (ToolOutput::InOrder(finish), Ok(notice)) => {
                ToolOutput::InOrder(Box::new(move |states| with_notice(finish(states), notice.as_deref())))
            }
            (ToolOutput::InOrder(finish), Err(error)) => {
                ToolOutput::InOrder(Box::new(move |states| not_stored(finish(states), &error.to_string())))
            }
            // The call is not answered yet: its files are stored when it is.
            (output, Ok(_)) => output,
            (output, Err(error)) => {
                tracing::warn!(thread = %context.thread, %error, "Could not store files of a call that waits");
                output
            }
        }
    }

    async fn after_agent(
        &self,
        context: MiddlewareContext<'_>,
        _: &TurnOutcome,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        // A turn that was cancelled may never have had its files.
        let is_ready = self.opened.shared.state.lock().await.is_ready;
        // What a background command wrote since the last answer. The log says nothing about it.
        if is_ready && let Err(error) = self.opened.settle().await {
            tracing::warn!(thread = %context.thread, %error, "Could not store files at the end of a turn");
        }
        Ok(Vec::new())
    }

    fn unstored(&self) -> Vec<StateChange> {
        std::mem::take(&mut self.opened.log().unstored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_waits_for_the_store_of_threads_and_for_nothing_else() {
        let away = ThreadError::Store { action: "read".to_owned(), source: "it is away".into() };
        assert!(matches!(not_made(away.into()), ToolOutput::Unstored(ThreadError::Store { .. })));
        for gone in [ThreadError::NotFound(ThreadId::new()).into(), StorageError::from("a file is gone")] {
            let ToolOutput::Done(answer) = not_made(gone) else { panic!("the model is not told") };
            assert!(
                answer.is_error && answer.text.starts_with("Error: the call was not made: "),
                "{answer:?}"
            );
        }
    }
}
