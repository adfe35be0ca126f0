//! Summarisation: a conversation that grows too long is cut, and a summary stands for what was.
//!
//! The log keeps every message. What is taken out of the model's sight is first appended to a file that the model can
//! read; if that fails, nothing is taken out.

mod arguments;
mod history;
mod plan;

use std::sync::Arc;

use async_trait::async_trait;
use prowess_backend::VirtualPath;

pub use self::arguments::TruncateArguments;
pub use self::plan::{Keep, Trigger};
use crate::agent::{NextModel, NoWatcher, ask};
use crate::backends::Backends;
use crate::id::ThreadId;
use crate::message::Message;
use crate::middleware::{Act, Jump, Middleware, Moment, Occasion};
use crate::model::{Assembled, Model, ModelError, ModelErrorKind, ModelRequest, Spent};
use crate::run::{Effect, Outcome};

const NAME: &str = "summarisation";
/// The mark of a message that is a summary, and its value.
const MARK: (&str, &str) = ("lc_source", "summarization");
/// How much of the model's window a request for a summary fills.
const ASKED: u64 = 2;
/// What a request for a summary has at most, in tokens, where the window is not known.
const MOST_ASKED: u64 = 100_000;

/// When a conversation is summarised, and what stays of it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SummarisationOptions {
    /// When; 0.85 of the model's window, or 170,000 tokens where that is not known.
    pub trigger: Option<Trigger>,
    /// What stays; 0.10 of the model's window, or 6 messages where that is not known.
    pub keep: Option<Keep>,
    /// Where histories are; `{prefix}/{thread}.md`.
    pub history_path_prefix: VirtualPath,
    /// How long arguments of old calls are shortened, if they are.
    pub truncate_arguments: Option<TruncateArguments>,
}

impl SummarisationOptions {
    fn trigger(&self, model: &dyn Model) -> Trigger {
        let default =
            if model.limits().context.is_some() { Trigger::Fraction(0.85) } else { Trigger::Tokens(170_000) };
        self.trigger.unwrap_or(default)
    }

    fn keep(&self, model: &dyn Model) -> Keep {
        let default = if model.limits().context.is_some() { Keep::Fraction(0.10) } else { Keep::Messages(6) };
        self.keep.unwrap_or(default)
    }
}

/// Summarisation as a part of an agent.
#[derive(Clone, Debug)]
pub struct Summarisation {
    model: Arc<dyn Model>,
    backends: Backends,
    options: SummarisationOptions,
}

impl Summarisation {
    /// Summaries by this model, and histories in these files below `/conversation_history`.
    pub fn new(model: Arc<dyn Model>, backends: impl Into<Backends>) -> Self {
        let prefix = VirtualPath::parse("/conversation_history").unwrap_or_else(|_| VirtualPath::root());
        let options = SummarisationOptions {
            trigger: None,
            keep: None,
            history_path_prefix: prefix,
            truncate_arguments: Some(TruncateArguments::default()),
        };
        Self { model, backends: backends.into(), options }
    }

    /// The same with other options.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut SummarisationOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// A summary of messages. Of what is too long for one request the end is read.
    async fn summary(&self, messages: &str, thread: &ThreadId) -> Result<(String, Spent), ModelError> {
        let most = self.model.limits().context.map_or(MOST_ASKED, |window| window / ASKED);
        let mut messages = messages;
        while self.model.count_tokens(messages) > most {
            let skipped = messages.ceil_char_boundary(messages.len() / 10 + 1);
            messages = &messages[skipped..];
        }
        let request =
            ModelRequest::new([Message::user(format!("{PROMPT}\n\n<messages>\n{messages}\n</messages>"))]);
        let answer = ask(&*self.model, request, thread, &NoWatcher).await?;
        let text = answer.message.text();
        if text.trim().is_empty() {
            return Err(ModelError::new(
                self.model.name(),
                ModelErrorKind::Malformed,
                "the summary is empty",
            ));
        }
        Ok((text.trim().to_owned(), Spent::on(answer.model, answer.usage)))
    }

