//! Who can be asked.

use async_trait::async_trait;

use crate::{Fingerprint, Question, Reply};

/// Somebody who can be asked while an operation waits. A host that cannot wait stores the question that it gets back, and
/// does the operation again with [`Replies`].
///
/// ```
/// use async_trait::async_trait;
/// use prowess_permission::{Asker, Kind, Permissions, Policy, Question, Reply};
///
/// /// Says yes to everything, out loud.
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
    /// What somebody says; `None` when nobody can be asked now.
    async fn ask(&self, question: &Question) -> Option<Reply>;

    /// Whether a question that nobody can be asked now is kept until somebody can; otherwise it is refused.
    fn keeps_questions(&self) -> bool {
        true
    }
}

/// Nobody can be asked, now or later: what needs an answer is refused.
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

/// What was answered before: each question by its fingerprint.
///
/// ```
/// use prowess_permission::{Kind, Permissions, Policy, Question, Replies, Stopped};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let permissions = Permissions::unattended(Policy::new());
/// let make = Question::new(Kind::RUN, "make");
/// let Err(Stopped::Asks(question)) = permissions.pass(make.clone(), &Replies::default()).await else { return };
/// // Somebody is asked about it, in another process perhaps, and says yes.
/// let replies = Replies::allowing([question.fingerprint()]);
/// assert!(permissions.pass(make, &replies).await.is_ok());
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Replies {
    once: Vec<Fingerprint>,
    always: Vec<Fingerprint>,
}

impl Replies {
    /// These were allowed.
    #[must_use]
    pub fn allowing(allowed: impl IntoIterator<Item = Fingerprint>) -> Self {
        Self { once: allowed.into_iter().collect(), always: Vec::new() }
    }

    /// The same, and this was allowed for good: it is remembered when it is asked again.
    #[must_use]
    pub fn and_always(mut self, allowed: Fingerprint) -> Self {
        self.always.push(allowed);
        self
    }
}

#[async_trait]
impl Asker for Replies {
    async fn ask(&self, question: &Question) -> Option<Reply> {
        let is_among = |allowed: &[Fingerprint]| allowed.iter().any(|one| question.is_answered_by(*one));
        if is_among(&self.always) {
            return Some(Reply::Always);
        }
        is_among(&self.once).then_some(Reply::Once)
    }
}
