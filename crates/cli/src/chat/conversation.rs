//! A conversation: turns, questions, commands, for as long as the person likes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use prowess_agent::middleware::{Compaction, Skills, Summarisation};
use prowess_agent::thread::ThreadError;
use prowess_agent::thread_state::NextStep;
use prowess_agent::{
    Agent, AgentError, CallReply, Thread, ThreadId, ThreadUpdate, TurnOutcome, TurnStatus, WaitingCall,
    Watcher,
};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::agents::{ChatAgents, THREAD_FILES};
use super::context_usage::ContextUsage;
use super::events::{ChatEvent, EventTranslator};
use super::input::{Entered, Input};
use super::input_display::InputDisplay;
use super::questions::{self, QuestionReply};
use super::view::View;
use super::{describe, model};
use crate::rows;

/// How often the screen moves while a turn goes on.
const TICK: Duration = Duration::from_millis(100);

/// Who approver when a call has to be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Approver {
    /// The person at the keyboard.
    Person,
    /// `--yes`: everything that is asked, once.
    Yes,
    /// Nobody: it waits in the thread.
    Nobody,
}

/// How a turn came to rest.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TurnEnd {
    Ended(TurnOutcome),
    /// Questions wait in the thread, and nobody is here to answer.
    Waiting,
    /// The person left.
    Left,
}

/// A conversation that goes on.
pub(super) struct Conversation {
    pub(super) agents: ChatAgents,
    pub(super) thread: Thread,
    pub(super) input: Option<Input>,
    approver: Approver,
    watch: Watch,
    interrupts: Signal,
}

/// What a turn begins with.
enum Begin<'a> {
    Say(String),
    Reply(&'a WaitingCall, CallReply),
    GoOn,
}

impl Conversation {
    pub(super) async fn new(
        agents: ChatAgents,
        id: ThreadId,
        view: Box<dyn View>,
        input: Option<Input>,
        approver: Approver,
    ) -> Result<Self> {
        let interrupts = signal(SignalKind::interrupt()).context("interrupts cannot be caught")?;
        let watch = Watch(Arc::new(Mutex::new(WatchState {
            view,
            follow: EventTranslator::default(),
            failed: None,
        })));
        let thread = watch.open(&agents, id).await?;
        Ok(Self { agents, thread, input, approver, watch, interrupts })
    }

    /// Shows something.
    pub(super) fn show(&self, event: &ChatEvent) -> Result<()> {
        self.watch.lock().show(event);
        self.check()
    }

    /// Nothing more happens for now.
    pub(super) fn rest(&self) -> Result<()> {
        Ok(self.watch.lock().view.rest()?)
    }

    /// Says what could not be done; the conversation goes on.
    pub(super) fn failed(&self, error: &anyhow::Error) -> Result<()> {
        self.watch.lock().view.rest()?;
        self.show(&ChatEvent::Note { text: format!("{error:#}") })
    }

    /// Shows lines as they are.
    pub(super) fn lines(&self, lines: &[String]) -> Result<()> {
        let mut state = self.watch.lock();
        state.view.lines(lines)?;
        Ok(())
    }

    /// Shows the lines of a list, each in a row of the screen.
    pub(super) fn list(&self, lines: &[String]) -> Result<()> {
        let width = self.watch.lock().view.width();
        match width {
            Some(width) => self.lines(&lines.iter().map(|line| rows::cut(line, width)).collect::<Vec<_>>()),
            None => self.lines(lines),
        }
    }

