//! Questions that wait for a reply, and the events about them.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _};
use std::str::FromStr;
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::{Fingerprint, Granted, Question, Refusal};

/// The id of a waiting question. Two brokers never give the same id, so a reply that arrives after a restart cannot count
/// for another question.
///
/// ```
/// use prowess_permission::{Broker, Kind, Permissions, Policy, Reply, Question, QuestionId};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let broker = Broker::in_memory();
/// let mut front_end = broker.subscribe();
/// let permissions = Permissions::new(broker.clone(), "session-1", Policy::new());
/// let asking = tokio::spawn(async move { permissions.request(Question::new(Kind::RUN, "make")).await });
/// let sent = front_end.next().await.unwrap().id().to_string(); // to a browser, say
///
/// let id: QuestionId = sent.parse()?; // and back
/// broker.reply(id, Reply::Once).await?;
/// assert!(asking.await?.is_ok());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct QuestionId {
    broker: u64,
    number: u64,
}

impl QuestionId {
    /// The id before the first one of a new broker.
    pub(crate) fn start() -> Self {
        // The standard library keys this at random; time and process are here in case it does not.
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u32(std::process::id());
        if let Ok(now) = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
            hasher.write_u128(now.as_nanos());
        }
        Self { broker: hasher.finish(), number: 0 }
    }

    pub(crate) fn next(self) -> Self {
        Self { number: self.number + 1, ..self }
    }
}

impl fmt::Display for QuestionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{}", self.broker, self.number)
    }
}

impl FromStr for QuestionId {
    type Err = QuestionIdError;

    fn from_str(text: &str) -> Result<Self, QuestionIdError> {
        let (broker, number) = text.split_once('-').ok_or(QuestionIdError)?;
        let broker = u64::from_str_radix(broker, 16).map_err(|_| QuestionIdError)?;
        let id = Self { broker, number: number.parse().map_err(|_| QuestionIdError)? };
        // Each id has one text: no plus signs, no leading zeros.
        if id.to_string() == text { Ok(id) } else { Err(QuestionIdError) }
    }
}

impl TryFrom<String> for QuestionId {
    type Error = QuestionIdError;

    fn try_from(text: String) -> Result<Self, QuestionIdError> {
        text.parse()
    }
}

impl From<QuestionId> for String {
    fn from(id: QuestionId) -> Self {
        id.to_string()
    }
}

/// The error for a text that is not a question id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not the id of a question; use the id that came with the question")]
pub struct QuestionIdError;

/// A question that waits for a reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PendingQuestion {
    /// Its id, for [`Broker::reply`](crate::Broker::reply).
    pub id: QuestionId,
    /// The session that asks.
    pub session: String,
    /// The question.
    #[serde(rename = "request")]
    pub question: Question,
    /// The question's fingerprint. The reply counts only for this fingerprint.
    pub fingerprint: Fingerprint,
}

/// An event about a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum PermissionEvent {
    /// A question waits for a reply.
    Asked(Arc<PendingQuestion>),
    /// A question no longer waits.
    Replied {
        /// The question's id.
        id: QuestionId,
        /// The session that asked.
        session: String,
        /// How the question ended.
        outcome: QuestionOutcome,
    },
}

impl PermissionEvent {
    /// The id of the question.
    #[must_use]
    pub fn id(&self) -> QuestionId {
        match self {
            Self::Asked(pending) => pending.id,
            Self::Replied { id, .. } => *id,
        }
    }
}

/// How a question ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
#[non_exhaustive]
pub enum QuestionOutcome {
    /// The action may happen.
    Granted {
        /// Why.
        how: Granted,
    },
    /// A rule denies the action by now.
    Denied,
    /// A person rejected it.
    Rejected {
        /// The person's message.
        message: Option<String>,
    },
    /// No front end was left.
    NobodyToAsk,
    /// Nobody replied in time.
    TimedOut,
    /// It was withdrawn.
    Cancelled,
}

impl From<&Result<Granted, Refusal>> for QuestionOutcome {
    fn from(result: &Result<Granted, Refusal>) -> Self {
        match result {
            Ok(how) => Self::Granted { how: *how },
            Err(Refusal::Denied { .. }) => Self::Denied,
            Err(Refusal::Rejected { message }) => Self::Rejected { message: message.clone() },
            Err(Refusal::NobodyToAsk { .. }) => Self::NobodyToAsk,
            Err(Refusal::TimedOut { .. }) => Self::TimedOut,
            Err(Refusal::Cancelled) => Self::Cancelled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_do_not_share_ids() {
        let (one, other) = (QuestionId::start().next(), QuestionId::start().next());
        assert_ne!(one, other);
        assert_eq!(one.to_string().parse(), Ok(one));
        assert!(one < one.next());
        for text in ["", "1", "x-1", "0000000000000001-+1", "0000000000000001-01", "1-1"] {
            assert_eq!(text.parse::<QuestionId>(), Err(QuestionIdError), "{text}");
        }
    }
}
