//! Which process something belongs to, so that what a dead one left can be told from what a living one uses.

use std::fmt;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the names of containers and cells begin with.
const PREFIX: &str = "prowess-";

/// A process, told from all others that ever had its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    /// The beginning of the name of the machine's run, from one start to the next.
    boot: String,
    /// The namespace that its number is from.
    namespace: u64,
    process: u32,
    /// When it was started, in ticks of the machine.
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

    /// A name for something new of this process.
    pub(super) fn new_name(&self) -> String {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        format!("{PREFIX}{self}.{}", COUNT.fetch_add(1, Ordering::Relaxed))
    }

    /// Whose name it is, if it is one of ours.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        Self::parse(name.strip_prefix(PREFIX)?.rsplit_once('.')?.0)
    }

    /// Reads what [`fmt::Display`] writes.
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

    /// Whether this process can tell that the other is dead. The numbers of another namespace say nothing to it.
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

/// The namespace of processes that a process is in.
pub(super) fn namespace(process: &str) -> Option<u64> {
    let link = fs::read_link(format!("/proc/{process}/ns/pid")).ok()?;
    link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

fn started(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name stands in brackets, and may hold anything.
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
