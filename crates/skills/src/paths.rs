//! The `paths` of a skill: it is listed only after a matching file comes into play.

use globset::{GlobBuilder, GlobSet};
use prowess_catalog::untrusted::one_line;
use prowess_catalog::{CatalogView, SkillEntry};
use prowess_permission::quote_name;

use crate::delta::SkillDelta;
use crate::view::SkillView;

/// The longest pattern, in characters.
const MAX_PATTERN_CHARS: usize = 512;
/// The most patterns of one skill.
const MAX_PATTERNS: usize = 16;
/// The most patterns of all skills together: compiling each one costs time and memory.
const MAX_ALL_PATTERNS: usize = 2_000;

/// The compiled patterns of every skill that has `paths`.
#[derive(Debug)]
pub(crate) struct PathPatterns(Vec<(String, Vec<GlobSet>)>);

impl PathPatterns {
    pub(crate) fn of(view: &CatalogView) -> Self {
        let mut room = MAX_ALL_PATTERNS;
        let entries = view.entries().iter().filter(|entry| !entry.skill.extensions.paths.is_empty());
        Self(entries.map(|entry| compile_patterns(entry, &mut room)).collect())
    }
}

/// Compiles the patterns of one skill, as far as there is `room`.
fn compile_patterns(entry: &SkillEntry, room: &mut usize) -> (String, Vec<GlobSet>) {
    let skill = entry.skill.name.as_str();
    let paths = &entry.skill.extensions.paths;
    let most = (*room).min(MAX_PATTERNS);
    if paths.len() > most {
        let left_out = paths.len() - most;
        tracing::warn!(
            skill,
            left_out,
            "Skill {} has too many `paths`; the rest is ignored",
            quote_name(skill)
        );
    }
    let used = &paths[..most.min(paths.len())];
    *room -= used.len();
    (skill.to_owned(), used.iter().filter_map(|pattern| compile(skill, pattern)).collect())
}

/// Compiles one pattern. A pattern without a slash matches names in every directory.
fn compile(skill: &str, pattern: &str) -> Option<GlobSet> {
    let pattern = pattern.trim_start_matches("./");
    if pattern.chars().count() > MAX_PATTERN_CHARS {
        tracing::warn!(
            skill,
            "Skill {} has a pattern in `paths` that is too long; it is ignored",
            quote_name(skill)
        );
        return None;
    }
    let anywhere = if pattern.contains('/') { pattern.to_owned() } else { format!("**/{pattern}") };
    // A set returns an error if it cannot be compiled; a single matcher would panic.
    let glob = GlobBuilder::new(&anywhere).literal_separator(true).build();
    let compiled = glob.and_then(|glob| GlobSet::builder().add(glob).build());
    match compiled {
        Ok(matcher) => Some(matcher),
        Err(error) => {
            let (pattern, error) = (one_line(pattern), error.to_string());
            let error = one_line(&error);
            tracing::warn!(
                skill,
                %pattern,
                %error,
                "Skill {} has a pattern in `paths` that is not valid; it is ignored",
                quote_name(skill)
            );
            None
        }
    }
}

impl SkillView {
    /// The changes after files come into play: skills whose `paths` match a file are listed from now on. Paths are relative
    /// to the project or begin with one of [`project_paths`](crate::SessionOptions::project_paths), and use `/`.
    pub fn note_files<'a>(&self, files: impl IntoIterator<Item = &'a str>) -> Vec<SkillDelta> {
        let visible = self.visible();
        if !visible.has_paths() {
            return Vec::new();
        }
        let options = self.engine().options();
        let relative = |file| options.in_project(file).trim_start_matches("./").trim_start_matches('/');
        let files: Vec<&str> = files.into_iter().map(relative).collect();
        let waiting = visible.patterns().0.iter().filter(|(name, _)| !self.state().offered().contains(name));
        let in_play = waiting.filter(|(_, matchers)| {
            files.iter().any(|file| matchers.iter().any(|matcher| matcher.is_match(file)))
        });
        let deltas: Vec<SkillDelta> =
            in_play.map(|(name, _)| SkillDelta::Offered { name: name.clone() }).collect();
        self.engine().log(&deltas, self.state());
        deltas
    }
}
