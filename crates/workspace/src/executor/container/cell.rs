//! What a container needs beside the workspace: a directory for its first process, gone when the run is.
//!
//! It has the lifeline, a named pipe that only this process can write to. When this process dies, however that may
//! be, the kernel closes it, the first process inside reads its end, and the container with all that is in it ends.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};

use super::owner::Owner;
use crate::command::Input;
use crate::dir::Dir;
use crate::executor::privileges;

/// Where the directory is on the inside.
pub(super) const INSIDE: &str = "/run/prowess";
/// The lifeline.
const LIFE: &str = "life";
/// Where the first process tells what the engine may not know.
const TOLD: &str = "told";
/// What the command reads.
const STDIN: &str = "stdin";
/// The filter of system calls, for the engine.
const FILTER: &str = "filter";
/// Empty directories where the skills of the command are mounted.
pub(super) const SKILLS: &str = "skills";
/// The command's variables, as lines of a shell.
const ENVIRONMENT: &str = "environment";

/// So many places of skills are looked for to take them away: more than any command has.
const MAX_PLACES: usize = 100_000;

/// The directory of one container.
#[derive(Debug)]
pub(super) struct Cell {
    path: PathBuf,
    name: String,
    /// Held open for as long as the container may live.
    life: Option<OwnedFd>,
    told: Option<OwnedFd>,
    /// The near end of the command's input, if it comes while the command runs.
    input: Option<OwnedFd>,
}

