//! The permission rules of a chat: built-in rules, and those of the configuration.

use std::path::Path;
use std::sync::Arc;

use prowess_agent::ThreadId;
use prowess_catalog::Storage;
use prowess_permission::real_path::real_path;
use prowess_permission::secrets::secret_files;
use prowess_permission::{Decision, Kind, Pattern, Permissions, Policy, Rule, RuleSource};

use super::agents::{ChatAgents, NAME, Surface};
use super::tree::THREAD_FILES;
use crate::config::{Config, guards};
use crate::workspace_dir::WorkspaceDir;

/// The built-in rules: reading is allowed, writing and running need approval.
const RULES: [(&str, &str, Decision); 4] = [
    ("tool", "*", Decision::Allow),
    ("read", "*", Decision::Allow),
    ("write", "*", Decision::Ask),
    ("run", "*", Decision::Ask),
];

/// The rules that all threads of a chat or a server have. Patterns are compiled once.
#[derive(Clone, Debug)]
pub(super) struct BaseRules {
    /// Those of the configuration, with the guards.
    configured: Policy,
    /// The built-in rules, and then those of the configuration.
    all: Policy,
    guards: Arc<[Rule]>,
}

impl BaseRules {
    pub(super) fn new(config: &Config, workspace_dir: &WorkspaceDir) -> Self {
        let rules = RULES.iter().map(|(kind, pattern, decision)| Rule::new(kind, pattern, *decision));
        let configured = config.policy(NAME, workspace_dir);
        let all = configured.clone().rules(RuleSource::BuiltInAgent, rules);
        Self { configured, all, guards: guards(workspace_dir).into() }
    }

    /// The built-in rules, and then those of the configuration.
    pub(super) fn policy(&self) -> Policy {
        self.all.clone()
    }
}

impl ChatAgents {
    /// The rules for skills. Inputs of a run need approval unless they are in the working directory, or were moved out of
    /// the conversation into files.
    pub(super) fn skill_permissions(&self, thread_files: &Path) -> Permissions {
        let here = Pattern::literal(&self.directory.to_string_lossy());
        let below = format!("{}/*", here.as_str().trim_end_matches('/'));
        let rules = [
            Rule::new("run", "*", Decision::Ask),
            Rule::new("read", "*", Decision::Ask),
            Rule::new("read", here.as_str(), Decision::Allow),
            Rule::new("read", &below, Decision::Allow),
        ];
        let BaseRules { configured, guards, .. } = &self.base_rules;
        // The working directory may be the home directory, or contain secrets.
        let rules = rules.into_iter().chain(guards.iter().cloned()).chain(kept_rules(thread_files));
        let rules = rules.chain(self.rules_of_server());
        let policy = self.confined(configured.clone().rules(RuleSource::BuiltInAgent, rules), thread_files);
        Permissions::new(Arc::clone(self.permissions.broker()), NAME, policy)
    }

    /// On a server, the directory of a thread and the skills of its user lie among the files of prowess, which are asked about.
    /// The agent may read them all the same, except for secret files.
    fn rules_of_server(&self) -> impl Iterator<Item = Rule> + use<> {
        let is_served = self.surface() == Surface::Server;
        let places = [self.directory.clone()].into_iter().chain(self.skills_of_user().map(|(path, _)| path));
        let rules = places.flat_map(|place| {
            let here = real_path(&place);
            let here = Pattern::literal(&here.to_string_lossy()).as_str().to_owned();
            [&here, &format!("{here}/*")].map(|pattern| Rule::new("read", pattern, Decision::Allow))
        });
        let rules: Vec<Rule> = rules.collect();
        rules.into_iter().chain(secret_files()).filter(move |_| is_served)
    }

    /// The same rules, which on a server reach only the thread's own files and those of skills.
    fn confined(&self, policy: Policy, thread_files: &Path) -> Policy {
        if self.surface() == Surface::Terminal {
            return policy;
        }
        let thread = thread_files.file_name().map(|thread| thread.to_string_lossy().into_owned());
        let workspace = thread.map(|thread| self.runner.workspaces.path_of(&thread));
        let own = [Some(self.directory.clone()), workspace, Some(thread_files.to_owned())];
        let catalog = self.catalog();
        let roots =
            catalog.roots().filter(|root| root.storage == Storage::Local).map(|root| root.path.clone());
        policy.confined(own.into_iter().flatten().chain(roots))
    }

    /// The agent may use its own workspace, in which commands run: nothing there is a file of the person.
    fn workspace_rules(&self, thread: &ThreadId) -> impl Iterator<Item = Rule> {
        let workspace = real_path(&self.workspace_of(thread));
        ["out", "work", "runs"].into_iter().flat_map(move |directory| {
            let here = Pattern::literal(&workspace.join(directory).to_string_lossy()).as_str().to_owned();
            let below = format!("{here}/*");
            ["read", "write"].into_iter().flat_map(move |kind| {
                [&here, &below].map(|pattern| Rule::new(kind, pattern, Decision::Allow))
            })
        })
    }

    /// The rules for the file tools. The agent may read what was moved out of its own conversation into files.
    pub(super) fn file_permissions(&self, thread: &ThreadId) -> Permissions {
        let kept = kept_rules(&self.thread_files(thread));
        // A rule such as `write = "allow"` is about the working directory, and not about these files.
        let outside =
            self.memory.outside().map(|path| Rule::guard(&Kind::WRITE, Pattern::literal(&path).as_str()));
        let rules = kept.chain(outside).chain(self.workspace_rules(thread)).chain(self.rules_of_server());
        let policy = self.base_rules.policy().rules(RuleSource::BuiltInAgent, rules);
        let policy = self.confined(policy, &self.thread_files(thread));
        Permissions::new(Arc::clone(self.permissions.broker()), NAME, policy)
    }
}

/// The agent may read what was moved out of its own conversation into files.
fn kept_rules(thread_files: &Path) -> impl Iterator<Item = Rule> + use<> {
    let places = THREAD_FILES.map(|name| real_path(&thread_files.join(name)));
    places.into_iter().map(|place| {
        Rule::new("read", &format!("{}*", Pattern::literal(&place.to_string_lossy())), Decision::Allow)
    })
}
