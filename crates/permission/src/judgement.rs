//! Rules first, then what was approved before.

use crate::{Approval, Decision, Granted, Policy, Question, Verdict};

/// What rules and remembered approvals together say about a request.
pub(crate) enum Judgement {
    /// It may go ahead.
    Granted(Granted, Verdict),
    /// It must be asked about, because of these subjects.
    Asking(Vec<String>, Verdict),
    /// A rule denies it.
    Denied(Verdict),
}

impl Judgement {
    /// An approval turns "ask" into "allow" where it covers a subject, and does nothing to "deny".
    pub(crate) fn of(policy: &Policy, approvals: &[Approval], request: &Question) -> Self {
        let verdict = policy.evaluate(request);
        match verdict.decision {
            Decision::Allow => return Self::Granted(Granted::Rule, verdict),
            Decision::Deny => return Self::Denied(verdict),
            // Nothing to cover is not the same as everything covered.
            Decision::Ask if request.subjects.is_empty() => return Self::Asking(Vec::new(), verdict),
            Decision::Ask if request.each_time => return Self::Asking(request.subjects.clone(), verdict),
            Decision::Ask => {}
        }
        let uncovered: Vec<String> = request
            .subjects
            .iter()
            .filter(|subject| {
                !policy.allows(request, subject)
                    && !approvals.iter().any(|approval| approval.covers(request, subject))
            })
            .cloned()
            .collect();
        match uncovered.first() {
            None => Self::Granted(Granted::Remembered, Verdict { decision: Decision::Allow, ..verdict }),
            Some(first) => {
                let verdict = Verdict { subject: first.clone(), ..verdict };
                Self::Asking(uncovered, verdict)
            }
        }
    }

    pub(crate) fn into_verdict(self) -> Verdict {
        match self {
            Self::Granted(_, verdict) | Self::Asking(_, verdict) | Self::Denied(verdict) => verdict,
        }
    }
}
