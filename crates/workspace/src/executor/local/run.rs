//! One run in the local sandbox, from a checked command to its end.

use std::ffi::OsStr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Instant;

use tokio::sync::mpsc::Sender;

use super::cgroup::Group;
use super::environment::{check_variables, variables};
use super::landlock::Confinement;
use super::launch::{Launch, launch};
use super::layout::{InsidePaths, WritableDirs, alias_warnings};
use super::network::Bridge;
use super::options::LocalOptions;
use super::probe::{FoundSandbox, Machine};
use super::processes::{self, Processes};
use super::profile::{Profile, command_line, gated};
use super::reach::Reach;
use super::run_directory::{make_run_directory, mount_point};
use super::seccomp::Memory;
use super::supervise::{SandboxEnd, supervise};
use super::watch::Watch;
use super::{exit, network, privileges, set_ids};
use crate::command::{Command, Finished, Level, Network};
use crate::executor::ExecuteError;
use crate::executor::check::check_command;
use crate::executor::stream::Piece;
use crate::missing::Missing;

/// How much address space a process may have for each byte of memory: programs reserve more than they use.
const ADDRESS_SPACE: u64 = 4;

/// Runs a command to its end in the current thread.
pub(super) fn run(
    machine: &Machine,
    options: &LocalOptions,
    command: &Command,
    proxy_socket: Option<OwnedFd>,
    group: &mut Option<Group>,
    cancel: BorrowedFd<'_>,
    watcher: &Sender<Piece>,
) -> Result<Finished, ExecuteError> {
    check_command(command)?;
    let found = machine.found(options)?;
    let started = Instant::now();
    let mut sandbox = found.sandbox.clone();
    let killed_before = limit_memory(group, command, &mut sandbox.missing);
    let bare = sandbox.level >= Level::Landlock;
    check_bare(options, command, bare)?;
    let bridge = proxy_socket.map(|socket| bridge(options, socket, bare)).transpose()?;
    let run = make_run_directory(&command.workspace, &command.skills, bare)?;
    let memory = if killed_before.is_some() { Memory::Counted } else { Memory::Watched };
    let (start, left_out) = if bare {
        (bare_start(machine, options, command, &found, run.name(), memory)?, Vec::new())
    } else {
        sandboxed_start(machine, options, command, &found, bridge.as_ref(), run.name(), memory)?
    };
    let limiting = group.as_ref().filter(|_| killed_before.is_some());
    let (mut tree, pipes) = machine
        .reaper()
        .and_then(|reaper| launch(start, &command.stdin, command.terminal, &reaper, limiting))
        .map_err(|error| ExecuteError::System { action: "start the sandbox".to_owned(), error })?;
    let writable = WritableDirs::by(command);
    let mut watch = Watch::new(writable.clone(), &command.limits, memory == Memory::Watched);
    let unnamed = if bare { Processes::Below(tree.root()) } else { Processes::Unknown };
    let mut check = |namespace: Option<u64>| watch.check(namespace.map_or(unnamed, Processes::InNamespace));
    let end = supervise(&mut tree, pipes, cancel, &command.limits, &options.redact, watcher, &mut check);
    if bare && let Some(group) = group {
        group.kill_all();
    }
    // All processes are dead, and nobody has used their files yet.
    let uncleared = set_ids::clear(&writable);
    let killed_now = group.as_ref().and_then(Group::killed);
    let out_of_memory = killed_now.zip(killed_before).is_some_and(|(now, before)| now > before);
    let name = run.name().to_owned();
    drop(run);
    if let Some(error) = end.failed {
        let action = "put the command into its control group".to_owned();
        return Err(ExecuteError::System { action, error });
    }
    let mut warnings = watch.warnings(started.elapsed());
    warnings.extend(uncleared);
    let exit = exit::exit(&end, tree.reap(), bare, out_of_memory, &mut warnings)
        .map_err(|not_started| not_started.explain(command))?;
    warnings.extend(alias_warnings(command, exit, left_out));
    let SandboxEnd { stdout, stderr, .. } = end;
    Ok(Finished { exit, stdout, stderr, duration: started.elapsed(), sandbox, run: Some(name), warnings })
}

