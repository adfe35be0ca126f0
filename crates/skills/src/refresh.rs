//! Refreshing: what changes if a session takes a newer catalog.

use prowess_catalog::CatalogDiff;

use crate::event::Stale;

/// The result of a refresh.
///
/// ```
/// use prowess_skills::event::Staleness;
/// use prowess_skills::SkillSession;
///
/// # use prowess_catalog::{Catalog, Root, ScanOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # std::fs::create_dir(scratch.path().join("greet"))?;
/// # let manifest = "---\nname: greet\ndescription: Says hello.\n---\nWave.\n";
/// # std::fs::write(scratch.path().join("greet/SKILL.md"), manifest)?;
/// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// let session = SkillSession::builder(catalog).build().await;
/// session.load("greet", None).await?;
/// std::fs::remove_dir_all(scratch.path().join("greet"))?;
/// let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// let refreshed = session.refresh(&catalog).await;
/// assert_eq!(refreshed.diff.removed, ["greet"]);
/// assert_eq!(refreshed.stale[0].why, Staleness::Gone);
/// assert!(session.state().get("greet").is_some(), "it stays loaded");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refreshed {
    /// What changed in the catalog.
    pub diff: CatalogDiff,
    /// The loaded skills that have changed.
    pub stale: Vec<Stale>,
}
