//! Questions of the permission gate that wait in the thread, so that the reply may come from another process.

use prowess_permission::{AllowedOnce, Fingerprint, Permissions, Refusal, Request};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::run::{Consulted, Reply};
use crate::tool::{Refuser, ToolAnswer, ToolContext, ToolOutput};

/// Where a question has the fingerprint of what it asks.
const ASKED: &str = "fingerprint";
/// Where a question has the fingerprints of what was allowed for the same call before.
const ALLOWED: &str = "allowed";

/// The question about a request, for a call that was asked about before perhaps.
pub(crate) fn question(request: &Request, consulted: Option<&Consulted>) -> Value {
    json!({
        "title": request.title,
        "kind": request.kind,
        "subjects": request.patterns,
        "details": request.details,
        "request": request,
        ASKED: request.fingerprint(),
        ALLOWED: allowed_before(consulted),
    })
}

/// What a person allowed for this call so far, for a question of another sort.
pub(crate) fn allowed_before(consulted: Option<&Consulted>) -> Vec<Fingerprint> {
    let Some(Consulted { question, reply: Some(Reply::Approve | Reply::Always), .. }) = consulted else {
        return consulted.map(|consulted| fingerprints(&consulted.question[ALLOWED])).unwrap_or_default();
    };
    let mut all = fingerprints(&question[ALLOWED]);
    all.extend(fingerprint(&question[ASKED]));
    all
}

/// Lets pass what a person allowed for this call, while what it gives is kept.
///
/// # Errors
///
/// The person said no: the call's answer.
pub(crate) async fn allow(
    permissions: &Permissions,
    consulted: Option<&Consulted>,
) -> Result<Vec<AllowedOnce>, ToolAnswer> {
    let of_the_gate = |consulted: &&Consulted| consulted.question.get(ASKED).is_some();
    match consulted.filter(of_the_gate).and_then(|consulted| consulted.reply.as_ref()) {
        None | Some(Reply::Approve) => {}
        Some(Reply::Always) => remember(permissions, consulted).await,
        Some(Reply::Reject { message } | Reply::RejectAll { message }) => {
            let message = Some(message.clone());
            return Err(refused(&Refusal::Rejected { message }, ""));
        }
        Some(Reply::Edit { .. }) => {
            let text = "Error: the arguments cannot be changed once the call is begun; it was not allowed.";
            return Err(ToolAnswer::refused(text, Refuser::Person));
        }
    }
    let allowed = allowed_before(consulted).into_iter();
    Ok(allowed.map(|fingerprint| permissions.allow_once(fingerprint)).collect())
}

impl ToolContext<'_> {
    /// Asks whether this call may do something, of whoever answers for these permissions. Where nobody does the thread
    /// asks: the call waits, is made again with the reply, and passes when it asks for the very same then.
    ///
    /// # Errors
    ///
    /// It may not, or has to wait: the output that the tool gives.
    pub async fn pass(&self, permissions: &Permissions, request: Request) -> Result<(), ToolOutput> {
        pass(permissions, request, self.consulted).await
    }
}

/// Asks for permission on behalf of a call: whoever answers for these permissions, and the thread where nobody does.
///
/// # Errors
///
/// It is not let pass, or has to wait: what the call gives.
async fn pass(
    permissions: &Permissions,
    request: Request,
    consulted: Option<&Consulted>,
) -> Result<(), ToolOutput> {
    // What a person allows for this call is no word for another.
    let permissions = permissions.apart();
    let _allowed = allow(&permissions, consulted).await?;
    match permissions.request(request).await {
        Ok(_) => Ok(()),
        // The thread asks, where nobody else can.
        Err(Refusal::NobodyToAsk { request, .. }) => Err(ToolOutput::Ask(question(&request, consulted))),
        Err(refusal) => Err(refused(&refusal, "Error: ").into()),
    }
}

/// The answer to a call that was refused.
fn refused(refusal: &Refusal, before: &str) -> ToolAnswer {
    ToolAnswer { data: Some(refusal.into()), ..ToolAnswer::error(format!("{before}{refusal}")) }
}

/// Remembers what was allowed for good: what the question asked, and nothing that the question does not bind.
async fn remember(permissions: &Permissions, consulted: Option<&Consulted>) {
    let Some(question) = consulted.map(|consulted| &consulted.question) else { return };
    let Ok(request) = Request::deserialize(&question["request"]) else { return };
    if fingerprint(&question[ASKED]) != Some(request.fingerprint()) {
        return;
    }
    if let Err(error) = permissions.broker().remember(&request).await {
        tracing::warn!(%error, "What was allowed for good is remembered for now alone");
    }
}

fn fingerprints(value: &Value) -> Vec<Fingerprint> {
    value.as_array().into_iter().flatten().filter_map(fingerprint).collect()
}

fn fingerprint(value: &Value) -> Option<Fingerprint> {
    value.as_str()?.parse().ok()
}
