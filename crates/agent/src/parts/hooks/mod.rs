//! Hooks: commands, texts and agents that have a say when something happens.
//!
//! A hook can keep something from being done, and can tell the model something. It can never allow what the rules or a
//! person did not.

mod active;
mod config;
mod event;
mod fire;
mod run;
#[cfg(feature = "run")]
mod sandbox;
mod state;
mod verdict;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde_json::Value;

pub use self::config::{
    DEFAULT_HOOK_TIMEOUT, HookConfigError, HookProblem, HookSet, MAX_HOOK_TIMEOUT, MAX_HOOKS,
};
use self::event::Happening;
pub use self::event::HookEvent;
use self::fire::Ruling;
pub use self::run::{HookCommand, HookCommands, HookExit, HookRan, HookSkill, MAX_HOOK_OUTPUT};
#[cfg(feature = "run")]
pub use self::sandbox::SandboxedHooks;
use self::state::{Delta, Kept, Lasts, Made, Told};
use crate::agent::{Agent, NextModel, NextTool};
use crate::id::{MessageId, ThreadId};
use crate::message::{Content, Message, ToolCall};
use crate::middleware::{Act, Heard, Jump, Layer, Middleware, Moment, Occasion};
use crate::model::{Assembled, ModelError, PromptSection};
use crate::parts::skills::session;
use crate::run::{Effect, Outcome, StateChange};
use crate::state::{AnyState, States};
use crate::tool::{ToolAnswer, ToolOutput};

const NAME: &str = "hooks";
/// How often hooks keep one turn from ending.
const MAX_STOPS: u32 = 3;
/// The mark of a message that a hook put into the conversation.
const MARK: &str = "hook";

/// Hooks as a part of an agent: the user's own, and those of loaded skills.
///
/// It stands after `Skills`, `Summarisation` and `Approval`, so that it sees what they did. The user's own hooks run
/// without being asked about. Those of a skill run while it is loaded, if the rules of the session of skills allow
/// kind `hook` for `<skill> <Event>`, and do not deny its command.
///
/// ```
/// use prowess_agent::parts::{HookSet, Hooks};
/// use serde_json::json;
///
/// let own = HookSet::parse(&json!({
///     "UserPromptSubmit": [{"hooks": [{"type": "prompt", "prompt": "Answer in German."}]}]
/// }))?;
/// let hooks = Hooks::new(own); // `.commands(…)` for hooks that are commands, `.agent(…)` for those that are agents
/// # Ok::<(), prowess_agent::parts::HookConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Hooks(Arc<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    own: HookSet,
    commands: Option<Arc<dyn HookCommands>>,
    agents: BTreeMap<String, Agent>,
}

impl Hooks {
    /// The user's own hooks; those of skills need no mention.
    pub fn new(own: HookSet) -> Self {
        Self(Arc::new(Inner { own, commands: None, agents: BTreeMap::new() }))
    }

    /// The same with what runs commands. Without it a hook that is a command does not answer.
    #[must_use]
    pub fn commands(mut self, commands: impl HookCommands + 'static) -> Self {
        Arc::make_mut(&mut self.0).commands = Some(Arc::new(commands));
        self
    }

    /// The same with an agent that hooks can ask; one that names none asks `general-purpose`.
    #[must_use]
    pub fn agent(mut self, name: impl Into<String>, agent: Agent) -> Self {
        Arc::make_mut(&mut self.0).agents.insert(name.into(), agent);
        self
    }
}

#[async_trait]
impl Layer for Hooks {
    fn name(&self) -> &str {
        NAME
    }

    fn state(&self) -> Option<Box<dyn AnyState>> {
        Some(Box::<Kept>::default())
    }

    async fn open(&self, _: &ThreadId, _: &States) -> Result<Arc<dyn Middleware>, String> {
        Ok(Arc::new(Opened {
            hooks: Arc::clone(&self.0),
            known: active::Known::default(),
            started: AtomicBool::new(false),
            unsaved: Mutex::default(),
        }))
    }
}

/// Hooks in a thread.
#[derive(Debug)]
struct Opened {
    hooks: Arc<Inner>,
    known: active::Known,
    /// Whether this process told hooks that it opened the thread.
    started: AtomicBool,
    /// Changes that could not be stored with what they belong to.
    unsaved: Mutex<Vec<Delta>>,
}

/// What hooks did at one place of a turn.
#[derive(Debug, Default)]
struct Acts {
    acts: Vec<Act>,
    halt: Option<String>,
}

