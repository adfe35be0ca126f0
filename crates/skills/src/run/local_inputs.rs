//! Local files as inputs of a run (`host://…`): rules, secret files, and files of other skills.

use std::collections::BTreeSet;
use std::fs::DirEntry;
use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use prowess_catalog::SkillEntry;
use prowess_catalog::untrusted::one_line;
use prowess_permission::real_path::{has_case, ignores_case};
use prowess_permission::{
    Action, Decision, Kind, Policy, Question, RealPath, Refusal, Stopped, Verdict, quote_name,
};
use prowess_workspace::RunRequest;
use prowess_workspace::input::InputGate;

use super::RunDriver;
use crate::owner::{WithheldFile, directories};
use crate::view::SkillView;

/// The most files and directories in one input.
const MAX_INPUT_ENTRIES: usize = 10_000;
/// The most secret files that a question names.
const MAX_NAMED_SECRETS: usize = 10;

/// Asks before a local file becomes an input.
pub(super) struct LocalInputGate<'a> {
    pub(super) driver: RunDriver<'a>,
    pub(super) request: &'a RunRequest,
    /// The skill for which a person adds the files. Then no skill must be loaded first, and the skill's own files are
    /// possible.
    pub(super) given_to: Option<&'a SkillEntry>,
    /// The real paths that are already approved.
    pub(super) approved: &'a BTreeSet<PathBuf>,
}

/// Why a local file does not become an input.
#[derive(Debug)]
pub(super) enum InputStop {
    /// A person must reply first.
    Asks(Box<Question>),
    /// There is no permission.
    Refused(Refusal),
    /// Nobody can approve it.
    Blocked(BlockedInput),
}

/// Why nobody can approve a local file or directory as an input.
///
/// The text is for a model: it names no hidden skills and no denied files. [`for_person`](Self::for_person) names them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BlockedInput {
    /// It has too many files, or cannot be read.
    #[error("the local path {} has too many files, or cannot be read", one_line(.path))]
    Unreadable {
        /// The path of the input.
        path: String,
    },
    /// It contains files of a skill that is not loaded.
    #[error("the local path {} contains files of the skill '{}'; load that skill first", one_line(.path), one_line(.skill))]
    LoadFirst {
        /// The path of the input.
        path: String,
        /// The owner of the files.
        skill: String,
    },
    /// It contains files of a skill that is denied or not trusted.
    #[error("the local path {} contains something that must not be read", one_line(.path))]
    HiddenSkill {
        /// The path of the input.
        path: String,
        /// The owner of the files.
        skill: String,
    },
    /// A rule denies it, or a file in it.
    #[error("the local path {} {}", one_line(.path), if .denied.is_some() { "contains something that must not be read" } else { "must not be read" })]
    Denied {
        /// The path of the input.
        path: String,
        /// The denied file, if it is inside the input.
        denied: Option<String>,
        /// The rule as a line of TOML.
        rule: Option<String>,
    },
}

impl BlockedInput {
    /// The text for a person, with all names.
    pub(super) fn for_person(&self) -> String {
        let path = |path: &str| one_line(path).into_owned();
        match self {
            Self::Unreadable { .. } | Self::LoadFirst { .. } => self.to_string(),
            Self::HiddenSkill { path: given, skill } => {
                format!(
                    "{} contains files of the skill {}, which is denied or not trusted",
                    path(given),
                    quote_name(skill)
                )
            }
            Self::Denied { path: given, denied, rule } => {
                let what = match denied {
                    Some(denied) => format!("{}, which is in {},", path(denied), path(given)),
                    None => path(given),
                };
                let by = rule
                    .as_ref()
                    .map_or_else(|| "a rule".to_owned(), |rule| format!("the rule {}", path(rule)));
                format!("{what} must not be read: {by} denies it")
            }
        }
    }
}

