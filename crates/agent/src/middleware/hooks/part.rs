//! Hooks in a thread: where they have a say in a turn.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::active::Known;
use super::event::{Happening, HookEvent};
use super::fire::Ruling;
use super::notice::{called, told_of};
use super::state::{Delta, Kept, Made};
use super::{Inner, NAME};
use crate::agent::{NextModel, NextTool};
use crate::message::{Content, Message};
use crate::middleware::skills;
use crate::middleware::{
    Announcement, Jump, Middleware, MiddlewareAction, MiddlewareContext, MiddlewareError, Reaction, Sections,
};
use crate::model::{ModelError, ModelResponse, PromptSection};
use crate::thread_state::{NextStep, StateChange, TurnOutcome};
use crate::tool::{RefusedBy, ToolAnswer, ToolOutput};

/// How often hooks keep one turn from ending.
const MAX_STOPS: u32 = 3;
/// The mark of a message that a hook put into the conversation.
const MARK: &str = "hook";

/// Hooks in a thread.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) hooks: Arc<Inner>,
    pub(super) known: Known,
    /// Whether this process told hooks that it opened the thread.
    started: AtomicBool,
    /// Changes that could not be stored with what they belong to.
    unsaved: Mutex<Vec<Delta>>,
}

/// What hooks did at one place of a turn.
#[derive(Debug, Default)]
pub(super) struct Acts {
    pub(super) acts: Vec<MiddlewareAction>,
    halt: Option<String>,
}

impl Acts {
    pub(super) fn change(&mut self, delta: &Delta) {
        self.acts.push(MiddlewareAction::Change(change(delta)));
    }

    /// Takes what hooks changed. Gives what they blocked.
    pub(super) fn take(&mut self, ruling: Ruling) -> Option<String> {
        ruling.deltas.iter().for_each(|delta| self.change(delta));
        self.halt = self.halt.take().or(ruling.halt);
        ruling.block
    }

    /// All that is to be done. A hook that wants the turn to end stands over all others.
    fn done(mut self) -> Vec<MiddlewareAction> {
        if let Some(reason) = self.halt {
            self.acts.push(MiddlewareAction::Jump(stopped(&format!("a hook ended the turn: {reason}"))));
        }
        self.acts
    }
}

#[async_trait]
impl Middleware for Opened {
    fn name(&self) -> &str {
        NAME
    }

    async fn sections(&self, moment: MiddlewareContext<'_>) -> Result<Sections, MiddlewareError> {
        let texts = &kept(moment)?.texts;
        if texts.is_empty() {
            return Ok(Sections::default());
        }
        let mut text = SECTION.to_owned();
        for told in texts {
            let skill = told.skill.as_ref().map(|skill| format!(" skill=\"{skill}\"")).unwrap_or_default();
            // A hook cannot close the place that it stands in, nor open another.
            let inner = framed(&told.text);
            let _ = write!(text, "\n\n<hook event=\"{}\"{skill}>\n{inner}\n</hook>", told.event);
        }
        Ok(PromptSection { owner: NAME.to_owned(), text, is_stable: false }.into())
    }

    async fn before_agent(
        &self,
        moment: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        let kept = kept(moment)?;
        let mut acts = self.acts(moment, kept);
        if !self.started.load(Ordering::SeqCst) {
            let source = if kept.started { "resume" } else { "startup" };
            acts.change(&Delta::Started);
            acts.take(self.fire(moment, kept, Happening::SessionStart { source }).await);
            self.started.store(true, Ordering::SeqCst);
        }
        let prompt = prompt(moment, kept);
        if let Some(last) = prompt.last() {
            acts.change(&Delta::Prompted(last.id.clone()));
            let text: Vec<String> = prompt.iter().map(|message| message.text()).collect();
            let happening = Happening::UserPromptSubmit { prompt: &text.join("\n") };
            if let Some(reason) = acts.take(self.fire(moment, kept, happening).await) {
                acts.change(&Delta::Refused(prompt.iter().map(|message| message.id.clone()).collect()));
                acts.acts
                    .push(MiddlewareAction::Jump(stopped(&format!("the prompt was refused by {reason}"))));
                return Ok(acts.acts);
            }
        }
        Ok(acts.done())
    }

    async fn before_model(
        &self,
        moment: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        let kept = kept(moment)?;
        let mut acts = self.acts(moment, kept);
        acts.halt.clone_from(&kept.halt);
        self.notice(moment, kept, &mut acts).await;
        Ok(acts.done())
    }

