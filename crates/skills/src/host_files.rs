//! Files of the host that come into a run: past the rules, and past the gates of the skills whose files they are.

use std::collections::BTreeSet;
use std::fs::DirEntry;
use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use prowess_catalog::SkillEntry;
use prowess_catalog::untrusted::one_line;
use prowess_permission::real_path::{has_case, ignores_case};
use prowess_permission::{Action, Decision, Kind, Question, RealPath, Refusal, Stopped, Verdict, quote_name};
use prowess_workspace::RunRequest;
use prowess_workspace::input::InputGate;

use crate::owner::{WithheldFile, directories};
use crate::run::Running;
use crate::view::SkillView;

/// The most files and directories of the host that one input may hold.
const MAX_HOST_ENTRIES: usize = 10_000;
/// How many files that mostly have secrets a question names.
const MAX_NAMED: usize = 10;

/// Files of the host come in when the gate lets them be read.
pub(crate) struct AskedHost<'a> {
    pub(crate) running: Running<'a>,
    pub(crate) request: &'a RunRequest,
    /// The skill that a person gives files to: nothing has to be loaded first, and its own files are no secret of it.
    pub(crate) given_to: Option<&'a SkillEntry>,
    /// What was asked about before.
    pub(crate) passed: &'a BTreeSet<PathBuf>,
}

/// Why a file of the host does not come in.
#[derive(Debug)]
pub(crate) enum Unread {
    /// Somebody has to answer this first.
    Asks(Box<Question>),
    /// The gate did not let it.
    Refused(Refusal),
    /// There is something in it that cannot come, whoever is asked.
    Denied(InputRefused),
}

/// Why a file or directory of the host does not come into a run, whoever is asked.
///
/// As text it is for a model: it names neither skills that are hidden nor files that are denied.
/// [`for_person`](Self::for_person) names them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InputRefused {
    /// It cannot be looked at whole.
    #[error("{} of the host is too much to look at, or cannot be read", one_line(.path))]
    Unreadable {
        /// What was to come in.
        path: String,
    },
    /// It has files of a skill that was not loaded.
    #[error("{} of the host has files of the skill '{}', which has to be loaded first", one_line(.path), one_line(.skill))]
    LoadFirst {
        /// What was to come in.
        path: String,
        /// Whose files it has.
        skill: String,
    },
    /// It has files of a skill that is denied or not trusted.
    #[error("{} of the host has something in it that must not be read", one_line(.path))]
    Hidden {
        /// What was to come in.
        path: String,
        /// Whose files it has.
        skill: String,
    },
    /// A rule denies it, or a file in it.
    #[error("{} of the host {}", one_line(.path), if .denied.is_some() { "has something in it that must not be read" } else { "must not be read" })]
    Denied {
        /// What was to come in.
        path: String,
        /// The file in it that is denied, if it is not that itself.
        denied: Option<String>,
        /// The line of the rule.
        rule: Option<String>,
    },
}

