//! Finds the strongest sandbox that works on this machine, by trying each once.

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::WaitStatus;

use super::landlock::Confinement;
use super::launch::{Launch, launch};
use super::no_sandbox::{NoSandbox, remedy};
use super::options::LocalOptions;
use super::process_tree::ProcessTree;
use super::profile::{Profile, command_line, gated};
use super::reach::Reach;
use super::reaper::Reaper;
use super::seccomp::{self, Memory};
use super::supervise::{SandboxEnd, supervise};
use super::system::System;
use super::{landlock, privileges};
use crate::command::{Input, Level, Sandbox};
use crate::executor::ExecuteError;
use crate::limits::Limits;
use crate::missing::Missing;
use crate::tree::{EARLIER, PROJECT, SKILLS, WORK};

/// How long one try may take on a busy machine.
const TRY_FOR: Duration = Duration::from_secs(20);

/// The sandboxes that this machine supports. Each is tried once.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) system: System,
    /// The system call filter.
    pub(super) filter: Option<Vec<u8>>,
    /// The filter for commands without a control group.
    pub(super) filter_watched: Option<Vec<u8>>,
    reaper: Mutex<Option<Arc<Reaper>>>,
    found: OnceLock<Result<FoundSandbox, NoSandbox>>,
}

/// A sandbox that works.
#[derive(Clone, Debug)]
pub(super) struct FoundSandbox {
    pub(super) sandbox: Sandbox,
    pub(super) bwrap: PathBuf,
    /// The program that gives up root, if this process is root.
    pub(super) setpriv: Option<PathBuf>,
}

impl Machine {
    pub(super) fn new() -> Self {
        Self {
            system: System::detect(),
            filter: seccomp::filter(),
            filter_watched: seccomp::filter_for(Memory::Watched),
            reaper: Mutex::new(None),
            found: OnceLock::new(),
        }
    }

