//! The process that owns a container, so that containers of dead processes can be found.

use std::fmt;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

/// The start of the names of containers and their directories.
const PREFIX: &str = "prowess-";

/// A process, different from all others that ever had its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    /// The start of the boot id of the machine.
    boot: String,
    /// The PID namespace of its number.
    namespace: u64,
    process: u32,
    /// Its start time, in clock ticks.
    started: u64,
}

impl Owner {
    /// This process.
    pub(super) fn own() -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let process = std::process::id();
        Self {
            boot: boot.chars().take(8).collect(),
            namespace: namespace("self").unwrap_or_default(),
            process,
            started: started(process).unwrap_or_default(),
        }
    }

    /// A new name that belongs to this process.
    pub(super) fn new_name(&self) -> String {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        format!("{PREFIX}{self}.{}", COUNT.fetch_add(1, Ordering::Relaxed))
    }

    /// The owner of a name, if it is one of ours.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        Self::parse(name.strip_prefix(PREFIX)?.rsplit_once('.')?.0)
    }

    /// Parses what [`fmt::Display`] writes.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let owner = Self {
            boot: parts.next()?.to_owned(),
            namespace: parts.next()?.parse().ok()?,
            process: parts.next()?.parse().ok()?,
            started: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(owner)
    }

    /// Whether this process knows that the other is dead. Numbers of another namespace mean nothing here.
    pub(super) fn knows_dead(&self, other: &Self) -> bool {
        if self.boot != other.boot {
            return true;
        }
        self.namespace == other.namespace && started(other.process) != Some(other.started)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}.{}.{}.{}", self.boot, self.namespace, self.process, self.started)
    }
}

/// The PID namespace of a process.
pub(super) fn namespace(process: &str) -> Option<u64> {
    let link = fs::read_link(format!("/proc/{process}/ns/pid")).ok()?;
    link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

fn started(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name is in brackets and can contain anything.
    text.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_whose_it_is() {
        let own = Owner::own();
        let (one, two) = (own.new_name(), own.new_name());
        assert_ne!(one, two);
        assert_eq!(Owner::of_name(&one), Some(own));
        for other in ["prowess", "prowess-x", "prowess-a.1.2", "other-a.1.2.3.4", "prowess-a.1.2.3.4.5"] {
            assert_eq!(Owner::of_name(other), None, "{other}");
        }
    }

    #[test]
    fn only_the_dead_are_dead() {
        let own = Owner::own();
        assert!(!own.knows_dead(&own));
        assert!(own.knows_dead(&Owner { started: own.started + 1, ..own.clone() }));
        assert!(own.knows_dead(&Owner { boot: "before".to_owned(), ..own.clone() }));
        assert!(!own.knows_dead(&Owner { namespace: 1, started: 1, ..own.clone() }));
    }
}
