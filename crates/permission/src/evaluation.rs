//! The decision about a question: rules first, then approvals.

use crate::{Approval, Decision, Granted, Policy, Question, Verdict};

/// What rules and approvals together decide about a question.
pub(crate) enum Evaluation {
    /// The action may happen.
    Granted(Granted, Verdict),
    /// A person must be asked about these subjects.
    MustAsk(Vec<String>, Verdict),
    /// A rule denies the action.
    Denied(Verdict),
}

impl Evaluation {
    /// An approval that covers a subject turns "ask" into "allow". It never changes "deny".
    pub(crate) fn of(policy: &Policy, approvals: &[Approval], question: &Question) -> Self {
        let verdict = policy.evaluate(question);
        match verdict.decision {
            Decision::Allow => return Self::Granted(Granted::Rule, verdict),
            Decision::Deny => return Self::Denied(verdict),
            // Without a subject there is nothing that an approval could cover.
            Decision::Ask if question.subjects.is_empty() => return Self::MustAsk(Vec::new(), verdict),
            Decision::Ask if question.each_time => return Self::MustAsk(question.subjects.clone(), verdict),
            Decision::Ask => {}
        }
        let uncovered: Vec<String> = question
            .subjects
            .iter()
            .filter(|subject| {
                !policy.allows(question, subject)
                    && !approvals.iter().any(|approval| approval.covers(question, subject))
            })
            .cloned()
            .collect();
        match uncovered.first() {
            None => Self::Granted(Granted::Remembered, Verdict { decision: Decision::Allow, ..verdict }),
            Some(first) => {
                let verdict = Verdict { subject: first.clone(), ..verdict };
                Self::MustAsk(uncovered, verdict)
            }
        }
    }

    pub(crate) fn into_verdict(self) -> Verdict {
        match self {
            Self::Granted(_, verdict) | Self::MustAsk(_, verdict) | Self::Denied(verdict) => verdict,
        }
    }
}
