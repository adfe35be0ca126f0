//! Questions, and replies to them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use prowess_agent::queue::{Post, Posted};
use prowess_agent::thread_state::CallReply;
use prowess_base::text::escaped_start;
use prowess_store::serve::OwnedThread;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::threads::owned;
use super::turns::check_allowance;
use super::{ApiError, ApiJson, ApiPath, Items};
use crate::app::App;
use crate::auth::{Approver, Caller, Reader};
use crate::view::{Asked, NO_REASON, QuestionView};

/// The longest reason, in bytes.
const MAX_REASON: usize = 16 << 10;

/// Lists the questions that wait in all your threads.
#[utoipa::path(get, path = "/questions", tag = "questions", responses((status = 200, body = Items<QuestionView>)))]
pub(super) async fn all(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
) -> Result<Json<Items<Value>>, ApiError> {
    let threads = app.threads.waiting(&caller.user.id).await?;
    let questions: Vec<Value> = threads.into_iter().flat_map(|thread| thread.summary.waiting).collect();
    Ok(Json(questions.into()))
}

/// A reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReplyKind {
    /// Make the call, once.
    Approve,
    /// Make the call, and do not ask again.
    Always,
    /// Do not make the call.
    Reject,
    /// Do not make this call, nor any other that waits in the thread.
    RejectAll,
    /// Make the call with other arguments. The rules decide about them, and you may be asked again.
    Edit,
}

/// A reply to a question.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewReply {
    /// The reply.
    pub(crate) reply: ReplyKind,
    /// The reason of a rejection. The model reads it.
    #[serde(default)]
    pub(crate) message: Option<String>,
    /// The arguments of `edit`.
    #[serde(default)]
    pub(crate) arguments: Option<Value>,
}

impl NewReply {
    /// The reply as the agent takes it, if this question can have it.
    pub(crate) fn call_reply(self, question: &QuestionView) -> Result<CallReply, ApiError> {
        if self.message.as_ref().is_some_and(|message| message.len() > MAX_REASON) {
            return Err(ApiError::too_large(format!("A reason has at most {MAX_REASON} bytes.")));
        }
        let message = self.message.filter(|message| !message.trim().is_empty());
        let message = message.unwrap_or_else(|| NO_REASON.to_owned());
        Ok(match self.reply {
            ReplyKind::Approve => CallReply::Approve,
            ReplyKind::Always if !question.can_always => {
                return Err(ApiError::bad_request("This question has no reply `always`."));
            }
            ReplyKind::Always => CallReply::Always,
            ReplyKind::Edit if !question.can_edit => {
                return Err(ApiError::bad_request(
                    "This question has no reply `edit`: a sub-agent makes the call.",
                ));
            }
            ReplyKind::Reject => CallReply::Reject { message },
            ReplyKind::RejectAll => CallReply::RejectAll { message },
            ReplyKind::Edit => {
                let arguments = self.arguments.filter(Value::is_object);
                let arguments = arguments
                    .ok_or_else(|| ApiError::bad_request("`edit` needs `arguments`, an object."))?
                    .to_string();
                CallReply::Edit { arguments }
            }
        })
    }
}

/// Replies to a question. The first reply counts.
#[utoipa::path(post, path = "/threads/{thread}/questions/{number}", tag = "questions", params(("thread" = String, Path), ("number" = u64, Path, description = "The number of the question")), request_body = NewReply, responses((status = 202), (status = 409, description = "Somebody replied already", body = super::error::ApiErrorBody)))]
pub(super) async fn reply(
    State(app): State<Arc<App>>,
    Approver(caller): Approver,
    ApiPath((id, number)): ApiPath<(String, String)>,
    ApiJson(new): ApiJson<NewReply>,
) -> Result<StatusCode, ApiError> {
    let thread = owned(&app, &caller, &id).await?;
    let already = || ApiError::conflict("This question does not wait: somebody replied, or its turn ended.");
    let question = match app.look_at(&thread, |replay| replay.question_of(&number)).await? {
        Asked::Waits(question) => question,
        Asked::Settled => return Err(already()),
        Asked::Never => return Err(no_question(&number)),
    };
    let kind = new.reply;
    let reply = new.call_reply(&question)?;
    match answer(&app, &caller, &thread, &question, kind, reply).await? {
        Replied::First => Ok(StatusCode::ACCEPTED),
        Replied::TooLate => Err(already()),
    }
}

/// The error for a number that no question of the thread has.
pub(crate) fn no_question(number: &str) -> ApiError {
    ApiError::not_found(format_args!("question `{}` in this thread", escaped_start(number)))
}

/// Whether a reply counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replied {
    /// It is the first one.
    First,
    /// Somebody replied before.
    TooLate,
}

/// Notes a reply to a question in the audit log, and posts it.
pub(crate) async fn answer(
    app: &App,
    caller: &Caller,
    thread: &OwnedThread,
    question: &QuestionView,
    kind: ReplyKind,
    reply: CallReply,
) -> Result<Replied, ApiError> {
    // The turn would go on. A rejection waits.
    if matches!(kind, ReplyKind::Approve | ReplyKind::Always | ReplyKind::Edit) {
        check_allowance(app, caller).await?;
    }
    let number = question.number;
    let post = Post::Reply { call: question.call.as_str().into(), number, reply };
    let detail = json!({"number": number, "reply": kind, "tool": question.tool, "title": question.title});
    let note = async |what| app.audit.note(&caller.user.id, what, Some(&thread.id), &detail).await;
    // Before it has an effect: no approval is without an entry.
    note("reply").await?;
    if app.inbox_of(&thread.owner).post(&thread.id, &post).await? == Posted::Known {
        note("reply without effect").await?;
        return Ok(Replied::TooLate);
    }
    app.tell_posted(&thread.id);
    Ok(Replied::First)
}
