//! Questions of the permission gate, put to the person behind a client.
//!
//! A call is attempted with nobody to ask. Where the gate wants an answer, the client is asked, and the call is
//! attempted again with exactly that allowed. Clients of older revisions are asked while their call waits; those of
//! 2026-07-28 get the question as the call's result, and make the call again with the answer.

use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use prowess_catalog::Digest;
use prowess_catalog::digest::Digester;
use prowess_catalog::json_cost::JsonCost;
use prowess_catalog::untrusted::{is_unprintable, one_line};
use prowess_permission::wording::{Detail, DetailStyle};
use prowess_permission::{Asker, Fingerprint, Permissions, Question, Refusal, Replies, Reply};
use prowess_skills::{Outcome, SkillError};
use rmcp::RoleServer;
use rmcp::model::{
    CancelledNotificationParam, ClientCapabilities, ClientResult, ElicitRequest, ElicitRequestParams,
    ElicitResult, ElicitationAction, ElicitationSchema, InputRequest, InputRequiredResult, InputResponses,
    ProtocolVersion, RequestId, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestContext};
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::outputs::random;

/// How many questions one call may ask.
const MAX_QUESTIONS: usize = 32;
/// How often a call is attempted: until it asks, until it asks the same with the answer there, and in the end to be done.
const MAX_ATTEMPTS: usize = 2 * MAX_QUESTIONS + 1;
/// How many calls may wait for an answer; the oldest is forgotten then, and asks again.
const MAX_WAITING: usize = 256;
/// How much a call may hold while it waits, in bytes: its arguments, and the question, which is there once on its way and
/// once for a client whose connection breaks. With what every call takes that is less than 64 KiB. What cannot be held
/// or shown whole is not asked.
const MAX_HELD: usize = 48 * 1024;
/// The name of the question among the inputs that a result requires.
const PERMISSION: &str = "permission";

/// What a call came to, with the person asked where that was needed.
pub(crate) enum Attended<T> {
    /// It is done.
    Done(T),
    /// It cannot be done, or could not be asked about.
    Failed(SkillError),
    /// The person said no.
    Refused(Refusal),
    /// The client is to ask, and to make the call again.
    Asks(InputRequiredResult),
}

/// Calls that wait for an answer, by what their clients hand back.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Mutex<VecDeque<(String, Asked)>>);

/// A question that was asked. What it was about is known again when the call is made again.
#[derive(Clone, Debug)]
struct Asked {
    /// Which call it was, arguments and all.
    call: Digest,
    /// What was asked.
    about: Fingerprint,
    /// What was allowed for this call before.
    allowed: Vec<Fingerprint>,
}

/// Which call it is, arguments and all, and how much it holds while it waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    digest: Digest,
    bytes: usize,
}

impl Call {
    /// The call of this method with these arguments.
    pub(crate) fn of(call: &impl Serialize) -> Self {
        let mut text = Text::default();
        // Text and values of JSON can be written.
        let _ = serde_json::to_writer(&mut text, call);
        let cost = JsonCost::of(&text.start).bytes;
        Self { digest: text.digester.digest(), bytes: cost.max(text.length) }
    }
}

/// The text of a call as it is written: hashed, and never whole in memory. A call whose text is longer than what is kept
/// of it holds too much in any case.
#[derive(Default)]
struct Text {
    digester: Digester,
    start: Vec<u8>,
    length: usize,
}

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.digester.update(bytes);
        self.length += bytes.len();
        let room = MAX_HELD.saturating_sub(self.start.len());
        self.start.extend_from_slice(&bytes[..bytes.len().min(room)]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Is cancelled when nobody hears any more what a call comes to.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "other transports end with their client"))]
pub(crate) struct Gone(pub(crate) CancellationToken);

impl Waiting {
    fn keep(&self, asked: Asked) -> Option<String> {
        let handle = random()?;
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() == MAX_WAITING {
            waiting.pop_front();
        }
        waiting.push_back((handle.clone(), asked));
        Some(handle)
    }

