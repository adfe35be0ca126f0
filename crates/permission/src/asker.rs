//! Askers: how a question reaches a person.

use async_trait::async_trait;

use crate::{Fingerprint, Question, Reply};

/// Asks a person while an operation waits. A program that cannot wait stores the question that it gets back, and repeats the
/// operation with [`Replies`].
///
/// ```
/// use async_trait::async_trait;
/// use prowess_permission::{Asker, Kind, Permissions, Policy, Question, Reply};
///
/// /// Approves everything, and prints it.
/// struct Trusting;
///
/// #[async_trait]
/// impl Asker for Trusting {
///     async fn ask(&self, question: &Question) -> Option<Reply> {
///         println!("{}? Yes.", question.wording().title);
///         Some(Reply::Once)
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let permissions = Permissions::unattended(Policy::new());
/// assert!(permissions.pass(Question::new(Kind::RUN, "make"), &Trusting).await.is_ok());
/// # }
/// ```
#[async_trait]
pub trait Asker: Send + Sync {
    /// The person's reply; `None` if nobody can be asked now.
    async fn ask(&self, question: &Question) -> Option<Reply>;

    /// Whether the caller stores a question that nobody can be asked now. If not, the action is refused.
    fn keeps_questions(&self) -> bool {
        true
    }
}

/// An asker without a person: every action that needs a reply is refused.
///
/// ```
/// use prowess_permission::{Kind, NoAsker, Permissions, Policy, Question, Refusal, Stopped};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let permissions = Permissions::unattended(Policy::new());
/// let stopped = permissions.pass(Question::new(Kind::RUN, "make"), &NoAsker).await.unwrap_err();
/// assert!(matches!(stopped, Stopped::Refused(Refusal::NobodyToAsk { .. })));
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct NoAsker;

#[async_trait]
impl Asker for NoAsker {
    async fn ask(&self, _: &Question) -> Option<Reply> {
        None
    }

    fn keeps_questions(&self) -> bool {
        false
    }
}

/// Earlier replies, by the fingerprints of their questions.
///
/// ```
/// use prowess_permission::{Kind, Permissions, Policy, Question, Replies, Stopped};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let permissions = Permissions::unattended(Policy::new());
/// let make = Question::new(Kind::RUN, "make");
/// let Err(Stopped::Asks(question)) = permissions.pass(make.clone(), &Replies::default()).await else { return };
/// // A person replies "once", perhaps in another process.
/// let replies = Replies::once([question.fingerprint()]);
/// assert!(permissions.pass(make, &replies).await.is_ok());
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Replies {
    once: Vec<Fingerprint>,
    always: Vec<Fingerprint>,
}

impl Replies {
    /// Questions with these fingerprints got the reply "once".
    #[must_use]
    pub fn once(allowed: impl IntoIterator<Item = Fingerprint>) -> Self {
        Self { once: allowed.into_iter().collect(), always: Vec::new() }
    }

    /// Adds a question that got the reply "always". The approval is recorded when the question is asked again.
    #[must_use]
    pub fn always(mut self, allowed: Fingerprint) -> Self {
        self.always.push(allowed);
        self
    }
}

#[async_trait]
impl Asker for Replies {
    async fn ask(&self, question: &Question) -> Option<Reply> {
        let is_among = |allowed: &[Fingerprint]| allowed.iter().any(|one| question.is_covered_by(*one));
        if is_among(&self.always) {
            return Some(Reply::Always);
        }
        is_among(&self.once).then_some(Reply::Once)
    }
}
