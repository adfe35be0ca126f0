//! An agent: a model, tools and parts, and the threads it works on.

mod builder;
mod calls;
mod chain;
mod drive;
mod error;
mod hold;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use prowess_permission::Question;
use uuid::Uuid;

pub use self::builder::AgentBuilder;
pub(crate) use self::chain::ask;
pub use self::chain::{NextModel, NextTool};
pub use self::error::AgentError;
use self::hold::Hold;
pub use self::watch::{NoWatcher, ThreadUpdate, Watcher};
use crate::id::{CallId, ThreadId};
use crate::message::{Content, Message, ToolCall};
use crate::middleware::{Announcement, Middleware, MiddlewareContext, MiddlewareFactory};
use crate::model::Model;
use crate::state::States;
use crate::thread::{ThreadStore, sub_agent_threads};
use crate::thread_state::{
    CallQuestion, CallReply, Event, NextStep, StateChange, SubAgentCaller, ThreadState, TurnLimits,
    TurnOutcome,
};
use crate::tool::{Tool, Tools};

/// What the model is told of a call whose question ended because the person said no to another one.
const REJECTED_WITH_ANOTHER: &str = "not made, because another call of the same message was rejected";

/// How much an agent may do.
///
/// ```
/// use prowess_agent::thread_state::DEFAULT_MAX_STEPS;
/// use prowess_agent::AgentOptions;
///
/// let mut options = AgentOptions::default();
/// assert_eq!(options.limits.steps, DEFAULT_MAX_STEPS);
/// options.limits.tokens = Some(500_000);
/// options.parallel_calls = 1;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentOptions {
    /// How much one turn may take.
    pub limits: TurnLimits,
    /// How many calls of one answer are made at the same time.
    pub parallel_calls: usize,
    /// How long a thread stays leased to a process that died.
    pub lease: Duration,
}

impl Default for AgentOptions {
    fn default() -> Self {
        Self { limits: TurnLimits::default(), parallel_calls: 8, lease: Duration::from_secs(30) }
    }
}

/// An agent. Clones are handles on the same one.
///
/// ```
/// # use std::sync::Arc;
/// # use prowess_agent::{Agent, AgentError, FunctionTool, Model, NoWatcher, ThreadId, ToolAnswer};
/// # use prowess_models::{ScriptedExpect, Scripted, ScriptedTurn};
/// # #[derive(serde::Deserialize, schemars::JsonSchema)]
/// # struct Add { numbers: Vec<i64> }
/// async fn ask(model: Arc<dyn Model>) -> Result<String, AgentError> {
///     let add = FunctionTool::new("add", "Adds numbers.", |add: Add| async move {
///         Ok(ToolAnswer::text(add.numbers.iter().sum::<i64>().to_string()))
///     });
///     let agent = Agent::builder(model).prompt("You count for others.").tool(Arc::new(add)).build()?;
///     let mut thread = agent.open(ThreadId::new()).await?;
///     thread.say("What is 1 + 2 + 3?", &NoWatcher).await?;
///     Ok(thread.answer().unwrap_or_default())
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), AgentError> {
/// # let call = ScriptedTurn::new().call("add", serde_json::json!({"numbers": [1, 2, 3]}));
/// # let model = Scripted::new([call, ScriptedTurn::new().expect(ScriptedExpect::new().last("6")).say("It is 6.")]);
/// # assert_eq!(ask(Arc::new(model)).await?, "It is 6.");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Agent(Arc<Inner>);

#[derive(Clone, Debug)]
pub(crate) struct Inner {
    name: Option<String>,
    model: Arc<dyn Model>,
    prompt: Option<String>,
    tools: Vec<Arc<dyn Tool>>,
    layers: Vec<Arc<dyn MiddlewareFactory>>,
    pub(crate) store: Arc<dyn ThreadStore>,
    options: AgentOptions,
}

/// A thread that this agent works on, and nobody else meanwhile.
///
/// Whatever happens is stored before it is shown. That a tool is called is stored before it is; that the model is asked is
/// stored with its answer, unless the turn was going on already when the thread was opened. A handle that is dropped in the middle of a turn leaves a thread
/// that [`Thread::go_on`] continues, here or in another process.
///
/// ```
/// use std::sync::Arc;
/// use prowess_agent::{Agent, NoWatcher, TurnOutcome, ThreadId, TurnStatus};
/// use prowess_models::{Scripted, ScriptedTurn as Says};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Scripted::new([Says::new().say("Three."), Says::new().say("Four.")]);
/// let agent = Agent::builder(Arc::new(model)).build()?;
/// let id = ThreadId::new();
/// let mut thread = agent.open(id.clone()).await?;
/// assert_eq!(thread.say("How many notes?", &NoWatcher).await?, TurnStatus::Ended(TurnOutcome::Answered));
/// thread.close().await?;
///
/// // Later: all that was said is there.
/// let mut thread = agent.open(id).await?;
/// thread.say("And now?", &NoWatcher).await?;
/// assert_eq!(thread.answer().as_deref(), Some("Four."));
/// assert_eq!(thread.run().messages().len(), 4);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Thread {
    agent: Arc<Inner>,
    hold: Hold,
    run: ThreadState,
    states: States,
    parts: Vec<Arc<dyn Middleware>>,
    /// The tools that the model was told of last.
    tools: Option<Tools>,
    /// How many events this handle went on from: those that are stored, and those that are owed.
    told: u64,
    /// The start of a call of the model: this handle went on from it, and stores it with what it stores next.
    owed: Vec<Event>,
    /// Whether the turn was going on already when the thread was opened, and the model was not asked since.
    is_resumed: bool,
    /// What calls that wait were asked about, with the numbers of the events.
    questions: Vec<(CallId, u64, Box<CallQuestion>)>,
    /// Whether the parts were told by this handle that the turn begins.
    begun: bool,
    /// How many answers of the model there were when the parts were asked about the last by this handle.
    heard: u64,
    /// Whether something could not be stored that this handle went on from.
    is_ahead: bool,
}

