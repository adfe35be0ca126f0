//! Hooks in a thread: at which points of a turn they are called.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::active::ActiveHooks;
use super::event::{EventData, HookEvent};
use super::fire::HookDecision;
use super::notice::{called, late_objection};
use super::state::{HookText, HooksDelta, HooksState, MadeCall};
use super::{Inner, NAME};
use crate::agent::{NextModel, NextTool};
use crate::message::{Content, Message};
use crate::middleware::{
    Announcement, Jump, Middleware, MiddlewareAction, MiddlewareContext, MiddlewareError, Reaction, Sections,
    skills,
};
use crate::model::{ModelError, ModelResponse};
use crate::thread_state::{NextStep, StateChange, TurnOutcome};
use crate::tool::{RefusedBy, ToolAnswer, ToolOutput};

/// How often hooks can keep one turn from ending.
const MAX_STOPS: u32 = 3;
/// The mark of a message that a hook added to the conversation.
const MARK: &str = "hook";

/// Hooks in a thread.
#[derive(Debug)]
pub(super) struct ThreadHooks {
    pub(super) hooks: Arc<Inner>,
    pub(super) active: ActiveHooks,
    /// Whether hooks have seen `SessionStart` in this process.
    started: AtomicBool,
    /// Changes that could not be stored together with a tool's answer.
    unsaved: Mutex<Vec<HooksDelta>>,
}

/// What hooks ask for at one point of a turn.
#[derive(Debug, Default)]
pub(super) struct HookActions {
    pub(super) actions: Vec<MiddlewareAction>,
    halt: Option<String>,
}

impl HookActions {
    pub(super) fn change(&mut self, delta: &HooksDelta) {
        self.actions.push(MiddlewareAction::Change(change(delta)));
    }

    /// Adds the changes of a decision, and returns the reason if the hooks block something.
    pub(super) fn add(&mut self, decision: HookDecision) -> Option<String> {
        decision.deltas.iter().for_each(|delta| self.change(delta));
        self.halt = self.halt.take().or(decision.halt);
        decision.block
    }

    /// All actions. If a hook ends the turn, that overrides the others.
    fn finish(mut self) -> Vec<MiddlewareAction> {
        if let Some(reason) = self.halt {
            self.actions.push(MiddlewareAction::Jump(stopped(&format!("a hook ended the turn: {reason}"))));
        }
        self.actions
    }
}

#[async_trait]
impl Middleware for ThreadHooks {
    fn name(&self) -> &str {
        NAME
    }

    async fn sections(&self, context: MiddlewareContext<'_>) -> Result<Sections, MiddlewareError> {
        let (state, cut) = (state(context)?, context.thread_state.cut());
        let due: Vec<&HookText> = state.texts.iter().filter(|text| text.is_due(cut)).collect();
        if due.is_empty() {
            return Ok(Sections::default());
        }
        let mut text = HEAD.to_owned();
        for hook in due {
            let skill = hook.skill.as_ref().map(|skill| format!(" skill=\"{skill}\"")).unwrap_or_default();
            // The text must neither close this tag nor open another one.
            let inner = escape_hook_tags(&hook.text);
            let _ = write!(text, "\n\n<hook event=\"{}\"{skill}>\n{inner}\n</hook>", hook.event);
        }
        let told = change(&HooksDelta::Told { cut });
        Ok(Sections { messages: vec![Message::by_agent(text)], changes: vec![told], ..Sections::default() })
    }

    async fn before_agent(
        &self,
        context: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        let state = state(context)?;
        let mut actions = self.actions(context, state);
        if !self.started.load(Ordering::SeqCst) {
            let source = if state.started { "resume" } else { "startup" };
            actions.change(&HooksDelta::Started);
            actions.add(self.fire(context, state, EventData::SessionStart { source }).await);
            self.started.store(true, Ordering::SeqCst);
        }
        let prompt = new_prompt(context, state);
        if let Some(last) = prompt.last() {
            actions.change(&HooksDelta::Prompted(last.id.clone()));
            let text: Vec<String> = prompt.iter().map(|message| message.text()).collect();
            let event_data = EventData::UserPromptSubmit { prompt: &text.join("\n") };
            if let Some(reason) = actions.add(self.fire(context, state, event_data).await) {
                actions
                    .change(&HooksDelta::Refused(prompt.iter().map(|message| message.id.clone()).collect()));
                actions
                    .actions
                    .push(MiddlewareAction::Jump(stopped(&format!("the prompt was refused by {reason}"))));
                return Ok(actions.actions);
            }
        }
        Ok(actions.finish())
    }

