//! What of the files a call may see and change.

use prowess_backend::entry::Target;
use prowess_backend::{Backend, BackendError, VirtualPath};
use prowess_permission::{Action, Decision, Kind, Permissions, Question, RealPath, Verdict};
use prowess_skills::SkillView;
use prowess_skills::owner::{FileOwner, WithheldFile};

use super::Stop;
use crate::tool::ToolContext;

/// What a call may see and change: by the rules, and by those of the skills whose files they are. Rules are asked about
/// the file's real path on this machine, and also about the names that it was reached by.
pub(super) struct Reach<'a> {
    pub(super) backend: &'a dyn Backend,
    pub(super) permissions: Option<&'a Permissions>,
    pub(super) skills: Option<SkillView>,
    pub(super) context: ToolContext<'a>,
}

/// What of a place that may be looked at is shown.
pub(super) struct Look<'a> {
    reach: &'a Reach<'a>,
    /// Whether a rule allows the place, so nobody was asked about what is below it.
    by_rule: bool,
    /// Whether it is among the files that are asked about wherever they lie: then the answer was for these.
    is_guarded: bool,
}

impl Reach<'_> {
    /// Asks for a look at a path and what is below it.
    pub(super) async fn look(&self, path: &VirtualPath) -> Result<Look<'_>, Stop> {
        let target = self.find(path).await?;
        let request = about(Kind::READ, path, &target);
        let verdict = self.verdict(&request);
        let by_rule = verdict.as_ref().is_none_or(|verdict| verdict.decision == Decision::Allow);
        let is_guarded = verdict.as_ref().is_some_and(is_by_guard);
        self.pass(request).await?;
        Ok(Look { reach: self, by_rule, is_guarded })
    }

    /// Asks to write a file.
    pub(super) async fn write(&self, path: &VirtualPath, deed: Action) -> Result<(), Stop> {
        let target = self.find(path).await?;
        self.pass(about(Kind::WRITE, path, &target).to(deed)).await
    }

    /// Asks to change a file, which tells what is in it.
    pub(super) async fn edit(&self, path: &VirtualPath, deed: Action) -> Result<(), Stop> {
        let target = self.find(path).await?;
        let read = about(Kind::READ, path, &target);
        let writes = self.decision(&about(Kind::WRITE, path, &target));
        match self.decision(&read) {
            Decision::Allow => {}
            // One question is enough: who lets it be changed has seen what it is changed from.
            Decision::Ask if writes == Decision::Ask => {}
            Decision::Ask | Decision::Deny => self.pass(read).await?,
        }
        self.write(path, deed).await
    }

    /// Asks to run a command line.
    pub(super) async fn run(&self, command: &str) -> Result<(), Stop> {
        let because_of = self.skills.as_ref().map(SkillView::server_skills_in_context).unwrap_or_default();
        let is_led = !because_of.is_empty();
        let question = Question::new(Kind::RUN, command);
        let question = question.to(Action::Execute { command: command.to_owned(), because_of });
        // What a server's words may have brought about is a person's decision, each time.
        self.pass(if is_led { question.each_time() } else { question }).await
    }

    async fn pass(&self, question: Question) -> Result<(), Stop> {
        let of_skills = || self.skills.as_ref().map(|skills| skills.engine().permissions());
        let rules = self.permissions.or_else(|| of_skills().filter(|_| question.each_time));
        match rules {
            Some(permissions) => Ok(self.context.pass(permissions, question).await?),
            None => Ok(()),
        }
    }

    fn decision(&self, question: &Question) -> Decision {
        self.verdict(question).map_or(Decision::Allow, |verdict| verdict.decision)
    }

    /// What is decided, where there are rules.
    fn verdict(&self, question: &Question) -> Option<Verdict> {
        self.permissions.map(|permissions| permissions.decide(question))
    }

    /// Where a path leads, if it may be known of.
    async fn find(&self, path: &VirtualPath) -> Result<Target, BackendError> {
        if self.permissions.is_none() && self.skills.is_none() {
            return Ok(Target::itself(path));
        }
        let target = self.backend.target(path).await;
        let on_disk = target.on_disk.iter().map(|place| place.to_string_lossy());
        let in_backend = [path, &target.path].map(|path| path.as_str().into());
        for place in on_disk.chain(in_backend) {
            self.owned(path, &place, target.ignores_case)?;
        }
        Ok(target)
    }

    /// Whether a place may be known of, by the skill that it belongs to.
    fn owned(&self, path: &VirtualPath, place: &str, ignores_case: bool) -> Result<(), BackendError> {
        let Some(skills) = &self.skills else { return Ok(()) };
        let owner = if ignores_case { skills.owner_of_any_case(place) } else { skills.owner_of(place) };
        let hidden = || BackendError::NotFound { path: path.clone() };
        match owner {
            FileOwner::Denied => Err(hidden()),
            FileOwner::Skill(name) => skills.check_readable(&name).map_err(|withheld| match withheld {
                WithheldFile::LoadFirst(name) => {
                    let reason = format!("it is of the skill '{name}', which has to be loaded first");
                    BackendError::PermissionDenied { path: path.clone(), reason }
                }
                _ => hidden(),
            }),
            _ => Ok(()),
        }
    }
}

impl Look<'_> {
    /// Whether it may be said that this is there.
    pub(super) async fn names(&self, path: &VirtualPath) -> bool {
        !matches!(self.judged(path).await, Judged::Hidden)
    }

    /// Whether what is in it may be shown. What a rule of its own wants asked about is not, where nobody was asked. A
    /// file that mostly has secrets is not, whoever was asked about the directory around it.
    pub(super) async fn shows(&self, path: &VirtualPath) -> bool {
        match self.judged(path).await {
            Judged::Hidden => false,
            Judged::Free => true,
            Judged::Asks { is_guarded } => !self.by_rule && (self.is_guarded || !is_guarded),
        }
    }

    /// Whether there can be files whose names may be said and whose contents may not.
    pub(super) fn withholds(&self) -> bool {
        self.reach.permissions.is_some()
    }

    /// What is decided about something that was found.
    async fn judged(&self, path: &VirtualPath) -> Judged {
        let Ok(target) = self.reach.find(path).await else { return Judged::Hidden };
        let Some(verdict) = self.reach.verdict(&about(Kind::READ, path, &target)) else {
            return Judged::Free;
        };
        match verdict.decision {
            Decision::Deny => Judged::Hidden,
            Decision::Allow => Judged::Free,
            Decision::Ask => Judged::Asks { is_guarded: is_by_guard(&verdict) },
        }
    }
}

/// What may be told of something that was found.
enum Judged {
    /// Not even that it is there.
    Hidden,
    /// All of it.
    Free,
    /// Its name; somebody has to be asked about the rest.
    Asks { is_guarded: bool },
}

/// Whether it is because of the file that somebody has to be asked, and not because of all files.
fn is_by_guard(verdict: &Verdict) -> bool {
    verdict.rule.as_ref().is_some_and(|(_, rule)| rule.is_guard())
}

/// A request about the file that a path leads to: by its real path where it is on a disk of this machine. A person is asked
/// by that path, too: what the model calls `/notes.md` is a file of a directory of theirs.
fn about(kind: Kind, path: &VirtualPath, target: &Target) -> Question {
    let place = match target.on_disk.as_slice() {
        [spelled, .., real] => RealPath::known(real, spelled, target.ignores_case),
        [real] => RealPath::known(real, real, target.ignores_case),
        [] => RealPath::elsewhere(target.path.as_str()),
    };
    let inside = [path, &target.path].map(|path| path.as_str().to_owned());
    Question::about_file(kind, place.in_backend(inside))
}
