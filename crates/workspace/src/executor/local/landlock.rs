//! The sandbox level without namespaces: Landlock and the system call filter.
//!
//! Both apply to a thread and everything that it starts, and cannot be removed again. So each command is started by its
//! own thread, which ends with the command.

use std::ffi::OsString;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, LandlockStatus, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::Pid;

use super::seccomp::{self, Memory};
use super::spawn::{ProcessGroup, in_use, spawn_without};
use super::system::System;
use crate::command::{Command, MountSource};
use crate::missing::Missing;

/// Files that a login shell reads. It prints errors if it cannot.
const SHELL: [&str; 3] = ["/etc/profile", "/etc/profile.d", "/etc/bash.bashrc"];
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// The files that a command may use.
#[derive(Clone, Debug)]
pub(super) struct Confinement {
    /// Directories whose names can be listed, but whose files cannot be read.
    list: Vec<PathBuf>,
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    memory: Memory,
}

impl Confinement {
    /// No files.
    fn nothing() -> Self {
        Self { list: Vec::new(), read: Vec::new(), write: Vec::new(), memory: Memory::Counted }
    }

    /// The system and these prefixes, read-only.
    pub(super) fn new(system: &System, prefixes: &[PathBuf]) -> Self {
        let mut read: Vec<PathBuf> = system.bound.iter().chain(prefixes).cloned().collect();
        read.extend(SHELL.map(PathBuf::from));
        let write = DEVICES.map(PathBuf::from).to_vec();
        Self { list: Vec::new(), read, write, memory: Memory::Counted }
    }

    /// Adds the workspace of a command: skills to read, and writable directories or the command's own directory.
    /// Names can be listed everywhere in the workspace.
    pub(super) fn with_workspace(mut self, command: &Command, run: &str) -> Self {
        let workspace = &command.workspace;
        // Not the whole workspace: that would allow all of its skills.
        self.list.push(workspace.clone());
        self.read.extend(["work", "out", "runs"].map(|part| workspace.join(part)));
        self.read.extend(command.skills.iter().map(|skill| workspace.join("skills").join(skill)));
        for source in command.mounts.iter().map(|mount| &mount.source) {
            match source {
                MountSource::ReadOnly(path) => self.read.push(path.clone()),
                MountSource::Writable(path) => self.write.push(path.clone()),
                MountSource::Listed(path) => self.list.push(path.clone()),
                MountSource::Empty => {}
            }
        }
        match &command.apart {
            None => self.write.extend(["work", "out"].map(|part| workspace.join(part))),
            Some(own) => self.write.push(own.clone()),
        }
        self.write.push(workspace.join("runs").join(run));
        self
    }

    /// Sets how the command's memory is counted.
    pub(super) fn with_memory(mut self, memory: Memory) -> Self {
        self.memory = memory;
        self
    }

    /// Confines the current thread and everything that it starts. This cannot be undone.
    fn enforce(&self) -> io::Result<()> {
        strong_enough(version(self.restrict()?))?;
        let filter = seccomp::without_sockets(self.memory)
            .ok_or_else(|| io::Error::other("there is no system call filter for this machine"))?;
        seccompiler::apply_filter(&filter).map_err(io::Error::other)
    }

    /// Applies Landlock, as far as the kernel supports it.
    fn restrict(&self) -> io::Result<LandlockStatus> {
        let abi = ABI::V6;
        let restricted = || {
            Ruleset::default()
                .handle_access(AccessFs::from_all(abi))?
                .handle_access(AccessNet::from_all(abi))?
                .scope(Scope::from_all(abi))?
                .create()?
                .add_rules(path_beneath_rules(&self.list, AccessFs::ReadDir))?
                .add_rules(path_beneath_rules(&self.read, AccessFs::from_read(abi)))?
                .add_rules(path_beneath_rules(&self.write, AccessFs::from_all(abi)))?
                .restrict_self()
        };
        let status = restricted().map_err(io::Error::other)?;
        if status.ruleset == RulesetStatus::NotEnforced {
            return Err(io::Error::other("this kernel has no Landlock"));
        }
        Ok(status.landlock)
    }
}

