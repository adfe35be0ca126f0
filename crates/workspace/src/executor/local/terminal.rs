//! A terminal for a command, and a thread that types its input.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{
    LocalModes, OptionalActions, OutputModes, Winsize, tcgetattr, tcsetattr, tcsetwinsize,
};

use super::launch::{Streams, hand_over, output_pipe};
use crate::command::Input;

/// Ends the input of a terminal at the start of a line. Within a line it sends the unfinished line.
const END: &[u8] = b"\x04";
/// The size of the terminal, wide enough for most lines.
const SIZE: Winsize = Winsize { ws_row: 50, ws_col: 160, ws_xpixel: 0, ws_ypixel: 0 };
/// How soon a full terminal is tried again.
const AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Opens a terminal as the three streams of a command, and types its input.
///
/// It echoes no input and adds no carriage returns, because the other side is a program.
pub(super) fn open(input: &Input) -> io::Result<Streams> {
    let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&near)?;
    unlockpt(&near)?;
    let name = ptsname(&near, Vec::new())?;
    let far = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    hand_over(&far)?;
    let mut modes = tcgetattr(&far)?;
    modes.local_modes.remove(LocalModes::ECHO);
    modes.output_modes.remove(OutputModes::ONLCR);
    tcsetattr(&far, OptionalActions::Now, &modes)?;
    tcsetwinsize(&far, SIZE)?;
    rustix::io::ioctl_fionbio(&near, true)?;
    type_in(near.try_clone()?, input.clone())?;
    // This pipe stays empty: a terminal has only one stream.
    let (stderr, _) = output_pipe()?;
    Ok(Streams { given: [far.try_clone()?, far.try_clone()?, far], stdout: near, stderr })
}

/// Types an input into a terminal. Its thread ends with the last process that has the terminal.
fn type_in(near: OwnedFd, input: Input) -> io::Result<()> {
    let job = move || {
        let last = match input {
            Input::Closed => Ok(None),
            Input::Bytes(bytes) => write_all(&near, &bytes).map(|()| bytes.last().copied()),
            Input::Pipe(from) => copy(&from, &near),
        };
        let Ok(last) = last else { return };
        if last.is_some_and(|last| last != b'\n') {
            let _ = write_all(&near, END);
        }
        let _ = write_all(&near, END);
    };
    std::thread::Builder::new().name("prowess-typist".to_owned()).spawn(job).map(drop)
}

/// Copies until the pipe ends, and returns the last byte. The error means that no process has the terminal any more.
fn copy(from: &OwnedFd, near: &OwnedFd) -> Result<Option<u8>, Errno> {
    let mut buffer = [0; 4096];
    let mut last = None;
    loop {
        let mut list = [
            PollFd::from_borrowed_fd(from.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(near.as_fd(), PollFlags::empty()),
        ];
        match poll(&mut list, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        if list[1].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
            return Err(Errno::IO);
        }
        if !list[0].revents().is_empty() {
            match rustix::io::read(from, &mut buffer) {
                Ok(0) => return Ok(last),
                Ok(length) => {
                    write_all(near, &buffer[..length])?;
                    last = buffer[..length].last().copied();
                }
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn write_all(near: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(near, bytes) {
            Ok(length) => bytes = &bytes[length..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let mut list = [PollFd::from_borrowed_fd(near.as_fd(), PollFlags::OUT)];
                let _ = poll(&mut list, Some(&AGAIN));
                if list[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
                    return Err(Errno::IO);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