/// A local file or directory that no rule denies, and what a question must say about it.
#[derive(Clone, Debug)]
struct LocalInput {
    file: RealPath,
    is_directory: bool,
    /// A file in it that needs permission.
    asks_about: Option<String>,
    /// The first secret files in it.
    secrets: Vec<String>,
}

#[async_trait]
impl InputGate for LocalInputGate<'_> {
    async fn allows(&self, path: &Path) -> bool {
        self.pass(path).await.is_ok()
    }
}

impl LocalInputGate<'_> {
    /// Gets permission for a local file. Returns its real path.
    pub(super) async fn pass(&self, path: &Path) -> Result<PathBuf, InputStop> {
        let view = self.driver.view;
        let input = view.check_local_input(path, self.given_to).await.map_err(InputStop::Blocked)?;
        let real = PathBuf::from(input.file.real());
        if self.approved.contains(&real) {
            return Ok(real);
        }
        let action = Action::AddInput {
            skill: self.request.skill.clone(),
            command: self.request.command.clone(),
            is_directory: input.is_directory,
            with_secrets: input.secrets,
        };
        let mut question = Question::about_file(Kind::READ, input.file);
        if let Some(entry) = input.asks_about {
            question = question.subject(entry);
        }
        let question = question.action(action).always([]);
        match view.engine().permissions().pass(question, self.driver.asker).await {
            Ok(_) => Ok(real),
            Err(Stopped::Asks(question)) => Err(InputStop::Asks(question)),
            Err(Stopped::Refused(refusal)) => Err(InputStop::Refused(refusal)),
        }
    }
}

impl SkillView {
    /// Checks a local file or directory that is to become an input. `given_to` is the skill for which a person adds it.
    ///
    /// # Errors
    ///
    /// Nobody can approve it: a rule denies it or something in it, or it contains files of a skill that the agent may not
    /// see.
    async fn check_local_input(
        &self,
        path: &Path,
        given_to: Option<&SkillEntry>,
    ) -> Result<LocalInput, BlockedInput> {
        let name = path.to_string_lossy().into_owned();
        let path = path.to_owned();
        let found = tokio::task::spawn_blocking(move || {
            let file = RealPath::find(&path);
            entries_below(&file).map(|entries| (file, path, entries))
        });
        let Ok(Some((file, path, entries))) = found.await else {
            return Err(BlockedInput::Unreadable { path: name });
        };
        self.check_input_owners(&file, &name, given_to)?;
        let policy = self.engine().permissions().policy();
        let verdict = read_verdict(&policy, &file);
        if verdict.decision == Decision::Deny {
            return Err(BlockedInput::Denied { path: name, denied: None, rule: rule_line(verdict) });
        }
        let is_guarded = verdict.rule.as_ref().is_some_and(|(_, rule)| rule.is_guard());
        let is_through_link = Path::new(file.real()) != path;
        let mut input =
            LocalInput { file, is_directory: entries.is_some(), asks_about: None, secrets: Vec::new() };
        // The question names the link, so it must also name the secret file behind it.
        if verdict.decision == Decision::Ask && is_guarded && is_through_link {
            input.secrets.push(input.file.real().to_owned());
        }
        input.check_entries(&name, entries.into_iter().flatten(), &policy)?;
        Ok(input)
    }

    /// Checks that an input contains no files of skills that the caller must not read.
    fn check_input_owners(
        &self,
        file: &RealPath,
        name: &str,
        given_to: Option<&SkillEntry>,
    ) -> Result<(), BlockedInput> {
        let own = given_to.map(directories).unwrap_or_default();
        let may_read = |directory: &str, withheld: &WithheldFile| match withheld {
            WithheldFile::LoadFirst(_) => given_to.is_some(),
            WithheldFile::Denied(_) => own.iter().any(|own| own == directory),
        };
        self.check_owners_except(file, may_read).map_err(|withheld| match withheld {
            WithheldFile::LoadFirst(skill) => BlockedInput::LoadFirst { path: name.to_owned(), skill },
            WithheldFile::Denied(skill) => BlockedInput::HiddenSkill { path: name.to_owned(), skill },
        })
    }
}

