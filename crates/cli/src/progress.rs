//! A spinner for work that takes long.

use std::io::{IsTerminal as _, Write as _};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work that ends sooner shows no spinner.
const PATIENCE: Duration = Duration::from_millis(400);

/// A spinner on the error stream, if that is a terminal. It disappears when dropped.
pub(crate) struct Progress {
    done: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    shown: ProgressBar,
}

impl Progress {
    pub(crate) fn start(what: &'static str) -> Self {
        // The spinner is hidden at first.
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if !std::io::stderr().is_terminal() {
            return Self { done: None, thread: None, shown: bar };
        }
        let (done, wait) = mpsc::channel::<()>();
        let shown = bar.clone();
        let thread = std::thread::spawn(move || {
            if wait.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
                    shown.set_style(style);
                }
                shown.set_message(what);
                shown.set_draw_target(ProgressDrawTarget::stderr());
                shown.enable_steady_tick(Duration::from_millis(120));
                let _ = wait.recv();
            }
            shown.finish_and_clear();
        });
        Self { done: Some(done), thread: Some(thread), shown: bar }
    }

    /// Prints a line that stays when the spinner disappears.
    pub(crate) fn tell(&self, line: &str) {
        self.shown.suspend(|| {
            // If the error stream is closed, nothing can be done.
            let _ = writeln!(anstream::stderr(), "{line}");
        });
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.done.take();
        if let Some(thread) = self.thread.take() {
            // A panic of the spinner does not matter.
            let _ = thread.join();
        }
    }
}
