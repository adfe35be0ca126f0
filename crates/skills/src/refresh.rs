//! A catalog that changes under a session, and the resources of its skills.

use prowess_catalog::{CatalogDiff, Resources, SkillEntry};
use prowess_permission::quote_name;

use crate::delta::ResourceMetadata;
use crate::event::Stale;

/// What a refresh came to.
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
/// let session = SkillSession::builder(catalog).start().await;
/// session.load("greet", None).await?;
/// std::fs::remove_dir_all(scratch.path().join("greet"))?;
/// let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// let refreshed = session.refresh(&catalog).await;
/// assert_eq!(refreshed.diff.removed, ["greet"]);
/// assert_eq!(refreshed.stale[0].why, Staleness::Gone);
/// assert!(session.state().get("greet").is_some(), "what is loaded stays loaded");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refreshed {
    /// What changed in the catalog.
    pub diff: CatalogDiff,
    /// Loaded skills that are not what they were.
    pub stale: Vec<Stale>,
}

/// The files of a skill in the form that state keeps. What could not be listed is left out, with a warning.
pub(crate) fn told(entry: &SkillEntry, resources: &Resources) -> Vec<ResourceMetadata> {
    let skill = entry.skill.name.as_str();
    for diagnostic in &resources.diagnostics {
        tracing::warn!(
            skill,
            path = %diagnostic.file,
            "Failed to list resources for skill {}: {diagnostic}",
            quote_name(skill)
        );
    }
    let directory = entry.skill.location.directory().trim_end_matches('/');
    let metadata = |path: String, kind| ResourceMetadata { path, kind, skill_name: skill.to_owned() };
    resources.files.iter().map(|file| metadata(format!("{directory}/{}", file.path), file.kind)).collect()
}