impl Acts {
    fn change(&mut self, delta: &Delta) {
        self.acts.push(Act::Change(change(delta)));
    }

    /// Takes what hooks changed. Gives what they blocked.
    fn take(&mut self, ruling: Ruling) -> Option<String> {
        ruling.deltas.iter().for_each(|delta| self.change(delta));
        self.halt = self.halt.take().or(ruling.halt);
        ruling.block
    }

    /// All that is to be done. A hook that wants the turn to end stands over all others.
    fn done(mut self) -> Vec<Act> {
        if let Some(reason) = self.halt {
            self.acts.push(Act::Jump(stopped(&format!("a hook ended the turn: {reason}"))));
        }
        self.acts
    }
}

#[async_trait]
impl Middleware for Opened {
    fn name(&self) -> &str {
        NAME
    }

    async fn sections(&self, moment: Moment<'_>) -> Result<Vec<PromptSection>, String> {
        let texts = &kept(moment)?.texts;
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let mut text = SECTION.to_owned();
        for told in texts {
            let skill = told.skill.as_ref().map(|skill| format!(" skill=\"{skill}\"")).unwrap_or_default();
            // A hook cannot close the place that it stands in, nor open another.
            let inner = told.text.replace("</hook", "&lt;/hook").replace("<hook", "&lt;hook");
            let _ = write!(text, "\n\n<hook event=\"{}\"{skill}>\n{inner}\n</hook>", told.event);
        }
        Ok(vec![PromptSection { owner: NAME.to_owned(), text, is_stable: false }])
    }

    async fn before_agent(&self, moment: Moment<'_>) -> Result<Vec<Act>, String> {
        let kept = kept(moment)?;
        let mut acts = self.acts(moment, kept);
        if !self.started.swap(true, Ordering::SeqCst) {
            let source = if kept.started { "resume" } else { "startup" };
            acts.change(&Delta::Started);
            acts.take(self.fire(moment, kept, Happening::SessionStart { source }).await);
        }
        let prompt = prompt(moment, kept);
        if let Some(last) = prompt.last() {
            acts.change(&Delta::Prompted(last.id.clone()));
            let text: Vec<String> = prompt.iter().map(|message| message.text()).collect();
            let happening = Happening::UserPromptSubmit { prompt: &text.join("\n") };
            if let Some(reason) = acts.take(self.fire(moment, kept, happening).await) {
                acts.change(&Delta::Refused(prompt.iter().map(|message| message.id.clone()).collect()));
                acts.acts.push(Act::Jump(stopped(&format!("the prompt was refused by {reason}"))));
                return Ok(acts.acts);
            }
        }
        Ok(acts.done())
    }

    async fn before_model(&self, moment: Moment<'_>) -> Result<Vec<Act>, String> {
        let kept = kept(moment)?;
        let mut acts = self.acts(moment, kept);
        acts.halt.clone_from(&kept.halt);
        self.notice(moment, kept, &mut acts).await;
        Ok(acts.done())
    }

    async fn wrap_model_call(
        &self,
        moment: Moment<'_>,
        mut next: NextModel<'_>,
    ) -> Result<Assembled, ModelError> {
        if let Some(kept) = moment.states.get::<Kept>(NAME) {
            next.request.messages.retain(|message| !kept.refused.contains(&message.id));
        }
        next.ask().await
    }

    async fn after_model(&self, moment: Moment<'_>) -> Result<Vec<Act>, String> {
        let kept = kept(moment)?;
        let mut acts = self.acts(moment, kept);
        self.permission_requests(moment, kept, &mut acts).await;
        Ok(acts.done())
    }

    async fn wrap_tool_call(&self, moment: Moment<'_>, next: NextTool<'_>) -> ToolOutput {
        let kept = match kept(moment) {
            Ok(kept) => kept,
            Err(why) => return ToolAnswer::error(format!("Error: hooks: {why}")).into(),
        };
        let (call, input) = (next.call, next.arguments);
        let ruling = self.fire(moment, kept, Happening::PreToolUse { call, input }).await;
        let mut deltas = ruling.deltas;
        deltas.extend(ruling.halt.clone().map(Delta::Halt));
        if let Some(reason) = ruling.block.or(ruling.halt.map(|reason| format!("a hook: {reason}"))) {
            let answer = ToolAnswer::error(format!("Error: this call was blocked by {reason}"));
            return self.with(answer.into(), deltas);
        }
        let post = Happening::PostToolUse { call, input, response: "" };
        let failure = Happening::PostToolUseFailure { call, input, error: "" };
        let skills = session(moment);
        let has = |happening| self.known.has(&self.hooks.own, skills, &happening);
        if has(post) || has(failure) {
            let written =
                called(moment, next.place()).is_some_and(|written| written.arguments == call.arguments);
            let arguments = (!written).then(|| input.clone());
            deltas.push(Delta::Made(Made { message: next.place().into(), arguments }));
        }
        self.with(next.call().await, deltas)
    }

