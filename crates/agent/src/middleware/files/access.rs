//! Which files a call may read and change.

use prowess_backend::entry::Target;
use prowess_backend::{Backend, BackendError, VirtualPath};
use prowess_permission::{Action, Decision, Grant, Granted, Kind, Permissions, Question, RealPath, Verdict};
use prowess_skills::SkillView;
use prowess_skills::owner::{FileOwner, WithheldFile};

use super::Stop;
use super::change::{ChangeAllowed, ChangePermit};
use crate::tool::ToolContext;

/// Which files a call may read and change, by the permission rules and by the skills that own files.
///
/// Rules match the file's real path on this machine, and also the paths by which the call reached it.
pub(super) struct FileAccess<'a> {
    pub(super) backend: &'a dyn Backend,
    pub(super) permissions: Option<&'a Permissions>,
    pub(super) skills: Option<SkillView>,
    pub(super) context: ToolContext<'a>,
}

/// Read access to a path: which files below it may be named and shown.
pub(super) struct ReadAccess<'a> {
    access: &'a FileAccess<'a>,
    /// Whether a rule allows the path, so that nobody was asked about the files below it.
    by_rule: bool,
    /// Whether the path is one of the files that are always asked about. Then the reply was for these files.
    is_guarded: bool,
}

impl FileAccess<'_> {
    /// Asks for read access to a path and the files below it.
    pub(super) async fn read(&self, path: &VirtualPath) -> Result<ReadAccess<'_>, Stop> {
        let target = self.find(path).await?;
        let question = about(Kind::READ, path, &target);
        let verdict = self.verdict(&question);
        let by_rule = verdict.as_ref().is_none_or(|verdict| verdict.decision == Decision::Allow);
        let is_guarded = verdict.as_ref().is_some_and(is_by_guard);
        self.pass(question).await?;
        Ok(ReadAccess { access: self, by_rule, is_guarded })
    }

    /// Asks to write a file.
    pub(super) async fn write(&self, path: &VirtualPath, action: Action) -> Result<ChangePermit, Stop> {
        let target = self.find(path).await?;
        let question = about(Kind::WRITE, path, &target).action(action);
        let rule = self.verdict(&question).and_then(|verdict| verdict.rule);
        let allowed = match (self.pass(question).await?.map(|grant| grant.how()), rule) {
            (None, _) => ChangeAllowed::Unchecked,
            (Some(Granted::Rule), Some((source, rule))) => ChangeAllowed::Rule(source, rule),
            (Some(how), _) => ChangeAllowed::Granted(how),
        };
        Ok(ChangePermit { target, allowed })
    }

    /// Asks to edit a file. That also reveals its text.
    pub(super) async fn edit(&self, path: &VirtualPath, action: Action) -> Result<ChangePermit, Stop> {
        let target = self.find(path).await?;
        let read = about(Kind::READ, path, &target);
        let writes = self.decision(&about(Kind::WRITE, path, &target));
        match self.decision(&read) {
            Decision::Allow => {}
            // One question is enough: the question about writing shows the old text.
            Decision::Ask if writes == Decision::Ask => {}
            Decision::Ask | Decision::Deny => _ = self.pass(read).await?,
        }
        self.write(path, action).await
    }

    /// Asks to run a command line.
    pub(super) async fn run(&self, command: &str) -> Result<(), Stop> {
        let because_of = self.skills.as_ref().map(SkillView::server_skills_in_context).unwrap_or_default();
        let is_led = !because_of.is_empty();
        let question = Question::new(Kind::RUN, command);
        let question = question.action(Action::Execute { command: command.to_owned(), because_of });
        // Text of a server may have led to this command, so a person decides each time.
        self.pass(if is_led { question.each_time() } else { question }).await?;
        Ok(())
    }

    /// Gets permission for an action, if there are rules.
    async fn pass(&self, question: Question) -> Result<Option<Grant>, Stop> {
        let of_skills = || self.skills.as_ref().map(|skills| skills.engine().permissions());
        let rules = self.permissions.or_else(|| of_skills().filter(|_| question.each_time));
        match rules {
            Some(permissions) => Ok(Some(self.context.pass(permissions, question).await?)),
            None => Ok(None),
        }
    }

    fn decision(&self, question: &Question) -> Decision {
        self.verdict(question).map_or(Decision::Allow, |verdict| verdict.decision)
    }

    /// The decision of the rules, if there are any.
    fn verdict(&self, question: &Question) -> Option<Verdict> {
        self.permissions.map(|permissions| permissions.decide(question))
    }

    /// The file that a path leads to, unless the agent must not know of it.
    async fn find(&self, path: &VirtualPath) -> Result<Target, BackendError> {
        if self.permissions.is_none() && self.skills.is_none() {
            return Ok(Target::itself(path));
        }
        let target = self.backend.target(path).await;
        let on_disk = target.on_disk.iter().map(|path| path.to_string_lossy());
        let in_backend = [path, &target.path].map(|path| path.as_str().into());
        for name in on_disk.chain(in_backend) {
            self.check_owner(path, &name, target.ignores_case)?;
        }
        Ok(target)
    }

    /// Checks that the skill that owns a file, if any, lets the agent know of it. `name` is one of the file's paths.
    fn check_owner(&self, path: &VirtualPath, name: &str, ignores_case: bool) -> Result<(), BackendError> {
        let Some(skills) = &self.skills else { return Ok(()) };
        let owner = if ignores_case { skills.owner_of_any_case(name) } else { skills.owner_of(name) };
        let hidden = || BackendError::NotFound { path: path.clone() };
        match owner {
            FileOwner::Denied => Err(hidden()),
            FileOwner::Skill(skill) => skills.check_readable(&skill).map_err(|withheld| match withheld {
                WithheldFile::LoadFirst(skill) => {
                    let reason = format!("it belongs to the skill '{skill}': load the skill first");
                    BackendError::PermissionDenied { path: path.clone(), reason }
                }
                _ => hidden(),
            }),
            _ => Ok(()),
        }
    }
}

