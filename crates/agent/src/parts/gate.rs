//! A call's act at the permission gate: where nobody else can be asked, the thread asks.

use prowess_permission::{Permissions, Refusal, Request};
use serde_json::{Value, json};

use crate::run::Reply;
use crate::tool::{ToolAnswer, ToolContext, ToolOutput};

/// Passes the gate with an act of a call, or gives what comes of the call instead: a refusal, or a question that waits
/// in the thread. A rule that denies the act stands over every reply.
pub(super) async fn pass(
    permissions: &Permissions,
    request: Request,
    context: &ToolContext<'_>,
) -> Result<(), ToolOutput> {
    let question = question(&request);
    let reply = context.consulted.and_then(|consulted| Some((&consulted.question, consulted.reply.as_ref()?)));
    let passed = match reply {
        Some((asked, Reply::Approve)) if *asked == question => permissions.request_preapproved(&request),
        // Whoever wrote the arguments wants what they ask for.
        Some((_, Reply::Edit { .. })) => permissions.request_preapproved(&request),
        Some((_, Reply::Reject { message })) => return Err(ToolAnswer::error(message.clone()).into()),
        Some((_, Reply::Approve)) | None => permissions.request(request).await,
    };
    match passed {
        Ok(_) => Ok(()),
        Err(Refusal::NobodyToAsk { .. }) => Err(ToolOutput::Ask(question)),
        Err(refusal) => Err(ToolAnswer::error(format!("Error: {refusal}")).into()),
    }
}

/// What a front end shows. It says what exactly is asked, so a reply is for that and nothing else.
fn question(request: &Request) -> Value {
    json!({
        "title": request.title,
        "kind": request.kind,
        "subjects": request.patterns,
        "details": request.details,
        "fingerprint": request.fingerprint().to_string(),
    })
}
