//! Operations without I/O: each says what it wants, is fed, and goes on.
//!
//! An operation is written as a future, so that it reads from top to bottom, and polled by hand: no runtime is needed,
//! and nothing in it waits for anything but what it said that it wants.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use prowess_catalog::document::{DocumentError, DocumentText};
use prowess_catalog::skill::MANIFEST;
use prowess_catalog::{Catalog, Documents, ReadError, Resources, SkillEntry, SkillText};
use prowess_permission::{Asker, Question, Refusal, Reply, Stopped};

use crate::engine::SkillEngine;
use crate::error::SkillError;
use crate::files::SkillFiles;

/// Something that an operation needs from where skills are kept. Nothing is wanted that is not in the catalog, and no
/// text is shown before its gate is passed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Want {
    /// A skill's document.
    Text {
        /// The skill.
        entry: Arc<SkillEntry>,
    },
    /// The files that it brings along.
    Resources {
        /// The skill.
        entry: Arc<SkillEntry>,
        /// How many levels of directories deep.
        depth: usize,
    },
    /// Both, which is what a load needs.
    TextAndResources {
        /// The skill.
        entry: Arc<SkillEntry>,
        /// How many levels of directories deep.
        depth: usize,
    },
    /// Its documents other than SKILL.md.
    Documents {
        /// The skill.
        entry: Arc<SkillEntry>,
    },
    /// One of its documents.
    Document {
        /// The skill.
        entry: Arc<SkillEntry>,
        /// The document's path in the skill.
        path: String,
    },
    /// A skill that a server has and does not list.
    LookUp {
        /// What a model calls it.
        name: String,
        /// The catalog that it would come into.
        catalog: Catalog,
    },
}

/// What an operation is fed: the same variant as what it wanted.
#[derive(Debug)]
#[non_exhaustive]
pub enum Fed {
    /// A skill's document.
    Text(Result<SkillText, ReadError>),
    /// The files that it brings along.
    Resources(Resources),
    /// Both.
    TextAndResources(Result<(SkillText, Resources), ReadError>),
    /// Its documents.
    Documents(Documents),
    /// One of them.
    Document(Result<DocumentText, DocumentError>),
    /// The catalog with the skill in it; nothing when there is none.
    LookUp(Option<Catalog>),
}

