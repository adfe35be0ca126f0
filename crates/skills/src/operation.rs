//! Operations without I/O: each one says what it wants, is fed, and continues.
//!
//! An operation is an `async fn`, so its code reads from top to bottom. It is polled by hand: it needs no runtime, and it
//! waits only for what it wants.

mod io;
mod want;

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use prowess_permission::{Asker, Question, Refusal, Reply, Stopped};

use crate::engine::SkillEngine;
use crate::error::SkillError;
use crate::files::SkillFiles;
pub(crate) use io::Io;
use io::{Given, Need, Wire};
pub use want::{Fed, Want};

/// The next step of an operation.
#[derive(Debug)]
#[non_exhaustive]
pub enum Step<'a> {
    /// It wants this; continue with [`Operation::feed`].
    Wants(&'a Want),
    /// A person must reply; continue with [`Operation::reply`]. If you cannot wait, store the question, drop the operation,
    /// and start another one when there is a reply.
    Asks(&'a Question),
    /// It is done; get the result with [`Operation::result`].
    Ready,
}

/// An operation on skills, in steps.
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

impl<T: Send + 'static> Operation<T> {
    pub(crate) fn new<F>(engine: &SkillEngine, body: impl FnOnce(Io) -> F) -> Self
    where
        F: Future<Output = Result<T, SkillError>> + Send + 'static,
    {
        let wire = Wire::default();
        let io = Io::new(wire.clone(), engine.clone());
        Self { body: Some(Box::pin(body(io))), done: None, wanted: None, wire, engine: engine.clone() }
    }

    /// Runs until the operation wants something, asks something, or is done.
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

    /// Feeds what the operation wanted. Anything else ends the operation with [`SkillError::WrongFeed`].
    pub fn feed(&mut self, fed: Fed) {
        self.give(Given::Fed(Box::new(fed)));
    }

    /// Gives the person's reply to the question. Recording an "always" is up to the caller.
    pub fn reply(&mut self, reply: Reply) {
        self.give(Given::Reply(match reply {
            Reply::Once | Reply::Always => Ok(()),
            Reply::Reject { message } => Err(Refusal::Rejected { message }),
        }));
    }

    fn give(&mut self, given: Given) {
        if self.wanted.take().is_some() {
            self.wire.slot().given = Some(given);
        }
    }

    /// The result of the operation.
    ///
    /// # Errors
    ///
    /// The operation failed, or is not done yet ([`SkillError::NotReady`]).
    pub fn result(self) -> Result<T, SkillError> {
        self.done.unwrap_or(Err(SkillError::NotReady))
    }

    /// Drives the operation to its end: `files` feeds it, and `asker` asks a person. If nobody can be asked now, it returns
    /// the question.
    pub async fn drive(mut self, files: &dyn SkillFiles, asker: &dyn Asker) -> Outcome<T> {
        loop {
            let fed = match self.step() {
                Step::Ready => return Outcome::from(self.result()),
                Step::Wants(want) => Given::Fed(Box::new(files.feed(want).await)),
                Step::Asks(question) => {
                    let question = question.clone();
                    match self.engine.permissions().pass(question, asker).await {
                        Ok(_) => Given::Reply(Ok(())),
                        Err(Stopped::Refused(refusal)) => Given::Reply(Err(refusal)),
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

/// The outcome of an operation that needs permission.
///
/// ```
/// use prowess_skills::{Outcome, SkillError};
///
/// assert!(matches!(Outcome::Done(1).map(|one| one + 1), Outcome::Done(2)));
/// assert!(matches!(Outcome::<()>::from(Err(SkillError::NotReady)), Outcome::Refused(_)));
/// ```
#[derive(Debug)]
pub enum Outcome<T> {
    /// It is done.
    Done(T),
    /// A person must reply first, and nobody could be asked. Store the question, and repeat the operation with the reply.
    Asks(Box<Question>),
    /// It failed, or it has no permission.
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

/// Why an operation with I/O stops.
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
    /// Converts the result of a finished operation.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Outcome<U> {
        match self {
            Self::Done(done) => Outcome::Done(make(done)),
            Self::Asks(question) => Outcome::Asks(question),
            Self::Refused(error) => Outcome::Refused(error),
        }
    }
}
