//! What a session tells those who watch it.

use prowess_catalog::CatalogDiff;
use serde::Serialize;

use crate::delta::SkillDelta;

/// Something that happened in a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SkillEvent {
    /// The state changed. Numbers go up by one, in the order in which changes were made.
    Changed {
        /// The change's number, from 1.
        sequence: u64,
        /// The change.
        delta: SkillDelta,
    },
    /// The session works with another catalog.
    Refreshed {
        /// What changed in it.
        diff: CatalogDiff,
        /// Loaded skills that are not what they were.
        stale: Vec<Stale>,
    },
}

/// A loaded skill that the catalog no longer has as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stale {
    /// Which.
    pub name: String,
    /// What became of it.
    pub why: Staleness,
}

/// What became of a loaded skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Staleness {
    /// It is not there any more, or denied to this agent now.
    Gone,
    /// Another skill has its name.
    Replaced,
    /// Its document was written since it was read.
    Changed,
}
