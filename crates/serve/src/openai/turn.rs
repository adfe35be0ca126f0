//! One turn of the agent, as a text.

use std::sync::Arc;

use http::HeaderMap;
use prowess_agent::Message;
use prowess_agent::queue::Priority;
use prowess_store::serve::OwnedThread;

use crate::api::{ApiError, StreamPlace, Unsaid, WhileWorking, say};
use crate::app::App;
use crate::auth::Caller;
use crate::follow::{Followed, Following, Rest};
use crate::view::{EventView, Replay, UsageView};

/// A turn in progress.
pub(super) struct Turn {
    following: Following,
    /// The address of the thread's page.
    link: String,
    /// What was told of the response in progress.
    told: String,
    /// Whether the answer has any text.
    has_text: bool,
    pub(super) usage: UsageView,
    has_ended: bool,
    /// Whether the answer says that a question waits.
    has_asked: bool,
}

/// What a turn says.
pub(super) enum Said {
    /// A piece of the answer.
    Piece(String),
    /// The answer is complete.
    End,
    /// The turn failed.
    Failed { message: String, code: String },
}

impl Turn {
    /// Says something in a thread. Returns the turn and the id of its message.
    pub(super) async fn begin(
        app: &Arc<App>,
        caller: &Caller,
        place: StreamPlace,
        thread: &OwnedThread,
        text: String,
        headers: &HeaderMap,
    ) -> Result<(Self, String), ApiError> {
        let message = Message::user(text);
        let id = message.id.as_str().to_owned();
        let look = |replay: &Replay| (!replay.questions().is_empty(), replay.last);
        let (has_questions, last) = app.look_at(thread, look).await?;
        let link = link(headers, thread.id.as_str());
        if has_questions {
            return Err(Unsaid::Asks.with_advice("", &format!("Reply at {link}")));
        }
        say(app, caller, thread, message, WhileWorking::Reject, Priority::Normal).await.map_err(
            |unsaid| unsaid.with_advice(&format!("Wait for its end: {link}"), &format!("Reply at {link}")),
        )?;
        let awaited = Some(id.clone());
        let following = Following::begin(Arc::clone(app), thread, caller, place, last, awaited, |known| {
            known.light(last)
        })
        .await?;
        let (told, usage) = (String::new(), UsageView::default());
        Ok((Self { following, link, told, has_text: false, usage, has_ended: false, has_asked: false }, id))
    }

    /// The next piece; `None` after the end.
    pub(super) async fn next(&mut self) -> Option<Said> {
        if self.has_ended {
            return None;
        }
        if self.has_asked {
            self.has_ended = true;
            return Some(Said::End);
        }
        loop {
            // A turn that is not over has a next event.
            let said = match self.following.next().await.unwrap_or(Followed::Rested(Rest::Lost)) {
                Followed::SoFar { text, .. } => {
                    // What was told of a response that begins again cannot be taken back.
                    self.told.clear();
                    self.piece(&text)
                }
                Followed::Text(text) => self.piece(&text),
                Followed::Logged(logged) => match logged.event {
                    EventView::Responded { message, usage, .. } => {
                        self.usage.input = self.usage.input.saturating_add(usage.input);
                        self.usage.output = self.usage.output.saturating_add(usage.output);
                        self.usage.cached = self.usage.cached.saturating_add(usage.cached);
                        let rest = message.text.strip_prefix(self.told.as_str()).unwrap_or_default();
                        let piece = self.piece(rest);
                        self.told.clear();
                        piece
                    }
                    _ => None,
                },
                Followed::Rested(Rest::Waiting) => {
                    self.has_asked = true;
                    Some(self.waiting())
                }
                Followed::Rested(rest) => {
                    self.has_ended = true;
                    return Some(self.end(&rest));
                }
                _ => None,
            };
            if said.is_some() {
                return said;
            }
        }
    }

    fn piece(&mut self, text: &str) -> Option<Said> {
        if text.is_empty() {
            return None;
        }
        // Each response of the model is a paragraph of the answer.
        let begins = self.told.is_empty() && self.has_text;
        self.told.push_str(text);
        self.has_text = true;
        Some(Said::Piece(if begins { format!("\n\n{text}") } else { text.to_owned() }))
    }

    /// What the answer says in place of a question.
    fn waiting(&self) -> Said {
        let questions = self.following.replay().questions();
        let titles: Vec<String> = questions.iter().map(|question| format!("- {}", question.title)).collect();
        let begin = if self.has_text { "\n\n" } else { "" };
        let (titles, link) = (titles.join("\n"), &self.link);
        Said::Piece(format!("{begin}The agent waits for your reply:\n\n{titles}\n\nReply at {link}"))
    }

    fn end(&self, rest: &Rest) -> Said {
        match rest {
            Rest::Idle | Rest::Waiting => Said::End,
            Rest::Ended { outcome, reason } => match outcome.as_str() {
                "answered" | "silent" | "cut_off" | "stopped" => Said::End,
                code => Said::Failed { message: reason.clone(), code: code.to_owned() },
            },
            Rest::Lost => {
                let link = &self.link;
                let message = format!("The answer ended early. The turn goes on: {link}");
                Said::Failed { message, code: "interrupted".to_owned() }
            }
        }
    }
}

/// The address of a thread's page, as the client reaches the server.
fn link(headers: &HeaderMap, thread: &str) -> String {
    let header = |name| headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
    let scheme = if header("x-forwarded-proto") == Some("https") { "https" } else { "http" };
    match header("host") {
        Some(host) => format!("{scheme}://{host}/#/thread/{thread}"),
        None => format!("/#/thread/{thread}"),
    }
}
