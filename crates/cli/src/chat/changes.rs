//! What changed on the disk between two messages of a chat.

use std::sync::Arc;

use prowess_catalog::SkillEntry;

/// What is different from what the chat knew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// The skills that models can see.
    pub(super) skills: bool,
    /// The skills that are not trusted. The notice about trust tells of them.
    pub(super) untrusted: bool,
    pub(super) sub_agents: bool,
    /// The part of the project's configuration that is used.
    pub(super) configuration: bool,
    /// The list of memory files.
    pub(super) memory: bool,
}

impl Changes {
    /// Says what changed, and what that means for the thread.
    pub(super) fn notices(self) -> Vec<String> {
        let lists = match (self.skills, self.sub_agents) {
            (true, true) => {
                Some("the skills and the sub-agents have changed; the next request tells the model")
            }
            (true, false) => Some("the skills have changed; the next request tells the model"),
            (false, true) => Some("the sub-agents have changed; the model now sees the new list"),
            (false, false) => None,
        };
        let configuration = self.configuration.then_some("the configuration of the project has changed");
        let memory =
            self.memory.then_some("the memory files have changed; a thread reads them only when it begins");
        [lists, configuration, memory].into_iter().flatten().map(str::to_owned).collect()
    }
}

/// Whether two lists of two catalogs have the same skills. Unchanged entries are shared.
pub(super) fn are_same(one: &[Arc<SkillEntry>], other: &[Arc<SkillEntry>]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| Arc::ptr_eq(one, other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_named() {
        assert!(Changes::default().notices().is_empty());
        let all =
            Changes { skills: true, untrusted: true, sub_agents: true, configuration: true, memory: true };
        let memory = "the memory files have changed; a thread reads them only when it begins";
        let told = [
            "the skills and the sub-agents have changed; the next request tells the model",
            "the configuration of the project has changed",
            memory,
        ];
        assert_eq!(all.notices(), told);
        assert_eq!(Changes { memory: true, ..Changes::default() }.notices(), [memory]);
        let skills = Changes { skills: true, ..Changes::default() }.notices();
        assert_eq!(skills, ["the skills have changed; the next request tells the model"]);
        let sub_agents = Changes { sub_agents: true, ..Changes::default() }.notices();
        assert_eq!(sub_agents, ["the sub-agents have changed; the model now sees the new list"]);
    }
}