/// Where an operation stands.
#[derive(Debug)]
#[non_exhaustive]
pub enum Step<'a> {
    /// It needs this: [`Operation::feed`] goes on.
    Wants(&'a Want),
    /// Somebody has to say whether it may go on: [`Operation::answer`] does. A host that cannot wait keeps the question,
    /// drops the operation, and makes another one when there is an answer.
    Asks(&'a Question),
    /// It has all that it needs: [`Operation::result`] has what came of it.
    Ready,
}

/// Something that is done with skills, in steps.
///
/// ```
/// use prowess_skills::{Fed, SkillEngine, SkillState, Step, Want};
///
/// # use prowess_catalog::{Catalog, Root, ScanOptions};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # std::fs::create_dir(scratch.path().join("greet"))?;
/// # let manifest = "---\nname: greet\ndescription: Says hello.\n---\nWave.\n";
/// # std::fs::write(scratch.path().join("greet/SKILL.md"), manifest)?;
/// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// let engine = SkillEngine::new(&catalog);
/// let mut state = SkillState::default();
/// let mut load = engine.at(&state).load("greet", None, None);
/// while let Step::Wants(want) = load.step() {
///     let fed = match want {
///         Want::TextAndResources { entry, depth } => {
///             Fed::TextAndResources(entry.read_text_and_resources(*depth))
///         }
///         other => unreachable!("a plain load wants nothing else: {other:?}"),
///     };
///     load.feed(fed);
/// }
/// let answer = load.result()?.finish(&state)?;
/// assert!(answer.text.contains("Wave."));
/// state.replay(&answer.deltas).unwrap();
/// # Ok(())
/// # }
/// ```
#[must_use = "an operation does nothing until it is stepped"]
pub struct Operation<T> {
    body: Option<Body<T>>,
    done: Option<Result<T, SkillError>>,
    wanted: Option<Need>,
    wire: Wire,
    engine: SkillEngine,
}

type Body<T> = Pin<Box<dyn Future<Output = Result<T, SkillError>> + Send>>;

enum Need {
    Want(Want),
    Ask(Box<Question>),
}

enum Given {
    Fed(Box<Fed>),
    Answer(Result<(), Refusal>),
}

/// What goes between an operation and whoever steps it.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<Slot>>);

#[derive(Default)]
struct Slot {
    need: Option<Need>,
    given: Option<Given>,
}

impl Wire {
    fn slot(&self) -> MutexGuard<'_, Slot> {
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

/// An operation's side: what it wants, and whom it has asked.
#[derive(Clone)]
pub(crate) struct Io {
    wire: Wire,
    engine: SkillEngine,
}

impl Io {
    /// Passes a gate: by the rules, by what was approved before, or by an answer.
    pub(crate) async fn pass(&self, question: Question) -> Result<(), Refusal> {
        let permissions = self.engine.permissions();
        if let Some(settled) = permissions.without_asking(&question) {
            return settled.map(drop);
        }
        match self.wire.get(Need::Ask(Box::new(question.clone()))).await {
            Given::Answer(answer) => answer?,
            Given::Fed(_) => return Err(Refusal::Cancelled),
        }
        // The answer was given a moment ago; a rule that was added since stands over it.
        permissions.denied(&question).map_or(Ok(()), Err)
    }

    async fn want(&self, want: Want) -> Result<Fed, SkillError> {
        match self.wire.get(Need::Want(want)).await {
            Given::Fed(fed) => Ok(*fed),
            Given::Answer(_) => Err(SkillError::Misfed),
        }
    }

    pub(crate) async fn text(&self, entry: &Arc<SkillEntry>) -> Result<SkillText, SkillError> {
        match self.want(Want::Text { entry: Arc::clone(entry) }).await? {
            Fed::Text(text) => self.of(entry, text),
            _ => Err(SkillError::Misfed),
        }
    }

    pub(crate) async fn resources(
        &self,
        entry: &Arc<SkillEntry>,
        depth: usize,
    ) -> Result<Resources, SkillError> {
        match self.want(Want::Resources { entry: Arc::clone(entry), depth }).await? {
            Fed::Resources(resources) => Ok(resources),
            _ => Err(SkillError::Misfed),
        }
    }

    pub(crate) async fn text_and_resources(
        &self,
        entry: &Arc<SkillEntry>,
        depth: usize,
    ) -> Result<(SkillText, Resources), SkillError> {
        match self.want(Want::TextAndResources { entry: Arc::clone(entry), depth }).await? {
            Fed::TextAndResources(Ok((text, resources))) => Ok((self.of(entry, Ok(text))?, resources)),
            Fed::TextAndResources(Err(error)) => Err(self.unreadable(entry, error)),
            _ => Err(SkillError::Misfed),
        }
    }

    pub(crate) async fn documents(&self, entry: &Arc<SkillEntry>) -> Result<Documents, SkillError> {
        match self.want(Want::Documents { entry: Arc::clone(entry) }).await? {
            Fed::Documents(documents) => Ok(documents),
            _ => Err(SkillError::Misfed),
        }
    }

    pub(crate) async fn document(
        &self,
        entry: &Arc<SkillEntry>,
        path: &str,
    ) -> Result<Result<DocumentText, DocumentError>, SkillError> {
        match self.want(Want::Document { entry: Arc::clone(entry), path: path.to_owned() }).await? {
            // Another document than the one that was asked for is none.
            Fed::Document(Ok(document)) if document.path != path => Err(SkillError::Misfed),
            Fed::Document(document) => Ok(document),
            _ => Err(SkillError::Misfed),
        }
    }

    pub(crate) async fn look_up(&self, name: &str, catalog: &Catalog) -> Result<Option<Catalog>, SkillError> {
        match self.want(Want::LookUp { name: name.to_owned(), catalog: catalog.clone() }).await? {
            Fed::LookUp(catalog) => Ok(catalog),
            _ => Err(SkillError::Misfed),
        }
    }

    /// A text that was fed, if it is that of the skill that was asked for.
    fn of(&self, entry: &SkillEntry, text: Result<SkillText, ReadError>) -> Result<SkillText, SkillError> {
        let text = text.map_err(|error| self.unreadable(entry, error))?;
        let published = entry.published().and_then(|published| published.file(MANIFEST));
        let is_same = text.skill.location == entry.skill.location
            && text.skill.name == entry.skill.name
            // What a server says of its files is what was approved.
            && published.is_none_or(|file| file.digest == text.digest);
        if is_same { Ok(text) } else { Err(SkillError::Misfed) }
    }

    fn unreadable(&self, entry: &SkillEntry, error: ReadError) -> SkillError {
        let location = &entry.skill.location;
        tracing::error!(skill = entry.skill.name.as_str(), %error, "Failed to read SKILL.md at {location}");
        error.into()
    }
}

impl<T: Send + 'static> Operation<T> {
    pub(crate) fn new<F>(engine: &SkillEngine, body: impl FnOnce(Io) -> F) -> Self
    where
        F: Future<Output = Result<T, SkillError>> + Send + 'static,
    {
        let wire = Wire::default();
        let io = Io { wire: wire.clone(), engine: engine.clone() };
        Self { body: Some(Box::pin(body(io))), done: None, wanted: None, wire, engine: engine.clone() }
    }

    /// Goes as far as it can.
    pub fn step(&mut self) -> Step<'_> {
        if let Some(body) = self.body.as_mut().filter(|_| self.wanted.is_none()) {
            match body.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(result) => (self.body, self.done) = (None, Some(result)),
                Poll::Pending => self.wanted = self.wire.slot().need.take(),
            }
        }
        match &self.wanted {
            Some(Need::Want(want)) => Step::Wants(want),
            Some(Need::Ask(question)) => Step::Asks(question),
            None => Step::Ready,
        }
    }

    /// Gives it what it wanted. What it did not want ends it with an error.
    pub fn feed(&mut self, fed: Fed) {
        self.give(Given::Fed(Box::new(fed)));
    }

    /// Gives it the answer to what it asked. What "always" means is for the host to remember.
    pub fn answer(&mut self, reply: Reply) {
        self.settle(match reply {
            Reply::Once | Reply::Always => Ok(()),
            Reply::Reject { message } => Err(Refusal::Rejected { message }),
        });
    }

    fn settle(&mut self, answer: Result<(), Refusal>) {
        self.give(Given::Answer(answer));
    }

    fn give(&mut self, given: Given) {
        if self.wanted.take().is_some() {
            self.wire.slot().given = Some(given);
        }
    }

    /// What came of it.
    ///
    /// # Errors
    ///
    /// It cannot be done, or is not ready.
    pub fn result(self) -> Result<T, SkillError> {
        self.done.unwrap_or(Err(SkillError::Misfed))
    }

    /// Does it, with what `files` has and whoever `asker` can ask. Gives the question that nobody could be asked now.
    pub async fn drive(mut self, files: &dyn SkillFiles, asker: &dyn Asker) -> Outcome<T> {
        loop {
            let fed = match self.step() {
                Step::Ready => return Outcome::from(self.result()),
                Step::Wants(want) => Given::Fed(Box::new(files.feed(want).await)),
                Step::Asks(question) => {
                    let question = question.clone();
                    match self.engine.permissions().pass(question, asker).await {
                        Ok(_) => Given::Answer(Ok(())),
                        Err(Stopped::Refused(refusal)) => Given::Answer(Err(refusal)),
                        Err(Stopped::Asks(question)) => return Outcome::Asks(question),
                    }
                }
            };
            self.give(fed);
        }
    }
}

