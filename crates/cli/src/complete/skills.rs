//! Suggests skills. It finds them as every command does, but quickly.

use std::time::Duration;

use prowess_catalog::Catalog;

use super::{Suggestion, root_args};

/// The most time for one root, because the person waits.
const TIME: Duration = Duration::from_millis(500);

/// All skills, also those of an untrusted project, which commands show to people.
pub(super) fn names() -> Option<Vec<Suggestion>> {
    let root_args = root_args();
    let mut options = root_args.scan_options();
    options.time_budget = TIME;
    let found = root_args.discover_silently(&Catalog::empty(), &options).ok()?;
    let entries = found.catalog.entries().iter().chain(found.catalog.untrusted());
    let offer = |entry: &std::sync::Arc<prowess_catalog::SkillEntry>| {
        (entry.skill.name.to_string(), Some(entry.skill.description.clone()))
    };
    let mut names: Vec<Suggestion> = entries.map(offer).collect();
    names.sort();
    names.dedup_by(|one, other| one.0 == other.0);
    Some(names)
}