    /// What was asked for this very call; each answer counts once.
    fn take(&self, handle: &str, call: Digest) -> Option<Asked> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = waiting.iter().position(|(known, asked)| known == handle && asked.call == call)?;
        waiting.remove(at).map(|(_, asked)| asked)
    }
}

/// How the person behind a client can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    Elicitation,
    InputRequired,
    Nothing,
}

impl Means {
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

/// Whether a client shows forms; one that names no kind of elicitation does.
fn has_forms(capabilities: &ClientCapabilities) -> bool {
    capabilities.elicitation.as_ref().is_some_and(|can| can.form.is_some() || can.url.is_none())
}

/// What was allowed for a call so far.
pub(crate) struct Answered {
    replies: Replies,
    /// Whether the person can be asked about more.
    can_ask: bool,
}

#[async_trait]
impl Asker for Answered {
    async fn ask(&self, question: &Question) -> Option<Reply> {
        self.replies.ask(question).await
    }

    fn keeps_questions(&self) -> bool {
        self.can_ask
    }
}

/// One call, and how its person can be asked about it.
pub(crate) struct Consent<'a> {
    pub(crate) permissions: &'a Permissions,
    pub(crate) context: &'a RequestContext<RoleServer>,
    pub(crate) waiting: &'a Waiting,
    pub(crate) call: Call,
    /// What the client handed back.
    pub(crate) state: Option<String>,
    pub(crate) responses: Option<InputResponses>,
}

impl Consent<'_> {
    /// Attempts a call until it is done, refused, or the client has to ask. While somebody thinks, nothing is kept that
    /// the next attempt gives again.
    pub(crate) async fn attend<T, F>(mut self, attempt: impl Fn(Answered) -> F) -> Attended<T>
    where
        F: Future<Output = Outcome<T>>,
    {
        let means = Means::of(self.context);
        let Call { digest: call, bytes } = self.call;
        let mut can_ask = means != Means::Nothing;
        let mut allowed = Vec::new();
        let mut answered = None;
        let answers = self.responses.take();
        if let Some(asked) = self.state.take().and_then(|state| self.waiting.take(&state, call)) {
            allowed = asked.allowed;
            // An answer that is missing is asked for again.
            let answer = answers.and_then(|mut all| all.remove(PERMISSION));
            answered = answer.map(|answer| (asked.about, decision(&parsed(answer))));
        }
        for _ in 0..MAX_ATTEMPTS {
            if let Some((_, Decision::Reject(message))) = answered {
                return Attended::Refused(Refusal::Rejected { message });
            }
            let before = Answered { replies: Replies::allowing(allowed.iter().copied()), can_ask };
            // On the heap, as it would stay a part of this while somebody thinks.
            let question = match Box::pin(attempt(before)).await {
                Outcome::Done(done) => return Attended::Done(done),
                Outcome::Refused(error) => return Attended::Failed(error),
                Outcome::Asks(question) => question,
            };
            let about = question.fingerprint();
            // An answer is for what was asked. The call may be about something else by now.
            if let Some((_, decision)) = answered.take().filter(|(asked, _)| *asked == about) {
                if decision == Decision::Always {
                    self.permissions.remember(&question).await;
                }
                allowed.push(about);
                continue;
            }
            if allowed.len() == MAX_QUESTIONS {
                break;
            }
            let words = words(&question);
            if bytes + 2 * words.len() > MAX_HELD {
                can_ask = false;
                continue;
            }
            let form = ElicitRequest::new(form(words, &question));
            drop(question);
            if means == Means::InputRequired {
                let asked = Asked { call, about, allowed: allowed.clone() };
                let Some(state) = self.waiting.keep(asked) else {
                    can_ask = false;
                    continue;
                };
                let inputs = BTreeMap::from([(PERMISSION.to_owned(), InputRequest::Elicitation(form))]);
                return Attended::Asks(InputRequiredResult::new(Some(inputs), Some(state)));
            }
            match self.ask(form).await {
                Some(answer) => answered = Some((about, decision(&answer))),
                // Nothing is done that nobody hears of.
                None if self.is_gone() => break,
                None => can_ask = false,
            }
        }
        Attended::Refused(Refusal::Cancelled)
    }

    /// Whether nobody hears any more what it comes to.
    fn is_gone(&self) -> bool {
        let gone = self.context.extensions.get::<Gone>();
        gone.is_some_and(|gone| gone.0.is_cancelled()) || self.context.peer.is_transport_closed()
    }

    /// What the person answers to a form; nothing, when nobody is there to hear what comes of it.
    async fn ask(&self, form: ElicitRequest) -> Option<ElicitResult> {
        let peer = &self.context.peer;
        let request = ServerRequest::ElicitRequest(form);
        let options = PeerRequestOptions::no_options();
        let handle = peer.send_request_with_option(request, options).await.ok()?;
        let mut unanswered = Unanswered(Some((peer.clone(), handle.id.clone())));
        let gone = async {
            match self.context.extensions.get::<Gone>() {
                Some(gone) => gone.0.cancelled().await,
                None => pending().await,
            }
        };
        let answer = tokio::select! {
            answer = handle.await_response() => answer,
            () = gone => return None,
        };
        unanswered.0 = None;
        match answer {
            Ok(ClientResult::ElicitResult(answer)) => Some(answer),
            _ => None,
        }
    }
}