/// How far a turn came.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TurnStatus {
    /// It ended.
    Ended(TurnOutcome),
    /// Calls wait for a person: [`Thread::reply`] goes on.
    Waiting(Vec<WaitingCall>),
    /// There is none: someone has to say something.
    Idle,
}

/// A call that waits for a person.
///
/// ```
/// use std::sync::Arc;
/// use prowess_agent::middleware::{Approval, Todos};
/// use prowess_agent::{Agent, CallReply, NoWatcher, TurnStatus, ThreadId};
/// use prowess_models::{Scripted, ScriptedTurn as Says};
/// use prowess_permission::{Decision, RuleSource, Permissions, Policy, Rule};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let plan = json!({"todos": [{"content": "Bow", "status": "pending"}]});
/// let model = Scripted::new([Says::new().call("write_todos", plan), Says::new().say("Planned.")]);
/// let rules = [Rule::new("tool", "write_todos", Decision::Ask)];
/// let approval = Approval::new(Permissions::unattended(Policy::new().with(RuleSource::User, rules)));
/// let agent = Agent::builder(Arc::new(model)).with(approval).with(Todos).build()?;
/// let mut thread = agent.open(ThreadId::new()).await?;
///
/// let TurnStatus::Waiting(waiting) = thread.say("Plan.", &NoWatcher).await? else { panic!("it asks first") };
/// assert_eq!(waiting[0].question.wording().title, "call 'write_todos'");
/// thread.reply(&waiting[0], CallReply::Approve, &NoWatcher).await?;
/// assert_eq!(thread.answer().as_deref(), Some("Planned."));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct WaitingCall {
    /// The call.
    pub call: ToolCall,
    /// What is asked.
    pub question: Question,
    /// The question of a sub-agent's thread that it is.
    pub via: Option<SubAgentCaller>,
    /// The number of the event that asked it: a call may ask more than once.
    pub number: u64,
}

/// What a reply is to: a question, or whatever its call asks now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyTo {
    call: CallId,
    number: Option<u64>,
}

impl From<&WaitingCall> for ReplyTo {
    fn from(waiting: &WaitingCall) -> Self {
        Self { call: waiting.call.id.clone(), number: Some(waiting.number) }
    }
}

