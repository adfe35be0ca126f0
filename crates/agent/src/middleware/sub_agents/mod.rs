//! Sub-agents: agents with their own threads that work on one task each.

mod child;
mod definition;
mod task;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use prowess_catalog::untrusted::code_text;
use prowess_skills::call::ForkedSkill;
use serde::{Deserialize, Serialize};

use self::child::ChildTask;
pub use self::definition::{
    AgentDefinition, AgentName, AgentNameError, DefinitionError, MAX_DEFINITION_BYTES,
};
use self::task::Task;
use super::cost_limit::ThreadCostLimit;
use super::skills::{InheritedRestriction, SkillsState};
use crate::agent::Agent;
use crate::middleware::{Middleware, MiddlewareContext, MiddlewareError, Sections, Summarisation};
use crate::model::{PromptSection, ToolDefinition};
use crate::state::{AnyState, State, States};
use crate::thread_state::{NextStep, ReadyCall, StateChange, TurnLimits};
use crate::tool::{Tool, ToolAnswer, ToolContext, ToolKind, ToolOutput};

const NAME: &str = "subagents";
/// The sub-agent that is used if the call names none.
pub const GENERAL_AGENT: &str = "general-purpose";
/// How long one task may take by default.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(3600);
/// How many characters of a sub-agent's name are shown if it does not exist.
const MAX_NAME: usize = 64;
/// How deep sub-agents can be nested by default.
const DEFAULT_DEPTH: u32 = 3;

/// The tool `task`, which hands a task to a sub-agent.
///
/// Each task has its own thread in the agent's store. The thread's name follows from the call, so a task that was cut off
/// continues where it was. A sub-agent sees nothing of its parent's conversation and state. Its questions to a person
/// appear in the parent's thread, and its tokens count there.
///
/// ```
/// use std::sync::{Arc, OnceLock};
/// use prowess_agent::middleware::SubAgents;
/// use prowess_agent::{Agent, NoWatcher, ThreadId};
/// use prowess_models::{ScriptedExpect, Scripted, ScriptedTurn};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let reader = Agent::builder(Arc::new(Scripted::new([ScriptedTurn::new().say("It is about a whale.")]))).build()?;
/// let task = json!({"description": "Read Moby-Dick.", "subagent_type": "general-purpose"});
/// let model = Scripted::new([
///     ScriptedTurn::new().call("task", task),
///     ScriptedTurn::new().expect(ScriptedExpect::new().last("a whale")).say("A whale."),
/// ]);
/// let agent = Agent::builder(Arc::new(model)).middleware(SubAgents::new(reader)).build()?;
/// let mut thread = agent.open(ThreadId::new()).await?;
/// thread.say("What is Moby-Dick about?", &NoWatcher).await?;
/// assert_eq!(thread.last_response().as_deref(), Some("A whale."));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SubAgents(Arc<Settings>);

#[derive(Clone, Debug)]
struct Settings {
    agents: BTreeMap<String, SubAgent>,
    depth: u32,
    limits: Option<TurnLimits>,
    timeout: Duration,
    inherit: bool,
    /// The definition of the tool `task`.
    task: OnceLock<Arc<ToolDefinition>>,
}

#[derive(Clone, Debug)]
struct SubAgent {
    description: String,
    agent: Agent,
}

impl SubAgent {
    /// Whether it has skills. They also guard their files.
    fn has_skills(&self) -> bool {
        self.agent.has_middleware(SkillsState::OWNER)
    }

    /// Whether its model gets tools for skills.
    fn has_skill_tools(&self) -> bool {
        self.has_skills() && self.agent.selection().has_skills()
    }
}

impl SubAgents {
    /// Starts with one sub-agent for any task.
    pub fn new(general_purpose: Agent) -> Self {
        let description = "Does any task of several steps, with the same tools as you.".to_owned();
        let agents =
            BTreeMap::from([(GENERAL_AGENT.to_owned(), SubAgent { description, agent: general_purpose })]);
        let (depth, timeout) = (DEFAULT_DEPTH, DEFAULT_TIMEOUT);
        Self(Arc::new(Settings {
            agents,
            depth,
            limits: None,
            timeout,
            inherit: false,
            task: OnceLock::new(),
        }))
    }

    fn change(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        let settings = Arc::make_mut(&mut self.0);
        settings.task = OnceLock::new();
        change(settings);
        self
    }

