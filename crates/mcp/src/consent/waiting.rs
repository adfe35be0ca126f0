//! Questions that wait until a sessionless client makes its call again with the reply.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use prowess_catalog::Digest;
use prowess_catalog::digest::Digester;
use prowess_catalog::json_cost::JsonCost;
use prowess_permission::Fingerprint;
use serde::Serialize;

use super::MAX_HELD_BYTES;
use crate::outputs::random_id;

/// How many questions may wait for a reply. If one more comes, the server forgets the oldest, whose call then asks again.
const MAX_WAITING_QUESTIONS: usize = 256;

/// The questions that wait for a reply, by the random id that their clients send back.
#[derive(Debug, Default)]
pub(crate) struct ElicitedQuestions(Mutex<VecDeque<(String, ElicitedQuestion)>>);

/// A question that was asked. The call that is made again contains what it was about.
#[derive(Clone, Debug)]
pub(super) struct ElicitedQuestion {
    /// The digest of the call with its arguments.
    pub(super) call: Digest,
    /// The fingerprint of the question.
    pub(super) about: Fingerprint,
    /// The questions of this call that the person allowed before.
    pub(super) allowed: Vec<Fingerprint>,
}

impl ElicitedQuestions {
    /// Keeps a question, and returns its random id. `None` if the system has no random bytes.
    pub(super) fn keep(&self, question: ElicitedQuestion) -> Option<String> {
        let id = random_id()?;
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() == MAX_WAITING_QUESTIONS {
            waiting.pop_front();
        }
        waiting.push_back((id.clone(), question));
        Some(id)
    }

    /// Takes out the question with this id, if exactly this call asked it. Each reply counts once.
    pub(super) fn take(&self, id: &str, call: Digest) -> Option<ElicitedQuestion> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = waiting.iter().position(|(known, question)| known == id && question.call == call)?;
        waiting.remove(at).map(|(_, question)| question)
    }
}

/// Identifies a call with its arguments, and says how much memory it holds while it waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallIdentity {
    pub(super) digest: Digest,
    pub(super) bytes: usize,
}

impl CallIdentity {
    /// The identity of a method with its arguments.
    pub(crate) fn of(call: &impl Serialize) -> Self {
        let mut text = CallText::default();
        // Text and JSON values can always be serialised.
        let _ = serde_json::to_writer(&mut text, call);
        let cost = JsonCost::of(&text.start).bytes;
        Self { digest: text.digester.digest(), bytes: cost.max(text.length) }
    }
}

/// Hashes the text of a call while it is written, and keeps only its start. A call that is longer than that start holds too
/// much memory in any case.
#[derive(Default)]
struct CallText {
    digester: Digester,
    start: Vec<u8>,
    length: usize,
}

impl Write for CallText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.digester.update(bytes);
        self.length += bytes.len();
        let room = MAX_HELD_BYTES.saturating_sub(self.start.len());
        self.start.extend_from_slice(&bytes[..bytes.len().min(room)]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prowess_permission::{Kind, Question};

    use super::*;

    #[test]
    fn a_reply_counts_once_and_for_its_call() {
        let waiting = ElicitedQuestions::default();
        let question = |call: &[u8]| ElicitedQuestion {
            call: Digest::of(call),
            about: Question::new(Kind::RUN, "x").fingerprint(),
            allowed: Vec::new(),
        };
        let id = waiting.keep(question(b"a")).unwrap();
        assert!(waiting.take(&id, Digest::of(b"b")).is_none());
        assert!(waiting.take("", Digest::of(b"a")).is_none());
        assert!(waiting.take(&id, Digest::of(b"a")).is_some());
        assert!(waiting.take(&id, Digest::of(b"a")).is_none());
        for _ in 0..=MAX_WAITING_QUESTIONS {
            waiting.keep(question(b"a")).unwrap();
        }
        assert_eq!(waiting.0.lock().unwrap().len(), MAX_WAITING_QUESTIONS);
    }
}