impl From<&str> for ReplyTo {
    fn from(call: &str) -> Self {
        Self { call: call.into(), number: None }
    }
}

impl From<&CallId> for ReplyTo {
    fn from(call: &CallId) -> Self {
        Self { call: call.clone(), number: None }
    }
}

impl Agent {
    /// Begins an agent with its model.
    pub fn builder(model: Arc<dyn Model>) -> AgentBuilder {
        AgentBuilder::new(model)
    }

    /// How long a thread stays leased to a process that died.
    pub fn lease(&self) -> Duration {
        self.0.options.lease
    }

    /// Opens a thread, or begins it.
    ///
    /// # Errors
    ///
    /// Another writes to it, it cannot be read, a part cannot do its work in it, or two tools have one name.
    pub async fn open(&self, id: ThreadId) -> Result<Thread, AgentError> {
        let inner = &self.0;
        let mut thread = Thread {
            agent: Arc::clone(inner),
            hold: inner.hold(&id).await?,
            run: ThreadState::new(inner.options.limits),
            states: States::default(),
            parts: Vec::new(),
            tools: None,
            told: 0,
            owed: Vec::new(),
            is_resumed: false,
            questions: Vec::new(),
            begun: false,
            heard: 0,
            is_ahead: false,
        };
        match thread.catch_up().await {
            Ok(()) => Ok(thread),
            Err(error) => {
                // Another may have more luck, and at once.
                let _ = inner.store.release(&thread.hold.lease).await;
                Err(error)
            }
        }
    }

    /// Removes a thread that nobody works on, and those of its sub-agents. One that is not there is no error.
    ///
    /// # Errors
    ///
    /// Another works on it, or the store failed.
    pub async fn delete(&self, id: &ThreadId) -> Result<(), AgentError> {
        // Nobody begins a task of it meanwhile.
        let hold = self.0.hold(id).await?;
        let deleted = self.delete_tasks(id).await;
        self.0.store.release(&hold.lease).await?;
        deleted?;
        Ok(self.0.store.delete(id).await?)
    }

    /// Removes the threads of a thread's sub-agents, and theirs.
    async fn delete_tasks(&self, id: &ThreadId) -> Result<(), AgentError> {
        let threads = sub_agent_threads(&*self.0.store, id).await?;
        // The deepest first: what is left when this fails is still named by its parent.
        for id in threads.iter().rev() {
            self.0.store.delete(id).await?;
        }
        Ok(())
    }

    /// Begins a thread with changes of states, unless there is one of that name.
    pub(crate) async fn seed(&self, id: &ThreadId, changes: Vec<StateChange>) -> Result<(), AgentError> {
        let hold = self.0.hold(id).await?;
        let event = Event::StateChanged { changes };
        let seeded = match self.0.store.events(id, 0, 1).await {
            Ok(events) if events.is_empty() => self.0.store.append(&hold.lease, 0, &[event]).await,
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        self.0.store.release(&hold.lease).await?;
        Ok(seeded?)
    }

    /// The same agent by another name, with another store and other limits.
    pub(crate) fn bounded(&self, name: &str, store: Arc<dyn ThreadStore>, limits: TurnLimits) -> Self {
        let mut inner = Inner::clone(&self.0);
        (inner.name, inner.store, inner.options.limits) = (Some(name.to_owned()), store, limits);
        Self(Arc::new(inner))
    }

    /// The same agent with a part before all others.
    pub(crate) fn with_layer(&self, layer: Arc<dyn MiddlewareFactory>) -> Self {
        let mut inner = Inner::clone(&self.0);
        inner.layers.insert(0, layer);
        Self(Arc::new(inner))
    }

    /// How much one turn may take.
    pub(crate) fn limits(&self) -> TurnLimits {
        self.0.options.limits
    }

    /// Whether it has a part of that name.
    pub(crate) fn has_part(&self, name: &str) -> bool {
        self.0.layers.iter().any(|layer| layer.name() == name)
    }
}

impl Inner {
    async fn hold(&self, id: &ThreadId) -> Result<Hold, AgentError> {
        let owner = format!("process {} ({})", std::process::id(), Uuid::now_v7().simple());
        let lease = self.store.lease(id, &owner, self.options.lease).await?;
        Ok(Hold::new(lease, self.options.lease))
    }
}

impl Thread {
    /// Its name.
    pub fn id(&self) -> &ThreadId {
        &self.hold.lease.thread
    }

