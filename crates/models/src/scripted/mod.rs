//! A model that follows a script, for tests and demonstrations.

mod expect;
mod turn;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use prowess_agent::message::Content;
use prowess_agent::model::{ModelErrorKind, ModelLimits, ModelStream};
use prowess_agent::{Model, ModelError, ModelRequest};
use serde::Deserialize;

pub use self::expect::ScriptedExpect;
pub use self::turn::ScriptedTurn;

/// How a script finds its position.
///
/// ```
/// use prowess_agent::{Message, Model as _, ModelRequest};
/// use prowess_models::{ScriptedFollow, Scripted, ScriptedTurn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let hi = ModelRequest::new([Message::user("Hi.")]); // it contains no response yet
/// let model = Scripted::new([ScriptedTurn::new().say("Hello!")]).follow(ScriptedFollow::Responses);
/// assert!(model.call(hi.clone()).await.is_ok());
/// assert!(model.call(hi).await.is_ok(), "the same position, so the same response");
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ScriptedFollow {
    /// It counts the model calls.
    #[default]
    Calls,
    /// It counts the responses in the conversation, so that a resumed thread continues where it was. A turn without a
    /// response, such as one that fails, is repeated.
    #[serde(alias = "answers")]
    Responses,
}

/// A model that follows a script, response by response. Clones share their position.
///
/// A script in a file is TOML:
///
/// ```toml
/// name = "scripted:greeting"      # the model's name; default: "scripted"
/// follow = "responses"            # count the responses in the conversation; default: "calls", the model calls
/// context = 200000                # its limits, in tokens
/// output = 8000
///
/// [[turn]]
/// expect = { system = "Available Skills", tools = ["load_skill"], messages = 1 }
/// think = "There is a skill for this."
/// say = "Let me look."
/// calls = [
///   { tool = "load_skill", arguments = { skill_name = "greet" } },
///   { tool = "ls", raw = "{not json" },
/// ]
/// piece = 3                       # deltas of three characters
/// delay_ms = 10                   # wait before each delta
/// usage = { input = 100, output = 20 }
///
/// [[turn]]
/// expect.last = "Wave."
/// say = "Hel"
/// error = { kind = "overloaded", message = "too much to do", retry_after_ms = 100 }
///
/// [[turn]]
/// say = "…"
/// finish = "length"
/// times = 3
/// ```
///
/// A failed expectation, and a model call after the last turn, are errors of kind [`Invalid`](ModelErrorKind::Invalid).
#[derive(Clone, Debug)]
pub struct Scripted {
    name: String,
    limits: ModelLimits,
    follow: ScriptedFollow,
    turns: Arc<[ScriptedTurn]>,
    /// How many turns were used.
    given: Arc<AtomicUsize>,
}

/// The text is not a valid script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the script is invalid: {0}")]
pub struct ScriptError(String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<String>,
    #[serde(default)]
    follow: ScriptedFollow,
    context: Option<u64>,
    output: Option<u64>,
    turn: Vec<ScriptedTurn>,
}

impl Scripted {
    /// A model with these responses.
    pub fn new(turns: impl IntoIterator<Item = ScriptedTurn>) -> Self {
        Self {
            name: "scripted".to_owned(),
            limits: ModelLimits::default(),
            follow: ScriptedFollow::default(),
            turns: turns.into_iter().collect(),
            given: Arc::default(),
        }
    }

    /// Parses a script.
    ///
    /// ```
    /// use prowess_agent::Model as _;
    /// use prowess_models::Scripted;
    ///
    /// let model = Scripted::parse("name = \"scripted:greeting\"\n[[turn]]\nsay = \"Hello!\"\ntimes = 3\n")?;
    /// assert_eq!((model.name(), model.remaining()), ("scripted:greeting", 3));
    /// assert!(Scripted::parse("[[turn]]\nsey = \"Hello!\"\n").is_err());
    /// # Ok::<(), prowess_models::ScriptError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Says what is wrong with it, and where.
    pub fn parse(script: &str) -> Result<Self, ScriptError> {
        let file: File = toml::from_str(script).map_err(|error| ScriptError(error.to_string()))?;
        let mut model = Self::new(file.turn);
        model.follow = file.follow;
        model.limits.context = file.context;
        model.limits.output = file.output;
        Ok(match file.name {
            Some(name) => model.model_name(name),
            None => model,
        })
    }

    /// Sets the model's name.
    #[must_use]
    pub fn model_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets how it finds its position.
    #[must_use]
    pub fn follow(mut self, follow: ScriptedFollow) -> Self {
        self.follow = follow;
        self
    }

    /// How many responses are left.
    pub fn remaining(&self) -> usize {
        self.total().saturating_sub(self.given.load(Ordering::SeqCst))
    }

    fn total(&self) -> usize {
        self.turns.iter().map(ScriptedTurn::count).fold(0, usize::saturating_add)
    }

    /// The number of the next response, from 0.
    fn advance(&self, request: &ModelRequest) -> usize {
        match self.follow {
            ScriptedFollow::Calls => self.given.fetch_add(1, Ordering::SeqCst),
            ScriptedFollow::Responses => {
                let is_response = |content: &Content| matches!(content, Content::Assistant { .. });
                let number = request.messages.iter().filter(|message| is_response(&message.content)).count();
                self.given.fetch_max(number + 1, Ordering::SeqCst);
                number
            }
        }
    }

    fn turn(&self, mut number: usize) -> Option<&ScriptedTurn> {
        self.turns.iter().find(|turn| {
            let found = number < turn.count();
            number = number.saturating_sub(turn.count());
            found
        })
    }

    fn invalid(&self, message: String) -> ModelError {
        ModelError::new(&self.name, ModelErrorKind::Invalid, message)
    }
}

#[async_trait]
impl Model for Scripted {
    fn name(&self) -> &str {
        &self.name
    }

    fn limits(&self) -> ModelLimits {
        self.limits
    }

    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let number = self.advance(&request);
        let turn = self.turn(number).ok_or_else(|| {
            let last = request.messages.last().map(|message| message.text()).unwrap_or_default();
            let quote: String = last.chars().take(200).collect();
            self.invalid(format!(
                "turn {} was asked for, but the script has {}; the last message is {quote:?}",
                number + 1,
                self.total()
            ))
        })?;
        let unexpected = |problem| self.invalid(format!("in turn {} of the script: {problem}", number + 1));
        turn.expect.check(&request).map_err(unexpected)?;
        let (deltas, error) = (turn.deltas(), turn.error(&self.name));
        if let (true, Some(error)) = (deltas.is_empty(), &error) {
            pause(turn.delay).await;
            return Err(error.clone());
        }
        let delay = turn.delay;
        let pieces = deltas.into_iter().map(Ok).chain(error.map(Err));
        let slowly = move |piece| async move {
            pause(delay).await;
            piece
        };
        Ok(futures_util::stream::iter(pieces.collect::<Vec<_>>()).then(slowly).boxed())
    }
}

/// Waits, if there is a delay. Without one, no timer is needed.
async fn pause(delay: Duration) {
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}