impl LocalInput {
    /// Checks everything in a directory: it must not smuggle in denied files, or files that need approval.
    fn check_entries(
        &mut self,
        name: &str,
        entries: impl Iterator<Item = RealPath>,
        policy: &Policy,
    ) -> Result<(), BlockedInput> {
        let mut more = 0;
        for entry in entries {
            let verdict = read_verdict(policy, &entry);
            match verdict.decision {
                Decision::Allow => {}
                Decision::Deny => {
                    let denied = Some(entry.real().to_owned());
                    return Err(BlockedInput::Denied {
                        path: name.to_owned(),
                        denied,
                        rule: rule_line(verdict),
                    });
                }
                Decision::Ask => {
                    let is_secret = verdict.rule.is_some_and(|(_, rule)| rule.is_guard());
                    match self.secrets.len() {
                        named if is_secret && named < MAX_NAMED_SECRETS => {
                            self.secrets.push(entry.real().to_owned());
                        }
                        _ if is_secret => more += 1,
                        _ => {}
                    }
                    // One file stands for all others, a secret file before other files.
                    if self.asks_about.is_none() || (is_secret && self.secrets.len() == 1) {
                        self.asks_about = Some(entry.real().to_owned());
                    }
                }
            }
        }
        if more > 0 {
            self.secrets.push(format!("and {more} more"));
        }
        Ok(())
    }
}

fn read_verdict(policy: &Policy, file: &RealPath) -> Verdict {
    policy.evaluate(&Question::about_file(Kind::READ, file.clone()))
}

fn rule_line(verdict: Verdict) -> Option<String> {
    verdict.rule.map(|(_, rule)| rule.toml_line())
}

/// Everything below a directory, without following links. `Some(None)` for a file; `None` if there are too many entries, or
/// one cannot be read.
fn entries_below(file: &RealPath) -> Option<Option<Vec<RealPath>>> {
    // A path that is not UTF-8 would be another path as text.
    if !file.is_exact() {
        return None;
    }
    let path = PathBuf::from(file.real());
    match std::fs::symlink_metadata(&path) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Some(None),
        // Whether a file exists stays unknown until there is permission.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(None),
        Err(_) => return None,
    }
    let mut pending = vec![(path, file.ignores_case())];
    let mut found = Vec::new();
    while let Some((directory, mut ignores)) = pending.pop() {
        let entries = std::fs::read_dir(&directory).ok()?.take(MAX_INPUT_ENTRIES + 1);
        let entries: Vec<DirEntry> = entries.collect::<io::Result<_>>().ok()?;
        // Each directory may ignore case or not. One name with letters is enough to find out.
        let with_letters = entries.iter().find(|entry| has_case(&entry.file_name()));
        ignores |= with_letters.is_some_and(|entry| ignores_case(&entry.path()));
        for entry in entries {
            let path = entry.path();
            if entry.file_type().ok()?.is_dir() {
                pending.push((path.clone(), ignores));
            }
            found.push(RealPath::known(&path, &path, ignores));
            if found.len() > MAX_INPUT_ENTRIES {
                return None;
            }
        }
    }
    // Sorted, because the first file is part of the question.
    found.sort_by(|one, other| one.real().cmp(other.real()));
    Some(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that ignores case shows one file under two names that differ only in case.
    #[test]
    fn the_first_name_with_letters_tells_whether_case_counts() {
        let scratch = tempfile::tempdir().unwrap();
        let numbers = (0..20).map(|number| number.to_string());
        for name in numbers.chain(["key".to_owned()]) {
            std::fs::write(scratch.path().join(name), "").unwrap();
        }
        std::fs::hard_link(scratch.path().join("key"), scratch.path().join("KEY")).unwrap();
        let found = entries_below(&RealPath::find(scratch.path())).unwrap().unwrap();
        assert_eq!(found.len(), 22);
        assert!(found.iter().all(RealPath::ignores_case));
    }
}
