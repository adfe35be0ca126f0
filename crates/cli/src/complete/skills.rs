//! Names of skills, found as every command finds them, in little time.

use std::time::Duration;

use prowess_catalog::Catalog;

use super::{Suggestion, places};

/// The most time that is spent in one root: somebody waits with a finger on a key.
const TIME: Duration = Duration::from_millis(500);

/// The skills there are: those of a project that is not trusted as well, which commands show to people.
pub(super) fn names() -> Option<Vec<Suggestion>> {
    let places = places();
    let mut options = places.scan_options();
    options.time_budget = TIME;
    let found = places.discover_silently(&Catalog::empty(), &options).ok()?;
    let entries = found.catalog.entries().iter().chain(found.catalog.untrusted());
    let offer = |entry: &std::sync::Arc<prowess_catalog::SkillEntry>| {
        (entry.skill.name.to_string(), Some(entry.skill.description.clone()))
    };
    let mut names: Vec<Suggestion> = entries.map(offer).collect();
    names.sort();
    names.dedup_by(|one, other| one.0 == other.0);
    Some(names)
}