    async fn after_agent(&self, moment: Moment<'_>, outcome: &Outcome) -> Result<Vec<Act>, String> {
        let kept = kept(moment)?;
        let mut acts = self.acts(moment, kept);
        self.notice(moment, kept, &mut acts).await;
        if matches!(outcome, Outcome::Stopped { .. } | Outcome::Cancelled) {
            return Ok(acts.acts);
        }
        let last = moment.run.messages().last();
        let last = last.filter(|message| matches!(message.content, Content::Assistant { .. }));
        let answer = last.map(|message| message.text()).unwrap_or_default();
        let happening = Happening::Stop { is_active: kept.stops > 0, answer: &answer };
        let Some(reason) = acts.take(self.fire(moment, kept, happening).await) else { return Ok(acts.acts) };
        let may_go_on = matches!(outcome, Outcome::Answered | Outcome::Silent | Outcome::CutOff);
        if acts.halt.is_some() || !may_go_on {
            return Ok(acts.acts);
        }
        if kept.stops >= MAX_STOPS {
            tracing::warn!(thread = %moment.thread, reason, "A hook wants the turn to go on too often: it ends");
            return Ok(acts.acts);
        }
        acts.change(&Delta::Resumed);
        let message = Message::user(format!("The turn is not over. It was kept from ending by {reason}"));
        acts.acts.push(Act::Jump(Jump::Model(vec![message.marked(MARK, HookEvent::Stop.name())])));
        Ok(acts.acts)
    }

    async fn hear(&self, moment: Moment<'_>, occasion: Occasion<'_>) -> Heard {
        let Ok(kept) = kept(moment) else { return Heard::default() };
        let happening = match occasion {
            Occasion::Compacting { messages } => Happening::PreCompact { messages },
            Occasion::SubAgentStarts { name, task } => Happening::SubagentStart { agent: name, task },
            Occasion::SubAgentStopped { name, answer } => Happening::SubagentStop { agent: name, answer },
            Occasion::SessionEnds => Happening::SessionEnd { reason: "close" },
        };
        let mut ruling = self.fire(moment, kept, happening).await;
        if matches!(occasion, Occasion::SubAgentStopped { .. }) {
            // It is too late to object.
            ruling.deltas.extend(ruling.block.take().map(|reason| told_of(moment, &happening, reason)));
        }
        ruling.deltas.extend(ruling.halt.map(Delta::Halt));
        let deltas = self.unsaved().into_iter().chain(ruling.deltas);
        Heard { objection: ruling.block, changes: deltas.map(|delta| change(&delta)).collect() }
    }
}

