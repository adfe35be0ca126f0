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

use super::ask::{self, Answer};
use super::context::Filled;
use super::happening::{Follow, Happening};
use super::host::{Host, KEPT};
use super::input::{Input, Typed};
use super::typing::Display;
use super::view::View;
use super::{model, words};
use crate::rows;

/// How often the screen moves while a turn goes on.
const TICK: Duration = Duration::from_millis(100);

/// Who answers when a call has to be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answers {
    /// The person at the keyboard.
    Person,
    /// `--yes`: everything that is asked, once.
    Yes,
    /// Nobody: it waits in the thread.
    Nobody,
}

/// How a turn came to rest.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Rest {
    Ended(TurnOutcome),
    /// Questions wait in the thread, and nobody is here to answer.
    Waiting,
    /// The person left.
    Left,
}

/// A conversation that goes on.
pub(super) struct Talk {
    pub(super) host: Host,
    pub(super) thread: Thread,
    pub(super) input: Option<Input>,
    answers: Answers,
    watch: Watch,
    interrupts: Signal,
}

/// What a turn begins with.
enum Begin<'a> {
    Say(String),
    Reply(&'a WaitingCall, CallReply),
    GoOn,
}

impl Talk {
    pub(super) async fn new(
        host: Host,
        id: ThreadId,
        view: Box<dyn View>,
        input: Option<Input>,
        answers: Answers,
    ) -> Result<Self> {
        let interrupts = signal(SignalKind::interrupt()).context("interrupts cannot be caught")?;
        let watch = Watch(Arc::new(Mutex::new(Seen { view, follow: Follow::default(), failed: None })));
        let thread = watch.open(&host, id).await?;
        Ok(Self { host, thread, input, answers, watch, interrupts })
    }

    /// Shows something.
    pub(super) fn show(&self, happening: &Happening) -> Result<()> {
        self.watch.seen().show(happening);
        self.check()
    }

    /// Nothing more happens for now.
    pub(super) fn rest(&self) -> Result<()> {
        Ok(self.watch.seen().view.rest()?)
    }

    /// Says what could not be done; the conversation goes on.
    pub(super) fn failed(&self, error: &anyhow::Error) -> Result<()> {
        self.watch.seen().view.rest()?;
        self.show(&Happening::Note { text: format!("{error:#}") })
    }

    /// Shows lines as they are.
    pub(super) fn lines(&self, lines: &[String]) -> Result<()> {
        let mut seen = self.watch.seen();
        seen.view.lines(lines)?;
        Ok(())
    }

    /// Shows the lines of a list, each in a row of the screen.
    pub(super) fn list(&self, lines: &[String]) -> Result<()> {
        let width = self.watch.seen().view.width();
        match width {
            Some(width) => self.lines(&lines.iter().map(|line| rows::cut(line, width)).collect::<Vec<_>>()),
            None => self.lines(lines),
        }
    }

