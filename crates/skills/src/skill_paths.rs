//! The paths by which a model knows the directories of skills.

use std::borrow::Cow;

use prowess_catalog::SkillEntry;
use prowess_catalog::skill::Location;

use crate::arguments::{MAX_EXPANDED_BYTES, TooLong};

/// The paths by which a model knows the directories of skills.
///
/// ```
/// use prowess_skills::options::{SessionOptions, SkillPaths};
///
/// let mut options = SessionOptions::default();
/// assert_eq!(options.skill_paths, SkillPaths::Real);
/// // The model's tools find the skill `pdf` at `/skills/pdf`.
/// options.skill_paths = SkillPaths::Below("/skills".into());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkillPaths {
    /// The paths at which the skills were found.
    #[default]
    Real,
    /// Each skill has a directory of its name below this directory. Skills of MCP servers keep their addresses.
    Below(String),
}

impl SkillPaths {
    /// The directory of a skill.
    pub(crate) fn directory<'a>(&self, name: &str, location: &'a Location) -> Cow<'a, str> {
        let real = location.directory();
        match self {
            Self::Below(place) if real.starts_with('/') => format!("{place}/{name}").into(),
            Self::Below(_) | Self::Real => real.into(),
        }
    }

    /// The directory of a skill in the catalog.
    pub(crate) fn directory_of<'a>(&self, entry: &'a SkillEntry) -> Cow<'a, str> {
        self.directory(entry.skill.name.as_str(), &entry.skill.location)
    }

    /// The path of a skill's file, which lies below the skill's real directory.
    pub(crate) fn file<'a>(&self, name: &str, location: &Location, path: &'a str) -> Cow<'a, str> {
        let real = location.directory().trim_end_matches('/');
        match path.strip_prefix(real).filter(|rest| rest.starts_with('/')) {
            Some(rest) if *self != Self::Real => format!("{}{rest}", self.directory(name, location)).into(),
            _ => path.into(),
        }
    }

    /// Where skills are, for the section of the prompt; `None` for the list of roots.
    pub(crate) fn locations(&self) -> Option<String> {
        match self {
            Self::Real => None,
            Self::Below(place) => Some(format!("- **All skills**: `{place}`, read-only")),
        }
    }
}

/// Variables for the skill's own directory, by the names that skills use.
const DIRECTORY: [&str; 3] = ["${SKILL_DIR}", "${CLAUDE_SKILL_DIR}", "{baseDir}"];
/// The directory of the plugin that a skill comes with. Its skills are in `skills/`.
const PLUGIN: &str = "${CLAUDE_PLUGIN_ROOT}";

/// Replaces the variables for directories in a skill's text. `directory` is the skill's own directory.
pub(crate) fn with_directories(body: &str, name: &str, directory: &str) -> Result<String, TooLong> {
    let in_plugin = format!("{PLUGIN}/skills/");
    // The other skills of the plugin are beside this one.
    let beside = directory.strip_suffix(name).unwrap_or(directory);
    let own = DIRECTORY.into_iter().chain([PLUGIN]).map(|variable| (variable, directory));
    let variables: Vec<(&str, &str)> = std::iter::once((in_plugin.as_str(), beside)).chain(own).collect();
    let mut text = String::with_capacity(body.len());
    let mut rest = body;
    while let Some(at) = rest.find(['$', '{']) {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        match variables.iter().find(|(variable, _)| rest.starts_with(variable)) {
            Some((variable, value)) => {
                text.push_str(value);
                rest = &rest[variable.len()..];
            }
            None => {
                text.push_str(&rest[..1]);
                rest = &rest[1..];
            }
        }
        if text.len() > MAX_EXPANDED_BYTES {
            return Err(TooLong);
        }
    }
    text.push_str(rest);
    if text.len() > MAX_EXPANDED_BYTES { Err(TooLong) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_knows_a_skill_by_its_name() {
        let paths = SkillPaths::Below("/skills".into());
        let local = Location::new("/home/ada/.claude/skills/pdf/SKILL.md");
        assert_eq!(paths.directory("pdf", &local), "/skills/pdf");
        assert_eq!(paths.file("pdf", &local, "/home/ada/.claude/skills/pdf/a/b.py"), "/skills/pdf/a/b.py");
        assert_eq!(
            paths.file("pdf", &local, "/home/ada/.claude/skills/pdf-2/b.py"),
            "/home/ada/.claude/skills/pdf-2/b.py"
        );
        assert_eq!(
            SkillPaths::Real.file("pdf", &local, "/home/ada/.claude/skills/pdf/a"),
            "/home/ada/.claude/skills/pdf/a"
        );
        let served = Location::new("docs:skill://pdf/SKILL.md");
        assert_eq!(paths.directory("pdf", &served), served.directory());
    }

    #[test]
    fn every_name_of_the_directory_is_replaced() {
        let expanded = |body: &str| with_directories(body, "pdf", "/skills/pdf").unwrap();
        for (body, expected) in [
            ("python3 ${SKILL_DIR}/a.py", "python3 /skills/pdf/a.py"),
            ("${CLAUDE_SKILL_DIR}/a {baseDir}/b", "/skills/pdf/a /skills/pdf/b"),
            ("${CLAUDE_PLUGIN_ROOT}/skills/pdf/a", "/skills/pdf/a"),
            ("${CLAUDE_PLUGIN_ROOT}/skills/csv/a", "/skills/csv/a"),
            ("${CLAUDE_PLUGIN_ROOT}/scripts/a", "/skills/pdf/scripts/a"),
            ("$SKILL_DIR {base} ${X} {} $ €{", "$SKILL_DIR {base} ${X} {} $ €{"),
        ] {
            assert_eq!(expanded(body), expected, "{body}");
        }
        assert!(with_directories(&"{baseDir}".repeat(1_000_000), "pdf", "/skills/a-long-name").is_err());
    }
}
