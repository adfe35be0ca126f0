//! Events of a session, for programs that watch it.

use prowess_catalog::CatalogDiff;
use serde::{Deserialize, Serialize};

use crate::delta::SkillDelta;

/// An event of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SkillEvent {
    /// The state changed. The numbers increase by one with each change.
    Changed {
        /// The number of the change, from 1.
        sequence: u64,
        /// The change.
        delta: SkillDelta,
    },
    /// The session uses another catalog.
    Refreshed {
        /// What changed in the catalog.
        diff: CatalogDiff,
        /// The loaded skills that have changed.
        stale: Vec<Stale>,
    },
}

/// A loaded skill that has changed in the catalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stale {
    /// The skill.
    pub name: String,
    /// How it has changed.
    pub why: Staleness,
}

/// How a loaded skill has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Staleness {
    /// It no longer exists, or a rule denies it now.
    Gone,
    /// Another skill has its name now.
    Replaced,
    /// Its manifest has changed since it was loaded.
    Changed,
}
