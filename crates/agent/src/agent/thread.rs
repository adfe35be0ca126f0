//! The handle to a thread that the agent works on.

use std::sync::Arc;

use super::lease::HeldLease;
use super::reply::AskedQuestion;
use super::watcher::{NoWatcher, Watcher};
use super::{AgentError, Inner, TurnStatus};
use crate::id::ThreadId;
use crate::message::{Content, Message};
use crate::middleware::contract::{Announcement, Middleware, MiddlewareContext, Watched};
use crate::state::States;
use crate::thread_state::{Event, NextStep, StateChange, ThreadState, TurnOutcome};
use crate::tool::Tools;

/// A thread that this agent works on. While the handle exists, nobody else can write to the thread.
///
/// The handle stores everything before it shows it. It stores the start of a tool call before the call. It stores the
/// start of a model call together with the response, unless it resumed the turn. If you drop the handle in the middle
/// of a turn, [`Thread::go_on`] continues the turn, here or in another process.
///
/// ```
/// use std::sync::Arc;
/// use prowess_agent::{Agent, NoWatcher, ThreadId, TurnOutcome, TurnStatus};
/// use prowess_models::{Scripted, ScriptedTurn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Scripted::new([ScriptedTurn::new().say("Three."), ScriptedTurn::new().say("Four.")]);
/// let agent = Agent::builder(Arc::new(model)).build()?;
/// let id = ThreadId::new();
/// let mut thread = agent.open(id.clone()).await?;
/// assert_eq!(thread.say("How many notes?", &NoWatcher).await?, TurnStatus::Ended(TurnOutcome::Responded));
/// thread.close().await?;
///
/// // Later, perhaps in another process, the thread still has all messages.
/// let mut thread = agent.open(id).await?;
/// thread.say("And now?", &NoWatcher).await?;
/// assert_eq!(thread.last_response().as_deref(), Some("Four."));
/// assert_eq!(thread.state().messages().len(), 4);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Thread {
    pub(super) agent: Arc<Inner>,
    pub(super) held: HeldLease,
    pub(super) state: ThreadState,
    pub(super) states: States,
    pub(super) middleware: Vec<Arc<dyn Middleware>>,
    /// The tools in the last request to the model.
    pub(super) tools: Option<Tools>,
    /// How many events this handle has applied: the stored ones and those in `unstored_start`.
    pub(super) applied: u64,
    /// The start of a model call that this handle has applied, and stores together with the next events.
    pub(super) unstored_start: Vec<Event>,
    /// Whether this handle resumed the turn, and has not called the model since.
    pub(super) is_resumed: bool,
    /// The questions that wait for a person.
    pub(super) questions: Vec<AskedQuestion>,
    /// Whether this handle has called `before_agent` in this turn.
    pub(super) has_begun: bool,
    /// How many model responses there were when this handle last called `after_model`.
    pub(super) responses_seen: u64,
    /// Whether this handle may have applied events that the log does not have.
    pub(super) is_ahead: bool,
}

impl Thread {
    /// A handle to a thread whose log was not read yet.
    pub(super) fn new(agent: Arc<Inner>, held: HeldLease) -> Self {
        let state = ThreadState::new(agent.options.limits);
        Self {
            agent,
            held,
            state,
            states: States::default(),
            middleware: Vec::new(),
            tools: None,
            applied: 0,
            unstored_start: Vec::new(),
            is_resumed: false,
            questions: Vec::new(),
            has_begun: false,
            responses_seen: 0,
            is_ahead: false,
        }
    }

    /// The thread's name.
    pub fn id(&self) -> &ThreadId {
        &self.held.lease.thread
    }

    /// The thread's conversation, and how far its turn is.
    pub fn state(&self) -> &ThreadState {
        &self.state
    }

    /// The states of the thread's middleware.
    pub fn states(&self) -> &States {
        &self.states
    }

    /// The number of events in the thread's log.
    pub fn events(&self) -> u64 {
        self.applied - self.unstored_start.len() as u64
    }

    /// The text of the last message, if it is a model's response.
    pub fn last_response(&self) -> Option<String> {
        let last = self.state.messages().last()?;
        matches!(last.content, Content::Assistant { .. }).then(|| last.text())
    }

    /// Says something, and lets the agent work until the turn ends or waits for a person.
    ///
    /// # Errors
    ///
    /// A turn is in progress already, a middleware failed, or the store failed.
    pub async fn say(
        &mut self,
        text: impl Into<String>,
        watcher: &dyn Watcher,
    ) -> Result<TurnStatus, AgentError> {
        self.say_all(vec![Message::user(text)], watcher).await
    }

