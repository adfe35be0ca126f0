//! An entry that is held: what a skill was when it was offered.

use std::sync::Arc;

use prowess_catalog::SkillEntry;
use prowess_catalog::published::{Offer, Published};

/// A skill as its server offered it. Everything that is retrieved of it is held to this, for as long as anyone acts on
/// it, whatever the server says meanwhile.
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
    /// What its server says of its files.
    pub fn published(&self) -> &Published {
        &self.published
    }
}

impl HeldEntry {
    /// What a catalog holds of a skill; `None` when it is no server's.
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