/// A question that nobody has answered. When the answer is not needed any more, the client is told, and nothing waits for
/// it.
struct Unanswered(Option<(Peer<RoleServer>, RequestId)>);

impl Drop for Unanswered {
    fn drop(&mut self) {
        let Some((peer, id)) = self.0.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            // A client that is gone hears nothing.
            let _ = peer.notify_cancelled(CancelledNotificationParam::new(Some(id), None)).await;
        });
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Decision {
    Once,
    Always,
    Reject(Option<String>),
}

/// What an answer says. Only clear words allow.
fn decision(answer: &ElicitResult) -> Decision {
    let field = |name: &str| answer.content.as_ref().and_then(|content| content.get(name)?.as_str());
    let reason = field("reason").map(str::trim).filter(|reason| !reason.is_empty()).map(ToOwned::to_owned);
    match (&answer.action, field("decision")) {
        (ElicitationAction::Accept, Some("once")) => Decision::Once,
        (ElicitationAction::Accept, Some("always")) => Decision::Always,
        _ => Decision::Reject(reason),
    }
}

/// An answer among the inputs of a call. What is none, is no.
fn parsed(answer: Value) -> ElicitResult {
    serde_json::from_value(answer).unwrap_or_else(|_| ElicitResult::new(ElicitationAction::Cancel))
}

/// The form that a person fills in.
fn form(message: String, question: &Question) -> ElicitRequestParams {
    let mut decisions = vec!["once", "reject"];
    if !question.always.is_empty() {
        decisions.insert(1, "always");
    }
    let schema = serde_json::json!({
        "type": "object",
        "properties": {
            "decision": {"type": "string", "title": "Decision", "enum": decisions},
            "reason": {"type": "string", "title": "Reason", "description": "If you reject it: what the model is told."},
        },
        "required": ["decision"],
    });
    let requested_schema =
        serde_json::from_value(schema).unwrap_or_else(|_| ElicitationSchema::new(BTreeMap::new()));
    ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema }
}

/// What a person has to know to decide: all of it.
fn words(question: &Question) -> String {
    let words = question.wording();
    let mut lines = vec![format!("Permission is needed: {}", one_line(&words.title))];
    lines.extend(words.note.iter().map(|note| one_line(note).into_owned()));
    lines.extend(words.details.iter().map(|detail| format!("{}: {}", one_line(&detail.name), shown(detail))));
    lines.extend(words.always_line());
    lines.join("\n")
}

