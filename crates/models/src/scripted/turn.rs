//! One response of a scripted model.

use std::time::Duration;

use prowess_agent::model::{Finish, ModelErrorKind};
use prowess_agent::{ModelDelta, ModelError, Usage};
use serde::Deserialize;
use serde_json::Value;

use super::expect::ScriptedExpect;

/// One response of a scripted model, and what it expects of the request.
///
/// ```
/// use futures_util::StreamExt as _;
/// use prowess_agent::{ModelDelta, Message, Model as _, ModelRequest};
/// use prowess_models::{Scripted, ScriptedTurn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), prowess_agent::ModelError> {
/// let model = Scripted::new([ScriptedTurn::new().say("Hello!").piece(3)]);
/// let mut stream = model.call(ModelRequest::new([Message::user("Hi.")])).await?;
/// assert_eq!(stream.next().await.transpose()?, Some(ModelDelta::Text("Hel".into())));
/// assert_eq!(stream.next().await.transpose()?, Some(ModelDelta::Text("lo!".into())));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[must_use]
pub struct ScriptedTurn {
    pub(super) expect: ScriptedExpect,
    think: String,
    say: String,
    calls: Vec<ScriptedCall>,
    error: Option<ScriptedError>,
    finish: Finish,
    usage: Usage,
    /// How many characters each delta has. `None`: all.
    piece: Option<usize>,
    #[serde(rename = "delay_ms", deserialize_with = "milliseconds")]
    pub(super) delay: Duration,
    times: Option<usize>,
}

/// A tool call. Its arguments are `raw`, or else `arguments`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ScriptedCall {
    tool: String,
    id: Option<String>,
    arguments: Option<Value>,
    raw: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedError {
    kind: ModelErrorKind,
    #[serde(default)]
    message: String,
    #[serde(default)]
    retry_after_ms: Option<u64>,
}

fn milliseconds<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u64::deserialize(deserializer).map(Duration::from_millis)
}

impl ScriptedTurn {
    /// An empty response.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds text.
    pub fn say(mut self, text: impl Into<String>) -> Self {
        self.say = text.into();
        self
    }

    /// Adds reasoning before the text.
    pub fn think(mut self, text: impl Into<String>) -> Self {
        self.think = text.into();
        self
    }

    /// Adds a tool call. A response can have several.
    pub fn call(mut self, tool: impl Into<String>, arguments: Value) -> Self {
        let arguments = Some(arguments);
        self.calls.push(ScriptedCall { tool: tool.into(), arguments, ..ScriptedCall::default() });
        self
    }

    /// Fails: at once, or after the text and calls.
    pub fn fail(mut self, kind: ModelErrorKind, message: impl Into<String>) -> Self {
        self.error = Some(ScriptedError { kind, message: message.into(), retry_after_ms: None });
        self
    }

    /// Why the response ends. Default: it is complete.
    pub fn finish(mut self, finish: Finish) -> Self {
        self.finish = finish;
        self
    }

    /// The tokens.
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Cuts everything into deltas of this many characters.
    pub fn piece(mut self, characters: usize) -> Self {
        self.piece = Some(characters);
        self
    }

    /// Waits before each delta.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Repeats the response this often.
    pub fn times(mut self, times: usize) -> Self {
        self.times = Some(times);
        self
    }

    /// What it expects of the request.
    pub fn expect(mut self, expect: ScriptedExpect) -> Self {
        self.expect = expect;
        self
    }

    pub(super) fn count(&self) -> usize {
        self.times.unwrap_or(1)
    }

    /// All deltas, in order.
    pub(super) fn deltas(&self) -> Vec<ModelDelta> {
        let mut deltas = Vec::new();
        deltas.extend(self.pieces(&self.think).map(ModelDelta::Reasoning));
        deltas.extend(self.pieces(&self.say).map(ModelDelta::Text));
        for (index, call) in self.calls.iter().enumerate() {
            let id = call.id.clone().unwrap_or_else(|| format!("call_{index}"));
            deltas.push(ModelDelta::ToolCall { index, id, name: call.tool.clone() });
            let arguments = match (&call.raw, &call.arguments) {
                (Some(raw), _) => raw.clone(),
                (None, Some(arguments)) => arguments.to_string(),
                (None, None) => "{}".to_owned(),
            };
            deltas.extend(self.pieces(&arguments).map(|piece| ModelDelta::Arguments { index, piece }));
        }
        if self.error.is_none() {
            deltas.extend([ModelDelta::Usage(self.usage), ModelDelta::Finish(self.finish)]);
        }
        deltas
    }

    /// The error, if it fails.
    pub(super) fn error(&self, model: &str) -> Option<ModelError> {
        self.error.as_ref().map(|scripted| {
            let mut error = ModelError::new(model, scripted.kind, &scripted.message);
            error.retry_after = scripted.retry_after_ms.map(Duration::from_millis);
            error
        })
    }

    fn pieces(&self, text: &str) -> impl Iterator<Item = String> {
        let letters: Vec<char> = text.chars().collect();
        let length = self.piece.unwrap_or(letters.len()).max(1);
        let pieces: Vec<String> = letters.chunks(length).map(|piece| piece.iter().collect()).collect();
        pieces.into_iter()
    }
}
