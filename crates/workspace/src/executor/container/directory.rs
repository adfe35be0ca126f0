//! The directory of a container: what its first process needs besides the workspace. It is removed after the run.
//!
//! It has the lifeline, a named pipe that only this process can write to. If this process dies, the kernel closes the
//! pipe. The first process inside sees the end of the pipe, and ends the container.
//!
//! Others may write to the parent directory. So this directory is opened once, without following links, and then used by
//! its descriptor. Replacing it has no effect.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, unlinkat};
use rustix::process::geteuid;

use super::owner::Owner;
use super::tree_parts::{self, PARTS, Part};
use crate::command::{Command, Input};
use crate::dir::Dir;
use crate::executor::privileges;

/// The path of the directory inside the container.
pub(super) const INSIDE: &str = "/run/prowess";
/// The lifeline.
const LIFE: &str = "life";
/// Where the first process reports what the engine may not know.
const TOLD: &str = "told";
/// The standard input of the command.
const STDIN: &str = "stdin";
/// The system call filter for the engine.
const FILTER: &str = "filter";
/// The command's variables, as lines for a shell.
const ENVIRONMENT: &str = "environment";

/// The directory of one container.
#[derive(Debug)]
pub(super) struct ContainerDirectory {
    path: PathBuf,
    name: String,
    /// The directory itself, even if its path now leads elsewhere.
    directory: OwnedFd,
    /// The lifeline, held open while the container may live.
    life: Option<OwnedFd>,
    told: Option<OwnedFd>,
    /// Our end of the command's input, if it comes while the command runs.
    input: Option<OwnedFd>,
    /// Files with secrets, until the first process has opened them.
    private: Vec<&'static str>,
}

impl ContainerDirectory {
    /// Makes a directory for a container in `at`, for the user that commands run as.
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
        // From here on its drop removes it.
        let (life, told, input, private) = (None, None, None, vec![ENVIRONMENT]);
        let mut directory = Self { path, name, directory, life, told, input, private };
        let life = pipe(&directory.directory, LIFE, Mode::RUSR)?;
        rustix::io::write(&life, b"go\n")?;
        directory.life = Some(life);
        directory.told = Some(pipe(&directory.directory, TOLD, Mode::RUSR | Mode::WUSR)?);
        write(&directory.directory, ENVIRONMENT, exports(variables).as_bytes())?;
        match stdin {
            Input::Closed => {}
            Input::Bytes(bytes) => {
                write(&directory.directory, STDIN, bytes)?;
                directory.private.push(STDIN);
            }
            Input::Pipe(_) => directory.input = Some(pipe(&directory.directory, STDIN, Mode::RUSR)?),
        }
        if let Some((user, group)) = privileges::owner() {
            rustix::fs::chownat(&directory.directory, "", Some(user), Some(group), AtFlags::EMPTY_PATH)?;
        }
        Ok(directory)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The name of the container.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Writes a system call filter, and returns its path.
    pub(super) fn keep_filter(&self, filter: &str) -> io::Result<PathBuf> {
        write(&self.directory, FILTER, filter.as_bytes())?;
        Ok(self.path.join(FILTER))
    }

    /// Removes the names of files with secrets, once the first process has opened them.
    pub(super) fn hide_secrets(&self) {
        for file in &self.private {
            let _ = unlinkat(&self.directory, *file, AtFlags::empty());
        }
    }

    /// Makes the parts of the tree that the command needs as local directories.
    pub(super) fn make_tree_parts(&self, command: &Command) -> io::Result<Vec<Part>> {
        tree_parts::make(&self.directory, &self.path, command)
    }

    /// Whether a process inside was killed for its memory. The command could also claim this.
    pub(super) fn out_of_memory(&self) -> bool {
        let mut word = [0; 4];
        let read = self.told.as_ref().map(|told| rustix::io::read(told, &mut word[..]));
        matches!(read, Some(Ok(4))) && word == *b"oom\n"
    }

    /// Takes our end of the command's input.
    pub(super) fn take_input(&mut self) -> Option<OwnedFd> {
        self.input.take()
    }
}

impl Drop for ContainerDirectory {
    fn drop(&mut self) {
        self.life = None;
        remove(&self.path, &self.directory);
    }
}

/// The path of the command's input inside the container.
pub(super) fn stdin_inside(stdin: &Input) -> String {
    match stdin {
        Input::Closed => "/dev/null".to_owned(),
        Input::Bytes(_) | Input::Pipe(_) => format!("{INSIDE}/{STDIN}"),
    }
}

/// Removes the directories of dead processes.
pub(super) fn sweep(at: &Path, own: &Owner) {
    let entries = std::fs::read_dir(at).into_iter().flatten().flatten();
    for entry in entries {
        let owner = entry.file_name().to_str().and_then(Owner::of_name);
        if owner.is_some_and(|owner| own.knows_dead(&owner)) {
            // Other files with such a name are not ours and stay.
            if let Ok(directory) = enter(&entry.path()) {
                remove(&entry.path(), &directory);
            }
        }
    }
}

