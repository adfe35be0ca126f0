//! What changed on the disk between two messages of a chat.

use std::sync::Arc;

use prowess_catalog::{Catalog, SkillEntry};

/// What is different from what the chat knew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) skills: bool,
    pub(super) sub_agents: bool,
    /// The part of the project's configuration that is used.
    pub(super) configuration: bool,
    /// The list of memory files.
    pub(super) memory: bool,
}

impl Changes {
    /// Says what changed, and what that means for the thread. Empty if nothing did.
    pub(super) fn notices(self) -> Vec<String> {
        let lists = match (self.skills, self.sub_agents) {
            (true, true) => {
                Some("the skills and the sub-agents have changed; the model now sees the new lists")
            }
            (true, false) => Some("the skills have changed; the model now sees the new list"),
            (false, true) => Some("the sub-agents have changed; the model now sees the new list"),
            (false, false) => None,
        };
        let configuration = self.configuration.then_some("the configuration of the project has changed");
        let memory =
            self.memory.then_some("the memory files have changed; a thread reads them only when it begins");
        [lists, configuration, memory].into_iter().flatten().map(str::to_owned).collect()
    }
}

/// Whether two catalogs have the same skills. Unchanged entries are shared.
pub(super) fn same_skills(one: &Catalog, other: &Catalog) -> bool {
    let pairs = |one: &[Arc<SkillEntry>], other: &[Arc<SkillEntry>]| {
        one.len() == other.len() && one.iter().zip(other).all(|(one, other)| Arc::ptr_eq(one, other))
    };
    pairs(one.entries(), other.entries()) && pairs(one.untrusted(), other.untrusted())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_named() {
        assert!(Changes::default().notices().is_empty());
        let all = Changes { skills: true, sub_agents: true, configuration: true, memory: true };
        assert_eq!(all.notices().len(), 3);
        let told = Changes { memory: true, ..Changes::default() }.notices();
        assert!(matches!(&told[..], [told] if told.starts_with("the memory files")), "{told:?}");
    }
}
