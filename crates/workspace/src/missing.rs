//! What a sandbox lacks on this machine.

use std::fmt;

use serde::{Serialize, Serializer};

/// Something that could not be had to hold a command.
///
/// It is shown by `Display` and serialised as that text. Programs match on the variant.
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
    /// A filter of system calls for this processor.
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
        /// What it said.
        error: String,
    },
    /// A `/proc` for commands.
    Proc {
        /// What bubblewrap said when it was to make one.
        error: String,
    },
    /// Namespaces: Landlock holds commands instead.
    Namespaces,
    /// Landlock's hold on devices.
    LandlockDevices,
    /// Landlock's hold on signals.
    LandlockSignals,
    /// All isolation from the host.
    Isolation,
    /// The engine's filter of system calls.
    EngineFilter,
    /// A filter of ours to give to an engine on this processor.
    FilterForEngine,
    /// The engine's limit of memory.
    EngineMemory,
    /// The engine's limit of swap.
    EngineSwap,
    /// The engine's limit of processes.
    EngineProcesses,
    /// The engine's limit of processors.
    EngineProcessors,
    /// Something that another executor lacks.
    Other(String),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Filter { architecture } => {
                return write!(f, "no filter of system calls exists for {architecture}");
            }
            Self::BubblewrapFailed { error } => {
                return write!(f, "bubblewrap cannot make a sandbox: {error}");
            }
            Self::Proc { error } => return write!(f, "commands have no /proc: {error}"),
            Self::MemoryGroup => {
                "memory is limited by address space and by looking five times a second, and memfd and System V shared \
                 memory are refused: no control group can be made"
            }
            Self::Bubblewrap => "bubblewrap is not installed: bwrap was not found",
            Self::BubblewrapUnwanted => "the configuration asks for less than bubblewrap",
            Self::Namespaces => {
                "no namespaces: commands see which files exist, share the machine's name and process numbers, and one \
                 that leaves its group can outlive its run where no control group holds it; temporary files count to \
                 the workspace"
            }
            Self::LandlockDevices => "this kernel's Landlock does not hold ioctl on devices",
            Self::LandlockSignals => {
                "this kernel's Landlock does not hold signals: commands can end other processes of their user"
            }
            Self::Isolation => {
                "commands see the host's files, processes and network; a process that leaves its group can outlive them"
            }
            Self::EngineFilter => "the engine filters no system calls",
            Self::FilterForEngine => {
                "system calls are filtered as the engine likes, or not at all: there is no filter for this processor"
            }
            Self::EngineMemory => "memory is limited by looking: the engine cannot do it",
            Self::EngineSwap => "swap is not limited: the engine cannot do it",
            Self::EngineProcesses => "processes are not limited: the engine cannot do it",
            Self::EngineProcessors => "processors are not limited: the engine cannot do it",
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

    /// The variant after this one. A new variant does not compile until it stands here, and so in the snapshot.
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
    fn the_words_of_all_that_can_be_missing() {
        let all: Vec<Missing> = std::iter::successors(Some(Missing::MemoryGroup), next).collect();
        let words: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(serde_json::to_value(&all).unwrap(), serde_json::to_value(&words).unwrap());
        insta::assert_snapshot!(words.join("\n"), @"
        memory is limited by address space and by looking five times a second, and memfd and System V shared memory are refused: no control group can be made
        no filter of system calls exists for riscv64
        bubblewrap is not installed: bwrap was not found
        the configuration asks for less than bubblewrap
        bubblewrap cannot make a sandbox: no namespaces
        commands have no /proc: it is hidden
        no namespaces: commands see which files exist, share the machine's name and process numbers, and one that leaves its group can outlive its run where no control group holds it; temporary files count to the workspace
        this kernel's Landlock does not hold ioctl on devices
        this kernel's Landlock does not hold signals: commands can end other processes of their user
        commands see the host's files, processes and network; a process that leaves its group can outlive them
        the engine filters no system calls
        system calls are filtered as the engine likes, or not at all: there is no filter for this processor
        memory is limited by looking: the engine cannot do it
        swap is not limited: the engine cannot do it
        processes are not limited: the engine cannot do it
        processors are not limited: the engine cannot do it
        everything
        ");
    }
}
