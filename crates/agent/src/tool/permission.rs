//! Permission questions of a tool call. They wait in the thread, so the reply can come from another process.

use prowess_permission::{Fingerprint, Grant, Permissions, Question, Refusal, Replies, Stopped};

use super::{ToolAnswer, ToolContext, ToolOutput};
use crate::thread_state::{CallQuestion, CallReply, Consultation};

/// The question of a call, with what a person allowed for it before.
pub(crate) fn call_question(question: Question, consultation: Option<&Consultation>) -> Box<CallQuestion> {
    Box::new(CallQuestion { question, allowed: allowed_before(consultation), via: None })
}

/// What a person has allowed for this call so far.
pub(crate) fn allowed_before(consultation: Option<&Consultation>) -> Vec<Fingerprint> {
    let Some(Consultation { question: asked, reply, .. }) = consultation else { return Vec::new() };
    let mut allowed = asked.allowed.clone();
    // A reply to a sub-agent allows nothing to its parent.
    if matches!(reply, Some(CallReply::Approve | CallReply::Always)) && asked.via.is_none() {
        allowed.push(asked.question.fingerprint());
    }
    allowed
}

/// The replies of a person about this call, for the gate that asks again.
///
/// # Errors
///
/// The person rejected the call: the call's answer.
#[expect(clippy::result_large_err, reason = "the answer is returned as it is, and boxing it helps nobody")]
pub(crate) fn replies(consultation: Option<&Consultation>) -> Result<Replies, ToolAnswer> {
    let of_the_gate = consultation.filter(|consultation| consultation.question.via.is_none());
    match of_the_gate.and_then(|consultation| Some((consultation, consultation.reply.as_ref()?))) {
        // An edit allows nothing: the call begins again with the new arguments.
        None | Some((_, CallReply::Approve | CallReply::Edit { .. })) => {}
        Some((consultation, CallReply::Always)) => {
            let always = consultation.question.question.fingerprint();
            return Ok(Replies::once(allowed_before(Some(consultation))).always(always));
        }
        Some((_, CallReply::Reject { message } | CallReply::RejectAll { message })) => {
            let message = Some(message.clone());
            return Err(refusal_answer(&Refusal::Rejected { message }));
        }
    }
    Ok(Replies::once(allowed_before(consultation)))
}

/// The answer of a call that the permission gate refused.
pub(crate) fn refusal_answer(refusal: &Refusal) -> ToolAnswer {
    let text = match refusal {
        Refusal::Rejected { .. } => refusal.to_string(),
        refusal => format!("Error: {refusal}"),
    };
    ToolAnswer { data: Some(refusal.into()), ..ToolAnswer::error(text) }
}

impl ToolContext<'_> {
    /// Asks whether this call may do something.
    ///
    /// If the permissions have nobody to ask, the question waits in the thread. The agent calls the tool again with the
    /// reply, and the call passes if it asks the same question.
    ///
    /// # Errors
    ///
    /// The call may not, or has to wait: the output that the tool must return.
    pub async fn pass(&self, permissions: &Permissions, question: Question) -> Result<Grant, ToolOutput> {
        let replies = replies(self.consultation)?;
        permissions.pass(question, &replies).await.map_err(|stopped| self.stopped(stopped))
    }

    /// The same for something that the `allowed-tools` of a loaded skill list. Returns why it may be done.
    ///
    /// # Errors
    ///
    /// The call may not, or has to wait: the output that the tool must return.
    pub async fn pass_preapproved(
        &self,
        permissions: &Permissions,
        question: Question,
    ) -> Result<Grant, ToolOutput> {
        let replies = replies(self.consultation)?;
        let passed = permissions.pass_preapproved(question, &replies).await;
        passed.map_err(|stopped| self.stopped(stopped))
    }

    /// The output of a call that the gate stopped.
    fn stopped(&self, stopped: Stopped) -> ToolOutput {
        match stopped {
            Stopped::Asks(question) => ToolOutput::Ask(call_question(*question, self.consultation)),
            Stopped::Refused(refusal) => refusal_answer(&refusal).into(),
        }
    }
}
