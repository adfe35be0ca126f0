//! Asks the person behind a client when the permission gate has a question.
//!
//! The server attempts a call with the replies that it has. If the gate has another question, the server asks the client,
//! and attempts the call again with exactly that action allowed. Clients of older revisions get a form while their call
//! waits. Clients of 2026-07-28 get the question as the result of the call, and make the call again with the reply.

mod form;
mod waiting;

use std::collections::BTreeMap;
use std::future::pending;

use async_trait::async_trait;
use prowess_permission::{Asker, Fingerprint, Permissions, Question, Refusal, Replies, Reply};
use prowess_skills::{Outcome, SkillError};
use rmcp::RoleServer;
use rmcp::model::{
    CancelledNotificationParam, ClientCapabilities, ClientResult, ElicitRequest, ElicitResult, InputRequest,
    InputRequiredResult, InputResponses, ProtocolVersion, RequestId, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestContext};
use tokio_util::sync::CancellationToken;

use form::FormReply;
use waiting::ElicitedQuestion;
pub(crate) use waiting::{CallIdentity, ElicitedQuestions};

/// How many questions one call may ask.
const MAX_QUESTIONS: usize = 32;
/// How often the server attempts a call: for each question until it is asked and again with its reply, and once to finish.
const MAX_ATTEMPTS: usize = 2 * MAX_QUESTIONS + 1;
/// How many bytes a call may hold while it waits: its arguments, and the question twice (once on its way, once for a client
/// whose connection breaks). With what every call takes, that is less than 64 KiB. A larger question is not asked.
const MAX_HELD_BYTES: usize = 48 * 1024;
/// The name of the question among the inputs that a result requires.
const PERMISSION: &str = "permission";

/// How a call ended.
pub(crate) enum ConsentOutcome<T> {
    /// The call is done.
    Done(T),
    /// The call failed, or its question could not be asked.
    Failed(SkillError),
    /// The person said no.
    Refused(Refusal),
    /// The client has to ask its person, and make the call again.
    Asks(InputRequiredResult),
}

/// Is cancelled when the client cannot receive the answer to its call any more.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "other transports end with their client"))]
pub(crate) struct ClientGone(pub(crate) CancellationToken);

/// How the server can ask the person behind a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AskMethod {
    Elicitation,
    InputRequired,
    Nothing,
}

impl AskMethod {
    fn of(context: &RequestContext<RoleServer>) -> Self {
        let has_forms = context.client_capabilities().as_ref().is_some_and(has_forms);
        let is_newest =
            context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        match (has_forms, is_newest) {
            (false, _) => Self::Nothing,
            (true, false) => Self::Elicitation,
            (true, true) => Self::InputRequired,
        }
    }
}

/// Whether a client shows forms. A client that names no kind of elicitation does.
fn has_forms(capabilities: &ClientCapabilities) -> bool {
    capabilities.elicitation.as_ref().is_some_and(|can| can.form.is_some() || can.url.is_none())
}

/// The replies to the questions of one call so far.
pub(crate) struct CallReplies {
    replies: Replies,
    /// Whether the server can ask the person about more.
    can_ask: bool,
}

#[async_trait]
impl Asker for CallReplies {
    async fn ask(&self, question: &Question) -> Option<Reply> {
        self.replies.ask(question).await
    }

    fn keeps_questions(&self) -> bool {
        self.can_ask
    }
}

/// One call, and everything that the server needs to ask its person.
pub(crate) struct Consent<'a> {
    pub(crate) permissions: &'a Permissions,
    pub(crate) context: &'a RequestContext<RoleServer>,
    pub(crate) waiting: &'a ElicitedQuestions,
    pub(crate) call: CallIdentity,
    /// The id of the waiting question that the client sent back.
    pub(crate) state: Option<String>,
    pub(crate) responses: Option<InputResponses>,
}

