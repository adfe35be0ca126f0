//! The threads that start and supervise commands.
//!
//! With `--die-with-parent`, a process dies with the thread that started it. A thread of a shrinking pool would end
//! commands early. A run thread lives at least as long as its command.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::cgroup::Group;

/// The work of a run thread.
type Job = Box<dyn FnOnce(&mut Option<Group>) + Send>;

/// How many idle threads wait for work; others end.
const IDLE: usize = 8;

/// How long dropping the executor waits until its threads have removed their control groups.
const GONE_BY: Duration = Duration::from_secs(5);

/// Run threads, one for each running command. Dropping this waits until they end.
#[derive(Debug, Default)]
pub(super) struct RunThreads(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The channels of idle threads.
    idle: Vec<Sender<Job>>,
    /// How many threads exist.
    live: usize,
    /// Whether threads end instead of waiting for work.
    closed: bool,
}

impl RunThreads {
    /// Runs a job in its own thread.
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
        // A thread without a channel ends.
        state.idle.clear();
        let _ = self.0.changed.wait_timeout_while(state, GONE_BY, |state| state.live > 0);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts a thread, and returns its channel.
fn new_thread(shared: &Arc<Shared>) -> io::Result<Sender<Job>> {
    let (jobs, work) = channel::<Job>();
    let counted = Counted::new(shared);
    std::thread::Builder::new().name("prowess-run".to_owned()).spawn(move || {
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

/// Counts a thread while it lives.
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