impl Cell {
    /// A new one in a directory, for whoever commands run as.
    pub(super) fn new(
        at: &Path,
        owner: &Owner,
        variables: &BTreeMap<String, String>,
        stdin: &Input,
    ) -> io::Result<Self> {
        let name = owner.new_name();
        let path = at.join(&name);
        rustix::fs::mkdir(&path, Mode::RWXU)?;
        // From here on its drop takes it away.
        let mut cell = Self { path, name, life: None, told: None, input: None };
        let life = pipe(&cell.path.join(LIFE), Mode::RUSR)?;
        rustix::io::write(&life, b"go\n")?;
        cell.life = Some(life);
        cell.told = Some(pipe(&cell.path.join(TOLD), Mode::RUSR | Mode::WUSR)?);
        write(&cell.path.join(ENVIRONMENT), exports(variables).as_bytes())?;
        match stdin {
            Input::Closed => {}
            Input::Bytes(bytes) => write(&cell.path.join(STDIN), bytes)?,
            Input::Pipe(_) => cell.input = Some(pipe(&cell.path.join(STDIN), Mode::RUSR)?),
        }
        if let Some((user, group)) = privileges::owner() {
            rustix::fs::chown(&cell.path, Some(user), Some(group))?;
        }
        Ok(cell)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The name of the container.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Keeps a filter of system calls, and says where.
    pub(super) fn keep_filter(&self, filter: &str) -> io::Result<PathBuf> {
        let path = self.path.join(FILTER);
        write(&path, filter.as_bytes())?;
        Ok(path)
    }

    /// Keeps a place for each of these skills.
    pub(super) fn keep_places(&self, skills: &[String]) -> io::Result<()> {
        let all = self.path.join(SKILLS);
        for place in std::iter::once(all.clone()).chain(skills.iter().map(|skill| all.join(skill))) {
            rustix::fs::mkdir(&place, Mode::RWXU)?;
            // Whatever is taken from new files on this machine.
            rustix::fs::chmod(&place, Mode::from_raw_mode(0o755))?;
        }
        Ok(())
    }

    /// Whether something was killed inside because there was no memory. The command can say so of itself, too.
    pub(super) fn out_of_memory(&self) -> bool {
        let mut word = [0; 4];
        let read = self.told.as_ref().map(|told| rustix::io::read(told, &mut word[..]));
        matches!(read, Some(Ok(4))) && word == *b"oom\n"
    }

    /// The near end of the command's input, once.
    pub(super) fn take_input(&mut self) -> Option<OwnedFd> {
        self.input.take()
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        self.life = None;
        take_away(&self.path);
    }
}

/// Where the command's input is on the inside.
pub(super) fn stdin_inside(stdin: &Input) -> String {
    match stdin {
        Input::Closed => "/dev/null".to_owned(),
        Input::Bytes(_) | Input::Pipe(_) => format!("{INSIDE}/{STDIN}"),
    }
}

/// Takes away the cells of dead processes from a directory.
pub(super) fn sweep(at: &Path, own: &Owner) {
    let entries = std::fs::read_dir(at).into_iter().flatten().flatten();
    for entry in entries {
        let owner = entry.file_name().to_str().and_then(Owner::of_name);
        if owner.is_some_and(|owner| own.knows_dead(&owner)) {
            take_away(&entry.path());
        }
    }
}

/// Only what a cell has: others may write where it is.
fn take_away(cell: &Path) {
    for file in [LIFE, TOLD, STDIN, FILTER, ENVIRONMENT] {
        let _ = rustix::fs::unlinkat(CWD, cell.join(file), AtFlags::empty());
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let places = rustix::fs::open(cell, flags, Mode::empty())
        .and_then(|cell| rustix::fs::openat(&cell, SKILLS, flags, Mode::empty()))
        .map(Dir::from_descriptor);
    if let Ok(places) = places {
        for (place, _) in places.entries(MAX_PLACES).map(|(places, _)| places).unwrap_or_default() {
            let _ = rustix::fs::unlinkat(&places, place, AtFlags::REMOVEDIR);
        }
    }
    let _ = rustix::fs::unlinkat(CWD, cell.join(SKILLS), AtFlags::REMOVEDIR);
    let _ = rustix::fs::unlinkat(CWD, cell, AtFlags::REMOVEDIR);
}

/// A named pipe with its near end. As it is mounted read-only, commands cannot change how they may use it.
fn pipe(path: &Path, mode: Mode) -> io::Result<OwnedFd> {
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    // For both, so that it does not wait for the far end.
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let end = rustix::fs::open(path, flags, Mode::empty())?;
    hand_over(&end, mode)?;
    Ok(end)
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
    io::Write::write_all(&mut std::fs::File::from(file.try_clone()?), bytes)?;
    hand_over(&file, Mode::RUSR)
}

/// Lets the command's user have it.
fn hand_over(file: &OwnedFd, mode: Mode) -> io::Result<()> {
    rustix::fs::fchmod(file, mode)?;
    if let Some((user, group)) = privileges::owner() {
        rustix::fs::fchown(file, Some(user), Some(group))?;
    }
    Ok(())
}

fn exports(variables: &BTreeMap<String, String>) -> String {
    let line =
        |(name, value): (&String, &String)| format!("export {name}='{}'\n", value.replace('\'', r"'\''"));
    variables.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_a_cell() {
        let (at, owner) = (tempfile::tempdir().unwrap(), Owner::own());
        let (_far, near) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let inputs = [Input::Closed, Input::Bytes("text".into()), Input::Pipe(near.into())];
        for stdin in &inputs {
            let cell = Cell::new(at.path(), &owner, &BTreeMap::new(), stdin).unwrap();
            cell.keep_places(&["one".into(), "two".into()]).unwrap();
            let path = cell.path().to_owned();
            assert!(path.join(SKILLS).join("two").is_dir());
            assert_eq!(path.join(STDIN).exists(), !matches!(stdin, Input::Closed));
            sweep(at.path(), &owner);
            assert!(path.join(LIFE).exists(), "its owner lives");
            drop(cell);
            assert!(!path.exists());
        }
    }

    #[test]
    fn cells_of_the_dead_are_swept() {
        let at = tempfile::tempdir().unwrap();
        let dead = Owner::parse("00000000.1.2.3").unwrap();
        let cell = Cell::new(at.path(), &dead, &BTreeMap::new(), &Input::Closed).unwrap();
        cell.keep_places(&["one".into()]).unwrap();
        let path = cell.path().to_owned();
        std::mem::forget(cell);
        sweep(at.path(), &Owner::own());
        assert!(!path.exists());
    }

    #[test]
    fn values_are_quoted() {
        let variables = BTreeMap::from([("A".to_owned(), "it's $(x)\n".to_owned())]);
        assert_eq!(exports(&variables), "export A='it'\\''s $(x)\n'\n");
    }
}
