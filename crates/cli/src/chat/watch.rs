//! Watches a turn: shows its events, redraws the screen, and reacts to interrupts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use prowess_agent::{Thread, ThreadId, ThreadUpdate, Watcher};
use tokio::signal::unix::Signal;

use super::agents::ChatAgents;
use super::events::{ChatEvent, EventTranslator};
use super::input::Input;
use super::input_display::InputDisplay;
use super::view::View;

/// How often the screen is redrawn during a turn.
const TICK: Duration = Duration::from_millis(100);

/// Watches the agent at work and shows its events.
#[derive(Clone)]
pub(super) struct Watch(pub(super) Arc<Mutex<WatchState>>);

/// The view, and what turns updates of the thread into its events.
pub(super) struct WatchState {
    pub(super) view: Box<dyn View>,
    pub(super) translator: EventTranslator,
    /// The error after which nothing can be shown any more.
    pub(super) failed: Option<std::io::Error>,
}

impl WatchState {
    pub(super) fn show(&mut self, event: &ChatEvent) {
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
    pub(super) fn lock(&self) -> MutexGuard<'_, WatchState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows what the person types.
    pub(super) fn display(&self, display: &InputDisplay) {
        let mut state = self.lock();
        let shown = state.view.display(display);
        state.note(shown);
    }

    /// Opens a thread. If another process uses it, says so once while it waits.
    pub(super) async fn open(&self, agents: &ChatAgents, id: ThreadId) -> Result<Thread> {
        let mut is_told = false;
        let thread = agents.open(id, |text| {
            if !std::mem::replace(&mut is_told, true) {
                self.lock().show(&ChatEvent::Note { text: text.to_owned() });
            }
        });
        let thread = thread.await?;
        let files = agents.run_files(thread.id())?;
        self.lock().translator.open(thread.state().cut(), files);
        Ok(thread)
    }
}

impl Watcher for Watch {
    fn update(&self, update: ThreadUpdate<'_>) {
        let mut state = self.lock();
        for event in state.translator.update(update) {
            state.show(&event);
        }
    }
}

/// Waits for `doing` while the screen is redrawn. Returns `None` if the person interrupts.
pub(super) async fn watched<T>(
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
                // The output is closed.
                if state.failed.is_some() {
                    return Ok(None);
                }
            }
        }
    }
}

/// Waits until the person interrupts, by a signal or a key. All other input is kept.
pub(super) async fn stopped(interrupts: &mut Signal, input: Option<&mut Input>, watch: &Watch) {
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