    /// Whether what is shown can still be seen.
    fn check(&self) -> Result<()> {
        match self.watch.seen().failed.take() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// Lets the agent have its turn, with the answers that it needs.
    pub(super) async fn say(&mut self, text: String) -> Result<Rest> {
        // A turn that could not be ended, for want of room for one, is over.
        self.stop().await?;
        self.turn(Begin::Say(text)).await
    }

    /// Goes on with a turn that was cut off, or waits; `None` when there is none.
    pub(super) async fn go_on(&mut self) -> Result<Option<Rest>> {
        if self.thread.state().next() == NextStep::Wait {
            return Ok(None);
        }
        self.turn(Begin::GoOn).await.map(Some)
    }

    async fn turn(&mut self, begin: Begin<'_>) -> Result<Rest> {
        let mut messages = self.thread.state().messages().iter().rev();
        let last = messages.find(|message| message.tool_calls().next().is_some());
        self.watch.seen().follow.know(last.into_iter().flat_map(|message| message.tool_calls().cloned()));
        let mut turn = self.drive(begin).await?;
        loop {
            let questions = match turn {
                Some(TurnStatus::Waiting(questions)) => questions,
                Some(TurnStatus::Ended(outcome)) => return self.ended(outcome).await,
                Some(_) => {
                    return self
                        .ended(self.thread.state().outcome().cloned().unwrap_or(TurnOutcome::Silent))
                        .await;
                }
                None => return self.ended(TurnOutcome::Cancelled).await,
            };
            let Some(waiting) = questions.first() else { return Ok(Rest::Waiting) };
            self.show(&Happening::question(waiting))?;
            let reply = match self.answers {
                Answers::Yes => {
                    let title = waiting.question.wording().title;
                    self.show(&Happening::Note { text: format!("allowed by --yes: {title}") })?;
                    CallReply::Approve
                }
                Answers::Nobody => return Ok(Rest::Waiting),
                Answers::Person => match self.ask(waiting).await? {
                    Answer::Reply(CallReply::Always) => {
                        let file = self.host.state.join("approvals.json").display().to_string();
                        let text = format!("it is not asked again here; {file} has what was allowed");
                        self.show(&Happening::Note { text })?;
                        CallReply::Always
                    }
                    Answer::Reply(reply) => reply,
                    Answer::Leave | Answer::Look => return Ok(Rest::Left),
                    Answer::Stop => {
                        self.thread.cancel(&self.watch).await.map_err(told)?;
                        return self.ended(TurnOutcome::Cancelled).await;
                    }
                },
            };
            turn = self.drive(Begin::Reply(waiting, reply)).await?;
        }
    }

    /// Asks the person at the keyboard.
    async fn ask(&mut self, waiting: &WaitingCall) -> Result<Answer> {
        if self.input.is_none() {
            return Ok(Answer::Leave);
        }
        self.rest()?;
        let mut is_whole = false;
        loop {
            self.lines(&ask::shown_question(waiting, is_whole))?;
            let Self { thread, input, watch, .. } = &mut *self;
            let Some(input) = input else { return Ok(Answer::Leave) };
            // What was typed before the question could be read is no answer to it.
            if input.set_aside() {
                return Ok(Answer::Stop);
            }
            let mut show = |display: Display| watch.display(&display);
            match at_keyboard(thread, ask::ask(input, waiting, &mut show)).await {
                Answer::Look => is_whole = true,
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
        if self.thread.state().next() == NextStep::Wait {
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

    async fn ended(&mut self, outcome: TurnOutcome) -> Result<Rest> {
        if outcome != TurnOutcome::Answered {
            self.give_back();
        }
        let answer = self.thread.last_response();
        self.show(&Happening::Ended { outcome: outcome.clone(), answer })?;
        let advice = match &outcome {
            TurnOutcome::Failed { error } => model::advice(error, &self.host.config.settings),
            outcome => words::advice(outcome),
        };
        if let Some(text) = advice {
            self.show(&Happening::Note { text })?;
        }
        let filled = self.filled().await?;
        let cost = self.host.config.prices()?.cost(self.thread.state().spent());
        let has_prices = !self.host.config.settings.price.is_empty();
        self.show(&Happening::Context {
            tokens: filled.total,
            window: filled.window,
            skills: filled.skills.len(),
            skill_tokens: filled.skills.iter().map(|(_, tokens)| tokens).sum(),
            cost: has_prices.then(|| cost.to_string()),
        })?;
        self.watch.seen().view.rest()?;
        Ok(Rest::Ended(outcome))
    }

    /// What fills the model's window.
    pub(super) async fn filled(&mut self) -> Result<Filled> {
        let request = self.thread.preview().await.map_err(told)?;
        Ok(Filled::of(&request, self.thread.states(), &*self.host.model))
    }

    /// Has the conversation summarised, and says what came of it; `None` when somebody stopped it.
    pub(super) async fn compact(&mut self) -> Result<Option<Compaction>> {
        let compacted = Summarisation::compact(&mut self.thread, &self.watch);
        let done = watched(compacted, &self.watch, &mut self.interrupts, self.input.as_mut()).await?;
        let done = done.transpose().map_err(told)?;
        if done.is_none() {
            self.thread.change(Summarisation::withdrawal()).await.map_err(told)?;
        }
        self.watch.seen().view.rest()?;
        self.check()?;
        Ok(done)
    }

    /// Takes a skill out of the model's sight.
    pub(super) async fn unload(&mut self, skill: &str) -> Result<()> {
        self.thread.change(Skills::unload(skill)).await.map_err(told)?;
        self.show(&Happening::Unloaded { skill: skill.to_owned(), reason: "asked".into() })
    }

    /// Goes on with another thread. One that cannot be opened leaves this as it is.
    pub(super) async fn switch(&mut self, id: ThreadId) -> Result<()> {
        let opened = self.watch.open(&self.host, id).await?;
        let old = std::mem::replace(&mut self.thread, opened);
        // What was left is free when its lease ends, if it cannot be given back.
        let _ = old.close().await;
        Ok(())
    }

    /// Goes on with the same thread and another agent: another model, other skills.
    pub(super) async fn reopen(&mut self) -> Result<()> {
        let id = self.thread.id().clone();
        // Its lease is given back before it is taken again; meanwhile a thread stands in that nobody keeps.
        let nobody = Agent::builder(Arc::clone(&self.host.model)).build().map_err(told)?;
        let stand_in = nobody.open(ThreadId::new()).await.map_err(told)?;
        // One that another process has taken cannot be given back.
        let _ = std::mem::replace(&mut self.thread, stand_in).close().await;
        self.thread = self.watch.open(&self.host, id).await?;
        Ok(())
    }

    /// A line of the person.
    pub(super) async fn read(&mut self) -> Result<Typed> {
        let Self { thread, input, watch, .. } = &mut *self;
        let input = input.as_mut().context("there is no keyboard")?;
        let mut show = |display: Display| watch.display(&display);
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
        let kept = self.host.kept(self.thread.id());
        self.thread.close().await.map_err(told)?;
        // What nothing was put into need not be there.
        for name in KEPT {
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
    let mut show = |display: Display| watch.display(&display);
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
    // What was pressed before this began is no wish to end it.
    while tokio::time::timeout(Duration::ZERO, interrupts.recv()).await.is_ok_and(|got| got.is_some()) {}
    watch.seen().view.begin()?;
    let mut doing = Box::pin(doing);
    let mut ticks = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            biased;
            () = stopped(interrupts, input.as_deref_mut(), watch) => return Ok(None),
            done = &mut doing => return Ok(Some(done)),
            _ = ticks.tick() => {
                let mut seen = watch.seen();
                seen.tick();
                // Nobody sees it any more.
                if seen.failed.is_some() {
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
            anyhow!("another process went on with {thread}: /resume {thread} reads it again")
        }
        error => anyhow!("{error}"),
    }
}

/// Sees the agent work.
#[derive(Clone)]
struct Watch(Arc<Mutex<Seen>>);

struct Seen {
    view: Box<dyn View>,
    follow: Follow,
    /// Why nothing can be shown any more.
    failed: Option<std::io::Error>,
}

impl Seen {
    fn show(&mut self, happening: &Happening) {
        let shown = self.view.show(happening);
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
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows what a person types.
    fn display(&self, display: &Display) {
        let mut seen = self.seen();
        let shown = seen.view.display(display);
        seen.note(shown);
    }

    /// Opens a thread, and says so while it has to be waited for.
    async fn open(&self, host: &Host, id: ThreadId) -> Result<Thread> {
        let mut is_told = false;
        let thread = host.open(id, |text| {
            if !std::mem::replace(&mut is_told, true) {
                self.seen().show(&Happening::Note { text: text.to_owned() });
            }
        });
        let thread = thread.await?;
        let files = host.whereabouts(thread.id())?;
        self.seen().follow.open(thread.state().cut(), files);
        Ok(thread)
    }
}

impl Watcher for Watch {
    fn update(&self, update: ThreadUpdate<'_>) {
        let mut seen = self.seen();
        for happening in seen.follow.update(update) {
            seen.show(&happening);
        }
    }
}