/// The version of Landlock that applies.
fn version(status: LandlockStatus) -> ABI {
    match status {
        LandlockStatus::Available { effective_abi, .. } => effective_abi,
        _ => ABI::Unsupported,
    }
}

/// Refuses a version that lets commands change files that they may not write.
fn strong_enough(version: ABI) -> io::Result<()> {
    if version < ABI::V3 {
        return Err(io::Error::other("this kernel's Landlock cannot prevent files from being truncated"));
    }
    Ok(())
}

/// The protections that this level lacks on this machine. It tries each of them.
pub(super) fn missing() -> Vec<Missing> {
    // A restriction cannot be removed, so it is tried on a thread that ends.
    let tried = std::thread::spawn(|| Confinement::nothing().restrict()).join();
    let version = tried.ok().and_then(Result::ok).map_or(ABI::Unsupported, version);
    [Missing::Namespaces].into_iter().chain(lacking(version)).collect()
}

/// The features that a version of Landlock lacks. The network does not matter: the filter forbids all sockets.
fn lacking(version: ABI) -> impl Iterator<Item = Missing> {
    let pieces = [(ABI::V5, Missing::LandlockDevices), (ABI::V6, Missing::LandlockSignals)];
    pieces.into_iter().filter(move |(since, _)| version < *since).map(|(_, what)| what)
}

/// The confined thread that started a command. A command dies with its thread, so this must outlive the command.
#[derive(Debug)]
pub(super) struct ConfinedThread {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for ConfinedThread {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Starts a confined program.
pub(super) fn spawn_confined(
    confinement: Confinement,
    line: Vec<OsString>,
    variables: Vec<(String, String)>,
    descriptors: &[(&OwnedFd, RawFd)],
) -> io::Result<(Pid, ConfinedThread)> {
    let copies: io::Result<Vec<(OwnedFd, RawFd)>> =
        descriptors.iter().map(|(descriptor, number)| Ok((descriptor.try_clone()?, *number))).collect();
    let copies = copies?;
    // The confined thread could not find it out.
    let in_use = in_use()?;
    let (end, ended) = channel();
    let (answer, answered) = channel();
    let thread = std::thread::Builder::new().name("prowess-cage".to_owned()).spawn(move || {
        let given: Vec<(&OwnedFd, RawFd)> = copies.iter().map(|(copy, number)| (copy, *number)).collect();
        let started = confinement
            .enforce()
            .and_then(|()| spawn_without(&in_use, &line, &variables, &given, ProcessGroup::Ours));
        drop(copies);
        let _ = answer.send(started);
        let _: Result<(), _> = ended.recv();
    })?;
    let cage = ConfinedThread { end: Some(end), thread: Some(thread) };
    let pid = answered.recv().map_err(io::Error::other)??;
    Ok((pid, cage))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_cannot_hold_truncation_is_refused() {
        for abi in [ABI::Unsupported, ABI::V1, ABI::V2] {
            assert!(strong_enough(abi).is_err(), "{abi:?}");
        }
        for abi in [ABI::V3, ABI::V6, ABI::V7] {
            assert!(strong_enough(abi).is_ok(), "{abi:?}");
        }
    }

    #[test]
    fn each_further_piece_that_is_missing_is_named() {
        let lacking = |abi| lacking(abi).collect::<Vec<_>>();
        assert_eq!(lacking(ABI::V3), [Missing::LandlockDevices, Missing::LandlockSignals]);
        assert_eq!(lacking(ABI::V5), [Missing::LandlockSignals]);
        assert_eq!(lacking(ABI::V6), []);
    }

    #[test]
    fn what_is_said_to_be_missing_is_what_this_kernel_lacks() {
        let status = std::thread::spawn(|| Confinement::nothing().restrict()).join().unwrap();
        let Ok(status) = status else { return };
        assert_eq!(missing().len(), 1 + lacking(version(status)).count());
    }
}
