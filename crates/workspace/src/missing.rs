//! Protections that the sandbox lacks on this machine.

use std::fmt;

use serde::{Serialize, Serializer};

/// A protection that the sandbox lacks on this machine.
///
/// People and models see its `Display`, which is also how it is serialized. Programs match on the variant.
///
/// ```
/// use prowess_workspace::command::Sandbox;
/// use prowess_workspace::{Level, Missing};
///
/// let sandbox = Sandbox { level: Level::Bwrap, missing: vec![Missing::MemoryGroup] };
/// assert!(!sandbox.has_memory_group());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// A control group that limits the memory of a whole command.
    MemoryGroup,
    /// A system call filter for this processor.
    Filter {
        /// The processor.
        architecture: &'static str,
    },
    /// The program `bwrap`.
    Bubblewrap,
    /// Bubblewrap, because the configuration asks for less.
    BubblewrapUnwanted,
    /// Bubblewrap, because it failed.
    BubblewrapFailed {
        /// Its error.
        error: String,
    },
    /// A `/proc` for commands.
    Proc {
        /// The error of bubblewrap.
        error: String,
    },
    /// Namespaces. Landlock is used instead.
    Namespaces,
    /// Landlock's control of devices.
    LandlockDevices,
    /// Landlock's control of signals.
    LandlockSignals,
    /// All isolation from this machine.
    Isolation,
    /// The engine's system call filter.
    EngineFilter,
    /// A system call filter of prowess for an engine on this processor.
    FilterForEngine,
    /// The engine's memory limit.
    EngineMemory,
    /// The engine's swap limit.
    EngineSwap,
    /// The engine's process limit.
    EngineProcesses,
    /// The engine's processor limit.
    EngineProcessors,
    /// A protection that another executor lacks.
    Other(String),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Filter { architecture } => {
                return write!(f, "there is no system call filter for {architecture}");
            }
            Self::BubblewrapFailed { error } => {
                return write!(f, "bubblewrap cannot make a sandbox: {error}");
            }
            Self::Proc { error } => return write!(f, "commands have no /proc: {error}"),
            Self::MemoryGroup => {
                "no control group can be made: memory is limited by address space and by checks five times a second, and \
                 memfd and System V shared memory are refused"
            }
            Self::Bubblewrap => "bubblewrap is not installed: bwrap was not found",
            Self::BubblewrapUnwanted => "the configuration asks for less than bubblewrap",
            Self::Namespaces => {
                "no namespaces: commands see which files exist, and share the machine's name and process numbers. Without \
                 a control group, a process that leaves its process group can outlive its run. Temporary files count \
                 towards the workspace"
            }
            Self::LandlockDevices => "this kernel's Landlock does not control ioctl on devices",
            Self::LandlockSignals => {
                "this kernel's Landlock does not control signals: commands can end other processes of their user"
            }
            Self::Isolation => {
                "commands see the files, processes and network of this machine, and their processes can outlive the run"
            }
            Self::EngineFilter => "the engine does not filter system calls",
            Self::FilterForEngine => {
                "there is no system call filter for this processor: the engine's own filter applies, if it has one"
            }
            Self::EngineMemory => "the engine cannot limit memory: it is checked five times a second",
            Self::EngineSwap => "the engine cannot limit swap",
            Self::EngineProcesses => "the engine cannot limit processes",
            Self::EngineProcessors => "the engine cannot limit processors",
            Self::Other(text) => text,
        })
    }
}

impl Serialize for Missing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The variant after this one. A new variant does not compile until it is added here, and so to the snapshot.
    fn next(missing: &Missing) -> Option<Missing> {
        Some(match missing {
            Missing::MemoryGroup => Missing::Filter { architecture: "riscv64" },
            Missing::Filter { .. } => Missing::Bubblewrap,
            Missing::Bubblewrap => Missing::BubblewrapUnwanted,
            Missing::BubblewrapUnwanted => Missing::BubblewrapFailed { error: "no namespaces".to_owned() },
            Missing::BubblewrapFailed { .. } => Missing::Proc { error: "it is hidden".to_owned() },
            Missing::Proc { .. } => Missing::Namespaces,
            Missing::Namespaces => Missing::LandlockDevices,
            Missing::LandlockDevices => Missing::LandlockSignals,
            Missing::LandlockSignals => Missing::Isolation,
            Missing::Isolation => Missing::EngineFilter,
            Missing::EngineFilter => Missing::FilterForEngine,
            Missing::FilterForEngine => Missing::EngineMemory,
            Missing::EngineMemory => Missing::EngineSwap,
            Missing::EngineSwap => Missing::EngineProcesses,
            Missing::EngineProcesses => Missing::EngineProcessors,
            Missing::EngineProcessors => Missing::Other("everything".to_owned()),
            Missing::Other(_) => return None,
        })
    }

    #[test]
    fn the_text_of_all_that_can_be_missing() {
        let all: Vec<Missing> = std::iter::successors(Some(Missing::MemoryGroup), next).collect();
        let texts: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(serde_json::to_value(&all).unwrap(), serde_json::to_value(&texts).unwrap());
        insta::assert_snapshot!(texts.join("\n"), @"
        no control group can be made: memory is limited by address space and by checks five times a second, and memfd and System V shared memory are refused
        there is no system call filter for riscv64
        bubblewrap is not installed: bwrap was not found
        the configuration asks for less than bubblewrap
        bubblewrap cannot make a sandbox: no namespaces
        commands have no /proc: it is hidden
        no namespaces: commands see which files exist, and share the machine's name and process numbers. Without a control group, a process that leaves its process group can outlive its run. Temporary files count towards the workspace
        this kernel's Landlock does not control ioctl on devices
        this kernel's Landlock does not control signals: commands can end other processes of their user
        commands see the files, processes and network of this machine, and their processes can outlive the run
        the engine does not filter system calls
        there is no system call filter for this processor: the engine's own filter applies, if it has one
        the engine cannot limit memory: it is checked five times a second
        the engine cannot limit swap
        the engine cannot limit processes
        the engine cannot limit processors
        everything
        ");
    }
}