    /// Takes the first messages out of the model's sight, if there are any to take.
    async fn compacted(&self, moment: Moment<'_>, sizes: &[u64]) -> Result<Vec<Act>, String> {
        let model = &*self.model;
        let seen = &moment.run.messages()[moment.run.cut()..];
        let cut = plan::cut(self.options.keep(model), model, seen, sizes);
        if cut == 0 {
            return Ok(Vec::new());
        }
        let heard = moment.announce(Occasion::Compacting { messages: cut }).await;
        let mut acts: Vec<Act> = heard.changes.into_iter().map(Act::Change).collect();
        if let Some(objection) = heard.objection {
            tracing::warn!(thread = %moment.thread, objection, "Nothing is taken out");
            return Ok(acts);
        }
        let evicted = history::written(&seen[..cut]);
        // The summary first: a history that tells of a cut that never came would tell it twice.
        let earlier = moment.run.view().next().filter(|message| message.marks.contains_key(MARK.0));
        let told = match earlier {
            Some(summary) => format!("{}\n{evicted}", summary.text()),
            None => evicted.clone(),
        };
        let (summary, spent) =
            self.summary(&told, moment.thread).await.map_err(|error| format!("no summary: {error}"))?;
        let path = self.options.history_path_prefix.join(&format!("{}.md", moment.thread));
        let path = path.map_err(|error| error.to_string())?;
        let at = jiff::Timestamp::now().to_string();
        let appended = history::append(&*self.backends.at(moment), &path, &evicted, &at).await;
        appended.map_err(|error| format!("the history cannot be written: {error}"))?;
        let summary = Message::user(message(&path, &summary)).marked(MARK.0, MARK.1);
        acts.push(Act::Compact { cut: moment.run.cut() + cut, summary, spent });
        Ok(acts)
    }

    /// How many tokens each message takes that the model sees, without the summary.
    fn sizes(&self, moment: Moment<'_>) -> Vec<u64> {
        let seen = &moment.run.messages()[moment.run.cut()..];
        seen.iter().map(|message| plan::tokens(&*self.model, message)).collect()
    }
}

#[async_trait]
impl Middleware for Summarisation {
    fn name(&self) -> &str {
        NAME
    }

    async fn before_model(&self, moment: Moment<'_>) -> Result<Vec<Act>, String> {
        let model = &*self.model;
        let sizes = self.sizes(moment);
        if !plan::is_due(self.options.trigger(model), model, &sizes) {
            return Ok(Vec::new());
        }
        match self.compacted(moment, &sizes).await {
            Ok(acts) => Ok(acts),
            Err(why) if model.limits().context.is_some_and(|window| sizes.iter().sum::<u64>() >= window) => {
                Ok(vec![Act::Jump(Jump::End(Outcome::WindowFull { why }))])
            }
            Err(why) => {
                tracing::warn!(thread = %moment.thread, why, "Nothing is taken out");
                Ok(Vec::new())
            }
        }
    }

    async fn after_model(&self, moment: Moment<'_>) -> Result<Vec<Act>, String> {
        match moment.run.next() {
            // The provider counts otherwise than we do.
            Effect::End(Outcome::Failed { error }) if error.kind == ModelErrorKind::ContextTooLong => {}
            _ => return Ok(Vec::new()),
        }
        match self.compacted(moment, &self.sizes(moment)).await {
            Ok(mut acts) => {
                if acts.iter().any(|act| matches!(act, Act::Compact { .. })) {
                    acts.push(Act::Jump(Jump::Model(Vec::new())));
                }
                Ok(acts)
            }
            Err(why) => Ok(vec![Act::Jump(Jump::End(Outcome::WindowFull { why }))]),
        }
    }

    async fn wrap_model_call(&self, _: Moment<'_>, mut next: NextModel<'_>) -> Result<Assembled, ModelError> {
        if let Some(truncate) = &self.options.truncate_arguments {
            let messages = &mut next.request.messages;
            let sizes: Vec<u64> =
                messages.iter().map(|message| plan::tokens(&*self.model, message)).collect();
            if plan::is_due(truncate.trigger, &*self.model, &sizes) {
                let cut = plan::cut(truncate.keep, &*self.model, messages, &sizes);
                for message in &mut messages[..cut] {
                    if let Some(shorter) = truncate.shorter(message) {
                        *message = shorter;
                    }
                }
            }
        }
        next.ask().await
    }
}

/// What the model reads in place of what was.
fn message(path: &VirtualPath, summary: &str) -> String {
    let summary = summary.replace("</summary>", "&lt;/summary&gt;");
    format!(
        "You are in the middle of a conversation that has been summarized.\n\
         The full conversation history has been saved to {path} should you need to refer back to it for details.\n\
         A condensed summary follows:\n\
         <summary>{summary}</summary>"
    )
}

const PROMPT: &str = "\
The messages below are the beginning of a conversation between a person and an agent with tools. They will no longer be \
before the agent; your text will. Write down what it needs to go on as if it had read them: what the person wants and \
has said about how; what was done, and what came of it, with names, paths, numbers and decisions as they are; what is \
still to be done. Write what is known, not that there was a conversation. Answer with that text alone.";
