//! Questions of the permission gate that wait in the thread, so that the reply may come from another process.

use prowess_permission::{Fingerprint, Permissions, Question, Refusal, Replies, Stopped};

use crate::thread_state::{CallQuestion, CallReply, Consultation};
use crate::tool::{RefusedBy, ToolAnswer, ToolContext, ToolOutput};

/// The question for a call that was asked about before perhaps.
pub(crate) fn asking(question: Question, consulted: Option<&Consultation>) -> Box<CallQuestion> {
    Box::new(CallQuestion { question, allowed: allowed_before(consulted), via: None })
}

/// What a person allowed for this call so far, for a question of another sort.
pub(crate) fn allowed_before(consulted: Option<&Consultation>) -> Vec<Fingerprint> {
    let Some(Consultation { asking, reply, .. }) = consulted else { return Vec::new() };
    let mut allowed = asking.allowed.clone();
    // What a sub-agent asked was allowed to that one.
    if matches!(reply, Some(CallReply::Approve | CallReply::Always)) && asking.via.is_none() {
        allowed.push(asking.question.fingerprint());
    }
    allowed
}

/// What a person answered about this call, for whoever asks again on its behalf.
///
/// # Errors
///
/// The person said no: the call's answer.
pub(crate) fn replies(consulted: Option<&Consultation>) -> Result<Replies, ToolAnswer> {
    let of_the_gate = consulted.filter(|consulted| consulted.asking.via.is_none());
    match of_the_gate.and_then(|consulted| Some((consulted, consulted.reply.as_ref()?))) {
        None | Some((_, CallReply::Approve)) => {}
        Some((consulted, CallReply::Always)) => {
            let always = consulted.asking.question.fingerprint();
            return Ok(Replies::allowing(allowed_before(Some(consulted))).and_always(always));
        }
        Some((_, CallReply::Reject { message } | CallReply::RejectAll { message })) => {
            let message = Some(message.clone());
            return Err(refused(&Refusal::Rejected { message }));
        }
        Some((_, CallReply::Edit { .. })) => {
            let text = "Error: the arguments cannot be changed once the call is begun; it was not allowed.";
            return Err(ToolAnswer::refused(text, RefusedBy::Person));
        }
    }
    Ok(Replies::allowing(allowed_before(consulted)))
}

/// The answer of a call that a gate refused.
pub(crate) fn refused(refusal: &Refusal) -> ToolAnswer {
    let text = match refusal {
        Refusal::Rejected { .. } => refusal.to_string(),
        refusal => format!("Error: {refusal}"),
    };
    ToolAnswer { data: Some(refusal.into()), ..ToolAnswer::error(text) }
}

impl ToolContext<'_> {
    /// Asks whether this call may do something, of whoever answers for these permissions. Where nobody does the thread
    /// asks: the call waits, is made again with the reply, and passes when it asks for the very same then.
    ///
    /// # Errors
    ///
    /// It may not, or has to wait: the output that the tool gives.
    pub async fn pass(&self, permissions: &Permissions, question: Question) -> Result<(), ToolOutput> {
        let replies = replies(self.consulted)?;
        match permissions.pass(question, &replies).await {
            Ok(_) => Ok(()),
            Err(Stopped::Asks(question)) => Err(ToolOutput::Ask(asking(*question, self.consulted))),
            Err(Stopped::Refused(refusal)) => Err(refused(&refusal).into()),
        }
    }
}
