//! The keyboard, for as long as a conversation lasts: every key is ours, and none is lost between two lines.

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
/// What stands in the place of a key that is no signal.
const NO_KEY: u8 = 0;
/// Has the terminal mark what is pasted.
const MARK_PASTES: &[u8] = b"\x1b[?2004h";
const DO_NOT_MARK_PASTES: &[u8] = b"\x1b[?2004l";

/// What comes from the keyboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Key(Key),
    /// The screen has another size.
    Resized,
    /// The program goes on after it was stopped.
    Resumed,
    /// The terminal is gone.
    Closed,
}

/// A terminal that sends each key as it is pressed. It is as it was once this is dropped.
pub(super) struct Keyboard {
    was: Termios,
    ours: Termios,
    pressed: Arc<Pressed>,
    resized: Signal,
    resumed: Signal,
}

/// The keys that nobody has looked at yet.
#[derive(Default)]
struct Pressed {
    keys: Mutex<Keys>,
    came: Notify,
}

#[derive(Default)]
struct Keys {
    decoder: Decoder,
    whole: VecDeque<Key>,
    /// Nothing more comes.
    is_closed: bool,
}

impl Pressed {
    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads keys as they come, on a thread of its own. Only who has the lock reads, so that a key is either still in the
    /// terminal or among the keys, and never on its way.
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
    /// Takes in what the terminal has, without waiting for more.
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

    /// What comes next. Nothing is lost if nobody waits for it any more.
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
                    // A shell may have had the terminal meanwhile. One that cannot be had stays as it is.
                    let _ = self.take();
                    return Event::Resumed;
                }
            }
        }
    }

    /// Whether every key that came has been looked at.
    pub(super) fn is_idle(&self) -> bool {
        self.pressed.keys().whole.is_empty()
    }

    /// The keys that were pressed up to now and not looked at yet.
    pub(super) fn pressed(&self) -> Vec<Key> {
        let mut keys = self.pressed.keys();
        keys.read();
        keys.whole.drain(..).collect()
    }

    /// Stops the program, as Ctrl-Z does, until a shell lets it go on; then [`Event::Resumed`] comes.
    pub(super) fn suspend(&self) {
        let _ = self.give_back();
        let _ = kill_current_process_group(rustix::process::Signal::TSTP);
        let _ = self.take();
    }

    /// Has the terminal send each key as it is.
    fn take(&self) -> io::Result<()> {
        tcsetattr(io::stdin(), OptionalActions::Drain, &self.ours)?;
        told(MARK_PASTES)
    }

    fn give_back(&self) -> io::Result<()> {
        told(DO_NOT_MARK_PASTES)?;
        tcsetattr(io::stdin(), OptionalActions::Drain, &self.was)?;
        Ok(())
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.pressed.keys().is_closed = true;
        // A terminal that is gone need not be as it was.
        let _ = self.give_back();
    }
}

fn told(sequence: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(sequence)?;
    out.flush()
}

/// A terminal that sends each key and shows none of them. Ctrl-C and Ctrl-Z are keys like others; only Ctrl-\ is still a signal,
/// which ends the program also if nobody looks at keys any more.
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

/// What can be read without waiting: `None` if there is nothing, no bytes if there never will be any.
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
