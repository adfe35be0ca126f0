//! Starts a sandbox with its pipes and descriptors.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;

use rustix::pipe::{PipeFlags, pipe_with};

use super::cgroup::Group;
use super::landlock::{Confinement, spawn_confined};
use super::network::AROUND;
use super::privileges;
use super::process_tree::ProcessTree;
use super::profile::descriptor;
use super::reaper::Reaper;
use super::spawn::{ProcessGroup, nul_separated, sealed, spawn};
use super::supervise::SandboxPipes;
use super::system::WRITTEN;
use super::terminal;
use crate::command::Input;

/// The sandbox to start.
#[derive(Debug)]
pub(super) enum Launch<'a> {
    /// In bubblewrap, with these arguments, this system call filter, and this socket for the bridge.
    Sandboxed {
        line: Vec<OsString>,
        arguments: Vec<OsString>,
        filter: Option<&'a [u8]>,
        proxy_socket: Option<&'a OwnedFd>,
    },
    /// Without bubblewrap, with these variables, and confined by Landlock if `confinement` is given.
    Bare { line: Vec<OsString>, variables: Vec<(String, String)>, confinement: Option<Confinement> },
}

/// Starts a sandbox. The command itself waits at the gate.
pub(super) fn launch(
    start: Launch<'_>,
    stdin: &Input,
    terminal: bool,
    reaper: &Arc<Reaper>,
    group: Option<&Group>,
) -> io::Result<(ProcessTree, SandboxPipes)> {
    let Streams { given: [input, stdout_end, stderr_end], stdout, stderr } =
        if terminal { terminal::open(stdin)? } else { pipes(stdin)? };
    let (gate_end, gate) = pipe_with(PipeFlags::CLOEXEC)?;
    let (here, here_end) = pipe_with(PipeFlags::CLOEXEC)?;
    let given: Vec<(&OwnedFd, RawFd)> = vec![
        (&input, 0),
        (&stdout_end, 1),
        (&stderr_end, 2),
        (&gate_end, descriptor::GATE),
        (&here_end, descriptor::HERE),
    ];
    let (tree, status) = match start {
        Launch::Bare { line, variables, confinement } => {
            (launch_bare(line, variables, confinement, &given, reaper, group)?, None)
        }
        Launch::Sandboxed { line, arguments, filter, proxy_socket } => {
            let (tree, status) =
                launch_sandboxed(&line, &arguments, filter, proxy_socket, given, reaper, group)?;
            (tree, Some(status))
        }
    };
    Ok((tree, SandboxPipes { stdout, stderr, status, here, gate }))
}

fn launch_bare(
    line: Vec<OsString>,
    variables: Vec<(String, String)>,
    confinement: Option<Confinement>,
    given: &[(&OwnedFd, RawFd)],
    reaper: &Arc<Reaper>,
    group: Option<&Group>,
) -> io::Result<ProcessTree> {
    let (child, confined) = match confinement {
        None => (spawn(&line, &variables, given, ProcessGroup::Ours)?, None),
        Some(confinement) => {
            let (child, confined) = spawn_confined(confinement, line, variables, given)?;
            (child, Some(confined))
        }
    };
    let mut tree = ProcessTree::new(child, true, reaper)?;
    tree.keep(confined);
    admit(&mut tree, group)?;
    Ok(tree)
}

