//! Which files a call may read and change.

use std::sync::OnceLock;

use prowess_backend::entry::Target;
use prowess_backend::write::{EditScope, MAX_EDIT_BYTES};
use prowess_backend::{Backend, BackendError, Edit, EntryKind, ReadRange, VirtualPath};
use prowess_permission::action::CopyAction;
use prowess_permission::{Action, Decision, Grant, Granted, Kind, Permissions, Question, RealPath, Verdict};
use prowess_skills::SkillView;
use prowess_skills::allowed_tools::{CheckedCall, ToolVerdict};
use prowess_skills::owner::{FileOwner, WithheldFile};
use serde_json::json;

use super::Stop;
use super::change::{ChangeAllowed, ChangePermit};
use super::preview::EditPreview;
use crate::tool::permission::replies;
use crate::tool::{ToolContext, ToolOutput};

/// Which files a call may read and change, by the permission rules and by the skills that own files.
///
/// Rules match the file's real path on this machine, and also the paths by which the call reached it.
pub(super) struct FileAccess<'a> {
    pub(super) backend: &'a dyn Backend,
    pub(super) permissions: Option<&'a Permissions>,
    pub(super) skills: Option<SkillView>,
    pub(super) context: ToolContext<'a>,
    /// The name of the tool.
    pub(super) tool: &'static str,
    /// The skill whose `allowed-tools` settled a question.
    pub(super) preapproved_by: OnceLock<String>,
}

/// Read access to a path: which files below it may be named and shown.
pub(super) struct ReadAccess<'a> {
    access: &'a FileAccess<'a>,
    by: ReadBy,
    /// Whether the path is one of the files that are always asked about. Then the reply was for these files.
    is_guarded: bool,
}

/// Who allowed to read a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadBy {
    /// A rule or an approval. Nobody was asked about the files below it.
    Rule,
    /// A person, who was asked about the path.
    Person,
    /// The `allowed-tools` of a skill. They also allow what rules ask about in general.
    List,
}

