//! Skills: their overview in the prompt, their tools, and what is loaded, kept through compaction and restarts.

use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use prowess_skills::{
    SavedState, Secret, SessionBuilder, SkillDelta, SkillSession, SkillState, ToolCall, ToolSpec, ToolVerdict,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::{NextModel, NextTool};
use crate::id::ThreadId;
use crate::message::{Content, ToolResult};
use crate::middleware::{Act, Layer, Middleware, Moment};
use crate::model::{Assembled, ModelError, PromptSection, ToolDefinition};
use crate::run::{Outcome, StateChange};
use crate::state::{AnyState, State, States};
use crate::tool::{Tool, ToolAnswer, ToolContext, ToolOutput};

const NAME: &str = "skills";
/// The names that a call's argument has in common tools: what a scope such as `Bash(git:*)` is compared with.
const ARGUMENTS: [&str; 5] = ["command", "file_path", "path", "pattern", "url"];

/// Skills as a part of an agent: a session of `prowess-skills` for each thread.
///
/// ```
/// use prowess_agent::parts::Skills;
/// use prowess_catalog::{Catalog, Root, ScanOptions};
/// use prowess_skills::SkillSession;
///
/// let catalog = Catalog::discover(&[Root::explicit("/srv/skills")], &ScanOptions::default());
/// let skills = Skills::new(move |_| SkillSession::builder(catalog.clone()));
/// ```
#[derive(Clone)]
pub struct Skills(Arc<dyn Fn(&ThreadId) -> SessionBuilder + Send + Sync>);

impl Skills {
    /// Skills whose session for a thread begins as `builder` says: its catalog, options, permissions, runs. What was
    /// loaded before is restored by the part.
    pub fn new(builder: impl Fn(&ThreadId) -> SessionBuilder + Send + Sync + 'static) -> Self {
        Self(Arc::new(builder))
    }
}

impl Debug for Skills {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Skills").finish_non_exhaustive()
    }
}

/// What a thread keeps of its skills.
#[derive(Debug, Default)]
struct Kept {
    /// Marks the frames of this conversation.
    secret: Option<[u8; 16]>,
    state: SkillState,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Delta {
    Secret([u8; 16]),
    Skill(SkillDelta),
}

impl State for Kept {
    type Delta = Delta;

    fn apply(&mut self, delta: Delta) {
        match delta {
            Delta::Secret(secret) => self.secret = Some(secret),
            // What does not fit was refused by the session that made it, and is in no log.
            Delta::Skill(delta) => drop(self.state.replay([&delta])),
        }
    }
}

#[async_trait]
impl Layer for Skills {
    fn name(&self) -> &str {
        NAME
    }

    fn state(&self) -> Option<Box<dyn AnyState>> {
        Some(Box::<Kept>::default())
    }

    async fn open(&self, thread: &ThreadId, states: &States) -> Result<Arc<dyn Middleware>, String> {
        let kept = states.get::<Kept>(NAME).ok_or("its state is missing")?;
        let known = kept.secret.map(Secret::from_bytes);
        let secret = known.clone().unwrap_or_else(Secret::random);
        let saved = SavedState::new(kept.state.clone(), secret.clone());
        let session = (self.0)(thread).restore(saved).start().await;
        let unsaved = known.is_none().then(|| *secret.as_bytes());
        Ok(Arc::new(Opened { session, unsaved: Mutex::new(unsaved), loaded: Mutex::default() }))
    }
}

/// Skills in a thread.
#[derive(Debug)]
struct Opened {
    session: SkillSession,
    /// The secret, while the log does not have it.
    unsaved: Mutex<Option<[u8; 16]>>,
    /// The text of loaded skills that the next call of the model has in its prompt: by the session's placement, or
    /// because compaction took it out of the conversation.
    loaded: Mutex<Vec<String>>,
}

#[async_trait]
impl Middleware for Opened {
    fn name(&self) -> &str {
        NAME
    }

