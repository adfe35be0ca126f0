//! The permission rules of a chat: built-in rules, and those of the configuration.

use std::sync::Arc;

use prowess_agent::ThreadId;
use prowess_permission::real_path::real_path;
use prowess_permission::{Decision, Kind, Pattern, Permissions, Policy, Rule, RuleSource};

use super::agents::{ChatAgents, NAME, THREAD_FILES};
use crate::config::{Config, guards};
use crate::workspace_dir::WorkspaceDir;

/// The built-in rules: reading is allowed, writing and running need approval.
const RULES: [(&str, &str, Decision); 4] = [
    ("tool", "*", Decision::Allow),
    ("read", "*", Decision::Allow),
    ("write", "*", Decision::Ask),
    ("run", "*", Decision::Ask),
];

/// The built-in rules, and then those of the configuration.
pub(super) fn policy(config: &Config, workspace_dir: &WorkspaceDir) -> Policy {
    let rules = RULES.iter().map(|(kind, pattern, decision)| Rule::new(kind, pattern, *decision));
    config.policy(NAME, workspace_dir).rules(RuleSource::BuiltInAgent, rules)
}

impl ChatAgents {
    /// The rules for skills. Inputs of a run need approval unless they are in the working directory.
    pub(super) fn skill_permissions(&self) -> Permissions {
        let here = Pattern::literal(&self.directory.to_string_lossy());
        let below = format!("{}/*", here.as_str().trim_end_matches('/'));
        let rules = [
            Rule::new("run", "*", Decision::Ask),
            Rule::new("read", "*", Decision::Ask),
            Rule::new("read", here.as_str(), Decision::Allow),
            Rule::new("read", &below, Decision::Allow),
        ];
        let policy = self.config.policy(NAME, &self.workspace_dir);
        // The working directory may be the home directory, or contain secrets.
        let rules = rules.into_iter().chain(guards(&self.workspace_dir));
        Permissions::new(
            Arc::clone(self.permissions.broker()),
            NAME,
            policy.rules(RuleSource::BuiltInAgent, rules),
        )
    }

    /// The rules for the file tools. The agent may read what was moved out of its own conversation into files.
    pub(super) fn file_permissions(&self, thread: &ThreadId) -> Permissions {
        let kept = THREAD_FILES.map(|name| {
            let place = Pattern::literal(&real_path(&self.thread_files(thread).join(name)).to_string_lossy());
            Rule::new("read", &format!("{place}*"), Decision::Allow)
        });
        // A rule such as `write = "allow"` is about the working directory, and not about these files.
        let outside =
            self.memory.outside().map(|path| Rule::guard(&Kind::WRITE, Pattern::literal(&path).as_str()));
        let rules = kept.into_iter().chain(outside);
        let policy = policy(&self.config, &self.workspace_dir).rules(RuleSource::BuiltInAgent, rules);
        Permissions::new(Arc::clone(self.permissions.broker()), NAME, policy)
    }
}