impl FileAccess<'_> {
    /// Asks for read access to a path and the files below it.
    pub(super) async fn read(&self, path: &VirtualPath) -> Result<ReadAccess<'_>, Stop> {
        let target = self.find(path).await?;
        let question = about(Kind::READ, path, &target);
        let verdict = self.verdict(&question);
        let by_rule = verdict.as_ref().is_none_or(|verdict| verdict.decision == Decision::Allow);
        let is_guarded = verdict.as_ref().is_some_and(is_by_guard);
        let skill = self.preapproving_skill(path, &target);
        let by = match self.pass(question, skill).await?.map(|grant| grant.how()) {
            Some(Granted::Preapproved) => ReadBy::List,
            _ if by_rule => ReadBy::Rule,
            _ => ReadBy::Person,
        };
        Ok(ReadAccess { access: self, by, is_guarded })
    }

    /// Asks to write a new file.
    pub(super) async fn write(&self, path: &VirtualPath, action: Action) -> Result<ChangePermit, Stop> {
        let target = self.find(path).await?;
        let question = about(Kind::WRITE, path, &target).action(action);
        if self.decision(&question) == Decision::Ask {
            self.check_change(path).await?;
            // If a rule denies to read the file, the call must not learn whether it exists.
            if self.decision(&about(Kind::READ, path, &target)) != Decision::Deny {
                self.check_no_link(path, &target)?;
                self.check_new(path, &target).await?;
            }
        }
        self.pass_change(path, target, question).await
    }

    /// Checks that nothing is at a path yet, and that a file can be there.
    async fn check_new(&self, path: &VirtualPath, target: &Target) -> Result<(), Stop> {
        match self.backend.stat(path).await {
            Ok(entry) if entry.kind == EntryKind::Directory => {
                Err(BackendError::IsDirectory { path: entry.path }.into())
            }
            Ok(entry) => Err(BackendError::AlreadyExists { path: entry.path }.into()),
            Err(BackendError::NotFound { .. }) => self.check_parents(path).await,
            Err(error @ BackendError::NotADirectory { .. }) => Err(error.into()),
            Err(error) if !target.on_disk.is_empty() => Err(error.into()),
            // A store may let a caller write what the caller cannot look up.
            Err(_) => Ok(()),
        }
    }

    /// Checks that a new file would not be below another file.
    async fn check_parents(&self, path: &VirtualPath) -> Result<(), Stop> {
        let mut above = path.parent();
        while let Some(parent) = above {
            // The call must not learn of a file that it may not read.
            let Ok(target) = self.find(&parent).await else { return Ok(()) };
            if self.decision(&about(Kind::READ, &parent, &target)) == Decision::Deny {
                return Ok(());
            }
            match self.backend.stat(&parent).await {
                Ok(entry) if entry.kind == EntryKind::Directory => return Ok(()),
                Ok(entry) => return Err(BackendError::NotADirectory { path: entry.path }.into()),
                Err(_) => above = parent.parent(),
            }
        }
        Ok(())
    }

    /// Checks that a path has no links. Nothing is written through links.
    fn check_no_link(&self, path: &VirtualPath, target: &Target) -> Result<(), BackendError> {
        // Another spelling of a path is not a link.
        let path = self.backend.known_as(path);
        if target.path == path {
            return Ok(());
        }
        let reason = format!("it is a link, or below one; it leads to {}", target.path);
        Err(BackendError::PermissionDenied { path, reason })
    }

    /// Checks a place before a person is asked about a change of it. Nobody should approve what is then refused.
    async fn check_change(&self, path: &VirtualPath) -> Result<(), Stop> {
        // If the person already said no, that is the answer.
        replies(self.context.consultation).map_err(ToolOutput::from)?;
        Ok(self.backend.check_change(path).await?)
    }

    /// Asks about a change of a file.
    async fn pass_change(
        &self,
        path: &VirtualPath,
        target: Target,
        question: Question,
    ) -> Result<ChangePermit, Stop> {
        let rule = self.verdict(&question).and_then(|verdict| verdict.rule);
        let skill = self.preapproving_skill(path, &target);
        let allowed = match (self.pass(question, skill).await?.map(|grant| grant.how()), rule) {
            (None, _) => ChangeAllowed::Unchecked,
            (Some(Granted::Rule), Some((source, rule))) => ChangeAllowed::Rule(source, rule),
            (Some(how), _) => ChangeAllowed::Granted(how),
        };
        Ok(ChangePermit { target, allowed })
    }

    /// Asks to edit a file. That also reveals its text.
    pub(super) async fn edit(&self, path: &VirtualPath, edit: &Edit) -> Result<ChangePermit, Stop> {
        let target = self.find(path).await?;
        let (read, write) = (about(Kind::READ, path, &target), about(Kind::WRITE, path, &target));
        let skill = self.preapproving_skill(path, &target);
        // A person who is asked about writing sees the old text.
        let is_shown = self.decision(&write) == Decision::Ask && !self.is_settled(&write, skill.as_ref());
        if is_shown {
            self.check_change(path).await?;
            if self.decision(&read) != Decision::Deny {
                self.check_no_link(path, &target)?;
            }
        }
        let may_look = match self.decision(&read) {
            Decision::Allow => true,
            // One question is enough. Until it is answered, the call must not learn what the file contains.
            Decision::Ask if is_shown => self.is_settled(&read, skill.as_ref()),
            Decision::Ask | Decision::Deny => self.pass(read, skill).await.map(|_| true)?,
        };
        let preview =
            if is_shown && may_look { self.preview(path, edit).await? } else { EditPreview::default() };
        let (old, new, all) = (&edit.find, &edit.replace, edit.scope == EditScope::All);
        let in_version_1 = json!({"old_string": old, "new_string": new, "replace_all": all});
        let binding = write.binding.clone();
        let action = Action::EditFile {
            old_string: old.clone(),
            new_string: new.clone(),
            replace_all: all,
            difference: preview.difference,
            lines: preview.lines,
        };
        let question = write.action(action).also_as_version_1(&in_version_1, binding.as_deref());
        self.pass_change(path, target, question).await
    }

    /// What an edit changes, for the person. An edit that cannot be made is an error.
    async fn preview(&self, path: &VirtualPath, edit: &Edit) -> Result<EditPreview, Stop> {
        let read = self.backend.read(path, ReadRange::first(MAX_EDIT_BYTES)).await?;
        let before = read.into_whole()?;
        let (after, replacements) = edit.apply(&self.backend.known_as(path), &before)?;
        Ok(EditPreview::new(&before, after.as_bytes(), edit, replacements))
    }

    /// The place that a write to a path changes. No link may lead to it: the question shows the real path, and the file at
    /// exactly this path is written.
    pub(super) async fn place_to_write(&self, path: &VirtualPath) -> Result<Target, Stop> {
        self.find(path).await?;
        let target = self.backend.target(path).await;
        self.check_no_link(path, &target)?;
        // If a rule forbids the write, the call learns nothing about the present file.
        let question = about(Kind::WRITE, path, &target);
        if self.decision(&question) == Decision::Deny {
            self.pass(question, None).await?;
        }
        self.check_change(path).await?;
        Ok(target)
    }

    /// Refuses a path that a rule denies to read, whether there is a file or not.
    pub(super) fn check_may_look(&self, path: &VirtualPath, target: &Target) -> Result<(), BackendError> {
        if self.decision(&about(Kind::READ, path, target)) != Decision::Deny {
            return Ok(());
        }
        let reason = "a rule denies to read it, so nobody could compare the two files".to_owned();
        Err(BackendError::PermissionDenied { path: self.backend.known_as(path), reason })
    }

    /// Asks to write a copy. A reply counts for its bytes only, so there is no "always".
    pub(super) async fn copy(
        &self,
        path: &VirtualPath,
        target: Target,
        action: CopyAction,
    ) -> Result<ChangePermit, Stop> {
        let question = about(Kind::WRITE, path, &target).action(action).always([]);
        self.pass_change(path, target, question).await
    }

    /// Asks to run a command line.
    pub(super) async fn run(&self, command: &str) -> Result<(), Stop> {
        let because_of = self.skills.as_ref().map(SkillView::server_skills_in_context).unwrap_or_default();
        let is_led = !because_of.is_empty();
        let question = Question::new(Kind::RUN, command);
        let question = question.action(Action::Execute { command: command.to_owned(), because_of });
        // Text of a server may have led to this command, so a person decides each time.
        let question = if is_led { question.each_time() } else { question };
        self.pass(question, self.listing_skill(CheckedCall::new(self.tool).argument(command))).await?;
        Ok(())
    }

    /// Gets permission, if there are rules. `skill` is the skill that lists what the call does.
    async fn pass(&self, question: Question, skill: Option<String>) -> Result<Option<Grant>, Stop> {
        let of_skills = || self.skills.as_ref().map(|skills| skills.engine().permissions());
        let rules = self.permissions.or_else(|| of_skills().filter(|_| question.each_time));
        match (rules, skill) {
            (Some(permissions), Some(skill)) => {
                let grant = self.context.pass_preapproved(permissions, question).await?;
                if grant.how() == Granted::Preapproved {
                    let _ = self.preapproved_by.set(skill);
                }
                Ok(Some(grant))
            }
            (Some(permissions), None) => Ok(Some(self.context.pass(permissions, question).await?)),
            (None, _) => Ok(None),
        }
    }

    /// Whether nobody is asked, because of a list.
    fn is_settled(&self, question: &Question, skill: Option<&String>) -> bool {
        let is_preapproved = |permissions: &Permissions| permissions.request_preapproved(question).is_ok();
        skill.is_some() && self.permissions.is_some_and(is_preapproved)
    }

    /// The loaded skill that lists this tool for a file, under every path of the file in the backend. No list is about files
    /// of skills.
    fn preapproving_skill(&self, path: &VirtualPath, target: &Target) -> Option<String> {
        let skills = self.skills.as_ref()?;
        let on_disk = target.on_disk.iter().map(|path| path.to_string_lossy().into_owned());
        let mut names = on_disk.chain([path, &target.path].map(|path| path.as_str().to_owned()));
        if names.any(|name| skills.owner_of_any_case(&name) != FileOwner::Nobody) {
            return None;
        }
        let listing =
            |path: &VirtualPath| self.listing_skill(CheckedCall::new(self.tool).argument(path.as_str()));
        listing(&target.path).and_then(|_| listing(path))
    }

    /// The loaded skill that lists a call.
    fn listing_skill(&self, call: CheckedCall<'_>) -> Option<String> {
        match self.skills.as_ref()?.check_tool(call) {
            ToolVerdict::Preapproved { skill } => Some(skill),
            _ => None,
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
            Visibility::NameOnly { is_guarded } => match self.by {
                ReadBy::Rule | ReadBy::List => false,
                ReadBy::Person => self.is_guarded || !is_guarded,
            },
        }
    }

    /// Whether there can be files that may be named and not shown.
    pub(super) fn can_withhold(&self) -> bool {
        self.access.permissions.is_some()
    }

    /// How much of a file the rules let the agent see.
    async fn visibility(&self, path: &VirtualPath) -> Visibility {
        let Ok(target) = self.access.find(path).await else { return Visibility::Hidden };
        let question = about(Kind::READ, path, &target);
        let Some(verdict) = self.access.verdict(&question) else { return Visibility::Shown };
        let is_listed = || {
            let skill = self.access.preapproving_skill(path, &target);
            self.by == ReadBy::List && self.access.is_settled(&question, skill.as_ref())
        };
        match verdict.decision {
            Decision::Deny => Visibility::Hidden,
            Decision::Allow => Visibility::Shown,
            Decision::Ask if is_listed() => Visibility::Shown,
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
