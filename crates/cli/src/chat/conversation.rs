//! A conversation: its thread, its agents, its input and its view.

use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result};
use prowess_agent::middleware::{Compaction, Skills, Summarisation, WindowUse};
use prowess_agent::{Agent, Thread, ThreadId};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::agents::ChatAgents;
use super::events::{ChatEvent, EventTranslator};
use super::input::{Entered, Input};
use super::input_display::InputDisplay;
use super::tree::THREAD_FILES;
use super::turn::{Approver, at_keyboard, explain};
use super::view::View;
use super::watch::{Watch, WatchState, watched};
use crate::rows;

/// Who counts the tokens of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precision {
    /// The provider, if it can. That takes a request.
    Provider,
    /// prowess.
    Estimate,
}

/// An open conversation.
pub(super) struct Conversation {
    pub(super) agents: ChatAgents,
    pub(super) thread: Thread,
    pub(super) input: Option<Input>,
    pub(super) approver: Approver,
    pub(super) watch: Watch,
    pub(super) interrupts: Signal,
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
            translator: EventTranslator::default(),
            failed: None,
        })));
        let thread = watch.open(&agents, id).await?;
        Ok(Self { agents, thread, input, approver, watch, interrupts })
    }

    /// Shows an event.
    pub(super) fn show(&self, event: &ChatEvent) -> Result<()> {
        self.watch.lock().show(event);
        self.check()
    }

    /// Tells the view that nothing happens until the person types.
    pub(super) fn rest(&self) -> Result<()> {
        Ok(self.watch.lock().view.rest()?)
    }

    /// Shows an error. The conversation continues.
    pub(super) fn failed(&self, error: &anyhow::Error) -> Result<()> {
        self.watch.lock().view.rest()?;
        self.show(&ChatEvent::Note { text: format!("{error:#}") })
    }

    /// Shows lines, wrapped if they are long.
    pub(super) fn lines(&self, lines: &[String]) -> Result<()> {
        let mut state = self.watch.lock();
        state.view.lines(lines)?;
        Ok(())
    }

    /// The columns of the screen, if there is one.
    pub(super) fn width(&self) -> Option<usize> {
        self.watch.lock().view.width()
    }

    /// Shows the rows of a list, each cut to the width of the screen.
    pub(super) fn list(&self, lines: &[String]) -> Result<()> {
        match self.width() {
            Some(width) => self.lines(&lines.iter().map(|line| rows::cut(line, width)).collect::<Vec<_>>()),
            None => self.lines(lines),
        }
    }

    /// Fails if the output is closed.
    pub(super) fn check(&self) -> Result<()> {
        match self.watch.lock().failed.take() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// What fills the context window.
    pub(super) async fn window_use(&mut self, precision: Precision) -> Result<WindowUse> {
        let is_exact = precision == Precision::Provider;
        Summarisation::window_use(&mut self.thread, is_exact).await.map_err(explain)
    }

    /// Summarises the conversation; `None` if the person interrupts.
    pub(super) async fn compact(&mut self) -> Result<Option<Compaction>> {
        let compacted = Summarisation::compact(&mut self.thread, &self.watch);
        let done = watched(compacted, &self.watch, &mut self.interrupts, self.input.as_mut()).await?;
        let done = done.transpose().map_err(explain)?;
        if done.is_none() {
            self.thread.change(Summarisation::withdrawal()).await.map_err(explain)?;
        }
        self.watch.lock().view.rest()?;
        self.check()?;
        Ok(done)
    }

    /// Takes a skill out of the conversation.
    pub(super) async fn unload(&mut self, skill: &str) -> Result<()> {
        self.thread.change(Skills::unload(skill)).await.map_err(explain)?;
        self.show(&ChatEvent::Unloaded { skill: skill.to_owned(), reason: "asked".into() })
    }

    /// Switches to another thread. If that cannot be opened, this one stays open.
    pub(super) async fn switch(&mut self, id: ThreadId) -> Result<()> {
        let opened = self.watch.open(&self.agents, id).await?;
        let old = std::mem::replace(&mut self.thread, opened);
        // If the lease cannot be released, it runs out.
        let _ = old.close().await;
        Ok(())
    }

    /// Opens the same thread for another agent: another model or other skills.
    pub(super) async fn reopen(&mut self) -> Result<()> {
        let id = self.thread.id().clone();
        // The lease is released before it is taken again; meanwhile an empty thread stands in.
        let nobody = Agent::builder(Arc::clone(&self.agents.model)).build().map_err(explain)?;
        let stand_in = nobody.open(ThreadId::new()).await.map_err(explain)?;
        // A lease that another process took cannot be released.
        let _ = std::mem::replace(&mut self.thread, stand_in).close().await;
        self.thread = self.watch.open(&self.agents, id).await?;
        Ok(())
    }

    /// Reads a line from the person.
    pub(super) async fn read(&mut self) -> Result<Entered> {
        let Self { thread, input, watch, .. } = &mut *self;
        let input = input.as_mut().context("there is no keyboard")?;
        let mut show = |display: InputDisplay| watch.display(&display);
        let typed = at_keyboard(thread, input.line(&mut show)).await;
        self.check()?;
        Ok(typed)
    }

    /// After a failure: moves waiting lines back into the input, where the person can edit them.
    pub(super) fn give_back(&mut self) {
        if let Some(input) = &mut self.input {
            input.give_back();
        }
    }

    /// Closes the thread and releases its lease.
    pub(super) async fn close(self) -> Result<()> {
        let kept = self.agents.thread_files(self.thread.id());
        self.thread.close().await.map_err(explain)?;
        // Empty directories go.
        for name in THREAD_FILES {
            let _ = std::fs::remove_dir(kept.join(name));
        }
        let _ = std::fs::remove_dir(kept);
        Ok(())
    }
}
