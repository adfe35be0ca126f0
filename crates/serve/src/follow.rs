//! Follows a turn until it ends or waits for a person, for clients that speak another protocol than the API's own.

use std::sync::Arc;

use serde_json::Value;

use crate::api::{ApiError, StreamPlace, Streamed, Watching};
use crate::app::App;
use crate::auth::Caller;
use crate::queue::CANNOT_GO_ON;
use crate::view::{EventView, LoggedEvent, Replay};
use prowess_store::serve::OwnedThread;

/// Somebody who follows a turn.
pub(crate) struct Following {
    watching: Watching,
    /// The message that begins the turn. Without one, it is the turn in progress.
    awaited: Option<String>,
    rest: Option<Rest>,
}

/// What happens in a turn.
pub(crate) enum Followed {
    /// What was said so far in the response in progress, and the progress of calls. It replaces all pieces before.
    SoFar { text: String, reasoning: String, progress: Vec<(String, String)> },
    /// A piece of the response.
    Text(String),
    /// A piece of the model's reasoning.
    Reasoning(String),
    /// A tool reports progress.
    Progress { call: String, text: String },
    /// A notice for the person.
    Notice(String),
    /// An event was stored.
    Logged(Box<LoggedEvent>),
    /// Nothing more happens.
    Rested(Rest),
}

/// Why nothing more happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// The turn ended, or cannot go on.
    Ended { outcome: String, reason: String },
    /// Questions wait for a person.
    Waiting,
    /// The thread has nothing to do.
    Idle,
    /// The reader was too slow, the token was revoked, or the server stops. The turn goes on.
    Lost,
}

impl Following {
    /// Begins after an event of the thread, which must be from before the message was posted. `replay` is that of
    /// [`Watching::begin`].
    pub(crate) async fn begin(
        app: Arc<App>,
        owned: &OwnedThread,
        caller: &Caller,
        place: StreamPlace,
        after: u64,
        awaited: Option<String>,
        replay: impl FnOnce(&Replay) -> Replay,
    ) -> Result<Self, ApiError> {
        let watching = Watching::begin(app, owned, caller, place, Some(after), replay).await?;
        Ok(Self { watching, awaited, rest: None })
    }

    /// What the thread is like after the events so far.
    pub(crate) fn replay(&self) -> &Replay {
        self.watching.replay()
    }

    /// What happens next; `None` after [`Followed::Rested`].
    pub(crate) async fn next(&mut self) -> Option<Followed> {
        loop {
            match &mut self.rest {
                None => {}
                // It was said.
                Some(Rest::Lost) => return None,
                Some(rest) => return Some(Followed::Rested(std::mem::replace(rest, Rest::Lost))),
            }
            match self.watching.next().await {
                Some(Streamed::Logged(logged)) => {
                    self.note(&logged.event);
                    return Some(Followed::Logged(logged));
                }
                Some(Streamed::Live(name, data)) => {
                    if let Some(followed) = self.live(name, &data) {
                        return Some(followed);
                    }
                }
                None => {
                    self.rest = Some(Rest::Lost);
                    return Some(Followed::Rested(Rest::Lost));
                }
            }
        }
    }

    fn note(&mut self, event: &EventView) {
        match event {
            EventView::TurnStarted { messages } => {
                self.awaited.take_if(|awaited| messages.iter().any(|message| message.id == *awaited));
            }
            EventView::TurnEnded { outcome, reason } if self.awaited.is_none() => {
                self.rest = Some(Rest::Ended { outcome: outcome.clone(), reason: reason.clone() });
            }
            _ => {}
        }
    }

    fn live(&mut self, name: &str, data: &Value) -> Option<Followed> {
        let text = |field: &str| data[field].as_str().unwrap_or_default().to_owned();
        let rests = match data["status"].as_str() {
            Some("waiting") => Some(Rest::Waiting),
            Some("idle") => Some(Rest::Idle),
            Some("dead") => Some(Rest::Ended { outcome: "dead".to_owned(), reason: CANNOT_GO_ON.to_owned() }),
            _ => None,
        };
        match name {
            "live" => {
                self.rest = rests;
                let calls = data["progress"].as_object().into_iter().flatten();
                let reported =
                    |(call, text): (&String, &Value)| Some((call.clone(), text.as_str()?.to_owned()));
                let progress = calls.filter_map(reported).collect();
                Some(Followed::SoFar { text: text("text"), reasoning: text("reasoning"), progress })
            }
            "status" => {
                self.rest = rests;
                None
            }
            "text" => Some(Followed::Text(text("text"))),
            "reasoning" => Some(Followed::Reasoning(text("text"))),
            "progress" => Some(Followed::Progress { call: text("call"), text: text("text") }),
            "notice" => Some(Followed::Notice(text("text"))),
            _ => None,
        }
    }
}