/// Starts bubblewrap. Returns its processes, and our end of its status.
fn launch_sandboxed(
    line: &[OsString],
    arguments: &[OsString],
    filter: Option<&[u8]>,
    proxy_socket: Option<&OwnedFd>,
    given: Vec<(&OwnedFd, RawFd)>,
    reaper: &Arc<Reaper>,
    group: Option<&Group>,
) -> io::Result<(ProcessTree, OwnedFd)> {
    let (status, status_end) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&status, true)?;
    let (arguments_end, rest) = pipe_with(PipeFlags::CLOEXEC)?;
    let filter = filter.map(|bytes| sealed("filter", bytes)).transpose()?;
    let mut written = Vec::with_capacity(WRITTEN.len());
    for (path, text) in WRITTEN {
        written.push(sealed(path, text.as_bytes())?);
    }
    let around = proxy_socket.map(|_| pipe_with(PipeFlags::CLOEXEC)).transpose()?;
    let mut all = given;
    all.push((&status_end, descriptor::STATUS));
    all.push((&arguments_end, descriptor::ARGUMENTS));
    all.extend(filter.as_ref().map(|filter| (filter, descriptor::FILTER)));
    all.extend(proxy_socket.map(|socket| (socket, descriptor::PROXY_SOCKET)));
    all.extend(written.iter().zip(descriptor::WRITTEN..));
    all.extend(around.as_ref().map(|(end, _)| (end, descriptor::AROUND)));
    let mut tree = ProcessTree::new(spawn(line, &[], &all, ProcessGroup::New)?, false, reaper)?;
    admit(&mut tree, group)?;
    // bubblewrap waits for its arguments, so it does nothing before the reaper knows it. If it has died already, its
    // status says why.
    drop(arguments_end);
    if let Some((end, rest)) = around {
        drop(end);
        let _ = File::from(rest).write_all(&nul_separated(&AROUND.map(Into::into)));
    }
    let _ = File::from(rest).write_all(&nul_separated(arguments));
    Ok((tree, status))
}

/// Puts a child into its control group, or ends it. Processes that it has started already follow before the gate opens.
fn admit(tree: &mut ProcessTree, group: Option<&Group>) -> io::Result<()> {
    tree.hold_in(group.and_then(Group::entrance));
    let admitted = tree.admit();
    if admitted.is_err() {
        tree.collapse();
    }
    admitted
}

/// The three streams of a command.
#[derive(Debug)]
pub(super) struct Streams {
    /// The command's ends, for descriptors 0, 1 and 2.
    pub(super) given: [OwnedFd; 3],
    /// Where its standard output is read.
    pub(super) stdout: OwnedFd,
    /// Where its standard error is read.
    pub(super) stderr: OwnedFd,
}

fn pipes(stdin: &Input) -> io::Result<Streams> {
    let input = match stdin {
        Input::Closed => File::open("/dev/null")?.into(),
        Input::Bytes(bytes) => sealed("stdin", bytes)?,
        Input::Pipe(end) => {
            hand_over(end)?;
            end.try_clone()?
        }
    };
    let (stdout, stdout_end) = output_pipe()?;
    let (stderr, stderr_end) = output_pipe()?;
    Ok(Streams { given: [input, stdout_end, stderr_end], stdout, stderr })
}

/// A pipe whose far end the command's user may open again, as programs do with `/dev/stdout`.
pub(super) fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (near, far) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&near, true)?;
    hand_over(&far)?;
    Ok((near, far))
}

/// Makes the command's user the owner of a descriptor.
pub(super) fn hand_over(end: &OwnedFd) -> io::Result<()> {
    if let Some((user, group)) = privileges::owner() {
        rustix::fs::fchown(end, Some(user), Some(group))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use rustix::event::{EventfdFlags, eventfd};

    use super::super::profile::gated;
    use super::super::supervise::supervise;
    use super::*;
    use crate::limits::Limits;

    #[test]
    fn nothing_begins_outside_of_its_group() {
        let at = tempfile::tempdir().unwrap();
        let list = at.path().join("cgroup.procs");
        std::fs::write(&list, "").unwrap();
        let group = Group::of_files(at.path());
        let begun = at.path().join("begun");
        let limits = Limits { processes: 1 << 16, ..Limits::default() };
        let line = gated(&limits, None, &["/bin/touch".as_ref(), begun.as_os_str()]);
        let start = Launch::Bare { line, variables: Vec::new(), confinement: None };
        let reaper = Arc::new(Reaper::start().unwrap());
        let (mut tree, ends) = launch(start, &Input::Closed, false, &reaper, Some(&group)).unwrap();
        std::fs::remove_file(&list).unwrap();
        let never = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let (watcher, _) = tokio::sync::mpsc::channel(1);
        let kept = supervise(&mut tree, ends, never.as_fd(), &limits, &[], &watcher, &mut |_| None);
        assert!(kept.failed.is_some() && !begun.exists(), "{kept:?}");
    }
}
