//! An entry that is held: what a skill was when it was offered.

use std::sync::Arc;

use super::published::{Offer, Published};

/// A skill as its server offered it. Everything that is retrieved of it is held to this, for as long as anyone acts on
/// it, whatever the server says meanwhile.
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

impl From<&Offer> for HeldEntry {
    fn from(offer: &Offer) -> Self {
        Self { frontmatter: offer.frontmatter.as_str().into(), published: Arc::new(offer.published.clone()) }
    }
}
