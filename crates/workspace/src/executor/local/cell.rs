//! The threads that commands are started from and kept by.
//!
//! `--die-with-parent` follows the thread that started a process, so a thread of a pool that may shrink would
//! take commands with it. A cell is a thread that lives at least as long as the command it keeps.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::cgroup::Group;

/// What a cell does.
type Job = Box<dyn FnOnce(&mut Option<Group>) + Send>;

/// So many cells wait for work; others end with it.
const IDLE: usize = 8;

/// Cells, as many as there are commands at once.
#[derive(Debug, Default)]
pub(super) struct Cells {
    idle: Arc<Mutex<Vec<Cell>>>,
}

#[derive(Debug)]
struct Cell {
    jobs: Option<Sender<Job>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Cell {
    fn drop(&mut self) {
        self.jobs = None;
        // A cell that ends itself cannot wait for itself.
        if let Some(thread) =
            self.thread.take().filter(|thread| thread.thread().id() != std::thread::current().id())
        {
            let _ = thread.join();
        }
    }
}

impl Cells {
    /// Does a job in a cell of its own.
    pub(super) fn start(&self, job: impl FnOnce(&mut Option<Group>) + Send + 'static) -> std::io::Result<()> {
        let cell = match lock(&self.idle).pop() {
            Some(cell) => cell,
            None => new_cell()?,
        };
        let Some(jobs) = cell.jobs.clone() else { return Err(std::io::ErrorKind::BrokenPipe.into()) };
        let idle = Arc::downgrade(&self.idle);
        let whole: Job = Box::new(move |group| {
            job(group);
            // An executor that is gone, or has enough cells, lets this one end.
            if let Some(idle) = idle.upgrade() {
                let mut idle = lock(&idle);
                if idle.len() < IDLE {
                    idle.push(cell);
                    return;
                }
            }
            drop(cell);
        });
        jobs.send(whole).map_err(|_| std::io::ErrorKind::BrokenPipe.into())
    }
}

fn new_cell() -> std::io::Result<Cell> {
    let (jobs, work): (Sender<Job>, Receiver<Job>) = channel();
    let thread = std::thread::Builder::new().name("prowess-cell".to_owned()).spawn(move || {
        let mut group = Group::enter();
        while let Ok(job) = work.recv() {
            job(&mut group);
        }
        if let Some(group) = group {
            group.leave();
        }
    })?;
    Ok(Cell { jobs: Some(jobs), thread: Some(thread) })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
