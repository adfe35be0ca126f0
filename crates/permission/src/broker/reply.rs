//! Replies, and the approvals that they leave.

use serde::{Deserialize, Serialize};

use super::{Broker, QuestionId};
use crate::approval::StoreError;
use crate::approval::merge;
use crate::evaluation::Evaluation;
use crate::{Approval, Granted, Pattern, Question, Refusal};

/// What a person replies to a question.
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
    /// Allow the action this time.
    Once,
    /// Allow the action, and do not ask again about the question's `always` patterns.
    Always,
    /// Refuse the action, and everything else that this session waits for.
    Reject {
        /// A message for the model.
        #[serde(default)]
        message: Option<String>,
    },
}

/// Why a reply had no effect, or only a part of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyError {
    /// The question has ended, or never existed.
    #[error("question {id} no longer waits for a reply; somebody replied, or it was refused or withdrawn")]
    NotWaiting {
        /// The question's id.
        id: QuestionId,
    },
    /// A rule denies the action by now, and overrides the reply.
    #[error("the reply had no effect: {refusal}")]
    Denied {
        /// The refusal that the asking side got.
        refusal: Refusal,
    },
    /// The action was allowed, but the approval could not be saved. It lasts until this process exits.
    #[error("allowed, but the approval could not be saved and lasts until this process exits: {source}")]
    NotSaved {
        /// The error of the store.
        source: StoreError,
    },
}

impl Broker {
    /// Replies to a question. The first reply counts; a second one is [`ReplyError::NotWaiting`].
    ///
    /// It checks the rules again: if one denies the action by now, the action is refused.
    ///
    /// # Errors
    ///
    /// The reply had no effect, or its approval could not be saved.
    pub async fn reply(&self, id: QuestionId, reply: Reply) -> Result<(), ReplyError> {
        let approvals = self.take_reply(id, reply)?;
        if approvals.is_empty() {
            return Ok(());
        }
        self.save(&approvals).await.map_err(|source| ReplyError::NotSaved { source })
    }

    /// Ends the question. Returns the approvals to save.
    fn take_reply(&self, id: QuestionId, reply: Reply) -> Result<Vec<Approval>, ReplyError> {
        let mut state = self.state();
        let Some(waiting) = state.waiting.get(&id) else { return Err(ReplyError::NotWaiting { id }) };
        let pending = waiting.pending.clone();
        let always = match reply {
            Reply::Reject { message } => {
                state.end_where(|waiting, _| {
                    let same = waiting.pending.session == pending.session;
                    same.then(|| Err(Refusal::Rejected { message: message.clone() }))
                });
                return Ok(Vec::new());
            }
            Reply::Once => false,
            Reply::Always => true,
        };
        // New rules end denied questions at once, so this finds nothing. But it is the last check before the action,
        // and it must not depend on every way to change rules.
        if let Evaluation::Denied(verdict) = waiting.evaluate(&[]) {
            let refusal = Refusal::denied(&pending.question.kind, verdict);
            state.end(id, Err(refusal.clone()));
            return Err(ReplyError::Denied { refusal });
        }
        if !always {
            state.end(id, Ok(Granted::Once));
            return Ok(Vec::new());
        }
        let approvals = self.approvals(&pending.question);
        state.end(id, Ok(Granted::Always));
        merge(&mut state.approvals, &approvals);
        state.evaluate_again(|_| true);
        Ok(approvals)
    }

    /// The approvals that "always" records for a question.
    fn approvals(&self, question: &Question) -> Vec<Approval> {
        let approval = |pattern: &Pattern| Approval {
            project: self.project.clone(),
            kind: question.kind.clone(),
            pattern: pattern.clone(),
            binding: question.binding.clone(),
        };
        question.always.iter().map(approval).collect()
    }

    /// Records an "always" that a person replied elsewhere. `deny` rules still apply.
    ///
    /// # Errors
    ///
    /// The approval could not be saved. It lasts until this process exits.
    pub async fn remember(&self, question: &Question) -> Result<(), StoreError> {
        let approvals = self.approvals(question);
        {
            let mut state = self.state();
            merge(&mut state.approvals, &approvals);
            state.evaluate_again(|_| true);
        }
        self.save(&approvals).await
    }

    /// Saves those of `approvals` that nobody has removed meanwhile.
    async fn save(&self, approvals: &[Approval]) -> Result<(), StoreError> {
        let _turn = self.saving.lock().await;
        let current: Vec<Approval> = {
            let state = self.state();
            approvals.iter().filter(|approval| state.approvals.contains(approval)).cloned().collect()
        };
        self.store.add(&current).await
    }

    /// Removes an approval, also from the store. Even if the store fails, the broker no longer uses it.
    pub async fn forget(&self, approval: &Approval) -> Result<(), StoreError> {
        self.state().approvals.retain(|known| known != approval);
        let _turn = self.saving.lock().await;
        // Somebody gave it again meanwhile: it stays.
        if self.state().approvals.contains(approval) {
            return Ok(());
        }
        self.store.remove(approval).await
    }
}