    /// Whether what is shown can still be state.
    fn check(&self) -> Result<()> {
        match self.watch.lock().failed.take() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// Lets the agent have its turn, with the approver that it needs.
    pub(super) async fn say(&mut self, text: String) -> Result<TurnEnd> {
        // A turn that could not be ended, for want of room for one, is over.
        self.stop().await?;
        self.turn(Begin::Say(text)).await
    }

    /// Goes on with a turn that was cut off, or waits; `None` when there is none.
    pub(super) async fn go_on(&mut self) -> Result<Option<TurnEnd>> {
        if self.thread.run().next() == NextStep::Wait {
            return Ok(None);
        }
        self.turn(Begin::GoOn).await.map(Some)
    }

    async fn turn(&mut self, begin: Begin<'_>) -> Result<TurnEnd> {
        let mut messages = self.thread.run().messages().iter().rev();
        let last = messages.find(|message| message.tool_calls().next().is_some());
        self.watch.lock().follow.know(last.into_iter().flat_map(|message| message.tool_calls().cloned()));
        let mut turn = self.drive(begin).await?;
        loop {
            let questions = match turn {
                Some(TurnStatus::Waiting(questions)) => questions,
                Some(TurnStatus::Ended(outcome)) => return self.ended(outcome).await,
                Some(_) => {
                    return self
                        .ended(self.thread.run().outcome().cloned().unwrap_or(TurnOutcome::Silent))
                        .await;
                }
                None => return self.ended(TurnOutcome::Cancelled).await,
            };
            let Some(waiting) = questions.first() else { return Ok(TurnEnd::Waiting) };
            self.show(&ChatEvent::question(waiting))?;
            let reply = match self.approver {
                Approver::Yes => {
                    let title = waiting.question.wording().title;
                    self.show(&ChatEvent::Note { text: format!("approved by --yes: {title}") })?;
                    CallReply::Approve
                }
                Approver::Nobody => return Ok(TurnEnd::Waiting),
                Approver::Person => match self.ask(waiting).await? {
                    QuestionReply::Reply(CallReply::Always) => {
                        let file = self.agents.state.join("approvals.json").display().to_string();
                        let text = format!("you won't be asked again in this directory (saved in {file})");
                        self.show(&ChatEvent::Note { text })?;
                        CallReply::Always
                    }
                    QuestionReply::Reply(reply) => reply,
                    QuestionReply::Leave | QuestionReply::ViewAll => return Ok(TurnEnd::Left),
                    QuestionReply::Stop => {
                        self.thread.cancel(&self.watch).await.map_err(told)?;
                        return self.ended(TurnOutcome::Cancelled).await;
                    }
                },
            };
            turn = self.drive(Begin::Reply(waiting, reply)).await?;
        }
    }

    /// Asks the person at the keyboard.
    async fn ask(&mut self, waiting: &WaitingCall) -> Result<QuestionReply> {
        if self.input.is_none() {
            return Ok(QuestionReply::Leave);
        }
        self.rest()?;
        let mut is_whole = false;
        loop {
            self.lines(&questions::question_lines(waiting, is_whole))?;
            let Self { thread, input, watch, .. } = &mut *self;
            let Some(input) = input else { return Ok(QuestionReply::Leave) };
            // What was typed before the question could be read is no answer to it.
            if input.set_aside() {
                return Ok(QuestionReply::Stop);
            }
            let mut show = |display: InputDisplay| watch.display(&display);
            match at_keyboard(thread, questions::ask(input, waiting, &mut show)).await {
                QuestionReply::ViewAll => is_whole = true,
                answer => return Ok(answer),
            }
        }
    }

    /// One stretch of a turn, which an interrupt ends; `None` when one did.
    async fn drive(&mut self, begin: Begin<'_>) -> Result<Option<TurnStatus>> {
        let (thread, watch) = (&mut self.thread, &self.watch);
        let turn = async {
            match begin {
                Begin::Say(text) => thread.say(text, watch).await,
                Begin::Reply(waiting, reply) => thread.reply(waiting, reply, watch).await,
                Begin::GoOn => thread.go_on(watch).await,
            }
        };
        let done = match watched(turn, watch, &mut self.interrupts, self.input.as_mut()).await? {
            Some(done) => Some(done.map_err(told)?),
            None => {
                self.stop().await?;
                None
            }
        };
        self.check()?;
        Ok(done)
    }

    /// Ends the turn; somebody who presses twice does not wait for it.
    async fn stop(&mut self) -> Result<()> {
        if self.thread.run().next() == NextStep::Wait {
            return Ok(());
        }
        let Self { thread, input, watch, interrupts, .. } = self;
        tokio::select! {
            biased;
            () = stopped(interrupts, input.as_mut(), watch) => Ok(()),
            ended = thread.cancel(&*watch) => match ended {
                // It ended by itself meanwhile.
                Ok(()) | Err(AgentError::Misplaced(_)) => Ok(()),
                Err(error) => Err(told(error)),
            },
        }
    }

    async fn ended(&mut self, outcome: TurnOutcome) -> Result<TurnEnd> {
        if outcome != TurnOutcome::Answered {
            self.give_back();
        }
        let answer = self.thread.answer();
        self.show(&ChatEvent::Ended { outcome: outcome.clone(), answer })?;
        let advice = match &outcome {
            TurnOutcome::Failed { error } => model::advice(error, &self.agents.config.settings),
            outcome => describe::advice(outcome),
        };
        if let Some(text) = advice {
            self.show(&ChatEvent::Note { text })?;
        }
        let usage = self.context_usage().await?;
        let cost = self.agents.config.prices()?.cost(self.thread.run().spent());
        let has_prices = !self.agents.config.settings.price.is_empty();
        self.show(&ChatEvent::Context {
            tokens: usage.total,
            window: usage.window,
            skills: usage.skills.len(),
            skill_tokens: usage.skills.iter().map(|(_, tokens)| tokens).sum(),
            cost: has_prices.then(|| cost.to_string()),
        })?;
        self.watch.lock().view.rest()?;
        Ok(TurnEnd::Ended(outcome))
    }

    /// What fills the model's window.
    pub(super) async fn context_usage(&mut self) -> Result<ContextUsage> {
        let request = self.thread.preview().await.map_err(told)?;
        Ok(ContextUsage::of(&request, self.thread.states(), &*self.agents.model))
    }

    /// Has the conversation summarised, and says what came of it; `None` when somebody stopped it.
    pub(super) async fn compact(&mut self) -> Result<Option<Compaction>> {
        let compacted = Summarisation::compact(&mut self.thread, &self.watch);
        let done = watched(compacted, &self.watch, &mut self.interrupts, self.input.as_mut()).await?;
        let done = done.transpose().map_err(told)?;
        if done.is_none() {
            self.thread.change(Summarisation::withdrawal()).await.map_err(told)?;
        }
        self.watch.lock().view.rest()?;
        self.check()?;
        Ok(done)
    }

    /// Takes a skill out of the model's visible_skills.
    pub(super) async fn unload(&mut self, skill: &str) -> Result<()> {
        self.thread.change(Skills::unload(skill)).await.map_err(told)?;
        self.show(&ChatEvent::Unloaded { skill: skill.to_owned(), reason: "asked".into() })
    }

    /// Goes on with another thread. One that cannot be opened leaves this as it is.
    pub(super) async fn switch(&mut self, id: ThreadId) -> Result<()> {
        let opened = self.watch.open(&self.agents, id).await?;
        let old = std::mem::replace(&mut self.thread, opened);
        // What was left is free when its lease ends, if it cannot be given back.
        let _ = old.close().await;
        Ok(())
    }

    /// Goes on with the same thread and another agent: another model, other skills.
    pub(super) async fn reopen(&mut self) -> Result<()> {
        let id = self.thread.id().clone();
        // Its lease is given back before it is taken again; meanwhile a thread stands in that nobody keeps.
        let nobody = Agent::builder(Arc::clone(&self.agents.model)).build().map_err(told)?;
        let stand_in = nobody.open(ThreadId::new()).await.map_err(told)?;
        // One that another process has taken cannot be given back.
        let _ = std::mem::replace(&mut self.thread, stand_in).close().await;
        self.thread = self.watch.open(&self.agents, id).await?;
        Ok(())
    }

    /// A line of the person.
    pub(super) async fn read(&mut self) -> Result<Entered> {
        let Self { thread, input, watch, .. } = &mut *self;
        let input = input.as_mut().context("there is no keyboard")?;
        let mut show = |display: InputDisplay| watch.display(&display);
        let typed = at_keyboard(thread, input.line(&mut show)).await;
        self.check()?;
        Ok(typed)
    }

    /// Something did not go as it should: lines that wait can be changed before they are said.
    pub(super) fn give_back(&mut self) {
        if let Some(input) = &mut self.input {
            input.give_back();
        }
    }

    /// Gives the thread to others.
    pub(super) async fn close(self) -> Result<()> {
        let kept = self.agents.thread_files(self.thread.id());
        self.thread.close().await.map_err(told)?;
        // What nothing was put into need not be there.
        for name in THREAD_FILES {
            let _ = std::fs::remove_dir(kept.join(name));
        }
        let _ = std::fs::remove_dir(kept);
        Ok(())
    }
}

/// Lets the person type, for as long as it takes, while the thread stays ours.
async fn at_keyboard<T>(thread: &Thread, typing: impl Future<Output = T>) -> T {
    let mut typing = std::pin::pin!(typing);
    // A thread that was lost is told of when something is said; what is being typed is not.
    match thread.keep_while(&mut typing).await {
        Ok(typed) => typed,
        Err(_) => typing.await,
    }
}

/// Waits until somebody wants it to end, by a signal or a key. Whatever else is typed meanwhile is kept.
async fn stopped(interrupts: &mut Signal, input: Option<&mut Input>, watch: &Watch) {
    let Some(input) = input else {
        interrupts.recv().await;
        return;
    };
    let mut show = |display: InputDisplay| watch.display(&display);
    tokio::select! {
        _ = interrupts.recv() => {}
        () = input.until_stopped(&mut show) => {}
    }
}

/// Does something that takes its time, on a screen that moves meanwhile. An interrupt ends it: then there is `None`.
async fn watched<T>(
    doing: impl Future<Output = T>,
    watch: &Watch,
    interrupts: &mut Signal,
    mut input: Option<&mut Input>,
) -> Result<Option<T>> {
    // What was pressed before this began is no action to end it.
    while tokio::time::timeout(Duration::ZERO, interrupts.recv()).await.is_ok_and(|got| got.is_some()) {}
    watch.lock().view.begin()?;
    let mut doing = Box::pin(doing);
    let mut ticks = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            biased;
            () = stopped(interrupts, input.as_deref_mut(), watch) => return Ok(None),
            done = &mut doing => return Ok(Some(done)),
            _ = ticks.tick() => {
                let mut state = watch.lock();
                state.tick();
                // Nobody sees it any more.
                if state.failed.is_some() {
                    return Ok(None);
                }
            }
        }
    }
}