impl Opened {
    /// What could not be stored before.
    fn unsaved(&self) -> Vec<Delta> {
        std::mem::take(&mut *self.unsaved.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What is to be done, begun with what could not be stored before. What the model was told is over.
    fn acts(&self, moment: Moment<'_>, kept: &Kept) -> Acts {
        let mut acts = Acts::default();
        for delta in self.unsaved() {
            acts.change(&delta);
        }
        let answers = moment.run.answers();
        if kept.texts.iter().any(|told| told.is_over(answers)) {
            let has_failed = matches!(moment.run.next(), Effect::End(Outcome::Failed { .. }));
            acts.change(&if has_failed { Delta::Unheard(answers) } else { Delta::Heard(answers) });
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
            ToolOutput::InOrder(finish) => ToolOutput::InOrder(Box::new(move || {
                let mut answer = finish();
                answer.changes.extend(changes);
                answer
            })),
            ToolOutput::Ask(question) => {
                // The call is not made yet.
                let kept = deltas.into_iter().filter(|delta| !matches!(delta, Delta::Made(_)));
                self.unsaved.lock().unwrap_or_else(PoisonError::into_inner).extend(kept);
                ToolOutput::Ask(question)
            }
        }
    }

    /// Tells hooks of what happened since they were told last: calls that were made, skills that came and went, a
    /// compaction. What they block is too late, and told to the model.
    async fn notice(&self, moment: Moment<'_>, kept: &Kept, acts: &mut Acts) {
        for made in &kept.made {
            let result = moment.run.messages().iter().rev().find(|message| message.id == made.message);
            let Some(Content::Tool(result)) = result.map(|message| &message.content) else { continue };
            let Some(call) = called(moment, made.message.as_str()) else { continue };
            let input = made.arguments.clone().or_else(|| call.parsed().ok()).unwrap_or(Value::Null);
            let happening = if result.is_error {
                Happening::PostToolUseFailure { call, input: &input, error: &result.text }
            } else {
                Happening::PostToolUse { call, input: &input, response: &result.text }
            };
            self.tell_of(moment, kept, happening, acts).await;
        }
        if !kept.made.is_empty() {
            acts.change(&Delta::Followed);
        }
        if let Some(session) = session(moment) {
            let state = session.state();
            let loaded: Vec<String> = state.names().map(str::to_owned).collect();
            for skill in kept.skills.iter().filter(|skill| !loaded.contains(skill)) {
                self.tell_of(moment, kept, Happening::SkillUnload { skill }, acts).await;
            }
            for skill in loaded.iter().filter(|skill| !kept.skills.contains(skill)) {
                self.tell_of(moment, kept, Happening::SkillLoad { skill }, acts).await;
            }
            if loaded != kept.skills {
                acts.change(&Delta::Skills(loaded));
            }
        }
        if moment.run.cut() > kept.cut {
            let messages = moment.run.cut() - kept.cut;
            self.tell_of(moment, kept, Happening::PostCompact { messages }, acts).await;
            acts.change(&Delta::Cut(moment.run.cut()));
        }
    }

    /// Tells hooks of something that cannot be undone.
    async fn tell_of(&self, moment: Moment<'_>, kept: &Kept, happening: Happening<'_>, acts: &mut Acts) {
        let ruling = self.fire(moment, kept, happening).await;
        if let Some(reason) = acts.take(ruling) {
            acts.change(&told_of(moment, &happening, reason));
        }
    }

    /// Tells hooks of calls that were put to a person, each once. What they block is not made.
    async fn permission_requests(&self, moment: Moment<'_>, kept: &Kept, acts: &mut Acts) {
        for call in moment.run.asked().iter().filter(|call| !kept.asked.contains(&call.message)) {
            let input = call.call.parsed().unwrap_or(Value::Null);
            let happening = Happening::PermissionRequest { call: &call.call, input: &input };
            acts.change(&Delta::Asked(call.message.clone()));
            if let Some(reason) = acts.take(self.fire(moment, kept, happening).await) {
                let text = format!("Error: this call was refused by {reason}");
                acts.acts.push(Act::Answer { call: call.call.id.clone(), text, is_error: true });
            }
        }
    }
}

const SECTION: &str =
    "## Hooks\n\nThe person who runs you, or a skill that they let do so, has something to say here.";

/// What hooks would have blocked, for the model.
fn told_of(moment: Moment<'_>, happening: &Happening<'_>, reason: String) -> Delta {
    let text = match happening.subject() {
        Some(subject) => format!("About {subject}: {reason}"),
        None => reason,
    };
    let (event, after) = (happening.event().to_string(), moment.run.answers());
    Delta::Tell(Told { event, skill: None, text, lasts: Lasts::Call, after })
}

/// What a person said that hooks were not told of: the turn has just begun.
fn prompt<'a>(moment: Moment<'a>, kept: &Kept) -> Vec<&'a Arc<Message>> {
    if moment.run.steps() > 0 || moment.run.next() != Effect::AskModel {
        return Vec::new();
    }
    let is_new = |message: &&Arc<Message>| {
        matches!(message.content, Content::User { .. }) && kept.prompt.as_ref() != Some(&message.id)
    };
    let mut new: Vec<&Arc<Message>> = moment.run.messages().iter().rev().take_while(is_new).collect();
    new.reverse();
    new
}

/// The call whose result is, or will be, the message of this name.
fn called<'a>(moment: Moment<'a>, result: &str) -> Option<&'a ToolCall> {
    let (message, number) = result.rsplit_once('-')?;
    let message: MessageId = message.into();
    let found = moment.run.messages().iter().rev().find(|known| known.id == message)?;
    found.tool_calls().nth(number.parse().ok()?)
}

fn kept<'a>(moment: Moment<'a>) -> Result<&'a Kept, String> {
    moment.states.get::<Kept>(NAME).ok_or_else(|| "its state is missing".to_owned())
}

fn change(delta: &Delta) -> StateChange {
    StateChange::new::<Kept>(NAME, delta)
}

fn stopped(reason: &str) -> Jump {
    Jump::End(Outcome::Stopped { reason: reason.to_owned() })
}
