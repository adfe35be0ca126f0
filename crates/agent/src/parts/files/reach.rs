//! What of the files a call may see and change.

use prowess_backend::{Backend, BackendError, Target, VirtualPath};
use prowess_permission::{Decision, Kind, Permissions, Request};
use prowess_skills::prowess_catalog::is_unprintable;
use prowess_skills::{Owner, SkillSession};
use serde_json::{Value, json};

use super::Stop;
use crate::tool::ToolContext;

/// What a call may see and change: by the rules, and by those of the skills whose files they are. Where a path has links
/// in it, what it leads to counts as well.
pub(super) struct Reach<'a> {
    pub(super) backend: &'a dyn Backend,
    pub(super) permissions: Option<&'a Permissions>,
    pub(super) skills: Option<&'a SkillSession>,
    pub(super) context: ToolContext<'a>,
}

/// What of a place that may be looked at is shown.
pub(super) struct Look<'a> {
    reach: &'a Reach<'a>,
    /// Whether a rule allows the place, so nobody was asked about what is below it.
    by_rule: bool,
}

impl Reach<'_> {
    /// Asks for a look at a path and what is below it.
    pub(super) async fn look(&self, path: &VirtualPath) -> Result<Look<'_>, Stop> {
        let target = self.find(path).await?;
        let request = about(Kind::READ, path, &target);
        let by_rule = self.decision(&request) == Decision::Allow;
        self.pass(request).await?;
        Ok(Look { reach: self, by_rule })
    }

    /// Asks to write a file.
    pub(super) async fn write(&self, path: &VirtualPath, details: Value) -> Result<(), Stop> {
        let target = self.find(path).await?;
        self.pass(about(Kind::WRITE, path, &target).with_details(details)).await
    }

    /// Asks to change a file, which tells what is in it.
    pub(super) async fn edit(&self, path: &VirtualPath, details: Value) -> Result<(), Stop> {
        let target = self.find(path).await?;
        let read = about(Kind::READ, path, &target);
        let writes = self.decision(&about(Kind::WRITE, path, &target));
        match self.decision(&read) {
            Decision::Allow => {}
            // One question is enough: who lets it be changed has seen what it is changed from.
            Decision::Ask if writes == Decision::Ask => {}
            Decision::Ask | Decision::Deny => self.pass(read).await?,
        }
        self.write(path, details).await
    }

    /// Asks to run a command line.
    pub(super) async fn run(&self, command: &str) -> Result<(), Stop> {
        let request = Request::new(Kind::RUN, command);
        let at_work = self.skills.map(SkillSession::servers_at_work).unwrap_or_default();
        if at_work.is_empty() {
            return self.pass(request).await;
        }
        // What a server's words may have brought about is a person's decision, each time.
        let details = json!({"command": command, "asked_each_time_because_of": at_work});
        self.pass(request.with_details(details).each_time()).await
    }

    async fn pass(&self, request: Request) -> Result<(), Stop> {
        let rules =
            self.permissions.or_else(|| Some(self.skills?.permissions()).filter(|_| request.each_time));
        match rules {
            Some(permissions) => Ok(self.context.pass(permissions, request).await?),
            None => Ok(()),
        }
    }

    fn decision(&self, request: &Request) -> Decision {
        self.permissions.map_or(Decision::Allow, |permissions| permissions.decide(request).decision)
    }

    /// Where a path leads, if it may be known of.
    async fn find(&self, path: &VirtualPath) -> Result<Target, BackendError> {
        if self.permissions.is_none() && self.skills.is_none() {
            return Ok(Target { path: path.clone(), on_disk: Vec::new() });
        }
        let target = self.backend.target(path).await;
        let on_disk = target.on_disk.iter().map(|place| place.to_string_lossy());
        let in_backend = [path, &target.path].map(|path| path.as_str().into());
        for place in on_disk.chain(in_backend) {
            self.owned(path, &place)?;
        }
        Ok(target)
    }

    /// Whether a place may be known of, by the skill that it belongs to.
    fn owned(&self, path: &VirtualPath, place: &str) -> Result<(), BackendError> {
        let Some(skills) = self.skills else { return Ok(()) };
        let name = match skills.owner_of(place) {
            Owner::Denied => return Err(BackendError::NotFound { path: path.clone() }),
            Owner::Skill(name) => name,
            _ => return Ok(()),
        };
        let decision = || skills.permissions().decide(&Request::new(Kind::SKILL, name.as_str())).decision;
        if skills.state().get(&name).is_some() || decision() == Decision::Allow {
            return Ok(());
        }
        let reason = format!("it is of the skill '{name}', which has to be loaded first");
        Err(BackendError::PermissionDenied { path: path.clone(), reason })
    }
}

impl Look<'_> {
    /// Whether it may be said that this is there.
    pub(super) async fn names(&self, path: &VirtualPath) -> bool {
        self.judged(path).await.is_some()
    }

    /// Whether what is in it may be shown. What a rule of its own wants asked about is not, where nobody was asked.
    pub(super) async fn shows(&self, path: &VirtualPath) -> bool {
        self.judged(path).await.is_some_and(|decision| !self.by_rule || decision == Decision::Allow)
    }

    /// Whether there can be files whose names may be said and whose contents may not.
    pub(super) fn withholds(&self) -> bool {
        self.by_rule && self.reach.permissions.is_some()
    }

    /// What is decided about something that was found, unless it is not to be known of.
    async fn judged(&self, path: &VirtualPath) -> Option<Decision> {
        let target = self.reach.find(path).await.ok()?;
        let decision = self.reach.decision(&about(Kind::READ, path, &target));
        (decision != Decision::Deny).then_some(decision)
    }
}

/// A request about a path, and about what it leads to. A person is asked by the place on the disk, if it is on one: what
/// the model calls `/notes.md` is a file of a directory of theirs.
fn about(kind: Kind, path: &VirtualPath, target: &Target) -> Request {
    let mut request = Request::new(kind, path.as_str());
    if let Some(place) = target.on_disk.last() {
        request.title = format!("{} {}", request.kind, visible(&place.to_string_lossy()));
    }
    if target.path == *path { request } else { request.and(target.path.as_str()) }
}

/// A path in which every character can be seen.
fn visible(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for c in path.chars() {
        if is_unprintable(c) { text.extend(c.escape_unicode()) } else { text.push(c) }
    }
    text
}
