//! The threads that commands are started from and kept by.
//!
//! `--die-with-parent` follows the thread that started a process, so a thread of a pool that may shrink would
//! take commands with it. A cell is a thread that lives at least as long as the command it keeps.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::cgroup::Group;

/// What a cell does.
type Job = Box<dyn FnOnce(&mut Option<Group>) + Send>;

/// So many threads wait for work; others end with it.
const IDLE: usize = 8;

/// How long the end of the executor waits for its threads to take their groups away.
const GONE_BY: Duration = Duration::from_secs(5);

/// RunThreads, as many as there are commands at once. Dropping them waits for their ends.
#[derive(Debug, Default)]
pub(super) struct RunThreads(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The ways to threads that wait for work.
    idle: Vec<Sender<Job>>,
    /// How many threads there are.
    live: usize,
    /// Whether threads end instead of waiting.
    closed: bool,
}

impl RunThreads {
    /// Does a job in a cell of its own.
    pub(super) fn start(&self, job: impl FnOnce(&mut Option<Group>) + Send + 'static) -> io::Result<()> {
        let idle = self.0.lock().idle.pop();
        let jobs = match idle {
            Some(jobs) => jobs,
            None => new_thread(&self.0)?,
        };
        let (shared, back) = (Arc::clone(&self.0), jobs.clone());
        let whole: Job = Box::new(move |group| {
            job(group);
            let mut state = shared.lock();
            if !state.closed && state.idle.len() < IDLE {
                state.idle.push(back);
            }
        });
        jobs.send(whole).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Drop for RunThreads {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.closed = true;
        // A cell that nobody can reach any more ends.
        state.idle.clear();
        let _ = self.0.changed.wait_timeout_while(state, GONE_BY, |state| state.live > 0);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A new cell, by the way to it.
fn new_thread(shared: &Arc<Shared>) -> io::Result<Sender<Job>> {
    let (jobs, work) = channel::<Job>();
    let counted = Counted::new(shared);
    std::thread::Builder::new().name("prowess-cell".to_owned()).spawn(move || {
        let _counted = counted;
        let mut group = Group::enter();
        while let Ok(job) = work.recv() {
            job(&mut group);
        }
        if let Some(group) = group {
            group.leave();
        }
    })?;
    Ok(jobs)
}

/// Counts a cell for as long as it lives.
struct Counted(Arc<Shared>);

impl Counted {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.lock().live += 1;
        Self(Arc::clone(shared))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.lock().live -= 1;
        self.0.changed.notify_all();
    }
}