impl InputRefused {
    /// The same for a person, who may know what it is about.
    pub(crate) fn for_person(&self) -> String {
        let path = |path: &str| one_line(path).into_owned();
        match self {
            Self::Unreadable { .. } | Self::LoadFirst { .. } => self.to_string(),
            Self::Hidden { path: given, skill } => {
                format!(
                    "{} has files of the skill {}, which is denied or not trusted",
                    path(given),
                    quote_name(skill)
                )
            }
            Self::Denied { path: given, denied, rule } => {
                let what = match denied {
                    Some(denied) => format!("{} has {} in it, which", path(given), path(denied)),
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

/// A file or directory of the host that nothing denies, and what has to be asked about it.
#[derive(Clone, Debug)]
pub(crate) struct HostInput {
    place: RealPath,
    is_directory: bool,
    /// The first file below it that somebody has to be asked about.
    asks: Option<String>,
    /// Files below it that mostly have secrets, the first of them.
    secrets: Vec<String>,
}

#[async_trait]
impl InputGate for AskedHost<'_> {
    async fn allows(&self, path: &Path) -> bool {
        self.ask(path).await.is_ok()
    }
}

impl AskedHost<'_> {
    /// Asks whether a file of the host may come in. Gives its real path.
    pub(crate) async fn ask(&self, path: &Path) -> Result<PathBuf, Unread> {
        let view = self.running.view;
        let input = view.look_at_host(path, self.given_to).await.map_err(Unread::Denied)?;
        let real = PathBuf::from(input.place.real());
        if self.passed.contains(&real) {
            return Ok(real);
        }
        let action = Action::AddInput {
            skill: self.request.skill.clone(),
            command: self.request.command.clone(),
            is_directory: input.is_directory,
            with_secrets: input.secrets,
        };
        let mut question = Question::about_file(Kind::READ, input.place);
        if let Some(entry) = input.asks {
            question = question.and(entry);
        }
        let question = question.to(action).always([]);
        match view.engine().permissions().pass(question, self.running.asker).await {
            Ok(_) => Ok(real),
            Err(Stopped::Asks(question)) => Err(Unread::Asks(question)),
            Err(Stopped::Refused(refusal)) => Err(Unread::Refused(refusal)),
        }
    }
}

impl SkillView {
    /// Looks at a file or directory of this machine that is to come into a run; `given_to` is the skill that a person
    /// gives it to. It is an error if it must not come in, whoever is asked: a rule denies it or something in it, or it has
    /// files of a skill that this agent must not know of.
    async fn look_at_host(
        &self,
        path: &Path,
        given_to: Option<&SkillEntry>,
    ) -> Result<HostInput, InputRefused> {
        let name = || path.to_string_lossy().into_owned();
        let at = path.to_owned();
        let looked = tokio::task::spawn_blocking(move || {
            let place = RealPath::find(&at);
            entries_below(&place).map(|entries| (place, entries))
        });
        let Ok(Some((place, entries))) = looked.await else {
            return Err(InputRefused::Unreadable { path: name() });
        };
        let own = given_to.map(directories).unwrap_or_default();
        let may_read = |directory: &str, withheld: &WithheldFile| match withheld {
            WithheldFile::LoadFirst(_) => given_to.is_some(),
            WithheldFile::Denied(_) => own.iter().any(|own| own == directory),
        };
        self.check_owners_but(&place, may_read).map_err(|withheld| match withheld {
            WithheldFile::LoadFirst(skill) => InputRefused::LoadFirst { path: name(), skill },
            WithheldFile::Denied(skill) => InputRefused::Hidden { path: name(), skill },
        })?;
        let policy = self.engine().permissions().policy();
        let judge = |place: &RealPath| policy.evaluate(&Question::about_file(Kind::READ, place.clone()));
        let line = |verdict: Verdict| verdict.rule.map(|(_, rule)| rule.toml_line());
        let verdict = judge(&place);
        if verdict.decision == Decision::Deny {
            return Err(InputRefused::Denied { path: name(), denied: None, rule: line(verdict) });
        }
        let is_directory = entries.is_some();
        let is_guarded = verdict.rule.as_ref().is_some_and(|(_, rule)| rule.is_guard());
        let mut input = HostInput { place, is_directory, asks: None, secrets: Vec::new() };
        // A link that leads to a secret was named by its own name.
        if verdict.decision == Decision::Ask && is_guarded && Path::new(input.place.real()) != path {
            input.secrets.push(input.place.real().to_owned());
        }
        let mut more = 0;
        // A directory must not smuggle in denied files, or files that need approval.
        for entry in entries.into_iter().flatten() {
            let verdict = judge(&entry);
            match verdict.decision {
                Decision::Allow => {}
                Decision::Deny => {
                    let denied = Some(entry.real().to_owned());
                    return Err(InputRefused::Denied { path: name(), denied, rule: line(verdict) });
                }
                Decision::Ask => {
                    let is_secret = verdict.rule.is_some_and(|(_, rule)| rule.is_guard());
                    match input.secrets.len() {
                        named if is_secret && named < MAX_NAMED => {
                            input.secrets.push(entry.real().to_owned())
                        }
                        _ if is_secret => more += 1,
                        _ => {}
                    }
                    // What is asked about for its own sake stands for the others.
                    if input.asks.is_none() || (is_secret && input.secrets.len() == 1) {
                        input.asks = Some(entry.real().to_owned());
                    }
                }
            }
        }
        if more > 0 {
            input.secrets.push(format!("and {more} more"));
        }
        Ok(input)
    }
}

/// What lies below a directory, links not followed; `Some(None)` for a file, and `None` when it is too much to look
/// at or cannot be looked at.
fn entries_below(place: &RealPath) -> Option<Option<Vec<RealPath>>> {
    // A path that is no text is another path as text: what lies there cannot be looked at.
    if !place.is_exact() {
        return None;
    }
    let path = PathBuf::from(place.real());
    match std::fs::symlink_metadata(&path) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Some(None),
        // Whether there is something is told by nobody before the gate.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(None),
        Err(_) => return None,
    }
    let mut pending = vec![(path, place.ignores_case())];
    let mut found = Vec::new();
    while let Some((directory, mut is_folded)) = pending.pop() {
        let entries = std::fs::read_dir(&directory).ok()?.take(MAX_HOST_ENTRIES + 1);
        let entries: Vec<DirEntry> = entries.collect::<io::Result<_>>().ok()?;
        // Whether case counts is a matter of the directory: one of its names tells, if it has letters.
        let telling = entries.iter().find(|entry| has_case(&entry.file_name()));
        is_folded |= telling.is_some_and(|entry| ignores_case(&entry.path()));
        for entry in entries {
            let path = entry.path();
            if entry.file_type().ok()?.is_dir() {
                pending.push((path.clone(), is_folded));
            }
            found.push(RealPath::known(&path, &path, is_folded));
            if found.len() > MAX_HOST_ENTRIES {
                return None;
            }
        }
    }
    // In the same order each time: what is asked about first is part of the question.
    found.sort_by(|one, other| one.real().cmp(other.real()));
    Some(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two names of one file that differ in case alone are what a directory shows that ignores case.
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
