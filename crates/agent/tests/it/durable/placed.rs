//! A script whose conversation is cut while it goes on.

use std::sync::Arc;

use async_trait::async_trait;
use prowess_agent::message::Content;
use prowess_agent::model::ModelStream;
use prowess_agent::{Message, Model, ModelError, ModelRequest};
use prowess_models::Scripted;

use super::script::{Answer, token};

/// A script that counts answers, and is shown as many as there were: the last one tells.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) script: Scripted,
    pub(super) answers: &'static [Answer],
}

#[async_trait]
impl Model for Placed {
    fn name(&self) -> &str {
        self.script.name()
    }

    async fn call(&self, mut request: ModelRequest) -> Result<ModelStream, ModelError> {
        let is_answer = |message: &&Arc<Message>| matches!(message.content, Content::Assistant { .. });
        let seen = request.messages.iter().filter(is_answer).count();
        let were = request.messages.iter().rfind(is_answer).map_or(0, |last| {
            let calls: Vec<&str> = last.tool_calls().map(token).collect();
            let is_it = |answer: &Answer| answer.iter().map(|(_, token)| *token).eq(calls.iter().copied());
            self.answers.iter().position(is_it).unwrap() + 1
        });
        let unseen = were.checked_sub(seen).unwrap();
        request.messages.splice(0..0, (0..unseen).map(|_| Arc::new(Message::assistant(Vec::new()))));
        self.script.call(request).await
    }
}
