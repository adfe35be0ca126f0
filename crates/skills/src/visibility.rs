//! Which skills an agent may see: all that no rule denies, and that are not off. A model reads only about these.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use prowess_catalog::overview::SkillMode;
use prowess_catalog::{Catalog, CatalogView, SkillEntry};
use prowess_permission::{Decision, Kind, Permissions, Policy, Verdict};

use crate::modes::SkillModes;
use crate::owner::Owners;
use crate::paths::PathPatterns;
use crate::state::SkillState;

/// The skills that an agent may see under one policy.
#[derive(Debug)]
pub(crate) struct VisibleSkills {
    pub(crate) view: CatalogView,
    policy: Policy,
    modes: SkillModes,
    /// The modes of the visible skills, except those that have the default mode.
    mode_of: BTreeMap<String, SkillMode>,
    /// Whether some skills are listed only after a matching file comes into play.
    has_paths: bool,
    patterns: OnceLock<PathPatterns>,
    owners: OnceLock<Owners>,
}

impl VisibleSkills {
    pub(crate) fn new(catalog: &Catalog, permissions: &Permissions, modes: &SkillModes) -> Self {
        let policy = permissions.policy();
        let mut view = visible_view(catalog, &policy);
        let mut mode_of = modes.of_all(view.names());
        if mode_of.values().any(|mode| *mode == SkillMode::Off) {
            view = view.filtered(|entry| mode_of.get(entry.skill.name.as_str()) != Some(&SkillMode::Off));
            mode_of.retain(|_, mode| *mode != SkillMode::Off);
        }
        let has_paths = view.entries().iter().any(|entry| !entry.skill.extensions.paths.is_empty());
        let (patterns, owners) = (OnceLock::new(), OnceLock::new());
        Self { view, policy, modes: modes.clone(), mode_of, has_paths, patterns, owners }
    }

    /// The modes of the visible skills, except those that have the default mode.
    pub(crate) fn modes(&self) -> Option<&BTreeMap<String, SkillMode>> {
        Some(&self.mode_of).filter(|modes| !modes.is_empty())
    }

    /// Whether a model may load a skill by itself.
    pub(crate) fn is_for_models(&self, entry: &SkillEntry) -> bool {
        entry.skill.is_model_invocable() && !self.is_manual_by_mode(entry)
    }

    /// Whether the mode of a skill leaves it to people.
    pub(crate) fn is_manual_by_mode(&self, entry: &SkillEntry) -> bool {
        self.mode_of.get(entry.skill.name.as_str()) == Some(&SkillMode::Manual)
    }

    /// The owners of files. The first call follows links on the disk.
    pub(crate) fn owners(&self) -> &Owners {
        self.owners.get_or_init(|| Owners::of(&self.view))
    }

    /// Whether the list of skills depends on files in play.
    pub(crate) fn has_paths(&self) -> bool {
        self.has_paths
    }

    /// The compiled `paths` of all skills.
    pub(crate) fn patterns(&self) -> &PathPatterns {
        self.patterns.get_or_init(|| PathPatterns::of(&self.view))
    }

    /// Whether it was made under these rules.
    pub(crate) fn is_under(&self, policy: &Policy) -> bool {
        self.policy.is_same(policy)
    }

    /// Whether it was made from this catalog under these rules and with these modes.
    pub(crate) fn is_of(&self, catalog: &Catalog, permissions: &Permissions, modes: &SkillModes) -> bool {
        self.view.catalog().is_same(catalog)
            && self.policy.is_same(&permissions.policy())
            && self.modes == *modes
    }

    /// The skills in the overview: visible, and with a file in play if they have `paths`.
    pub(crate) fn offered(&self, state: &SkillState) -> CatalogView {
        if self.has_paths { self.view.filtered(|entry| is_offered(entry, state)) } else { self.view.clone() }
    }

    /// The names that a model may load.
    pub(crate) fn offered_names(&self, state: &SkillState) -> Vec<String> {
        let may_load = |entry: &&Arc<SkillEntry>| self.is_for_models(entry) && is_offered(entry, state);
        self.view.entries().iter().filter(may_load).map(|entry| entry.skill.name.to_string()).collect()
    }
}

/// The skills of a catalog that an agent with these rules may see: all that no rule denies. A session makes everything that
/// its model reads from this view, without the skills that its [modes](crate::modes::SkillModes) switch off. To tell a person
/// what a model sees, use [`SkillEngine::catalog_view`](crate::SkillEngine::catalog_view), or this view if there are no modes.
///
/// ```
/// use prowess_catalog::Catalog;
/// use prowess_permission::Policy;
///
/// assert_eq!(prowess_skills::visibility::visible_view(&Catalog::empty(), &Policy::new()).names().count(), 0);
/// ```
pub fn visible_view(catalog: &Catalog, policy: &Policy) -> CatalogView {
    catalog.view(|entry| denial(policy, entry).is_none())
}

/// The verdict that hides a skill from an agent with these rules, if a rule denies it.
///
/// ```
/// use prowess_catalog::Catalog;
/// use prowess_permission::{Decision, RuleSource, Policy, Rule};
/// use prowess_skills::visibility::denial;
///
/// let policy = Policy::new().rules(RuleSource::User, [Rule::new("skill", "internal-*", Decision::Deny)]);
/// let catalog = Catalog::empty();
/// let denied = catalog.entries().iter().filter(|entry| denial(&policy, entry).is_some());
/// assert_eq!(denied.count(), 0);
/// ```
pub fn denial(policy: &Policy, entry: &SkillEntry) -> Option<Verdict> {
    let kinds = [Some(Kind::SKILL), entry.published().map(|_| Kind::MCP_SKILL)];
    let mut verdicts = kinds.iter().flatten().map(|kind| policy.decide(kind, entry.skill.name.as_str()));
    verdicts.find(|verdict| verdict.decision == Decision::Deny)
}

fn is_offered(entry: &SkillEntry, state: &SkillState) -> bool {
    let name = entry.skill.name.as_str();
    entry.skill.extensions.paths.is_empty() || state.offered().contains(name) || state.get(name).is_some()
}
