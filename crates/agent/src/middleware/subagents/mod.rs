//! Sub-agents: work handed to an agent that starts clean and hands back its answer alone.

mod child;
mod task;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use prowess_skills::call::ForkedSkill;
use serde::{Deserialize, Serialize};

use self::child::Work;
use self::task::Task;
use super::cost_limit;
use super::skills::SkillsState;
use crate::agent::Agent;
use crate::middleware::{Middleware, MiddlewareContext, MiddlewareError, Sections};
use crate::model::{PromptSection, ToolDefinition};
use crate::state::{AnyState, State, States};
use crate::thread_state::{NextStep, ReadyCall, StateChange, TurnLimits};
use crate::tool::{Tool, ToolAnswer, ToolContext, ToolKind, ToolOutput};

const NAME: &str = "subagents";
/// The sub-agent that is taken when none is named.
const GENERAL: &str = "general-purpose";
/// How long one task may take, when nobody says otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(3600);
/// How deep sub-agents go, when nobody says otherwise.
const DEFAULT_DEPTH: u32 = 3;

/// Sub-agents as a part of an agent: the tool `task`.
///
/// Each task is a thread of its own in the agent's store, named after the call, so a task that was cut off goes on where
/// it was. Sub-agents see nothing of their parent's conversation and state; what they ask a person is asked in the
/// parent's thread. What they cost is counted there, too.
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
/// let agent = Agent::builder(Arc::new(model)).with(SubAgents::new(reader)).build()?;
/// let mut thread = agent.open(ThreadId::new()).await?;
/// thread.say("What is Moby-Dick about?", &NoWatcher).await?;
/// assert_eq!(thread.answer().as_deref(), Some("A whale."));
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
    /// What a model is told of the tool `task`.
    task: OnceLock<Arc<ToolDefinition>>,
}

#[derive(Clone, Debug)]
struct SubAgent {
    description: String,
    agent: Agent,
}

impl SubAgents {
    /// One sub-agent for everything.
    pub fn new(general_purpose: Agent) -> Self {
        let description = "Does any task of several steps, with the same tools as you.".to_owned();
        let agents = BTreeMap::from([(GENERAL.to_owned(), SubAgent { description, agent: general_purpose })]);
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

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        let settings = Arc::make_mut(&mut self.0);
        settings.task = OnceLock::new();
        change(settings);
        self
    }

    /// The same with another one, for what its description says.
    #[must_use]
    pub fn and(self, name: impl Into<String>, description: impl Into<String>, agent: Agent) -> Self {
        let sub_agent = SubAgent { description: description.into(), agent };
        self.with(|settings| drop(settings.agents.insert(name.into(), sub_agent)))
    }

    /// The same, going so deep: with 1, sub-agents have none of their own.
    #[must_use]
    pub fn depth(self, most: u32) -> Self {
        self.with(|settings| settings.depth = most)
    }

    /// The same with so much for one task; by default what each sub-agent is built with. No task takes more tokens than
    /// its share of what its parent's turn has left.
    #[must_use]
    pub fn limits(self, limits: TurnLimits) -> Self {
        self.with(|settings| settings.limits = Some(limits))
    }

    /// The same with so much time for one task.
    #[must_use]
    pub fn within(self, timeout: Duration) -> Self {
        self.with(|settings| settings.timeout = timeout)
    }

    /// The same, with what the parent has loaded loaded in each sub-agent when it begins. By default they start with no
    /// skill loaded.
    #[must_use]
    pub fn inherit_skills(self) -> Self {
        self.with(|settings| settings.inherit = true)
    }

    /// The longest that a call may take which starts one.
    pub(crate) fn tool_timeout(&self) -> Duration {
        // It ends the sub-agent by itself, before the call is dropped.
        self.0.timeout.saturating_add(Duration::from_secs(60))
    }

