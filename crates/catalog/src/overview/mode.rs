//! The mode of a skill: how much of it the overview shows.

/// How visible a skill is to a model. A later mode shows more than an earlier one.
///
/// ```
/// use std::collections::BTreeMap;
/// use prowess_catalog::overview::SkillMode;
/// use prowess_catalog::{Catalog, OverviewOptions, Root, ScanOptions};
///
/// # let scratch = tempfile::tempdir()?;
/// # let root = scratch.path();
/// # for name in ["dance", "greet"] {
/// #     std::fs::create_dir(root.join(name))?;
/// #     let manifest = format!("---\nname: {name}\ndescription: Does what its name says.\n---\nDo it.\n");
/// #     std::fs::write(root.join(name).join("SKILL.md"), manifest)?;
/// # }
/// let catalog = Catalog::discover(&[Root::explicit(root)], &ScanOptions::default());
/// let modes = BTreeMap::from([("dance".to_owned(), SkillMode::Name), ("greet".to_owned(), SkillMode::Pinned)]);
/// let mut options = OverviewOptions::default();
/// options.modes = Some(&modes);
/// let text = catalog.view_all().overview(&options).text;
/// assert!(text.starts_with("- **greet**: Does what its name says."));
/// assert!(text.contains("By name only (1): dance"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SkillMode {
    /// As if it did not exist.
    Off,
    /// Only a person starts it. The model does not see it.
    Manual,
    /// The overview shows its name only.
    Name,
    /// The overview shows as much as it has room for.
    #[default]
    Auto,
    /// The overview shows its whole description before it shows those of other skills.
    Full,
    /// It is the first in the overview, with its whole description.
    Pinned,
}

impl SkillMode {
    /// All modes, the least visible first.
    pub const ALL: [Self; 6] = [Self::Off, Self::Manual, Self::Name, Self::Auto, Self::Full, Self::Pinned];

    /// The word for this mode in the configuration and in lists.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Manual => "manual",
            Self::Name => "name",
            Self::Auto => "auto",
            Self::Full => "full",
            Self::Pinned => "pinned",
        }
    }
}