impl<T> fmt::Debug for Operation<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operation").finish_non_exhaustive()
    }
}

/// What a gated operation comes to.
///
/// ```
/// use prowess_skills::{Outcome, SkillError};
///
/// assert!(matches!(Outcome::Done(1).map(|one| one + 1), Outcome::Done(2)));
/// assert!(matches!(Outcome::<()>::from(Err(SkillError::Misfed)), Outcome::Refused(_)));
/// ```
#[derive(Debug)]
pub enum Outcome<T> {
    /// It is done.
    Done(T),
    /// Somebody has to answer this first, and nobody could be asked: whoever can store the question does, and does the
    /// same again when there is an answer.
    Asks(Box<Question>),
    /// It cannot be done, or may not.
    Refused(SkillError),
}

impl<T> From<Result<T, SkillError>> for Outcome<T> {
    fn from(result: Result<T, SkillError>) -> Self {
        match result {
            Ok(done) => Self::Done(done),
            Err(error) => Self::Refused(error),
        }
    }
}

/// Why something that is done with I/O does not go on.
#[cfg(feature = "run")]
pub(crate) enum Halt {
    Asks(Box<Question>),
    Error(SkillError),
}

#[cfg(feature = "run")]
impl From<SkillError> for Halt {
    fn from(error: SkillError) -> Self {
        Self::Error(error)
    }
}

#[cfg(feature = "run")]
impl<T> From<Result<T, Halt>> for Outcome<T> {
    fn from(result: Result<T, Halt>) -> Self {
        match result {
            Ok(done) => Self::Done(done),
            Err(Halt::Asks(question)) => Self::Asks(question),
            Err(Halt::Error(error)) => Self::Refused(error),
        }
    }
}

impl<T> Outcome<T> {
    /// The same, with something else done.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Outcome<U> {
        match self {
            Self::Done(done) => Outcome::Done(make(done)),
            Self::Asks(question) => Outcome::Asks(question),
            Self::Refused(error) => Outcome::Refused(error),
        }
    }
}