/// Opens a container directory. It must not be a link, and must belong to this user or to the user of commands.
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

/// Removes the contents, and the directory itself if it is still at its path.
fn remove(path: &Path, directory: &OwnedFd) {
    for file in [LIFE, TOLD, STDIN, FILTER, ENVIRONMENT] {
        let _ = unlinkat(directory, file, AtFlags::empty());
    }
    let _ = directory.try_clone().map(Dir::from_descriptor).and_then(|own| own.remove_tree(PARTS.as_ref()));
    let number = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
    let own = rustix::fs::fstat(directory).map(number);
    if own.is_ok() && own == rustix::fs::lstat(path).map(number) {
        let _ = unlinkat(CWD, path, AtFlags::REMOVEDIR);
    }
}

/// Makes a named pipe and opens our end. It is mounted read-only, so commands cannot change its mode.
fn pipe(directory: &OwnedFd, name: &str, mode: Mode) -> io::Result<OwnedFd> {
    rustix::fs::mknodat(directory, name, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    // Read and write, so that opening does not wait for the other end.
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let end = rustix::fs::openat(directory, name, flags, Mode::empty())?;
    hand_over(&end, mode)?;
    Ok(end)
}

fn write(directory: &OwnedFd, name: &str, bytes: &[u8]) -> io::Result<()> {
    let file = prowess_base::beneath::create_file(directory, name, 0o600)?;
    io::Write::write_all(&mut std::fs::File::from(file.try_clone()?), bytes)?;
    hand_over(&file, Mode::RUSR)
}

/// Gives a file to the command's user.
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
    use crate::command::{Mount, MountSource};

    /// A command with these skills, a given file and a link.
    fn command(skills: &[&str]) -> Command {
        let mut command = Command::new("/srv/w1", "work", "true");
        command.skills = skills.iter().map(|skill| (*skill).to_owned()).collect();
        let given = MountSource::ReadOnly("/etc/hostname".into());
        command.mounts = vec![
            Mount { source: MountSource::Empty, at: "/project".into() },
            Mount { source: given, at: "/project/a/b".into() },
        ];
        command.aliases = vec![("/home/ada/site".into(), "/project".into())];
        command
    }

    #[test]
    fn nothing_is_left_of_a_cell() {
        let (at, owner) = (tempfile::tempdir().unwrap(), Owner::own());
        let (_far, near) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let inputs = [Input::Closed, Input::Bytes("text".into()), Input::Pipe(near.into())];
        for stdin in &inputs {
            let directory = ContainerDirectory::new(at.path(), &owner, &BTreeMap::new(), stdin).unwrap();
            directory.make_tree_parts(&command(&["one", "two"])).unwrap();
            let path = directory.path().to_owned();
            assert!(path.join(PARTS).join("skills/two").is_dir());
            assert!(path.join(PARTS).join("empty-0/a/b").is_file());
            assert!(path.join(PARTS).join("alias-0/site").is_symlink());
            assert_eq!(path.join(STDIN).exists(), !matches!(stdin, Input::Closed));
            sweep(at.path(), &owner);
            assert!(path.join(LIFE).exists(), "its owner lives");
            drop(directory);
            assert!(!path.exists());
        }
    }

    #[test]
    fn cells_of_the_dead_are_swept() {
        let at = tempfile::tempdir().unwrap();
        let dead = Owner::parse("00000000.1.2.3").unwrap();
        let directory = ContainerDirectory::new(at.path(), &dead, &BTreeMap::new(), &Input::Closed).unwrap();
        directory.make_tree_parts(&command(&["one"])).unwrap();
        let path = directory.path().to_owned();
        std::mem::forget(directory);
        sweep(at.path(), &Owner::own());
        assert!(!path.exists());
    }

    /// The name of a directory whose owner is long dead.
    const DEAD: &str = "prowess-00000000.1.2.3.0";

    /// A directory with a file that a container directory would have too.
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
        let directory =
            ContainerDirectory::new(at.path(), &Owner::own(), &BTreeMap::new(), &Input::Closed).unwrap();
        let (path, moved) = (directory.path().to_owned(), at.path().join("moved"));
        std::fs::rename(&path, &moved).unwrap();
        std::os::unix::fs::symlink(victim.path(), &path).unwrap();
        directory.hide_secrets();
        assert!(file.exists() && !moved.join(ENVIRONMENT).exists());
        drop(directory);
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
        let directory = ContainerDirectory::new(at.path(), &Owner::own(), &BTreeMap::new(), &stdin).unwrap();
        directory.hide_secrets();
        let left = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
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
