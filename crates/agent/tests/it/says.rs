//! A model that says what a test wants.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::{StreamExt as _, stream};
use prowess_agent::model::{Finish, ModelErrorKind, ModelLimits, ModelStream};
use prowess_agent::{Model, ModelDelta, ModelError, ModelRequest, Usage};

pub(crate) type Turn = Result<Vec<ModelDelta>, ModelError>;

/// Says one thing after another, and remembers what it was asked.
#[derive(Debug, Default)]
pub(crate) struct Says {
    turns: Mutex<VecDeque<Turn>>,
    pub(crate) asked: Mutex<Vec<ModelRequest>>,
    limits: ModelLimits,
    /// How many texts it counted the tokens of.
    counted: AtomicUsize,
}

impl Says {
    pub(crate) fn new(turns: impl IntoIterator<Item = Turn>) -> Arc<Self> {
        Self::within(ModelLimits::default(), turns)
    }

    pub(crate) fn within(limits: ModelLimits, turns: impl IntoIterator<Item = Turn>) -> Arc<Self> {
        let turns = Mutex::new(turns.into_iter().collect());
        Arc::new(Self { turns, limits, ..Self::default() })
    }

    pub(crate) fn counted(&self) -> usize {
        self.counted.load(Ordering::Relaxed)
    }

    pub(crate) fn request(&self, number: usize) -> ModelRequest {
        self.asked.lock().unwrap()[number].clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

pub(crate) fn text(text: &str) -> Turn {
    let middle = text.floor_char_boundary(text.len() / 2);
    let usage = Usage::new(10, 2);
    Ok(vec![
        ModelDelta::Text(text[..middle].to_owned()),
        ModelDelta::Text(text[middle..].to_owned()),
        ModelDelta::Usage(usage),
        ModelDelta::Finish(Finish::Stop),
    ])
}

/// The same, with another number of tokens that were read.
pub(crate) fn after_reading(input: u64, turn: Turn) -> Turn {
    turn.map(|mut deltas| {
        deltas.retain(|delta| !matches!(delta, ModelDelta::Usage(_)));
        deltas.push(ModelDelta::Usage(Usage::new(input, 2)));
        deltas
    })
}

/// The provider cannot read so much.
pub(crate) fn too_long() -> Turn {
    Err(ModelError::new("says", ModelErrorKind::ContextTooLong, "the prompt is too long"))
}

/// Calls of tools: id, name, arguments.
pub(crate) fn calls(calls: &[(&str, &str, &str)]) -> Turn {
    let deltas = calls.iter().enumerate().flat_map(|(index, (id, name, arguments))| {
        let begin = ModelDelta::ToolCall { index, id: (*id).to_owned(), name: (*name).to_owned() };
        [begin, ModelDelta::Arguments { index, piece: (*arguments).to_owned() }]
    });
    Ok(deltas.chain([ModelDelta::Finish(Finish::Stop)]).collect())
}

#[async_trait]
impl Model for Says {
    fn name(&self) -> &str {
        "says"
    }

    fn limits(&self) -> ModelLimits {
        self.limits
    }

    fn count_tokens(&self, text: &str) -> u64 {
        self.counted.fetch_add(1, Ordering::Relaxed);
        text.chars().count().div_ceil(4) as u64
    }

    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        self.asked.lock().unwrap().push(request);
        let none = || Err(ModelError::new("says", ModelErrorKind::Invalid, "there is nothing more to say"));
        let deltas = self.turns.lock().unwrap().pop_front().unwrap_or_else(none)?;
        Ok(stream::iter(deltas.into_iter().map(Ok)).boxed())
    }
}

/// Everything that a request says: the system prompt, then the messages.
pub(crate) fn all(request: &ModelRequest) -> String {
    let messages = request.messages.iter().map(|message| message.text());
    std::iter::once(request.system_text()).chain(messages).collect::<Vec<_>>().join("\n\n")
}
