//! What models are paid for a thread that a worker works on, and how it gets into the usage of its user.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use prowess_agent::model::ModelUsage;
use prowess_agent::{Event, ThreadId, ThreadUpdate, Watcher};
use prowess_store::serve::{OwnedThreadError, OwnedThreads, UsageSum};
use tokio::sync::Notify;

use crate::agents::ServedAgents;
use crate::app::{App, lock};
use crate::live::LiveThread;

/// Passes on what happens in a thread, and notes what models are paid for it and for its sub-agents.
pub(super) struct Meter {
    live: Arc<LiveThread>,
    owner: String,
    /// What is not stored yet, in its order.
    payments: Mutex<VecDeque<Payment>>,
    /// Held while payments are stored.
    storing: tokio::sync::Mutex<()>,
    paid: Notify,
    is_unpriced: AtomicBool,
    log: Mutex<Log>,
    /// Whether a model or a tool of a sub-agent answered.
    has_progressed: AtomicBool,
}

/// How far the log is.
#[derive(Clone, Copy, Debug, Default)]
struct Log {
    events: u64,
    /// The number of the event that began the turn in progress.
    turn: Option<u64>,
}

/// Something that models were paid.
#[derive(Clone, Debug)]
pub(super) struct Payment {
    /// The thread and the number of the event that has it. Such a payment counts once, even if it is noted again.
    pub(super) event: Option<(ThreadId, u64)>,
    pub(super) spent: ModelUsage,
}

impl Meter {
    pub(super) fn new(live: &Arc<LiveThread>, owner: &str) -> Arc<Self> {
        Arc::new(Self {
            live: Arc::clone(live),
            owner: owner.to_owned(),
            payments: Mutex::default(),
            storing: tokio::sync::Mutex::default(),
            paid: Notify::new(),
            is_unpriced: AtomicBool::new(false),
            log: Mutex::default(),
            has_progressed: AtomicBool::new(false),
        })
    }

    /// The log has so many events, and this turn is in progress.
    pub(super) fn begin(&self, events: u64, turn: Option<u64>) {
        *lock(&self.log) = Log { events, turn };
    }

    /// The number of the event that began the turn in progress.
    pub(super) fn turn(&self) -> Option<u64> {
        lock(&self.log).turn
    }

    fn note_event(&self, event: &Event) {
        let mut log = lock(&self.log);
        log.events += 1;
        match event {
            Event::TurnStarted { .. } => log.turn = Some(log.events),
            Event::TurnEnded { .. } => log.turn = None,
            _ => {}
        }
    }

    /// Whether a sub-agent made progress since the last time.
    pub(super) fn take_progress(&self) -> bool {
        self.has_progressed.swap(false, Ordering::Relaxed)
    }

    /// Notes that a sub-agent made progress.
    pub(super) fn note_progress(&self) {
        self.has_progressed.store(true, Ordering::Relaxed);
    }

    /// Notes a payment.
    pub(super) fn pay(&self, payment: Payment) {
        lock(&self.payments).push_back(payment);
        self.paid.notify_one();
    }

    /// Waits until something is paid.
    pub(super) async fn paid(&self) {
        self.paid.notified().await;
    }

    /// Whether the price of something that was paid is not known.
    pub(super) fn is_unpriced(&self) -> bool {
        self.is_unpriced.load(Ordering::Relaxed)
    }

    /// Adds what was paid since the last time to what the user takes today. Returns whether there was anything.
    ///
    /// If the future is dropped, the payments are stored all the same, and none of them twice.
    pub(super) async fn store(self: &Arc<Self>, app: &App) -> Result<bool, OwnedThreadError> {
        if lock(&self.payments).is_empty() {
            return Ok(false);
        }
        let (meter, agents, threads) = (Arc::clone(self), Arc::clone(&app.agents), app.threads.clone());
        let model = app.model.clone();
        let stored = tokio::spawn(async move { meter.store_all(&*agents, &model, &threads).await }).await;
        match stored.map_err(tokio::task::JoinError::try_into_panic) {
            Ok(stored) => stored,
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            // The server stops.
            Err(Err(_)) => Ok(false),
        }
    }

    async fn store_all(
        &self,
        agents: &dyn ServedAgents,
        model: &str,
        threads: &OwnedThreads,
    ) -> Result<bool, OwnedThreadError> {
        let _storing = self.storing.lock().await;
        let mut was_any = false;
        loop {
            let Some(Payment { event, spent }) = lock(&self.payments).front().cloned() else { break };
            let sum = self.sum(agents, model, &spent);
            if sum.tokens > 0 {
                let event = event.as_ref().map(|(thread, number)| (thread, *number));
                was_any |= threads.note_usage(&self.owner, event, sum).await?;
            }
            lock(&self.payments).pop_front();
        }
        Ok(was_any)
    }

    /// `own` is the model of the agent.
    fn sum(&self, agents: &dyn ServedAgents, own: &str, spent: &ModelUsage) -> UsageSum {
        let mut sum = UsageSum { tokens: spent.total().total(), micro_dollars: 0 };
        for (model, usage) in spent.iter().filter(|(_, usage)| usage.total() > 0) {
            let cost = |model: &str| agents.cost(&ModelUsage::on(model, usage));
            let known = cost(model);
            self.is_unpriced.fetch_or(known.is_none(), Ordering::Relaxed);
            // Without a price, a model counts like the agent's own. That is better than nothing.
            sum.micro_dollars += known.or_else(|| cost(own)).map_or(0, |cost| cost.micros);
        }
        sum
    }
}

impl Watcher for Meter {
    fn update(&self, update: ThreadUpdate<'_>) {
        if let ThreadUpdate::Stored(event) = update {
            self.note_event(event);
        }
        if let ThreadUpdate::SubAgentTool(..) = update {
            self.note_progress();
        }
        if let ThreadUpdate::Paid { event, spent } = update {
            if event.is_some_and(|(thread, _)| thread != self.live.thread()) {
                self.note_progress();
            }
            let event = event.map(|(thread, number)| (thread.clone(), number));
            self.pay(Payment { event, spent: spent.clone() });
        }
        self.live.update(update);
    }
}
