//! The inside of an operation: how it waits for files and replies.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use prowess_catalog::document::{DocumentError, DocumentText};
use prowess_catalog::skill::MANIFEST;
use prowess_catalog::{Catalog, Documents, ReadError, Resources, SkillEntry, SkillText};
use prowess_permission::{Question, Refusal};

use super::want::{Fed, Want};
use crate::engine::SkillEngine;
use crate::error::SkillError;

/// What an operation waits for.
pub(super) enum Need {
    Want(Want),
    Ask(Box<Question>),
}

/// What an operation was given.
pub(super) enum Given {
    Fed(Box<Fed>),
    Reply(Result<(), Refusal>),
}

/// The connection between an operation and its driver.
#[derive(Clone, Default)]
pub(super) struct Wire(Arc<Mutex<Slot>>);

#[derive(Default)]
pub(super) struct Slot {
    pub(super) need: Option<Need>,
    pub(super) given: Option<Given>,
}

impl Wire {
    pub(super) fn slot(&self) -> MutexGuard<'_, Slot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn get(&self, need: Need) -> Given {
        self.slot().need = Some(need);
        poll_fn(|_| match self.slot().given.take() {
            Some(given) => Poll::Ready(given),
            None => Poll::Pending,
        })
        .await
    }
}

/// The operation's side of the connection: it reads files and passes gates.
#[derive(Clone)]
pub(crate) struct Io {
    wire: Wire,
    engine: SkillEngine,
}

impl Io {
    pub(super) fn new(wire: Wire, engine: SkillEngine) -> Self {
        Self { wire, engine }
    }

    /// Passes a gate: through rules, approvals or a person's reply.
    pub(crate) async fn pass(&self, question: Question) -> Result<(), Refusal> {
        let permissions = self.engine.permissions();
        if let Some(decided) = permissions.without_asking(&question) {
            return decided.map(drop);
        }
        match self.wire.get(Need::Ask(Box::new(question.clone()))).await {
            Given::Reply(reply) => reply?,
            Given::Fed(_) => return Err(Refusal::Cancelled),
        }
        // A rule that came after the reply overrides it.
        permissions.denied(&question).map_or(Ok(()), Err)
    }

    async fn want(&self, want: Want) -> Result<Fed, SkillError> {
        match self.wire.get(Need::Want(want)).await {
            Given::Fed(fed) => Ok(*fed),
            Given::Reply(_) => Err(SkillError::WrongFeed),
        }
    }

    pub(crate) async fn text(&self, entry: &Arc<SkillEntry>) -> Result<SkillText, SkillError> {
        match self.want(Want::Text { entry: Arc::clone(entry) }).await? {
            Fed::Text(text) => self.checked(entry, text),
            _ => Err(SkillError::WrongFeed),
        }
    }

    pub(crate) async fn resources(
        &self,
        entry: &Arc<SkillEntry>,
        depth: usize,
    ) -> Result<Resources, SkillError> {
        match self.want(Want::Resources { entry: Arc::clone(entry), depth }).await? {
            Fed::Resources(resources) => Ok(resources),
            _ => Err(SkillError::WrongFeed),
        }
    }

    pub(crate) async fn text_and_resources(
        &self,
        entry: &Arc<SkillEntry>,
        depth: usize,
    ) -> Result<(SkillText, Resources), SkillError> {
        match self.want(Want::TextAndResources { entry: Arc::clone(entry), depth }).await? {
            Fed::TextAndResources(Ok((text, resources))) => Ok((self.checked(entry, Ok(text))?, resources)),
            Fed::TextAndResources(Err(error)) => Err(self.unreadable(entry, error)),
            _ => Err(SkillError::WrongFeed),
        }
    }

    pub(crate) async fn documents(&self, entry: &Arc<SkillEntry>) -> Result<Documents, SkillError> {
        match self.want(Want::Documents { entry: Arc::clone(entry) }).await? {
            Fed::Documents(documents) => Ok(documents),
            _ => Err(SkillError::WrongFeed),
        }
    }

    pub(crate) async fn document(
        &self,
        entry: &Arc<SkillEntry>,
        path: &str,
    ) -> Result<Result<DocumentText, DocumentError>, SkillError> {
        match self.want(Want::Document { entry: Arc::clone(entry), path: path.to_owned() }).await? {
            Fed::Document(Ok(document)) if document.path != path => Err(SkillError::WrongFeed),
            Fed::Document(document) => Ok(document),
            _ => Err(SkillError::WrongFeed),
        }
    }

    pub(crate) async fn look_up(&self, name: &str, catalog: &Catalog) -> Result<Option<Catalog>, SkillError> {
        match self.want(Want::LookUp { name: name.to_owned(), catalog: catalog.clone() }).await? {
            Fed::LookUp(catalog) => Ok(catalog),
            _ => Err(SkillError::WrongFeed),
        }
    }

    /// The text, if it belongs to the skill that the operation wanted.
    fn checked(
        &self,
        entry: &SkillEntry,
        text: Result<SkillText, ReadError>,
    ) -> Result<SkillText, SkillError> {
        let text = text.map_err(|error| self.unreadable(entry, error))?;
        let published = entry.published().and_then(|published| published.file(MANIFEST));
        let is_same = text.skill.location == entry.skill.location
            && text.skill.name == entry.skill.name
            // The person approved the files that the server listed.
            && published.is_none_or(|file| file.digest == text.digest);
        if is_same { Ok(text) } else { Err(SkillError::WrongFeed) }
    }

    fn unreadable(&self, entry: &SkillEntry, error: ReadError) -> SkillError {
        let location = &entry.skill.location;
        tracing::error!(skill = entry.skill.name.as_str(), %error, "Failed to read SKILL.md at {location}");
        error.into()
    }
}
