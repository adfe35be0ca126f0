//! What a container needs beside the workspace: a directory for its first process, gone when the run is.
//!
//! It has the lifeline, a named pipe that only this process can write to. When this process dies, however that may
//! be, the kernel closes it, the first process inside reads its end, and the container with all that is in it ends.
//!
//! It stands where others may write too. So it is entered once, without following links, and from then on everything
//! is done from inside: whoever puts something else in its place changes nothing.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, unlinkat};
use rustix::process::geteuid;

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
pub(super) struct ContainerDirectory {
    path: PathBuf,
    name: String,
    /// The directory itself, whatever its path leads to by now.
    directory: OwnedFd,
    /// Held open for as long as the container may live.
    life: Option<OwnedFd>,
    told: Option<OwnedFd>,
    /// The near end of the command's input, if it comes while the command runs.
    input: Option<OwnedFd>,
    /// What holds secrets, until the first process has it open.
    private: Vec<&'static str>,
}

impl ContainerDirectory {
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
        let directory = enter(&path)?;
        // From here on its drop takes it away.
        let (life, told, input, private) = (None, None, None, vec![ENVIRONMENT]);
        let mut cell = Self { path, name, directory, life, told, input, private };
        let life = pipe(&cell.directory, LIFE, Mode::RUSR)?;
        rustix::io::write(&life, b"go\n")?;
        cell.life = Some(life);
        cell.told = Some(pipe(&cell.directory, TOLD, Mode::RUSR | Mode::WUSR)?);
        write(&cell.directory, ENVIRONMENT, exports(variables).as_bytes())?;
        match stdin {
            Input::Closed => {}
            Input::Bytes(bytes) => {
                write(&cell.directory, STDIN, bytes)?;
                cell.private.push(STDIN);
            }
            Input::Pipe(_) => cell.input = Some(pipe(&cell.directory, STDIN, Mode::RUSR)?),
        }
        if let Some((user, group)) = privileges::owner() {
            rustix::fs::chownat(&cell.directory, "", Some(user), Some(group), AtFlags::EMPTY_PATH)?;
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
        write(&self.directory, FILTER, filter.as_bytes())?;
        Ok(self.path.join(FILTER))
    }

    /// Takes the names from what holds secrets, once the first process has it open.
    pub(super) fn hide_secrets(&self) {
        for file in &self.private {
            let _ = unlinkat(&self.directory, *file, AtFlags::empty());
        }
    }

