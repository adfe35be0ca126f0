//! Answers.

use serde::{Deserialize, Serialize};

use super::{Broker, QuestionId};
use crate::approval::StoreError;
use crate::approval::merge;
use crate::judgement::Judgement;
use crate::{Approval, Granted, Pattern, Question, Refusal};

/// What somebody answers.
///
/// ```
/// use prowess_permission::{Broker, Kind, Permissions, Policy, Reply, Question};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let broker = Broker::in_memory();
/// let mut front_end = broker.subscribe();
/// let permissions = Permissions::new(broker.clone(), "session-1", Policy::new());
/// let asking = tokio::spawn(async move { permissions.request(Question::new(Kind::RUN, "rm -r docs")).await });
/// let id = front_end.next().await.unwrap().id();
/// broker.reply(id, Reply::Reject { message: Some("Move them to old/ instead.".into()) }).await?;
/// assert!(asking.await?.unwrap_err().to_string().contains("Move them to old/ instead."));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    /// Go ahead, this time.
    Once,
    /// Go ahead, and do not ask again about what the request's `always` describes.
    Always,
    /// No; nor anything else that this session waits for.
    Reject {
        /// What to tell the model.
        #[serde(default)]
        message: Option<String>,
    },
}

/// Why an answer had no effect, or not all of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyError {
    /// The ask was answered already, by somebody or by new rules, was withdrawn, or never was.
    #[error("request {id} is not waiting for an answer; it was answered, refused or withdrawn before")]
    NotWaiting {
        /// The ask.
        id: QuestionId,
    },
    /// The rules deny it by now, and stand over any answer.
    #[error("the answer was not used: {refusal}")]
    Denied {
        /// What the waiting side was told.
        refusal: Refusal,
    },
    /// It was allowed, and is remembered until this process ends, but not beyond.
    #[error("allowed, and remembered for now, but the approval could not be saved: {source}")]
    NotSaved {
        /// Why.
        source: StoreError,
    },
}

impl Broker {
    /// Answers an ask. The first answer counts; a second is [`ReplyError::NotWaiting`].
    ///
    /// The rules are looked at again: what they deny by now is refused, whatever the answer is.
    pub async fn reply(&self, id: QuestionId, reply: Reply) -> Result<(), ReplyError> {
        let approvals = self.take_reply(id, reply)?;
        if approvals.is_empty() {
            return Ok(());
        }
        self.save(&approvals).await.map_err(|source| ReplyError::NotSaved { source })
    }

    /// Everything that needs no store, and what is to be stored.
    fn take_reply(&self, id: QuestionId, reply: Reply) -> Result<Vec<Approval>, ReplyError> {
        let mut state = self.state();
        let Some(waiting) = state.waiting.get(&id) else { return Err(ReplyError::NotWaiting { id }) };
        let asked = waiting.asked.clone();
        let always = match reply {
            Reply::Reject { message } => {
                state.settle_where(|waiting, _| {
                    let same = waiting.asked.session == asked.session;
                    same.then(|| Err(Refusal::Rejected { message: message.clone() }))
                });
                return Ok(Vec::new());
            }
            Reply::Once => false,
            Reply::Always => true,
        };
        // New rules refuse at once what they deny, so this finds nothing; but it is the last look before
        // the act, and it should not rest on every way to change rules remembering to do that.
        if let Judgement::Denied(verdict) = waiting.judge(&[]) {
            let refusal = Refusal::denied(&asked.question.kind, verdict);
            state.settle(id, Err(refusal.clone()));
            return Err(ReplyError::Denied { refusal });
        }
        if !always {
            state.settle(id, Ok(Granted::Once));
            return Ok(Vec::new());
        }
        let approvals = self.approvals(&asked.question);
        state.settle(id, Ok(Granted::Always));
        merge(&mut state.approvals, &approvals);
        state.reconsider(|_| true);
        Ok(approvals)
    }

    /// What "always" records for a request.
    fn approvals(&self, request: &Question) -> Vec<Approval> {
        let approval = |pattern: &Pattern| Approval {
            project: self.project.clone(),
            kind: request.kind.clone(),
            pattern: pattern.clone(),
            binding: request.binding.clone(),
        };
        request.always.iter().map(approval).collect()
    }

    /// Remembers that somebody, asked elsewhere, allowed what the request's `always` describes, from now on. A rule that
    /// denies it stands.
    ///
    /// # Errors
    ///
    /// It is remembered until this process ends, but could not be saved.
    pub async fn remember(&self, request: &Question) -> Result<(), StoreError> {
        let approvals = self.approvals(request);
        {
            let mut state = self.state();
            merge(&mut state.approvals, &approvals);
            state.reconsider(|_| true);
        }
        self.save(&approvals).await
    }

    /// Saves those of `approvals` that have not been forgotten since.
    async fn save(&self, approvals: &[Approval]) -> Result<(), StoreError> {
        let _turn = self.saving.lock().await;
        let current: Vec<Approval> = {
            let state = self.state();
            approvals.iter().filter(|approval| state.approvals.contains(approval)).cloned().collect()
        };
        self.store.add(&current).await
    }

    /// Forgets an approval, here and in the store. It is no longer used even when the store fails.
    pub async fn forget(&self, approval: &Approval) -> Result<(), StoreError> {
        self.state().approvals.retain(|kept| kept != approval);
        let _turn = self.saving.lock().await;
        // Given again in the meantime: then it stays.
        if self.state().approvals.contains(approval) {
            return Ok(());
        }
        self.store.remove(approval).await
    }
}
