//! Skills that a person starts by name, and files that bring skills into play.

use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};
use prowess_catalog::SkillEntry;

use crate::delta::SkillDelta;
use crate::error::SkillError;
use crate::load::Caller;
use crate::session::{Answer, SkillSession};

/// The most patterns of one skill that are looked at, and the longest.
const MAX_PATHS: usize = 64;
const MAX_PATH_CHARS: usize = 512;

/// A skill that a person may start with a slash.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Command {
    /// The skill's name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What to write after its name.
    pub hint: Option<String>,
    /// Whether it is loaded.
    pub is_loaded: bool,
}

impl SkillSession {
    /// The skills that a person may start, for a menu or for completion.
    pub fn commands(&self) -> Vec<Command> {
        let state = self.state();
        let known = self.known();
        let entries = known.view.entries().iter().filter(|entry| entry.skill.extensions.user_invocable);
        let command = |entry: &Arc<SkillEntry>| Command {
            name: entry.skill.name.to_string(),
            description: entry.skill.description.clone(),
            hint: entry.skill.extensions.argument_hint.clone().or_else(|| {
                let names = &entry.skill.extensions.arguments;
                (!names.is_empty())
                    .then(|| names.iter().map(|name| format!("[{name}]")).collect::<Vec<_>>().join(" "))
            }),
            is_loaded: state.get(entry.skill.name.as_str()).is_some(),
        };
        entries.map(command).collect()
    }

    /// Starts a skill as a person asked for it: `/name arguments`. A skill that is loaded is given the
    /// new arguments.
    ///
    /// The gate is passed as for a model. A front end gives this only what a person typed.
    ///
    /// # Errors
    ///
    /// As for [`SkillSession::load`], and when the skill is not one for people. Nothing has changed then.
    pub async fn invoke(&self, line: &str) -> Result<Answer, SkillError> {
        let not_a_command = || SkillError::NotACommand { line: line.to_owned() };
        let command = line.trim().strip_prefix('/').ok_or_else(not_a_command)?;
        let (name, arguments) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        if name.is_empty() {
            return Err(not_a_command());
        }
        let known = self.known();
        let Some(entry) = known.view.get(name) else {
            let available = self.commands().into_iter().map(|command| command.name).collect();
            let (name, dialect) = (name.to_owned(), self.options().dialect);
            return Err(SkillError::NotFound { name, available, dialect });
        };
        if !entry.skill.extensions.user_invocable {
            return Err(SkillError::NotForUsers { name: name.to_owned() });
        }
        let arguments = Some(arguments.trim()).filter(|arguments| !arguments.is_empty());
        let prepared = self.prepare(entry, arguments, None, Caller::Person).await?;
        self.finish(prepared)
    }

    /// Tells the session that files are in play: skills whose `paths` match one are listed from now on.
    /// Paths are relative to the project, with `/` between their parts.
    pub fn note_files<'a>(&self, files: impl IntoIterator<Item = &'a str>) -> Vec<SkillDelta> {
        let files: Vec<&str> = files.into_iter().map(|file| file.trim_start_matches("./")).collect();
        let known = self.known();
        let state = self.state();
        let waiting = known.view.entries().iter().filter(|entry| !crate::session::is_offered(entry, &state));
        let in_play = waiting.filter(|entry| {
            let patterns = entry.skill.extensions.paths.iter().take(MAX_PATHS);
            let matchers: Vec<GlobMatcher> = patterns.filter_map(|pattern| matcher(pattern)).collect();
            files.iter().any(|file| matchers.iter().any(|matcher| matcher.is_match(file)))
        });
        let deltas = in_play.map(|entry| SkillDelta::Offered { name: entry.skill.name.to_string() });
        deltas.filter(|delta| self.commit(std::slice::from_ref(delta)).is_ok()).collect()
    }
}

/// What `pattern` matches. One without a slash is about names in any directory.
fn matcher(pattern: &str) -> Option<GlobMatcher> {
    let pattern = pattern.trim_start_matches("./");
    if pattern.chars().count() > MAX_PATH_CHARS {
        return None;
    }
    let anywhere = if pattern.contains('/') { pattern.to_owned() } else { format!("**/{pattern}") };
    match GlobBuilder::new(&anywhere).literal_separator(true).build() {
        Ok(glob) => Some(glob.compile_matcher()),
        Err(error) => {
            tracing::warn!(pattern, %error, "A pattern in `paths` is not one, and is passed over");
            None
        }
    }
}