    /// The process that kills half-started sandboxes.
    pub(super) fn reaper(&self) -> std::io::Result<Arc<Reaper>> {
        let mut current = self.reaper.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reaper) = current.as_ref().filter(|reaper| reaper.is_alive()) {
            return Ok(Arc::clone(reaper));
        }
        // The first one, or a replacement for a killed one.
        let reaper = Arc::new(Reaper::start()?);
        *current = Some(Arc::clone(&reaper));
        Ok(reaper)
    }

    /// The filter for a command whose memory is counted in this way.
    pub(super) fn filter_for(&self, memory: Memory) -> Option<&[u8]> {
        match memory {
            Memory::Counted => self.filter.as_deref(),
            Memory::Watched => self.filter_watched.as_deref(),
        }
    }

    /// The strongest sandbox that works, if it is strong enough for the user. The first call blocks while it tries.
    pub(super) fn found(&self, options: &LocalOptions) -> Result<FoundSandbox, ExecuteError> {
        let found = self.found.get_or_init(|| self.find(options));
        found.clone().map_err(|NoSandbox { what, remedy }| ExecuteError::NoSandbox { what, remedy })
    }

    fn find(&self, options: &LocalOptions) -> Result<FoundSandbox, NoSandbox> {
        if let Some(wrong) = options.read_only.iter().find(|path| !is_a_prefix(path)) {
            return Err(NoSandbox::bad_prefix(wrong));
        }
        let setpriv = match (privileges::sandbox_owner(), options.find("setpriv")) {
            (None, _) => None,
            (Some(_), Some(setpriv)) => Some(setpriv),
            (Some(_), None) => return Err(NoSandbox::no_setpriv()),
        };
        let mut missing = Vec::new();
        if self.filter.is_none() {
            missing.push(Missing::Filter { architecture: std::env::consts::ARCH });
        }
        let mut why =
            if options.strongest > Level::Bwrap { Missing::BubblewrapUnwanted } else { Missing::Bubblewrap };
        if let Some(bwrap) = options.find("bwrap") {
            for level in
                [Level::Bwrap, Level::BwrapNoproc].into_iter().filter(|level| *level >= options.strongest)
            {
                let found = FoundSandbox {
                    sandbox: Sandbox { level, missing: missing.clone() },
                    bwrap: bwrap.clone(),
                    setpriv: setpriv.clone(),
                };
                match self.attempt(&found, options) {
                    Ok(()) => return allowed(found, options, &why),
                    Err(error) => {
                        if level == Level::Bwrap {
                            why = Missing::BubblewrapFailed { error: error.clone() };
                            missing.push(Missing::Proc { error });
                        }
                    }
                }
            }
        }
        let held = Sandbox { level: Level::Landlock, missing: vec![why.clone()] };
        let mut found = FoundSandbox { sandbox: held, bwrap: PathBuf::new(), setpriv };
        if options.strongest <= Level::Landlock && self.attempt_confined(&found, options).is_ok() {
            found.sandbox.missing.extend(landlock::missing());
            return allowed(found, options, &why);
        }
        let setpriv = found.setpriv;
        let missing = vec![why.clone(), Missing::Isolation];
        allowed(
            FoundSandbox { sandbox: Sandbox { level: Level::None, missing }, bwrap: PathBuf::new(), setpriv },
            options,
            &why,
        )
    }

    /// Tries the sandbox with a command that does nothing.
    fn attempt(&self, found: &FoundSandbox, options: &LocalOptions) -> Result<(), String> {
        let limits = Limits { timeout: TRY_FOR, ..Limits::default() };
        let reach = Reach::new(&options.read_only.iter().map(PathBuf::as_path).collect::<Vec<_>>());
        let profile = Profile {
            level: found.sandbox.level,
            system: &self.system,
            reach: &reach,
            prefixes: &options.read_only,
            workspace: None,
            apart: None,
            skills: &[],
            read_only: Vec::new(),
            mounts: &[],
            aliases: &[],
            variables: &BTreeMap::new(),
            directory: "/".to_owned(),
            temporary_bytes: limits.temporary_bytes,
            filter: self.filter.is_some(),
            bridged: false,
        };
        let inner = gated(&limits, None, &["/bin/true".as_ref()]);
        let line = command_line(&reach, found.setpriv.as_deref(), None, &found.bwrap, inner);
        let filter = self.filter.as_deref();
        let start = Launch::Sandboxed { line, arguments: profile.arguments(), filter, proxy_socket: None };
        self.run_nothing(start, &limits, |kept, _| kept.status.code == Some(0))
    }

    /// Tries Landlock with a command that does nothing.
    fn attempt_confined(&self, found: &FoundSandbox, options: &LocalOptions) -> Result<(), String> {
        let limits = Limits { timeout: TRY_FOR, processes: 1 << 16, ..Limits::default() };
        let mut line = found.setpriv.as_deref().map(privileges::drop_root).unwrap_or_default();
        line.extend(gated(&limits, None, &["/bin/true".as_ref()]));
        let confinement = Some(Confinement::new(&self.system, &options.read_only));
        let start = Launch::Bare { line, variables: Vec::new(), confinement };
        self.run_nothing(start, &limits, |_, tree| tree.reap().and_then(WaitStatus::exit_status) == Some(0))
    }

    fn run_nothing(
        &self,
        start: Launch<'_>,
        limits: &Limits,
        succeeded: impl FnOnce(&SandboxEnd, &mut ProcessTree) -> bool,
    ) -> Result<(), String> {
        let launched = self.reaper().and_then(|reaper| launch(start, &Input::Closed, false, &reaper, None));
        let (mut tree, ends) = launched.map_err(|error| error.to_string())?;
        let never = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| error.to_string())?;
        let (watcher, _) = tokio::sync::mpsc::channel(1);
        let kept = supervise(&mut tree, ends, never.as_fd(), limits, &[], &watcher, &mut |_| None);
        if succeeded(&kept, &mut tree) {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&kept.stderr.head).trim().to_owned();
        Err(if said.is_empty() { format!("it ended without a message ({:?})", kept.verdict) } else { said })
    }
}

/// Whether a directory can be made visible. `/` would show the whole machine, and the others are made for each sandbox.
fn is_a_prefix(path: &Path) -> bool {
    let ours =
        ["/proc", "/dev", "/sys", PROJECT, SKILLS, WORK, EARLIER].iter().any(|ours| path.starts_with(ours));
    path.is_absolute() && path.parent().is_some() && !ours && path != Path::new("/tmp")
}

/// Refuses a sandbox that is weaker than the user requires.
fn allowed(found: FoundSandbox, options: &LocalOptions, why: &Missing) -> Result<FoundSandbox, NoSandbox> {
    let level = found.sandbox.level;
    if level <= options.least {
        return Ok(found);
    }
    let has_other_wish = options.strongest > Level::Bwrap;
    Err(NoSandbox { what: why.to_string(), remedy: remedy(level, why, has_other_wish) })
}