    async fn wrap_model_call(
        &self,
        moment: MiddlewareContext<'_>,
        mut next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        if let Some(kept) = moment.states.get::<Kept>(NAME) {
            next.request.messages.retain(|message| !kept.refused.contains(&message.id));
        }
        next.ask().await
    }

    async fn after_model(
        &self,
        moment: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        let kept = kept(moment)?;
        let mut acts = self.acts(moment, kept);
        self.permission_requests(moment, kept, &mut acts).await;
        Ok(acts.done())
    }

    async fn wrap_tool_call(&self, moment: MiddlewareContext<'_>, next: NextTool<'_>) -> ToolOutput {
        let kept = match kept(moment) {
            Ok(kept) => kept,
            Err(error) => return ToolAnswer::error(format!("Error: hooks: {error}")).into(),
        };
        let (call, input) = (next.call, next.arguments);
        let ruling = self.fire(moment, kept, Happening::PreToolUse { call, input }).await;
        let mut deltas = ruling.deltas;
        deltas.extend(ruling.halt.clone().map(Delta::Halt));
        if let Some(reason) = ruling.block.or(ruling.halt.map(|reason| format!("a hook: {reason}"))) {
            let text = format!("Error: this call was blocked by {reason}");
            let answer = ToolAnswer::refused(text, RefusedBy::Rule);
            return self.with(answer.into(), deltas);
        }
        let post = Happening::PostToolUse { call, input, response: "" };
        let failure = Happening::PostToolUseFailure { call, input, error: "" };
        let skills = skills::at(moment);
        let has = |happening| self.known.has(&self.hooks.own, skills.as_ref(), &happening);
        if has(post) || has(failure) {
            let written =
                called(moment, next.place()).is_some_and(|written| written.arguments == call.arguments);
            let arguments = (!written).then(|| input.clone());
            deltas.push(Delta::Made(Made { message: next.place().into(), arguments }));
        }
        self.with(next.call().await, deltas)
    }

    async fn after_agent(
        &self,
        moment: MiddlewareContext<'_>,
        outcome: &TurnOutcome,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        let kept = kept(moment)?;
        let mut acts = self.acts(moment, kept);
        self.notice(moment, kept, &mut acts).await;
        if matches!(outcome, TurnOutcome::Stopped { .. } | TurnOutcome::Cancelled) {
            return Ok(acts.acts);
        }
        let last = moment.run.messages().last();
        let last = last.filter(|message| matches!(message.content, Content::Assistant { .. }));
        let answer = last.map(|message| message.text()).unwrap_or_default();
        let happening = Happening::Stop { is_active: kept.stops > 0, answer: &answer };
        let Some(reason) = acts.take(self.fire(moment, kept, happening).await) else { return Ok(acts.acts) };
        let may_go_on = matches!(outcome, TurnOutcome::Answered | TurnOutcome::Silent | TurnOutcome::CutOff);
        if acts.halt.is_some() || !may_go_on {
            return Ok(acts.acts);
        }
        if kept.stops >= MAX_STOPS {
            tracing::warn!(thread = %moment.thread, reason, "A hook wants the turn to go on too often: it ends");
            return Ok(acts.acts);
        }
        acts.change(&Delta::Resumed);
        let message = Message::user(format!("The turn is not over. It was kept from ending by {reason}"));
        acts.acts
            .push(MiddlewareAction::Jump(Jump::Model(vec![message.marked(MARK, HookEvent::Stop.name())])));
        Ok(acts.acts)
    }

    async fn hear(&self, moment: MiddlewareContext<'_>, occasion: Announcement<'_>) -> Reaction {
        let Ok(kept) = kept(moment) else { return Reaction::default() };
        let happening = match occasion {
            Announcement::Compacting { messages } => Happening::PreCompact { messages },
            Announcement::SubAgentStarts { name, task } => Happening::SubagentStart { agent: name, task },
            Announcement::SubAgentStopped { name, answer } => Happening::SubagentStop { agent: name, answer },
            Announcement::SessionEnds => Happening::SessionEnd { reason: "close" },
        };
        let mut late = Acts::default();
        if matches!(occasion, Announcement::SessionEnds) {
            // What a turn put away at its end, nobody was told of.
            self.notice(moment, kept, &mut late).await;
        }
        let mut ruling = self.fire(moment, kept, happening).await;
        if matches!(occasion, Announcement::SubAgentStopped { .. }) {
            // It is too late to object.
            ruling.deltas.extend(ruling.block.take().map(|reason| told_of(moment, &happening, reason)));
        }
        ruling.deltas.extend(ruling.halt.map(Delta::Halt));
        let deltas = self.unsaved().into_iter().chain(ruling.deltas);
        let late = late.acts.into_iter().filter_map(|act| match act {
            MiddlewareAction::Change(change) => Some(change),
            _ => None,
        });
        let changes = late.chain(deltas.map(|delta| change(&delta))).collect();
        Reaction { objection: ruling.block, changes }
    }
}

