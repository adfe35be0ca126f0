//! A call's act at the permission gate: where nobody else can be asked, the thread asks.

use prowess_permission::{Fingerprint, Permissions, Refusal, Request};
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
    let allowed = match context.consulted.and_then(|consulted| consulted.reply.as_ref()) {
        Some(Reply::Approve) => allowed(context),
        // Whoever wrote the arguments wants what they ask for.
        Some(Reply::Edit { .. }) => Some(request.fingerprint()),
        Some(Reply::Reject { message }) => return Err(ToolAnswer::error(message.clone()).into()),
        None => None,
    };
    let _allowed = allowed.map(|fingerprint| permissions.allow_once(fingerprint));
    match permissions.request(request).await {
        Ok(_) => Ok(()),
        Err(Refusal::NobodyToAsk { request, .. }) => Err(ToolOutput::Ask(question(&request))),
        Err(refusal) => Err(ToolAnswer::error(format!("Error: {refusal}")).into()),
    }
}

/// The arguments of a call, or those that a person gave it when it asked.
pub(super) fn arguments(context: &ToolContext<'_>, arguments: Value) -> Result<Value, ToolAnswer> {
    match context.consulted.and_then(|consulted| consulted.reply.as_ref()) {
        Some(Reply::Edit { arguments }) => serde_json::from_str(arguments).map_err(|error| {
            ToolAnswer::error(format!("Error: the new arguments are not valid JSON: {error}"))
        }),
        _ => Ok(arguments),
    }
}

/// What a front end shows. It says what exactly is asked, so that a reply is for that and nothing else.
pub(super) fn question(request: &Request) -> Value {
    json!({
        "title": request.title,
        "kind": request.kind,
        "subjects": request.patterns,
        "details": request.details,
        "fingerprint": request.fingerprint().to_string(),
    })
}

/// What a person allowed when this call asked.
pub(super) fn allowed(context: &ToolContext<'_>) -> Option<Fingerprint> {
    let consulted = context.consulted?;
    let fingerprint = consulted.question.get("fingerprint")?.as_str()?.parse().ok()?;
    (consulted.reply == Some(Reply::Approve)).then_some(fingerprint)
}