    /// Keeps a place for each of these skills.
    pub(super) fn keep_places(&self, skills: &[String]) -> io::Result<()> {
        let all = make_open(&self.directory, SKILLS)?;
        skills.iter().try_for_each(|skill| make_open(&all, skill).map(drop))
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

impl Drop for ContainerDirectory {
    fn drop(&mut self) {
        self.life = None;
        take_away(&self.path, &self.directory);
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
            // What is no cell was put there by somebody else, and stays.
            if let Ok(directory) = enter(&entry.path()) {
                take_away(&entry.path(), &directory);
            }
        }
    }
}

/// Opens a cell, which is a directory and no link to one, and belongs to this process's user or to that of commands.
fn enter(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::open(path, flags, Mode::empty())?;
    let owner = rustix::fs::fstat(&directory)?.st_uid;
    if owner == geteuid().as_raw() || privileges::sandbox_owner().is_some_and(|(user, _)| user == owner) {
        Ok(directory)
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// Takes away what a cell has, and the directory if it still is the one at its path.
fn take_away(path: &Path, directory: &OwnedFd) {
    for file in [LIFE, TOLD, STDIN, FILTER, ENVIRONMENT] {
        let _ = unlinkat(directory, file, AtFlags::empty());
    }
    if let Ok(places) = rustix::fs::openat(directory, SKILLS, OPEN, Mode::empty()).map(Dir::from_descriptor) {
        for (place, _) in places.entries(MAX_PLACES).map(|(places, _)| places).unwrap_or_default() {
            let _ = unlinkat(&places, place, AtFlags::REMOVEDIR);
        }
    }
    let _ = unlinkat(directory, SKILLS, AtFlags::REMOVEDIR);
    let number = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
    let own = rustix::fs::fstat(directory).map(number);
    if own.is_ok() && own == rustix::fs::lstat(path).map(number) {
        let _ = unlinkat(CWD, path, AtFlags::REMOVEDIR);
    }
}

/// How a directory is opened that is no link to one.
const OPEN: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Makes a directory that everybody may look into, whatever is taken from new files on this machine.
fn make_open(at: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    rustix::fs::mkdirat(at, name, Mode::RWXU)?;
    let directory = rustix::fs::openat(at, name, OPEN, Mode::empty())?;
    rustix::fs::fchmod(&directory, Mode::from_raw_mode(0o755))?;
    Ok(directory)
}

/// A named pipe with its near end. As it is mounted read-only, commands cannot change how they may use it.
fn pipe(directory: &OwnedFd, name: &str, mode: Mode) -> io::Result<OwnedFd> {
    rustix::fs::mknodat(directory, name, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    // For both, so that it does not wait for the far end.
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let end = rustix::fs::openat(directory, name, flags, Mode::empty())?;
    hand_over(&end, mode)?;
    Ok(end)
}

fn write(directory: &OwnedFd, name: &str, bytes: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?;
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
            let cell = ContainerDirectory::new(at.path(), &owner, &BTreeMap::new(), stdin).unwrap();
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
        let cell = ContainerDirectory::new(at.path(), &dead, &BTreeMap::new(), &Input::Closed).unwrap();
        cell.keep_places(&["one".into()]).unwrap();
        let path = cell.path().to_owned();
        std::mem::forget(cell);
        sweep(at.path(), &Owner::own());
        assert!(!path.exists());
    }

    /// The name of a cell whose owner is long dead.
    const DEAD: &str = "prowess-00000000.1.2.3.0";

    /// A directory with a file that a cell would have too.
    fn victim() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(ENVIRONMENT);
        std::fs::write(&file, "PATH=/bin").unwrap();
        (directory, file)
    }

    #[test]
    fn a_planted_link_is_not_followed() {
        let (at, (victim, file)) = (tempfile::tempdir().unwrap(), victim());
        let link = at.path().join(DEAD);
        std::os::unix::fs::symlink(victim.path(), &link).unwrap();
        sweep(at.path(), &Owner::own());
        assert!(file.exists() && link.is_symlink());
    }

    #[test]
    fn a_link_in_the_place_of_a_cell_is_not_followed() {
        let (at, (victim, file)) = (tempfile::tempdir().unwrap(), victim());
        let cell =
            ContainerDirectory::new(at.path(), &Owner::own(), &BTreeMap::new(), &Input::Closed).unwrap();
        let (path, moved) = (cell.path().to_owned(), at.path().join("moved"));
        std::fs::rename(&path, &moved).unwrap();
        std::os::unix::fs::symlink(victim.path(), &path).unwrap();
        cell.hide_secrets();
        assert!(file.exists() && !moved.join(ENVIRONMENT).exists());
        drop(cell);
        assert!(file.exists() && path.is_symlink());
        assert_eq!(std::fs::read_dir(moved).unwrap().count(), 0);
    }

    #[test]
    fn the_directory_of_somebody_else_is_no_cell() {
        // Only root can give one away.
        if !geteuid().is_root() {
            return;
        }
        for (owner, stays) in [(54321, true), (65534, false), (0, false)] {
            let at = tempfile::tempdir().unwrap();
            let planted = at.path().join(DEAD);
            std::fs::create_dir(&planted).unwrap();
            std::fs::write(planted.join(ENVIRONMENT), "").unwrap();
            std::os::unix::fs::chown(&planted, Some(owner), Some(owner)).unwrap();
            sweep(at.path(), &Owner::own());
            assert_eq!(planted.join(ENVIRONMENT).exists(), stays, "{owner}");
            assert_eq!(planted.exists(), stays, "{owner}");
        }
    }

    #[test]
    fn secrets_lose_their_names() {
        let at = tempfile::tempdir().unwrap();
        let stdin = Input::Bytes("text".into());
        let cell = ContainerDirectory::new(at.path(), &Owner::own(), &BTreeMap::new(), &stdin).unwrap();
        cell.hide_secrets();
        let left = std::fs::read_dir(cell.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut left: Vec<_> = left.collect();
        left.sort();
        assert_eq!(left, [LIFE, TOLD]);
    }

    #[test]
    fn values_are_quoted() {
        let variables = BTreeMap::from([("A".to_owned(), "it's $(x)\n".to_owned())]);
        assert_eq!(exports(&variables), "export A='it'\\''s $(x)\n'\n");
    }
}