    /// Its conversation, and where its turn stands.
    pub fn run(&self) -> &ThreadState {
        &self.run
    }

    /// The states of its parts.
    pub fn states(&self) -> &States {
        &self.states
    }

    /// How many events its log has.
    pub fn events(&self) -> u64 {
        self.told - self.owed.len() as u64
    }

    /// What the agent said last, if it spoke last.
    pub fn answer(&self) -> Option<String> {
        let last = self.run.messages().last()?;
        matches!(last.content, Content::Assistant { .. }).then(|| last.text())
    }

    /// Says something, and lets the agent have its turn.
    ///
    /// # Errors
    ///
    /// A turn is going on, or what happened could not be stored.
    pub async fn say(
        &mut self,
        text: impl Into<String>,
        watcher: &dyn Watcher,
    ) -> Result<TurnStatus, AgentError> {
        self.say_all(vec![Message::user(text)], watcher).await
    }

    /// Says several things at once.
    ///
    /// # Errors
    ///
    /// A turn is going on, or what happened could not be stored.
    pub async fn say_all(
        &mut self,
        messages: Vec<Message>,
        watcher: &dyn Watcher,
    ) -> Result<TurnStatus, AgentError> {
        self.begin(vec![Event::TurnStarted { messages }], watcher).await?;
        self.go_on(watcher).await
    }

    /// Puts a conversation from elsewhere at the thread's end. What it lacks is mended: a call without a result gets
    /// one that says so, and a result without a call is left out.
    ///
    /// # Errors
    ///
    /// A turn is going on, or it could not be stored.
    pub async fn import(&mut self, messages: Vec<Message>) -> Result<(), AgentError> {
        self.begin(vec![Event::Imported { messages }], &NoWatcher).await
    }

    /// Changes the state of a part from outside, as the part says how: by a value that it gives for this, such as
    /// [`Summarisation::request`](crate::middleware::Summarisation::request). The part acts on it when it is asked next.
    ///
    /// # Errors
    ///
    /// It could not be stored, or is no change of that part's state.
    pub async fn change(&mut self, change: StateChange) -> Result<(), AgentError> {
        self.catch_up_if_ahead().await?;
        self.store(vec![Event::StateChanged { changes: vec![change] }], &NoWatcher).await
    }

    /// The calls that wait for a person.
    pub fn waiting(&self) -> Vec<WaitingCall> {
        let of = |call: ToolCall| {
            let asked = self.questions.iter().rev().find(|(asked, ..)| *asked == call.id)?;
            let (_, number, asking) = asked.clone();
            let CallQuestion { question, via, .. } = *asking;
            Some(WaitingCall { call, question, via, number })
        };
        self.run.waiting().into_iter().filter_map(of).collect()
    }

    /// Answers for a call that waits, and goes on. Given a [`WaitingCall`], it is for that question alone: one that was
    /// answered meanwhile is not answered again, whatever its call asks by now. Given a call, it is for what that asks now.
    /// [`CallReply::RejectAll`] also ends the other questions that wait in the thread.
    ///
    /// # Errors
    ///
    /// The call does not wait, or not for this, or what happened could not be stored.
    pub async fn reply(
        &mut self,
        to: impl Into<ReplyTo>,
        reply: CallReply,
        watcher: &dyn Watcher,
    ) -> Result<TurnStatus, AgentError> {
        self.catch_up_if_ahead().await?;
        let ReplyTo { call, number } = to.into();
        let is_asked =
            |(asked, at, _): &(CallId, u64, Box<CallQuestion>)| *asked == call && Some(*at) == number;
        if number.is_some() && !self.questions.iter().any(is_asked) {
            return Err(AgentError::Answered(call));
        }
        // Stored together: after a crash nobody is asked about what was refused with another call.
        let others = match reply {
            CallReply::RejectAll { .. } => self.run.waiting(),
            _ => Vec::new(),
        };
        let mut events = vec![Event::Replied { call: call.clone(), reply }];
        events.extend(others.into_iter().filter(|other| other.id != call).map(|other| {
            let reply = CallReply::Reject { message: REJECTED_WITH_ANOTHER.to_owned() };
            Event::Replied { call: other.id, reply }
        }));
        self.store(events, watcher).await?;
        self.go_on(watcher).await
    }