    /// Lets a sub-agent follow a skill.
    pub(crate) async fn fork(&self, forked: ForkedSkill, context: ToolContext<'_>) -> ToolOutput {
        let name = forked.agent.as_deref().unwrap_or(GENERAL);
        let Some(sub_agent) = self.0.agents.get(name) else { return self.unknown().into() };
        let arguments = forked.arguments.as_deref().map(|arguments| format!(" It is given: {arguments}"));
        let arguments = arguments.unwrap_or_default();
        let (task, seeds) = if sub_agent.agent.has_part("skills") {
            let task = format!("Follow the skill '{}', which is loaded.{arguments}", forked.name);
            (task, SkillsState::seeds(forked.deltas))
        } else {
            (format!("Follow these instructions.{arguments}\n\n{}", forked.instructions), Vec::new())
        };
        self.work(name, sub_agent, task, seeds, context).await
    }

    /// Hands a task to a sub-agent.
    async fn task(&self, name: &str, task: String, context: ToolContext<'_>) -> ToolOutput {
        let Some(sub_agent) = self.0.agents.get(name) else { return self.unknown().into() };
        let skills = SkillsState::of(context.states).filter(|_| self.0.inherit);
        let seeds = skills.map(SkillsState::inheritance).unwrap_or_default();
        self.work(name, sub_agent, task, seeds, context).await
    }

    async fn work(
        &self,
        name: &str,
        sub_agent: &SubAgent,
        task: String,
        mut seeds: Vec<StateChange>,
        context: ToolContext<'_>,
    ) -> ToolOutput {
        let depth = Depth::of(context.states);
        if depth >= self.0.depth {
            let text = format!("Error: sub-agents go {} deep at most: do it yourself.", self.0.depth);
            return ToolAnswer::error(text).into();
        }
        seeds.push(StateChange::new::<Depth>(NAME, &(depth + 1)));
        if sub_agent.agent.has_part("skills") {
            seeds.extend(SkillsState::of(context.states).map(SkillsState::led).unwrap_or_default());
        }
        let mut limits = self.0.limits.unwrap_or_else(|| sub_agent.agent.limits());
        if let Some(left) = context.moment.run.tokens_left() {
            // Tasks that are called beside it take the same from it.
            let left = left / beside(&context).max(1);
            limits.tokens = Some(limits.tokens.map_or(left, |most| most.min(left)));
        }
        let mut agent = sub_agent.agent.bounded(name, Arc::clone(context.moment.store), limits);
        if let Some(limit) = context.moment.part::<cost_limit::Opened>() {
            let (limited, seed) = limit.over(context.thread, agent);
            agent = limited;
            seeds.push(seed);
        }
        Work { name, agent, task, seeds, timeout: self.0.timeout, context }.done().await
    }

    fn unknown(&self) -> ToolAnswer {
        let known: Vec<&str> = self.0.agents.keys().map(String::as_str).collect();
        ToolAnswer::error(format!(
            "Error: there is no sub-agent of that name. Sub-agents: {}.",
            known.join(", ")
        ))
    }
}

/// How many calls of the same answer start sub-agents as this one does, itself included.
fn beside(context: &ToolContext<'_>) -> u64 {
    let NextStep::CallTools(calls) = context.moment.run.next() else { return 1 };
    let act = |call: &ReadyCall| context.moment.act(&call.call.name);
    // A skill may be followed by a sub-agent, too.
    let own = calls.iter().find(|call| call.message == *context.message).and_then(act);
    let is_one = |call: &&ReadyCall| act(call).is_some_and(|act| act == ToolKind::Task || Some(act) == own);
    calls.iter().filter(is_one).count() as u64
}

/// How many agents are above this thread.
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

    fn tools(&self, moment: MiddlewareContext<'_>) -> Vec<Arc<dyn Tool>> {
        if Depth::of(moment.states) >= self.0.depth {
            return Vec::new();
        }
        vec![Arc::new(Task(self.clone()))]
    }

    async fn sections(&self, moment: MiddlewareContext<'_>) -> Result<Sections, MiddlewareError> {
        if Depth::of(moment.states) >= self.0.depth {
            return Ok(Sections::default());
        }
        Ok(PromptSection { owner: NAME.to_owned(), text: SECTION.to_owned(), is_stable: true }.into())
    }
}

const SECTION: &str = "\
## Sub-agents

Hand work to a sub-agent with `task` when it is several steps whose details you do not need, and several at once when \
they do not depend on each other. A sub-agent sees nothing of this conversation: tell it all that it needs and what its \
answer shall have. Its answer comes back to you, not to the person.";
