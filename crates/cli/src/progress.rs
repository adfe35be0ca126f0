//! A sign of life for what takes long.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// What is done sooner than this shows nothing.
const PATIENCE: Duration = Duration::from_millis(400);

/// A spinner with a count on the error stream, if that is a terminal; gone when dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
    done: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    pub(crate) fn start(what: &'static str) -> Self {
        let bar = ProgressBar::no_length();
        if bar.is_hidden() {
            return Self { bar, done: None, thread: None };
        }
        let (done, wait) = mpsc::channel::<()>();
        let shown = bar.clone();
        let thread = std::thread::spawn(move || {
            if wait.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {human_pos} ({elapsed})") {
                    shown.set_style(style);
                }
                shown.set_message(what);
                shown.enable_steady_tick(Duration::from_millis(120));
                let _ = wait.recv();
            }
            shown.finish_and_clear();
        });
        Self { bar, done: Some(done), thread: Some(thread) }
    }

    /// One more of what is counted is done.
    pub(crate) fn step(&self) {
        self.bar.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.done.take();
        if let Some(thread) = self.thread.take() {
            // A spinner that panicked is no reason to fail.
            let _ = thread.join();
        }
    }
}
