//! The keyboard of a chat. It reads every key, and loses none between two lines.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::kill_current_process_group;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use super::keys::{Decoder, Key};

/// How many bytes are read at once.
const PIECE: usize = 4096;
/// Disables a control character of the terminal.
const NO_KEY: u8 = 0;
/// Makes the terminal mark pasted text.
const MARK_PASTES: &[u8] = b"\x1b[?2004h";
const DO_NOT_MARK_PASTES: &[u8] = b"\x1b[?2004l";

/// An event from the keyboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Key(Key),
    /// The size of the screen has changed.
    Resized,
    /// The program continues after it was suspended.
    Resumed,
    /// The terminal was closed.
    Closed,
}

/// A terminal that sends each key at once. Its old mode is restored on drop.
pub(super) struct Keyboard {
    was: Termios,
    ours: Termios,
    pressed: Arc<Pressed>,
    resized: Signal,
    resumed: Signal,
}

/// Keys that were not handled yet.
#[derive(Default)]
struct Pressed {
    keys: Mutex<Keys>,
    came: Notify,
}

#[derive(Default)]
struct Keys {
    decoder: Decoder,
    whole: VecDeque<Key>,
    /// No more keys come.
    is_closed: bool,
}

impl Pressed {
    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads keys on a separate thread. Reading needs the lock, so that a key is either in the terminal or in the
    /// list, never in between.
    fn watch(&self) {
        let input = io::stdin();
        loop {
            let mut terminal = [PollFd::new(&input, PollFlags::IN)];
            let waited = retry_on_intr(|| poll(&mut terminal, None));
            let mut keys = self.keys();
            if keys.is_closed {
                return;
            }
            keys.is_closed = waited.is_err();
            keys.read();
            drop(keys);
            self.came.notify_one();
        }
    }
}

impl Keys {
    /// Reads what the terminal has, without waiting.
    fn read(&mut self) {
        while !self.is_closed {
            match available() {
                Ok(Some(bytes)) if !bytes.is_empty() => self.whole.extend(self.decoder.push(&bytes)),
                Ok(None) => return,
                Ok(Some(_)) | Err(_) => self.is_closed = true,
            }
        }
    }
}

impl Keyboard {
    pub(super) fn open() -> Result<Self> {
        let failed = "the terminal cannot be read";
        let was = tcgetattr(io::stdin()).context(failed)?;
        let resumed = SignalKind::from_raw(rustix::process::Signal::CONT.as_raw());
        let keyboard = Self {
            ours: raw(was.clone()),
            was,
            pressed: Arc::default(),
            resized: signal(SignalKind::window_change()).context(failed)?,
            resumed: signal(resumed).context(failed)?,
        };
        keyboard.take().context(failed)?;
        let pressed = Arc::clone(&keyboard.pressed);
        std::thread::Builder::new()
            .name("keyboard".to_owned())
            .spawn(move || pressed.watch())
            .context(failed)?;
        Ok(keyboard)
    }

    /// Waits for the next event. Nothing is lost if the wait is cancelled.
    pub(super) async fn next(&mut self) -> Event {
        loop {
            {
                let mut keys = self.pressed.keys();
                if let Some(key) = keys.whole.pop_front() {
                    return Event::Key(key);
                }
                if keys.is_closed {
                    return Event::Closed;
                }
            }
            tokio::select! {
                () = self.pressed.came.notified() => {}
                _ = self.resized.recv() => return Event::Resized,
                _ = self.resumed.recv() => {
                    // A shell may have changed the terminal meanwhile. If it cannot be set, it stays as it is.
                    let _ = self.take();
                    return Event::Resumed;
                }
            }
        }
    }

    /// Whether all keys were handled.
    pub(super) fn is_idle(&self) -> bool {
        self.pressed.keys().whole.is_empty()
    }

    /// The keys that were pressed and not handled yet.
    pub(super) fn pressed(&self) -> Vec<Key> {
        let mut keys = self.pressed.keys();
        keys.read();
        keys.whole.drain(..).collect()
    }

    /// Suspends the program, as Ctrl-Z does. When it continues, [`Event::Resumed`] comes.
    pub(super) fn suspend(&self) {
        let _ = self.give_back();
        let _ = kill_current_process_group(rustix::process::Signal::TSTP);
        let _ = self.take();
    }

    /// Makes the terminal send each key at once.
    fn take(&self) -> io::Result<()> {
        tcsetattr(io::stdin(), OptionalActions::Drain, &self.ours)?;
        write_sequence(MARK_PASTES)
    }

    fn give_back(&self) -> io::Result<()> {
        write_sequence(DO_NOT_MARK_PASTES)?;
        tcsetattr(io::stdin(), OptionalActions::Drain, &self.was)?;
        Ok(())
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.pressed.keys().is_closed = true;
        // A closed terminal cannot be restored.
        let _ = self.give_back();
    }
}

fn write_sequence(sequence: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(sequence)?;
    out.flush()
}

/// Sets the terminal to send each key and echo none. Ctrl-C and Ctrl-Z are normal keys. Ctrl-\ is still a signal,
/// which ends the program even if no key is read any more.
fn raw(mut terminal: Termios) -> Termios {
    terminal.input_modes -=
        InputModes::BRKINT | InputModes::ICRNL | InputModes::INPCK | InputModes::ISTRIP | InputModes::IXON;
    terminal.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::IEXTEN;
    terminal.special_codes[SpecialCodeIndex::VINTR] = NO_KEY;
    terminal.special_codes[SpecialCodeIndex::VSUSP] = NO_KEY;
    terminal.special_codes[SpecialCodeIndex::VMIN] = 1;
    terminal.special_codes[SpecialCodeIndex::VTIME] = 0;
    terminal
}

/// Reads without waiting: `None` if there is nothing yet, no bytes at the end of input.
fn available() -> io::Result<Option<Vec<u8>>> {
    let input = io::stdin();
    let mut terminal = [PollFd::new(&input, PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    if retry_on_intr(|| poll(&mut terminal, Some(&at_once)))? == 0 {
        return Ok(None);
    }
    let mut bytes = vec![0; PIECE];
    match retry_on_intr(|| rustix::io::read(&input, &mut bytes)) {
        Ok(read) => {
            bytes.truncate(read);
            Ok(Some(bytes))
        }
        Err(Errno::AGAIN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