/// Refuses what a command without a sandbox cannot have.
fn check_bare(options: &LocalOptions, command: &Command, bare: bool) -> Result<(), ExecuteError> {
    check_variables(options.variable_options(), &command.environment, !bare)?;
    if bare && !command.read_only.is_empty() {
        return Err(ExecuteError::Refused("linked inputs need a sandbox: copy them".to_owned()));
    }
    Ok(())
}

/// The bridge from a sandbox to the proxy. Without namespaces a command could go around it.
fn bridge(options: &LocalOptions, proxy_socket: OwnedFd, bare: bool) -> Result<Bridge, ExecuteError> {
    if bare {
        return Err(ExecuteError::Refused(
            "allowed hosts need the sandbox level `bwrap` or `bwrap-noproc`: weaker levels cannot enforce the list. \
             Run without network"
                .to_owned(),
        ));
    }
    let socat = options.find("socat").ok_or_else(|| ExecuteError::NoSandbox {
        what: "allowed hosts need socat, which was not found".to_owned(),
        remedy: "Install the package `socat`, or run without network.".to_owned(),
    })?;
    Ok(Bridge { socat, proxy_socket })
}

/// Limits memory with a control group. Returns how many processes were killed in it before, or adds what is missing.
fn limit_memory(group: &mut Option<Group>, command: &Command, missing: &mut Vec<Missing>) -> Option<u64> {
    let limited = group.as_mut().map(|group| group.limit(command.limits.memory).map(|()| group.killed()));
    if let Some(Ok(Some(killed))) = limited {
        return Some(killed);
    }
    missing.push(Missing::MemoryGroup);
    None
}

/// How to start the sandbox. Also returns the links that it does not have.
fn sandboxed_start<'a>(
    machine: &'a Machine,
    options: &LocalOptions,
    command: &Command,
    found: &FoundSandbox,
    bridge: Option<&'a Bridge>,
    run: &str,
    memory: Memory,
) -> Result<(Launch<'a>, Vec<(String, String)>), ExecuteError> {
    let inside = InsidePaths::sandboxed(command, run);
    let mut variables =
        variables(options.variable_options(), &command.environment, &inside, command.terminal);
    if let Network::Hosts(rules) = &command.network {
        for (name, value) in network::variables(rules) {
            variables.entry(name.to_owned()).or_insert(value);
        }
    }
    let mut read_only = Vec::new();
    for (from, to) in &command.read_only {
        mount_point(&command.workspace, to, from.is_dir()).map_err(|error| ExecuteError::System {
            action: format!("make a mount point for {to:?}"),
            error: error.into(),
        })?;
        read_only.push((from.as_path(), inside.path(to)));
    }
    let sources = options
        .read_only
        .iter()
        .chain([&command.workspace])
        .chain(&command.apart)
        .chain(command.read_only.iter().map(|(from, _)| from))
        .map(PathBuf::as_path)
        .chain(command.mounts.iter().filter_map(|mount| mount.source.path()));
    let reach = Reach::new(&sources.collect::<Vec<_>>());
    let profile = Profile {
        level: found.sandbox.level,
        system: &machine.system,
        reach: &reach,
        prefixes: &options.read_only,
        workspace: Some(&command.workspace),
        apart: command.apart.as_deref(),
        skills: &command.skills,
        read_only,
        mounts: &command.mounts,
        aliases: &command.aliases,
        variables: &variables,
        directory: inside.start(command),
        temporary_bytes: command.limits.temporary_bytes,
        filter: machine.filter.is_some(),
        bridged: bridge.is_some(),
    };
    let inner = gated(&command.limits, address_space(command, memory), &line(command));
    let line = command_line(&reach, found.setpriv.as_deref(), bridge, &found.bwrap, inner);
    let (arguments, filter) = (profile.arguments(), machine.filter_for(memory));
    let proxy_socket = bridge.map(|bridge| &bridge.proxy_socket);
    Ok((Launch::Sandboxed { line, arguments, filter, proxy_socket }, profile.left_out_aliases()))
}