/// An error of a thread, with what to do about it.
fn told(error: AgentError) -> anyhow::Error {
    match error {
        AgentError::Thread(ThreadError::LeaseLost(thread)) => {
            anyhow!("another process continued {thread}; /resume {thread} reads it again")
        }
        error => anyhow!("{error}"),
    }
}

/// Sees the agent work.
#[derive(Clone)]
struct Watch(Arc<Mutex<WatchState>>);

struct WatchState {
    view: Box<dyn View>,
    follow: EventTranslator,
    /// Why nothing can be shown any more.
    failed: Option<std::io::Error>,
}

impl WatchState {
    fn show(&mut self, event: &ChatEvent) {
        let shown = self.view.show(event);
        self.note(shown);
    }

    fn tick(&mut self) {
        let shown = self.view.tick();
        self.note(shown);
    }

    fn note(&mut self, shown: std::io::Result<()>) {
        if let Err(error) = shown {
            self.failed.get_or_insert(error);
        }
    }
}

impl Watch {
    fn lock(&self) -> MutexGuard<'_, WatchState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows what a person types.
    fn display(&self, display: &InputDisplay) {
        let mut state = self.lock();
        let shown = state.view.display(display);
        state.note(shown);
    }

    /// Opens a thread, and says so while it has to be waited for.
    async fn open(&self, agents: &ChatAgents, id: ThreadId) -> Result<Thread> {
        let mut is_told = false;
        let thread = agents.open(id, |text| {
            if !std::mem::replace(&mut is_told, true) {
                self.lock().show(&ChatEvent::Note { text: text.to_owned() });
            }
        });
        let thread = thread.await?;
        let files = agents.run_files(thread.id())?;
        self.lock().follow.open(thread.run().cut(), files);
        Ok(thread)
    }
}

impl Watcher for Watch {
    fn update(&self, update: ThreadUpdate<'_>) {
        let mut state = self.lock();
        for event in state.follow.update(update) {
            state.show(&event);
        }
    }
}