    /// Adds a sub-agent. Its description says what it is for.
    #[must_use]
    pub fn sub_agent(self, name: impl Into<String>, description: impl Into<String>, agent: Agent) -> Self {
        let sub_agent = SubAgent { description: description.into(), agent };
        self.change(|settings| drop(settings.agents.insert(name.into(), sub_agent)))
    }

    /// Limits how deep sub-agents can be nested. With 1, sub-agents have no sub-agents.
    #[must_use]
    pub fn depth(self, most: u32) -> Self {
        self.change(|settings| settings.depth = most)
    }

    /// Sets the limits of one task. By default, each sub-agent has the limits that it was built with.
    ///
    /// No task gets more tokens than its share of those that its parent's turn has left.
    #[must_use]
    pub fn limits(self, limits: TurnLimits) -> Self {
        self.change(|settings| settings.limits = Some(limits))
    }

    /// Sets how long one task may take.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.change(|settings| settings.timeout = timeout)
    }

    /// Lets each sub-agent start with the skills that its parent has loaded. By default it starts with none.
    #[must_use]
    pub fn inherit_skills(self) -> Self {
        self.change(|settings| settings.inherit = true)
    }

    /// How long a tool call that starts a sub-agent may take.
    pub(crate) fn tool_timeout(&self) -> Duration {
        // The task ends the sub-agent itself, before the agent drops the call.
        self.0.timeout.saturating_add(Duration::from_secs(60))
    }

    /// Lets a sub-agent follow a skill with `context: fork`.
    pub(crate) async fn fork(&self, forked: ForkedSkill, context: ToolContext<'_>) -> ToolOutput {
        let wanted = forked.agent.as_deref().unwrap_or(GENERAL_AGENT);
        let Some((name, sub_agent)) = self.find(wanted).or_else(|| self.find(GENERAL_AGENT)) else {
            return self.unknown().into();
        };
        let notice = (self.find(wanted).is_none()).then(|| no_such_agent(&forked.name, wanted));
        let arguments = forked.arguments.as_deref().map(|arguments| format!(" Arguments: {arguments}"));
        let arguments = arguments.unwrap_or_default();
        let task = if sub_agent.has_skill_tools() {
            format!("Follow the skill '{}', which is loaded.{arguments}", forked.name)
        } else {
            format!("Follow these instructions.{arguments}\n\n{}", forked.instructions)
        };
        // A sub-agent without tools for skills may read the files of this one, too.
        let is_gated = sub_agent.has_skills();
        let seeds = if is_gated { SkillsState::seeds(forked.deltas) } else { Vec::new() };
        // If the sub-agent asked something, it has begun before.
        let has_begun = context.consultation.is_some_and(|consultation| consultation.question.via.is_some());
        if notice.is_some() && !has_begun {
            context.notice(&replaced_agent(&forked.name, wanted));
        }
        match (self.run_task(name, sub_agent, task, seeds, context).await, notice) {
            (ToolOutput::Done(answer), Some(notice)) => {
                ToolAnswer { text: format!("Note: {notice}\n\n{}", answer.text), ..answer }.into()
            }
            (output, _) => output,
        }
    }

    /// The sub-agent of this name. Letter case does not matter.
    fn find(&self, name: &str) -> Option<(&str, &SubAgent)> {
        let same = |known: &&String| known.to_lowercase() == name.to_lowercase();
        let known = self.0.agents.get_key_value(name);
        let known = known.or_else(|| self.0.agents.get_key_value(self.0.agents.keys().find(same)?));
        known.map(|(name, sub_agent)| (name.as_str(), sub_agent))
    }

    /// Hands a task to a sub-agent.
    async fn task(&self, name: &str, task: String, context: ToolContext<'_>) -> ToolOutput {
        let Some((name, sub_agent)) = self.find(name) else { return self.unknown().into() };
        let inherits = self.0.inherit && sub_agent.has_skill_tools();
        let skills = SkillsState::of(context.states).filter(|_| inherits);
        let seeds = skills.map(SkillsState::inheritance).unwrap_or_default();
        self.run_task(name, sub_agent, task, seeds, context).await
    }

    async fn run_task(
        &self,
        name: &str,
        sub_agent: &SubAgent,
        task: String,
        mut seeds: Vec<StateChange>,
        context: ToolContext<'_>,
    ) -> ToolOutput {
        let depth = Depth::of(context.states);
        if depth >= self.0.depth {
            let text = format!(
                "Error: sub-agents can be nested at most {} deep. Do the task yourself.",
                self.0.depth
            );
            return ToolAnswer::error(text).into();
        }
        let restriction = InheritedRestriction::seed(context.middleware, &seeds);
        seeds.extend(restriction);
        seeds.push(StateChange::new::<Depth>(NAME, &(depth + 1)));
        seeds.extend(Summarisation::inheritance(context.states));
        if sub_agent.has_skills() {
            seeds.extend(SkillsState::of(context.states).map(SkillsState::led).unwrap_or_default());
        }
        let mut limits = self.0.limits.unwrap_or_else(|| sub_agent.agent.limits());
        if let Some(left) = context.middleware.thread_state.tokens_left() {
            // Tasks of the same response get equal shares.
            let left = left / tasks_at_once(&context).max(1);
            limits.tokens = Some(limits.tokens.map_or(left, |most| most.min(left)));
        }
        let mut agent = sub_agent.agent.bounded(name, Arc::clone(context.middleware.store), limits);
        agent = agent.with_middleware(Arc::new(InheritedRestriction::for_sub_agent(context.middleware)));
        if let Some(limit) = context.middleware.find::<ThreadCostLimit>() {
            let (limited, seed) = limit.extend_to(context.thread, agent);
            agent = limited;
            seeds.push(seed);
        }
        let (timeout, preapproved_by) = (self.0.timeout, OnceLock::new());
        ChildTask { name, agent, task, seeds, timeout, context, preapproved_by }.run().await
    }

    fn unknown(&self) -> ToolAnswer {
        let known: Vec<&str> = self.0.agents.keys().map(String::as_str).collect();
        ToolAnswer::error(format!(
            "Error: there is no sub-agent of that name. Sub-agents: {}.",
            known.join(", ")
        ))
    }
}

