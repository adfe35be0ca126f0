//! A model that says what a test wants.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::{StreamExt as _, stream};
use prowess_agent::{Delta, Finish, Model, ModelError, ModelErrorKind, ModelRequest, ModelStream, Usage};

type Turn = Result<Vec<Delta>, ModelError>;

/// Says one thing after another, and remembers what it was asked.
#[derive(Debug, Default)]
pub(crate) struct Says {
    turns: Mutex<VecDeque<Turn>>,
    pub(crate) asked: Mutex<Vec<ModelRequest>>,
}

impl Says {
    pub(crate) fn new(turns: impl IntoIterator<Item = Turn>) -> Arc<Self> {
        Arc::new(Self { turns: Mutex::new(turns.into_iter().collect()), asked: Mutex::default() })
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
    let usage = Usage { input: 10, output: 2, ..Usage::default() };
    Ok(vec![
        Delta::Text(text[..middle].to_owned()),
        Delta::Text(text[middle..].to_owned()),
        Delta::Usage(usage),
        Delta::Finish(Finish::Stop),
    ])
}

/// Calls of tools: id, name, arguments.
pub(crate) fn calls(calls: &[(&str, &str, &str)]) -> Turn {
    let deltas = calls.iter().enumerate().flat_map(|(index, (id, name, arguments))| {
        let begin = Delta::ToolCall { index, id: (*id).to_owned(), name: (*name).to_owned() };
        [begin, Delta::Arguments { index, piece: (*arguments).to_owned() }]
    });
    Ok(deltas.chain([Delta::Finish(Finish::Stop)]).collect())
}

#[async_trait]
impl Model for Says {
    fn name(&self) -> &str {
        "says"
    }

    async fn ask(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        self.asked.lock().unwrap().push(request);
        let none = || Err(ModelError::new("says", ModelErrorKind::Invalid, "there is nothing more to say"));
        let deltas = self.turns.lock().unwrap().pop_front().unwrap_or_else(none)?;
        Ok(stream::iter(deltas.into_iter().map(Ok)).boxed())
    }
}