impl Opened {
    pub(super) fn new(hooks: Arc<Inner>) -> Self {
        let (known, started) = (Known::default(), AtomicBool::new(false));
        Self { hooks, known, started, unsaved: Mutex::default() }
    }

    /// What could not be stored before.
    fn unsaved(&self) -> Vec<Delta> {
        std::mem::take(&mut *self.unsaved.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What is to be done, begun with what could not be stored before. What the model was told is over.
    fn acts(&self, moment: MiddlewareContext<'_>, kept: &Kept) -> Acts {
        let mut acts = Acts::default();
        for delta in self.unsaved() {
            acts.change(&delta);
        }
        let answers = answers(moment);
        if kept.texts.iter().any(|told| told.is_over(answers)) {
            acts.change(&Delta::Heard(answers));
        }
        acts
    }

    /// An output with changes.
    fn with(&self, output: ToolOutput, deltas: Vec<Delta>) -> ToolOutput {
        let changes: Vec<StateChange> = deltas.iter().map(change).collect();
        match output {
            ToolOutput::Done(mut answer) => {
                answer.changes.extend(changes);
                answer.into()
            }
            ToolOutput::InOrder(finish) => ToolOutput::InOrder(Box::new(move |states| {
                let mut answer = finish(states);
                answer.changes.extend(changes);
                answer
            })),
            ToolOutput::Ask(question) => {
                // The call is not made yet.
                let kept = deltas.into_iter().filter(|delta| !matches!(delta, Delta::Made(_)));
                self.unsaved.lock().unwrap_or_else(PoisonError::into_inner).extend(kept);
                ToolOutput::Ask(question)
            }
            ToolOutput::Unstored(error) => ToolOutput::Unstored(error),
        }
    }
}

const SECTION: &str =
    "## Hooks\n\nThe person who runs you, or a skill that they let do so, has something to say here.";

/// A text in which no tag of a hook begins, however it is written.
fn framed(text: &str) -> String {
    let mut framed = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find('<') {
        framed.push_str(&rest[..place]);
        rest = &rest[place + 1..];
        let tag = rest.trim_start_matches(|c: char| c == '/' || c.is_whitespace() || c.is_control());
        let is_hook = tag.get(..4).is_some_and(|name| name.eq_ignore_ascii_case("hook"));
        framed.push_str(if is_hook { "&lt;" } else { "<" });
    }
    framed.push_str(rest);
    framed
}

/// What a person said that hooks were not told of: the turn has just begun.
fn prompt<'a>(moment: MiddlewareContext<'a>, kept: &Kept) -> Vec<&'a Arc<Message>> {
    if moment.run.steps() > 0 || moment.run.next() != NextStep::AskModel {
        return Vec::new();
    }
    let is_new = |message: &&Arc<Message>| {
        matches!(message.content, Content::User { .. }) && kept.prompt.as_ref() != Some(&message.id)
    };
    let mut new: Vec<&Arc<Message>> = moment.run.messages().iter().rev().take_while(is_new).collect();
    new.reverse();
    new
}

fn kept<'a>(moment: MiddlewareContext<'a>) -> Result<&'a Kept, MiddlewareError> {
    moment.states.get::<Kept>(NAME).ok_or(MiddlewareError::NoState)
}

fn change(delta: &Delta) -> StateChange {
    StateChange::new::<Kept>(NAME, delta)
}

/// How many answers of the model there are.
pub(super) fn answers(moment: MiddlewareContext<'_>) -> usize {
    let messages = moment.run.messages().iter();
    messages.filter(|message| matches!(message.content, Content::Assistant { .. })).count()
}

fn stopped(reason: &str) -> Jump {
    Jump::End(TurnOutcome::Stopped { reason: reason.to_owned() })
}