    /// Says several messages at once, like [`Thread::say`].
    ///
    /// # Errors
    ///
    /// A turn is in progress already, a middleware failed, or the store failed.
    pub async fn say_all(
        &mut self,
        messages: Vec<Message>,
        watcher: &dyn Watcher,
    ) -> Result<TurnStatus, AgentError> {
        self.begin(vec![Event::TurnStarted { messages }], watcher).await?;
        self.go_on(watcher).await
    }

    /// Appends a conversation from elsewhere to the thread, and repairs it.
    ///
    /// A tool call without an answer gets one that says so. An answer without its call is left out.
    ///
    /// # Errors
    ///
    /// A turn is in progress, or the store failed.
    pub async fn import(&mut self, messages: Vec<Message>) -> Result<(), AgentError> {
        self.begin(vec![Event::Imported { messages }], &NoWatcher).await
    }

    /// Changes the state of a middleware from outside.
    ///
    /// The middleware provides the change, as [`Summarisation::request`](crate::middleware::Summarisation::request)
    /// does. It acts on the change when the agent calls it next.
    ///
    /// # Errors
    ///
    /// The store failed, or the middleware cannot read the change.
    pub async fn change(&mut self, change: StateChange) -> Result<(), AgentError> {
        self.catch_up_if_ahead().await?;
        self.store(vec![Event::StateChanged { changes: vec![change] }], &NoWatcher).await
    }

    /// Ends the turn, whatever it waits for.
    ///
    /// # Errors
    ///
    /// No turn is in progress, or the store failed.
    pub async fn cancel(&mut self, watcher: &dyn Watcher) -> Result<(), AgentError> {
        self.end_early(TurnOutcome::Cancelled, watcher).await
    }

    /// Ends the turn, whatever it waits for, for a reason that the person can read in the log.
    ///
    /// # Errors
    ///
    /// No turn is in progress, or the store failed.
    pub async fn stop(&mut self, reason: impl Into<String>, watcher: &dyn Watcher) -> Result<(), AgentError> {
        self.end_early(TurnOutcome::Stopped { reason: reason.into() }, watcher).await
    }

    async fn end_early(&mut self, outcome: TurnOutcome, watcher: &dyn Watcher) -> Result<(), AgentError> {
        self.catch_up_if_ahead().await?;
        if self.state.next() == NextStep::Wait {
            return self.store(vec![Event::TurnEnded { outcome }], watcher).await;
        }
        self.end(outcome, watcher).await.map(drop)
    }

    /// Takes in what was stored by a turn whose future was dropped before it returned. Then [`Thread::state`] is that of the log.
    ///
    /// # Errors
    ///
    /// The store failed, or another process took the thread over.
    pub async fn settle(&mut self) -> Result<(), AgentError> {
        self.catch_up_if_ahead().await
    }

    /// Waits for something, such as a person's reply, and keeps the thread's lease meanwhile.
    ///
    /// # Errors
    ///
    /// Another process took the thread over.
    pub async fn keep_while<T>(&self, waiting: impl Future<Output = T>) -> Result<T, AgentError> {
        self.held.keep_during(&*self.agent.store, waiting).await
    }

    /// Tells the middleware that this process is done with the thread, and releases the lease, unless it came with
    /// [`Agent::open_leased`](crate::Agent::open_leased).
    ///
    /// # Errors
    ///
    /// The store failed. Others can open the thread when its lease ends.
    pub async fn close(mut self) -> Result<(), AgentError> {
        let announced = self.context().announce(Announcement::SessionEnds);
        let changes = self.held.keep_during(&*self.agent.store, announced).await?.changes;
        if !self.is_ahead {
            let events = if changes.is_empty() { Vec::new() } else { vec![Event::StateChanged { changes }] };
            self.store(events, &NoWatcher).await?;
        }
        Ok(self.held.release(&*self.agent.store).await?)
    }

    /// Stores the events that begin a turn.
    async fn begin(&mut self, events: Vec<Event>, watcher: &dyn Watcher) -> Result<(), AgentError> {
        self.catch_up_if_ahead().await?;
        self.store(events, watcher).await?;
        self.has_begun = false;
        Ok(())
    }

    /// What middleware see now.
    pub(crate) fn context(&self) -> MiddlewareContext<'_> {
        MiddlewareContext {
            thread: &self.held.lease.thread,
            thread_state: &self.state,
            states: &self.states,
            model: &self.agent.model,
            store: &self.agent.store,
            middleware: &self.middleware,
            tools: self.tools.as_ref(),
            prompt: self.agent.prompt.as_deref(),
            own_tools: &self.agent.tools,
            selection: &self.agent.selection,
            watcher: Watched(&NoWatcher),
        }
    }
}
