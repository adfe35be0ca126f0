//! An entry that the catalog holds: the skill as its server offered it.

use std::sync::Arc;

use prowess_catalog::SkillEntry;
use prowess_catalog::published::{Offer, Published};

/// A skill as its server offered it. Every retrieved file must match this entry, whatever the server says meanwhile.
///
/// ```
/// use prowess_catalog::published::{Offer, Published};
/// use prowess_mcp::client::HeldEntry;
///
/// let published = Published { server: "docs".into(), uri: "skill://pdf/SKILL.md".into(), files: Vec::new() };
/// let frontmatter = r#"{"name":"pdf","description":"Reads PDFs."}"#.into();
/// let held = HeldEntry::from(&Offer { frontmatter, published, is_granted: false });
/// assert_eq!(held.published().server, "docs");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldEntry {
    pub(crate) frontmatter: Arc<str>,
    pub(crate) published: Arc<Published>,
}

impl HeldEntry {
    /// The skill's files, as its server lists them.
    pub fn published(&self) -> &Published {
        &self.published
    }
}

impl HeldEntry {
    /// The entry that a catalog holds for a skill. `None` if the skill is not from a server.
    pub fn of(entry: &SkillEntry) -> Option<Self> {
        let frontmatter = entry.published_frontmatter()?.into();
        Some(Self { frontmatter, published: Arc::clone(entry.published()?) })
    }
}

impl From<&Offer> for HeldEntry {
    fn from(offer: &Offer) -> Self {
        Self { frontmatter: offer.frontmatter.as_str().into(), published: Arc::new(offer.published.clone()) }
    }
}