/// The limit of address space for each process, if no control group limits memory.
fn address_space(command: &Command, memory: Memory) -> Option<u64> {
    (memory == Memory::Watched).then(|| command.limits.memory.saturating_mul(ADDRESS_SPACE))
}

fn bare_start<'a>(
    machine: &Machine,
    options: &LocalOptions,
    command: &Command,
    found: &FoundSandbox,
    run: &str,
    memory: Memory,
) -> Result<Launch<'a>, ExecuteError> {
    let inside = InsidePaths::bare(command, run);
    let variables = variables(options.variable_options(), &command.environment, &inside, command.terminal);
    let mut line = found.setpriv.as_deref().map(privileges::drop_root).unwrap_or_default();
    let directory = inside.start(command);
    // Its own process session keeps it away from our terminal, and makes a group that can be killed.
    line.extend(["/usr/bin/setsid", "/usr/bin/env", "-C", &directory, "--"].map(Into::into));
    let mut limits = command.limits.clone();
    // Without a namespace the limit counts all processes of the user.
    limits.processes += processes::of_user(privileges::sandbox_owner().map(|(user, _)| user));
    line.extend(gated(&limits, address_space(command, memory), &self::line(command)));
    let confined = found.sandbox.level == Level::Landlock;
    let confinement = confined.then(|| {
        Confinement::new(&machine.system, &options.read_only).with_workspace(command, run).with_memory(memory)
    });
    Ok(Launch::Bare { line, variables: variables.into_iter().collect(), confinement })
}

/// The command with its shell. A terminal needs a process session of its own.
fn line(command: &Command) -> Vec<&OsStr> {
    let terminal: &[&str] = if command.terminal { &["/usr/bin/setsid", "--ctty"] } else { &[] };
    let shell = [command.shell.as_str(), "-lc", &command.line];
    terminal.iter().copied().chain(shell).map(OsStr::new).collect()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use rustix::event::{EventfdFlags, eventfd};

    use super::*;
    use crate::command::Exit;

    /// A workspace below a directory with this mode and the group of the sandbox.
    fn workspace(below: &tempfile::TempDir, mode: u32) -> PathBuf {
        chown(below.path(), None, privileges::sandbox_owner().map(|(_, group)| group)).unwrap();
        std::fs::set_permissions(below.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        let workspace = below.path().join("workspace");
        for part in ["skills", "work", "out", "runs"] {
            std::fs::create_dir_all(workspace.join(part)).unwrap();
            if let Some((user, group)) = privileges::sandbox_owner() {
                chown(workspace.join(part), Some(user), Some(group)).unwrap();
            }
        }
        workspace
    }

    fn run_in(group: Option<Group>, command: &Command) -> Result<Finished, ExecuteError> {
        let never = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let (watcher, _pieces) = tokio::sync::mpsc::channel(64);
        let mut group = group;
        run(&Machine::new(), &LocalOptions::default(), command, None, &mut group, never.as_fd(), &watcher)
    }

    /// The number of processes in the group of a command whose workspace is below such a directory.
    fn admitted(mode: u32) -> usize {
        let below = tempfile::tempdir().unwrap();
        let files = tempfile::tempdir().unwrap();
        std::fs::write(files.path().join("memory.events"), "oom_kill 0\n").unwrap();
        std::fs::write(files.path().join("cgroup.procs"), "").unwrap();
        let command = Command::new(workspace(&below, mode), "work", "echo x > file && exit 3");
        let finished = run_in(Some(Group::of_files(files.path())), &command).unwrap();
        assert_eq!(finished.exit, Exit::Code(3));
        let list = std::fs::read_to_string(files.path().join("cgroup.procs")).unwrap();
        list.lines().collect::<std::collections::HashSet<_>>().len()
    }

    #[test]
    fn all_processes_are_in_the_group_when_the_command_begins() {
        // Root needs one more bubblewrap for directories that only root may enter.
        let is_root = privileges::sandbox_owner().is_some();
        assert_eq!(admitted(0o700), if is_root { 3 } else { 2 });
        assert_eq!(admitted(0o710), 2);
    }
}