    fn tools(&self, _: Moment<'_>) -> Vec<Arc<dyn Tool>> {
        let tools = self.session.tools().into_iter();
        tools
            .map(|spec| Arc::new(SkillTool { session: self.session.clone(), spec }) as Arc<dyn Tool>)
            .collect()
    }

    async fn sections(&self, _: Moment<'_>) -> Result<Vec<PromptSection>, String> {
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // It changes only when something is loaded, unloaded or refreshed.
        let section = |text: String| PromptSection { owner: NAME.to_owned(), text, is_stable: false };
        let texts = std::iter::once(self.session.prompt().text).chain(loaded);
        Ok(texts.filter(|text| !text.is_empty()).map(section).collect())
    }

    async fn before_agent(&self, _: Moment<'_>) -> Result<Vec<Act>, String> {
        let secret = self.unsaved.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(secret.map(|secret| change(&Delta::Secret(secret))).into_iter().collect())
    }

    async fn before_model(&self, moment: Moment<'_>) -> Result<Vec<Act>, String> {
        let loaded = self.session.loaded_section().await;
        let (mut deltas, mut texts) = (loaded.deltas, vec![loaded.text]);
        if moment.run.cut() > 0 {
            let kept: Vec<String> = moment.run.view().map(|message| message.text()).collect();
            let section = self.session.put_back(kept.iter().map(String::as_str), None).await;
            deltas.extend(section.deltas);
            texts.push(section.text);
        }
        *self.loaded.lock().unwrap_or_else(PoisonError::into_inner) = texts;
        Ok(changes(deltas))
    }

    async fn wrap_model_call(&self, _: Moment<'_>, mut next: NextModel<'_>) -> Result<Assembled, ModelError> {
        // The text of unloaded skills goes, where the session is set so.
        for message in &mut next.request.messages {
            let Content::Tool(result) = &message.content else { continue };
            if let Some(text) = self.session.without_unloaded(&result.text) {
                let mut shorter = (**message).clone();
                shorter.content = Content::Tool(ToolResult { text, ..result.clone() });
                *message = Arc::new(shorter);
            }
        }
        next.ask().await
    }

    async fn after_model(&self, _: Moment<'_>) -> Result<Vec<Act>, String> {
        Ok(changes(self.session.after_model_call()))
    }

    async fn wrap_tool_call(&self, _: Moment<'_>, next: NextTool<'_>) -> ToolOutput {
        let argument = ARGUMENTS.iter().find_map(|name| next.arguments.get(name).and_then(Value::as_str));
        let call = ToolCall { name: &next.call.name, argument };
        match self.session.check_tool(call) {
            ToolVerdict::Blocked { message } => ToolAnswer::error(message).into(),
            ToolVerdict::Pass | ToolVerdict::Preapproved { .. } => next.call().await,
        }
    }

    async fn after_agent(&self, _: Moment<'_>, _: &Outcome) -> Result<Vec<Act>, String> {
        Ok(changes(self.session.end_turn()))
    }
}

fn change(delta: &Delta) -> Act {
    Act::Change(StateChange::new::<Kept>(NAME, delta))
}

fn changes(deltas: Vec<SkillDelta>) -> Vec<Act> {
    deltas.into_iter().map(|delta| change(&Delta::Skill(delta))).collect()
}

/// One of the session's tools.
#[derive(Debug)]
struct SkillTool {
    session: SkillSession,
    spec: ToolSpec,
}

#[async_trait]
impl Tool for SkillTool {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: self.spec.name.to_owned(),
            description: self.spec.description.clone(),
            parameters: self.spec.parameters.clone(),
        }
    }

    async fn call(&self, arguments: Value, _: ToolContext<'_>) -> ToolOutput {
        let prepared = self.session.prepare_call(self.spec.name, arguments).await;
        ToolOutput::InOrder(Box::new(move || {
            let reply = prepared.finish();
            let deltas = reply.deltas.into_iter().map(Delta::Skill);
            ToolAnswer {
                text: reply.text,
                is_error: reply.is_error,
                changes: deltas.map(|delta| StateChange::new::<Kept>(NAME, &delta)).collect(),
                ..ToolAnswer::default()
            }
        }))
    }
}