    async fn before_model(
        &self,
        context: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        let state = state(context)?;
        let mut actions = self.actions(context, state);
        actions.halt.clone_from(&state.halt);
        self.notice(context, state, &mut actions).await;
        Ok(actions.finish())
    }

    async fn wrap_model_call(
        &self,
        context: MiddlewareContext<'_>,
        mut next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        if let Some(state) = context.states.get::<HooksState>(NAME) {
            next.request.messages.retain(|message| !state.refused.contains(&message.id));
        }
        next.call().await
    }

    async fn after_model(
        &self,
        context: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        let state = state(context)?;
        let mut actions = self.actions(context, state);
        self.permission_requests(context, state, &mut actions).await;
        Ok(actions.finish())
    }

    async fn wrap_tool_call(&self, context: MiddlewareContext<'_>, next: NextTool<'_>) -> ToolOutput {
        let state = match state(context) {
            Ok(state) => state,
            Err(error) => return ToolAnswer::error(format!("Error: hooks: {error}")).into(),
        };
        let (call, input) = (next.call, next.arguments);
        let decision = self.fire(context, state, EventData::PreToolUse { call, input }).await;
        let mut deltas = decision.deltas;
        deltas.extend(decision.halt.clone().map(HooksDelta::Halt));
        if let Some(reason) = decision.block.or(decision.halt.map(|reason| format!("a hook: {reason}"))) {
            let text = format!("Error: this call was blocked by {reason}");
            let answer = ToolAnswer::refused(text, RefusedBy::Rule);
            return self.add_changes(answer.into(), deltas);
        }
        let post = EventData::PostToolUse { call, input, response: "" };
        let failure = EventData::PostToolUseFailure { call, input, error: "" };
        let skills = skills::at(context);
        let has = |event_data| self.active.has(&self.hooks.own, skills.as_ref(), &event_data);
        if has(post) || has(failure) {
            let written = called(context, next.unique_name())
                .is_some_and(|written| written.arguments == call.arguments);
            let arguments = (!written).then(|| input.clone());
            deltas.push(HooksDelta::Made(MadeCall { message: next.unique_name().into(), arguments }));
        }
        self.add_changes(next.call().await, deltas)
    }

    async fn after_agent(
        &self,
        context: MiddlewareContext<'_>,
        outcome: &TurnOutcome,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        let state = state(context)?;
        let mut actions = self.actions(context, state);
        self.notice(context, state, &mut actions).await;
        if matches!(outcome, TurnOutcome::Stopped { .. } | TurnOutcome::Cancelled) {
            return Ok(actions.actions);
        }
        let last = context.thread_state.messages().last();
        let last = last.filter(|message| matches!(message.content, Content::Assistant { .. }));
        let response = last.map(|message| message.text()).unwrap_or_default();
        let event_data = EventData::Stop { is_active: state.stops > 0, response: &response };
        let Some(reason) = actions.add(self.fire(context, state, event_data).await) else {
            return Ok(actions.actions);
        };
        let may_go_on = matches!(outcome, TurnOutcome::Responded | TurnOutcome::Silent | TurnOutcome::CutOff);
        if actions.halt.is_some() || !may_go_on {
            return Ok(actions.actions);
        }
        if state.stops >= MAX_STOPS {
            tracing::warn!(thread = %context.thread, reason, "Hooks continued the turn too often: it ends now");
            return Ok(actions.actions);
        }
        actions.change(&HooksDelta::Resumed);
        let message = Message::user(format!("The turn is not over, because of {reason}"));
        actions
            .actions
            .push(MiddlewareAction::Jump(Jump::Model(vec![message.mark(MARK, HookEvent::Stop.name())])));
        Ok(actions.actions)
    }

