//! What one agent may know of a catalog, and which of it a model is told about.

use std::sync::{Arc, OnceLock};

use globset::{GlobBuilder, GlobSet};
use prowess_catalog::untrusted::one_line;
use prowess_catalog::{Catalog, CatalogView, SkillEntry};
use prowess_permission::{Decision, Kind, Permissions, Policy, Verdict, quote_name};

use crate::delta::SkillDelta;
use crate::owner::Owners;
use crate::state::SkillState;
use crate::view::SkillView;

/// The longest pattern in `paths` that is looked at, the most of one skill, and the most of all: each has to
/// be compiled.
const MAX_PATTERN_CHARS: usize = 512;
const MAX_PATTERNS: usize = 16;
const MAX_ALL_PATTERNS: usize = 2_000;

/// What this agent may know of the catalog.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) view: CatalogView,
    policy: Policy,
    /// Whether some skills are listed only once a file of theirs is in play.
    has_paths: bool,
    patterns: OnceLock<Vec<(String, Vec<GlobSet>)>>,
    owners: OnceLock<Owners>,
}

impl Known {
    pub(crate) fn new(catalog: &Catalog, permissions: &Permissions) -> Self {
        let policy = permissions.policy();
        let view = known_view(catalog, &policy);
        let has_paths = view.entries().iter().any(|entry| !entry.skill.extensions.paths.is_empty());
        Self { view, policy, has_paths, patterns: OnceLock::new(), owners: OnceLock::new() }
    }

    /// Whose files are whose. Links are followed when this is first asked.
    pub(crate) fn owners(&self) -> &Owners {
        self.owners.get_or_init(|| Owners::of(&self.view))
    }

    /// Whether files that come into play decide what is offered.
    pub(crate) fn offers_by_files(&self) -> bool {
        self.has_paths
    }

    /// Whether these are the rules that it was made by.
    pub(crate) fn is_under(&self, policy: &Policy) -> bool {
        self.policy.is_same(policy)
    }

    /// Whether it is what these rules let be known of this catalog.
    pub(crate) fn is_of(&self, catalog: &Catalog, permissions: &Permissions) -> bool {
        self.view.catalog().is_same(catalog) && self.policy.is_same(&permissions.policy())
    }

    /// The skills that a model is told about: visible, and with a file in play where they ask for one.
    pub(crate) fn offered(&self, state: &SkillState) -> CatalogView {
        if self.has_paths { self.view.filtered(|entry| is_offered(entry, state)) } else { self.view.clone() }
    }

    /// The names that a model may load.
    pub(crate) fn offered_names(&self, state: &SkillState) -> Vec<String> {
        let may_load =
            |entry: &&Arc<SkillEntry>| entry.skill.is_model_invocable() && is_offered(entry, state);
        self.view.entries().iter().filter(may_load).map(|entry| entry.skill.name.to_string()).collect()
    }

    /// The patterns of every skill that has some.
    fn patterns(&self) -> &[(String, Vec<GlobSet>)] {
        self.patterns.get_or_init(|| {
            let mut room = MAX_ALL_PATTERNS;
            let entries = self.view.entries().iter().filter(|entry| !entry.skill.extensions.paths.is_empty());
            entries
                .map(|entry| {
                    let skill = entry.skill.name.as_str();
                    let paths = &entry.skill.extensions.paths;
                    let most = room.min(MAX_PATTERNS);
                    if paths.len() > most {
                        let left_out = paths.len() - most;
                        tracing::warn!(
                            skill,
                            left_out,
                            "Skill {} has more `paths` than are looked at",
                            quote_name(skill)
                        );
                    }
                    let taken = &paths[..most.min(paths.len())];
                    room -= taken.len();
                    (skill.to_owned(), taken.iter().filter_map(|pattern| matcher(skill, pattern)).collect())
                })
                .collect()
        })
    }
}

impl SkillView {
    /// What changes when files come into play: skills whose `paths` match one are listed from then on. Paths are relative
    /// to the project, with `/` between their parts.
    pub fn note_files<'a>(&self, files: impl IntoIterator<Item = &'a str>) -> Vec<SkillDelta> {
        let known = self.known();
        if !known.has_paths {
            return Vec::new();
        }
        let files: Vec<&str> = files.into_iter().map(|file| file.trim_start_matches("./")).collect();
        let waiting = known.patterns().iter().filter(|(name, _)| !self.state().offered().contains(name));
        let in_play = waiting.filter(|(_, matchers)| {
            files.iter().any(|file| matchers.iter().any(|matcher| matcher.is_match(file)))
        });
        let deltas: Vec<SkillDelta> =
            in_play.map(|(name, _)| SkillDelta::Offered { name: name.clone() }).collect();
        self.engine().log(&deltas, self.state());
        deltas
    }
}

/// What an agent with these rules may know of a catalog: every skill that they do not deny. A session renders all that
/// its model reads from this view, so whoever tells a person what a model sees takes it from here, too.
///
/// ```
/// use prowess_catalog::Catalog;
/// use prowess_permission::Policy;
///
/// assert_eq!(prowess_skills::known::known_view(&Catalog::empty(), &Policy::new()).names().count(), 0);
/// ```
pub fn known_view(catalog: &Catalog, policy: &Policy) -> CatalogView {
    catalog.view(|entry| denial(policy, entry).is_none())
}

/// The verdict that keeps a skill from an agent with these rules, if one does.
///
/// ```
/// use prowess_catalog::Catalog;
/// use prowess_permission::{Decision, RuleSource, Policy, Rule};
/// use prowess_skills::known::denial;
///
/// let policy = Policy::new().with(RuleSource::User, [Rule::new("skill", "internal-*", Decision::Deny)]);
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

/// What `pattern` matches. One without a slash is about names in any directory.
fn matcher(skill: &str, pattern: &str) -> Option<GlobSet> {
    let pattern = pattern.trim_start_matches("./");
    if pattern.chars().count() > MAX_PATTERN_CHARS {
        tracing::warn!(
            skill,
            "Skill {} has a pattern in `paths` that is too long, and is passed over",
            quote_name(skill)
        );
        return None;
    }
    let anywhere = if pattern.contains('/') { pattern.to_owned() } else { format!("**/{pattern}") };
    // A set can say that it cannot be compiled; a single matcher would panic.
    let glob = GlobBuilder::new(&anywhere).literal_separator(true).build();
    let compiled = glob.and_then(|glob| GlobSet::builder().add(glob).build());
    match compiled {
        Ok(matcher) => Some(matcher),
        Err(error) => {
            let (pattern, error) = (one_line(pattern), error.to_string());
            let error = one_line(&error);
            tracing::warn!(
                skill,
                %pattern,
                %error,
                "Skill {} has a pattern in `paths` that is none, and is passed over",
                quote_name(skill)
            );
            None
        }
    }
}