impl ReadAccess<'_> {
    /// Whether the agent may know that this file exists.
    pub(super) async fn may_name(&self, path: &VirtualPath) -> bool {
        self.visibility(path).await != Visibility::Hidden
    }

    /// Whether the file's text may be shown.
    ///
    /// A file that needs a question is not shown if nobody was asked. A file that usually has secrets is not shown because
    /// of a reply about its directory.
    pub(super) async fn may_show(&self, path: &VirtualPath) -> bool {
        match self.visibility(path).await {
            Visibility::Hidden => false,
            Visibility::Shown => true,
            Visibility::NameOnly { is_guarded } => !self.by_rule && (self.is_guarded || !is_guarded),
        }
    }

    /// Whether there can be files that may be named and not shown.
    pub(super) fn can_withhold(&self) -> bool {
        self.access.permissions.is_some()
    }

    /// How much of a file the rules let the agent see.
    async fn visibility(&self, path: &VirtualPath) -> Visibility {
        let Ok(target) = self.access.find(path).await else { return Visibility::Hidden };
        let Some(verdict) = self.access.verdict(&about(Kind::READ, path, &target)) else {
            return Visibility::Shown;
        };
        match verdict.decision {
            Decision::Deny => Visibility::Hidden,
            Decision::Allow => Visibility::Shown,
            Decision::Ask => Visibility::NameOnly { is_guarded: is_by_guard(&verdict) },
        }
    }
}

/// How much of a file the agent may see.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Visibility {
    /// Nothing, not even its name.
    Hidden,
    /// All of it.
    Shown,
    /// Its name. A person has to be asked about its text.
    NameOnly { is_guarded: bool },
}

/// Whether the question is about this particular file, because it is one that is always asked about.
fn is_by_guard(verdict: &Verdict) -> bool {
    verdict.rule.as_ref().is_some_and(|(_, rule)| rule.is_guard())
}

/// A question about the file that a path leads to. If it is on this machine, the question shows its real path: the person
/// may not know what the model calls `/notes.md`.
fn about(kind: Kind, path: &VirtualPath, target: &Target) -> Question {
    let real_path = match target.on_disk.as_slice() {
        [spelled, .., real] => RealPath::known(real, spelled, target.ignores_case),
        [real] => RealPath::known(real, real, target.ignores_case),
        [] => RealPath::elsewhere(target.path.as_str()),
    };
    let inside = [path, &target.path].map(|path| path.as_str().to_owned());
    Question::about_file(kind, real_path.backend_paths(inside))
}