    async fn on_announcement(
        &self,
        context: MiddlewareContext<'_>,
        announcement: Announcement<'_>,
    ) -> Reaction {
        let Ok(state) = state(context) else { return Reaction::default() };
        let event_data = match announcement {
            Announcement::Compacting { messages } => EventData::PreCompact { messages },
            Announcement::SubAgentStarts { name, task } => EventData::SubagentStart { agent: name, task },
            Announcement::SubAgentStopped { name, answer } => EventData::SubagentStop { agent: name, answer },
            Announcement::SessionEnds => EventData::SessionEnd { reason: "close" },
        };
        let mut late = HookActions::default();
        if matches!(announcement, Announcement::SessionEnds) {
            // The end of the last turn may have unloaded skills.
            self.notice(context, state, &mut late).await;
        }
        let mut decision = self.fire(context, state, event_data).await;
        if matches!(announcement, Announcement::SubAgentStopped { .. }) {
            // The sub-agent has ended, so the objection comes too late.
            decision
                .deltas
                .extend(decision.block.take().map(|reason| late_objection(context, &event_data, reason)));
        }
        decision.deltas.extend(decision.halt.map(HooksDelta::Halt));
        let deltas = self.unsaved().into_iter().chain(decision.deltas);
        let late = late.actions.into_iter().filter_map(|action| match action {
            MiddlewareAction::Change(change) => Some(change),
            _ => None,
        });
        let changes = late.chain(deltas.map(|delta| change(&delta))).collect();
        Reaction { objection: decision.block, changes }
    }
}

impl ThreadHooks {
    pub(super) fn new(hooks: Arc<Inner>) -> Self {
        let (active, started) = (ActiveHooks::default(), AtomicBool::new(false));
        Self { hooks, active, started, unsaved: Mutex::default() }
    }

    /// The changes that could not be stored before.
    fn unsaved(&self) -> Vec<HooksDelta> {
        std::mem::take(&mut *self.unsaved.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Actions that begin with the changes that could not be stored before. Also removes texts that the model has read.
    fn actions(&self, context: MiddlewareContext<'_>, state: &HooksState) -> HookActions {
        let mut actions = HookActions::default();
        for delta in self.unsaved() {
            actions.change(&delta);
        }
        let responses = responses(context);
        if state.texts.iter().any(|text| text.is_over(responses)) {
            actions.change(&HooksDelta::Heard(responses));
        }
        actions
    }

    /// Adds changes to the output of a tool.
    fn add_changes(&self, output: ToolOutput, deltas: Vec<HooksDelta>) -> ToolOutput {
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
                // The call has not been made yet.
                let unsaved = deltas.into_iter().filter(|delta| !matches!(delta, HooksDelta::Made(_)));
                self.unsaved.lock().unwrap_or_else(PoisonError::into_inner).extend(unsaved);
                ToolOutput::Ask(question)
            }
            ToolOutput::Unstored(error) => ToolOutput::Unstored(error),
        }
    }
}

/// What the model reads first, so that it does not take texts of hooks for words of a person.
const HEAD: &str =
    "[Messages from hooks, not from the user. The user set the hooks up, or allowed a skill to do so.]";

/// Escapes all tags of hooks, in any spelling.
fn escape_hook_tags(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find('<') {
        safe.push_str(&rest[..place]);
        rest = &rest[place + 1..];
        let tag = rest.trim_start_matches(|c: char| c == '/' || c.is_whitespace() || c.is_control());
        let is_hook = tag.get(..4).is_some_and(|name| name.eq_ignore_ascii_case("hook"));
        safe.push_str(if is_hook { "&lt;" } else { "<" });
    }
    safe.push_str(rest);
    safe
}

/// The messages of a person that hooks have not seen, if the turn has just begun.
fn new_prompt<'a>(context: MiddlewareContext<'a>, state: &HooksState) -> Vec<&'a Arc<Message>> {
    if context.thread_state.model_calls() > 0 || context.thread_state.next() != NextStep::CallModel {
        return Vec::new();
    }
    let is_new = |message: &&Arc<Message>| {
        matches!(message.content, Content::User { .. }) && state.prompt.as_ref() != Some(&message.id)
    };
    // A process that died before the first model call may have added messages.
    let new = context.thread_state.messages().iter().rev().take_while(is_new);
    let mut new: Vec<&Arc<Message>> = new.filter(|message| message.is_by_person()).collect();
    new.reverse();
    new
}

fn state<'a>(context: MiddlewareContext<'a>) -> Result<&'a HooksState, MiddlewareError> {
    context.states.get::<HooksState>(NAME).ok_or(MiddlewareError::NoState)
}

fn change(delta: &HooksDelta) -> StateChange {
    StateChange::new::<HooksState>(NAME, delta)
}

/// The number of model responses in the thread.
pub(super) fn responses(context: MiddlewareContext<'_>) -> usize {
    let messages = context.thread_state.messages().iter();
    messages.filter(|message| matches!(message.content, Content::Assistant { .. })).count()
}

fn stopped(reason: &str) -> Jump {
    Jump::End(TurnOutcome::Stopped { reason: reason.to_owned() })
}