impl Consent<'_> {
    /// Attempts a call until it is done, refused, or the client has to ask its person. While a person thinks, this holds
    /// nothing that the next attempt creates again.
    pub(crate) async fn attend<T, F>(mut self, attempt: impl Fn(CallReplies) -> F) -> ConsentOutcome<T>
    where
        F: Future<Output = Outcome<T>>,
    {
        let method = AskMethod::of(self.context);
        let mut can_ask = method != AskMethod::Nothing;
        let (mut allowed, mut reply) = self.sent_back();
        for _ in 0..MAX_ATTEMPTS {
            if let Some((_, FormReply::Reject(message))) = reply {
                return ConsentOutcome::Refused(Refusal::Rejected { message });
            }
            let replies = CallReplies { replies: Replies::once(allowed.iter().copied()), can_ask };
            // On the heap: otherwise its room would stay in this future while a person thinks.
            let question = match Box::pin(attempt(replies)).await {
                Outcome::Done(done) => return ConsentOutcome::Done(done),
                Outcome::Refused(error) => return ConsentOutcome::Failed(error),
                Outcome::Asks(question) => question,
            };
            let about = question.fingerprint();
            // A reply counts for its question only. The call may ask something else by now.
            if let Some((_, reply)) = reply.take().filter(|(asked, _)| *asked == about) {
                if reply == FormReply::Always {
                    self.permissions.remember(&question).await;
                }
                allowed.push(about);
                continue;
            }
            if allowed.len() == MAX_QUESTIONS {
                break;
            }
            let form = self.form(&question);
            drop(question);
            let Some(form) = form else {
                can_ask = false;
                continue;
            };
            if method == AskMethod::InputRequired {
                match self.input_required(form, about, &allowed) {
                    Some(result) => return ConsentOutcome::Asks(result),
                    None => can_ask = false,
                }
                continue;
            }
            match self.elicit(form).await {
                Some(filled_in) => reply = Some((about, FormReply::of(&filled_in))),
                // Do nothing whose result nobody receives.
                None if self.is_gone() => break,
                None => can_ask = false,
            }
        }
        ConsentOutcome::Refused(Refusal::Cancelled)
    }

    /// The questions that the person allowed before, and the reply that the client sent back. If the reply is missing, the
    /// call asks again.
    fn sent_back(&mut self) -> (Vec<Fingerprint>, Option<(Fingerprint, FormReply)>) {
        let inputs = self.responses.take();
        let state = self.state.take();
        let Some(question) = state.and_then(|state| self.waiting.take(&state, self.call.digest)) else {
            return (Vec::new(), None);
        };
        let input = inputs.and_then(|mut inputs| inputs.remove(PERMISSION));
        (question.allowed, input.map(|input| (question.about, FormReply::from_input(input))))
    }

    /// The form for a question, unless the call would hold too much while it waits.
    fn form(&self, question: &Question) -> Option<ElicitRequest> {
        let message = form::message(question);
        let fits = self.call.bytes + 2 * message.len() <= MAX_HELD_BYTES;
        fits.then(|| ElicitRequest::new(form::form(message, question)))
    }

    /// Keeps the question, and returns the result that makes the client ask. `None` if there is no random id for it.
    fn input_required(
        &self,
        form: ElicitRequest,
        about: Fingerprint,
        allowed: &[Fingerprint],
    ) -> Option<InputRequiredResult> {
        let question = ElicitedQuestion { call: self.call.digest, about, allowed: allowed.to_vec() };
        let state = self.waiting.keep(question)?;
        let inputs = BTreeMap::from([(PERMISSION.to_owned(), InputRequest::Elicitation(form))]);
        Some(InputRequiredResult::new(Some(inputs), Some(state)))
    }

    /// Whether the client cannot receive the answer any more.
    fn is_gone(&self) -> bool {
        let gone = self.context.extensions.get::<ClientGone>();
        gone.is_some_and(|gone| gone.0.is_cancelled()) || self.context.peer.is_transport_closed()
    }

    /// Sends a form, and waits for the person. `None` if the client is gone or cannot show it.
    async fn elicit(&self, form: ElicitRequest) -> Option<ElicitResult> {
        let peer = &self.context.peer;
        let request = ServerRequest::ElicitRequest(form);
        let options = PeerRequestOptions::no_options();
        let handle = peer.send_request_with_option(request, options).await.ok()?;
        let mut open_form = OpenForm(Some((peer.clone(), handle.id.clone())));
        let gone = async {
            match self.context.extensions.get::<ClientGone>() {
                Some(gone) => gone.0.cancelled().await,
                None => pending().await,
            }
        };
        let result = tokio::select! {
            result = handle.await_response() => result,
            () = gone => return None,
        };
        open_form.0 = None;
        match result {
            Ok(ClientResult::ElicitResult(filled_in)) => Some(filled_in),
            _ => None,
        }
    }
}

/// A form that nobody has filled in. If the server needs the reply no more, it tells the client.
struct OpenForm(Option<(Peer<RoleServer>, RequestId)>);

impl Drop for OpenForm {
    fn drop(&mut self) {
        let Some((peer, id)) = self.0.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            // The client may be gone.
            let _ = peer.notify_cancelled(CancelledNotificationParam::new(Some(id), None)).await;
        });
    }
}
