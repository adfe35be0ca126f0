//! The level without namespaces: Landlock and the filter of system calls.
//!
//! Both hold for a thread and for everything that it starts, and cannot be taken off again. So each command is
//! started by a thread of its own, which ends with the command.

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
use super::spawn::{ProcessGroup, highest, spawn_below};
use super::system::System;
use crate::command::Command;
use crate::missing::Missing;

/// What a login shell reads, and says so when it may not.
const SHELL: [&str; 3] = ["/etc/profile", "/etc/profile.d", "/etc/bash.bashrc"];
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// What a command may reach.
#[derive(Clone, Debug)]
pub(super) struct Confinement {
    /// Directories in which names can be listed, but no file can be read.
    list: Vec<PathBuf>,
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    memory: Memory,
}

impl Confinement {
    /// Nothing at all.
    fn nothing() -> Self {
        Self { list: Vec::new(), read: Vec::new(), write: Vec::new(), memory: Memory::Counted }
    }

    /// The system and these prefixes to read.
    pub(super) fn new(system: &System, prefixes: &[PathBuf]) -> Self {
        let mut read: Vec<PathBuf> = system.bound.iter().chain(prefixes).cloned().collect();
        read.extend(SHELL.map(PathBuf::from));
        let write = DEVICES.map(PathBuf::from).to_vec();
        Self { list: Vec::new(), read, write, memory: Memory::Counted }
    }

    /// The same with the workspace of a command: its skills to read, and some parts to write, or its own directory.
    /// Names can be listed in all of it.
    pub(super) fn with_workspace(mut self, command: &Command, run: &str) -> Self {
        let workspace = &command.workspace;
        // Not the whole of it: a grant on the workspace would cover all of its skills.
        self.list.push(workspace.clone());
        self.read.extend(["work", "out", "runs"].map(|part| workspace.join(part)));
        self.read.extend(command.skills.iter().map(|skill| workspace.join("skills").join(skill)));
        match &command.apart {
            None => self.write.extend(["work", "out"].map(|part| workspace.join(part))),
            Some(own) => self.write.push(own.clone()),
        }
        self.write.push(workspace.join("runs").join(run));
        self
    }

    /// The same for a command whose memory is counted in this way.
    pub(super) fn with_memory(mut self, memory: Memory) -> Self {
        self.memory = memory;
        self
    }

    /// Confines the current thread and all that it starts, for good.
    fn enforce(&self) -> io::Result<()> {
        strong_enough(version(self.restrict()?))?;
        let filter = seccomp::without_sockets(self.memory)
            .ok_or_else(|| io::Error::other("no filter of system calls exists for this machine"))?;
        seccompiler::apply_filter(&filter).map_err(io::Error::other)
    }

    /// Does the part of Landlock, as far as the kernel has it.
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

/// The version of Landlock that holds.
fn version(status: LandlockStatus) -> ABI {
    match status {
        LandlockStatus::Available { effective_abi, .. } => effective_abi,
        _ => ABI::Unsupported,
    }
}

/// Refuses a version that lets commands change files which they may not write.
fn strong_enough(version: ABI) -> io::Result<()> {
    if version < ABI::V3 {
        return Err(io::Error::other("this kernel's Landlock cannot keep files from being truncated"));
    }
    Ok(())
}

/// What is missing at this level on this machine, tried for real.
pub(super) fn missing() -> Vec<Missing> {
    // A restriction cannot be taken off again, so it is put on a thread that ends.
    let tried = std::thread::spawn(|| Confinement::nothing().restrict()).join();
    let version = tried.ok().and_then(Result::ok).map_or(ABI::Unsupported, version);
    [Missing::Namespaces].into_iter().chain(lacking(version)).collect()
}

/// What a version of Landlock does not have. Its part in the network is not told: the filter forbids all sockets.
fn lacking(version: ABI) -> impl Iterator<Item = Missing> {
    let pieces = [(ABI::V5, Missing::LandlockDevices), (ABI::V6, Missing::LandlockSignals)];
    pieces.into_iter().filter(move |(since, _)| version < *since).map(|(_, what)| what)
}

/// The thread that started a command. A command can die with its thread, so this must outlive it.
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

/// Starts a program that is confined.
pub(super) fn spawn_confined(
    confinement: Confinement,
    line: Vec<OsString>,
    variables: Vec<(String, String)>,
    descriptors: &[(&OwnedFd, RawFd)],
) -> io::Result<(Pid, ConfinedThread)> {
    let copies: io::Result<Vec<(OwnedFd, RawFd)>> =
        descriptors.iter().map(|(descriptor, number)| Ok((descriptor.try_clone()?, *number))).collect();
    let copies = copies?;
    // The confined thread cannot look.
    let highest = highest()?;
    let (end, ended) = channel();
    let (answer, answered) = channel();
    let thread = std::thread::Builder::new().name("prowess-cage".to_owned()).spawn(move || {
        let given: Vec<(&OwnedFd, RawFd)> = copies.iter().map(|(copy, number)| (copy, *number)).collect();
        let started = confinement
            .enforce()
            .and_then(|()| spawn_below(highest, &line, &variables, &given, ProcessGroup::Ours));
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