/// What to say if a skill names a sub-agent that does not exist.
fn no_such_agent(skill: &str, wanted: &str) -> String {
    let (skill, wanted) = (code_text(skill), code_text(&wanted.chars().take(MAX_NAME).collect::<String>()));
    format!(
        "The skill '{skill}' is for the sub-agent '{wanted}', which does not exist. \
         The sub-agent '{GENERAL_AGENT}' followed it instead."
    )
}

/// The same for the person. Whoever shows it makes it printable.
fn replaced_agent(skill: &str, wanted: &str) -> String {
    let wanted: String = wanted.chars().take(MAX_NAME).collect();
    format!(
        "the skill '{skill}' is for the sub-agent '{wanted}', which does not exist or is not trusted; \
         the sub-agent '{GENERAL_AGENT}' follows it instead"
    )
}

/// How many calls of the same response start sub-agents, including this one.
fn tasks_at_once(context: &ToolContext<'_>) -> u64 {
    let NextStep::CallTools(calls) = context.middleware.thread_state.next() else { return 1 };
    let kind = |call: &ReadyCall| context.middleware.tool_kind(&call.call.name);
    // A sub-agent may follow a skill, too.
    let own = calls.iter().find(|call| call.message == *context.message).and_then(kind);
    let is_one =
        |call: &&ReadyCall| kind(call).is_some_and(|kind| kind == ToolKind::Task || Some(kind) == own);
    calls.iter().filter(is_one).count() as u64
}

/// How many agents are above this thread's agent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Depth(u32);

impl Depth {
    fn of(states: &States) -> u32 {
        states.get::<Self>(NAME).map_or(0, |depth| depth.0)
    }
}

impl State for Depth {
    type Delta = u32;

    fn apply(&mut self, depth: u32) {
        self.0 = depth;
    }
}

#[async_trait]
impl Middleware for SubAgents {
    fn name(&self) -> &str {
        NAME
    }

    fn state(&self) -> Option<Box<dyn AnyState>> {
        Some(Box::<Depth>::default())
    }

    fn tools(&self, context: MiddlewareContext<'_>) -> Vec<Arc<dyn Tool>> {
        if Depth::of(context.states) >= self.0.depth {
            return Vec::new();
        }
        vec![Arc::new(Task(self.clone()))]
    }

    async fn sections(&self, context: MiddlewareContext<'_>) -> Result<Sections, MiddlewareError> {
        if Depth::of(context.states) >= self.0.depth {
            return Ok(Sections::default());
        }
        Ok(PromptSection { owner: NAME.to_owned(), text: SECTION.to_owned(), is_stable: true }.into())
    }
}

const SECTION: &str = "\
## Sub-agents

Give work to a sub-agent with `task` if it takes several steps and you do not need their details. If tasks do not depend \
on each other, start several sub-agents at once. A sub-agent sees nothing of this conversation: tell it everything that it \
needs, and what to return. You get its response; the person does not see it.";