    /// Ends the turn, whatever it waits for.
    ///
    /// # Errors
    ///
    /// There is none, or it could not be stored.
    pub async fn cancel(&mut self, watcher: &dyn Watcher) -> Result<(), AgentError> {
        self.catch_up_if_ahead().await?;
        if self.run.next() == NextStep::Wait {
            let ended = Event::TurnEnded { outcome: TurnOutcome::Cancelled };
            return self.store(vec![ended], watcher).await;
        }
        self.end(TurnOutcome::Cancelled, watcher).await.map(drop)
    }

    /// Waits for something, such as a person who thinks, while the thread stays this process's. Nobody else gets it
    /// meanwhile, unless this process stops.
    ///
    /// # Errors
    ///
    /// The thread was lost to another.
    pub async fn keep_while<T>(&self, waiting: impl Future<Output = T>) -> Result<T, AgentError> {
        self.hold.during(&*self.agent.store, waiting).await
    }

    /// Tells the parts that this process is done with the thread, and gives it to others at once.
    ///
    /// # Errors
    ///
    /// The store failed; the thread is free when its lease is over.
    pub async fn close(mut self) -> Result<(), AgentError> {
        let told = self.moment().announce(Announcement::SessionEnds);
        let changes = self.hold.during(&*self.agent.store, told).await?.changes;
        if !self.is_ahead {
            let events = if changes.is_empty() { Vec::new() } else { vec![Event::StateChanged { changes }] };
            self.store(events, &NoWatcher).await?;
        }
        Ok(self.agent.store.release(&self.hold.lease).await?)
    }

    /// Stores how a turn begins.
    async fn begin(&mut self, events: Vec<Event>, watcher: &dyn Watcher) -> Result<(), AgentError> {
        self.catch_up_if_ahead().await?;
        self.store(events, watcher).await?;
        self.begun = false;
        Ok(())
    }

    /// Comes to where the log stands, if something could not be stored that this handle went on from, or a future was
    /// dropped before it knew.
    pub(crate) async fn catch_up_if_ahead(&mut self) -> Result<(), AgentError> {
        if !self.is_ahead {
            return Ok(());
        }
        // What this handle sent to the store, and did not wait for, is there or refused once this is answered.
        self.hold.renew(&*self.agent.store).await?;
        self.catch_up().await
    }

    /// Reads the log from its beginning, and opens the parts for what it says.
    async fn catch_up(&mut self) -> Result<(), AgentError> {
        let agent = Arc::clone(&self.agent);
        self.run = ThreadState::new(agent.options.limits);
        self.states = States::default();
        for layer in &agent.layers {
            if let Some(state) = layer.state() {
                self.states.add(layer.name(), state);
            }
        }
        (self.told, self.heard, self.begun) = (0, 0, false);
        self.owed.clear();
        self.questions.clear();
        self.parts.clear();
        self.read().await?;
        self.is_resumed = self.run.next() != NextStep::Wait;
        for layer in &agent.layers {
            let opened = layer.open(self.id(), &self.states);
            let opened = self.hold.during(&*agent.store, opened).await?;
            self.parts.push(opened.map_err(AgentError::of(layer.name()))?);
        }
        // Two of one name are told before anything is stored.
        self.all_tools()?;
        self.tools = None;
        self.is_ahead = false;
        Ok(())
    }

    fn moment(&self) -> MiddlewareContext<'_> {
        MiddlewareContext {
            thread: &self.hold.lease.thread,
            run: &self.run,
            states: &self.states,
            model: &self.agent.model,
            store: &self.agent.store,
            parts: &self.parts,
            tools: self.tools.as_ref(),
        }
    }
}