/// A detail on one line, with nothing in it that is not seen.
fn shown(detail: &Detail) -> String {
    match detail.style {
        DetailStyle::Data => seen(&detail.text),
        _ => json(&detail.text),
    }
}

/// A text as JSON, with nothing in it that is not seen.
fn json(text: &str) -> String {
    seen(&Value::from(text).to_string())
}

fn seen(text: &str) -> String {
    let mut line = String::new();
    for c in text.chars() {
        if is_unprintable(c) { line.extend(c.escape_unicode()) } else { line.push(c) }
    }
    line
}

#[cfg(test)]
mod tests {
    use prowess_permission::Kind;
    use prowess_permission::action::RunAction;
    use serde_json::json;

    use super::*;

    fn answer(action: ElicitationAction, content: Value) -> ElicitResult {
        ElicitResult::new(action).with_content(content)
    }

    #[test]
    fn only_clear_words_allow() {
        use ElicitationAction::{Accept, Cancel, Decline};
        assert_eq!(decision(&answer(Accept, json!({"decision": "once"}))), Decision::Once);
        assert_eq!(decision(&answer(Accept, json!({"decision": "always"}))), Decision::Always);
        for no in [
            answer(Accept, json!({"decision": "reject"})),
            answer(Accept, json!({"decision": "yes"})),
            answer(Accept, json!({"decision": true})),
            answer(Accept, json!({})),
            answer(Decline, json!({"decision": "once"})),
            answer(Cancel, json!({"decision": "always"})),
            ElicitResult::new(Accept),
            parsed(json!({"action": "sure", "content": {"decision": "once"}})),
            parsed(json!("once")),
        ] {
            assert_eq!(decision(&no), Decision::Reject(None), "{no:?}");
        }
        let why = answer(Decline, json!({"reason": " not today "}));
        assert_eq!(decision(&why), Decision::Reject(Some("not today".to_owned())));
    }

    #[test]
    fn a_question_shows_what_it_allows() {
        let run = RunAction {
            skill: "kit".to_owned(),
            command: "make\u{202e}\nrm".to_owned(),
            env: [("A".to_owned(), "b".to_owned())].into(),
            ..RunAction::default()
        };
        let question = Question::new(Kind::RUN, "kit make").to(run).bound_to("x");
        insta::assert_snapshot!(words(&question), @r#"
        Permission is needed: run in skill 'kit': make rm
        skill: "kit"
        command: "make\u{202e}\nrm"
        env: {"A":"b"}
        `always` would allow run "kit make" until it changes
        "#);
        let ElicitRequestParams::FormElicitationParams { requested_schema, .. } =
            form(String::new(), &question.clone().always([]))
        else {
            unreachable!()
        };
        let schema = serde_json::to_value(requested_schema).unwrap();
        assert_eq!(schema["properties"]["decision"]["enum"], json!(["once", "reject"]));
        assert_eq!(schema["required"], json!(["decision"]));
    }

    #[test]
    fn an_answer_counts_once_and_for_its_call() {
        let waiting = Waiting::default();
        let asked = |call: &[u8]| Asked {
            call: Digest::of(call),
            about: Question::new(Kind::RUN, "x").fingerprint(),
            allowed: Vec::new(),
        };
        let handle = waiting.keep(asked(b"a")).unwrap();
        assert!(waiting.take(&handle, Digest::of(b"b")).is_none());
        assert!(waiting.take("", Digest::of(b"a")).is_none());
        assert!(waiting.take(&handle, Digest::of(b"a")).is_some());
        assert!(waiting.take(&handle, Digest::of(b"a")).is_none());
        for _ in 0..=MAX_WAITING {
            waiting.keep(asked(b"a")).unwrap();
        }
        assert_eq!(waiting.0.lock().unwrap().len(), MAX_WAITING);
    }
}
