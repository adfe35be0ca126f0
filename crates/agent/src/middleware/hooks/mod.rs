//! Hooks: commands, texts and agents of the user's that are called when something happens.
//!
//! A hook can block something, and can tell the model something. It can never allow what a rule or a person did not allow.

mod active;
mod command;
mod config;
mod event;
mod fire;
mod in_thread;
mod matcher;
mod notice;
mod parse;
#[cfg(feature = "run")]
mod sandbox;
mod state;
mod verdict;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

pub use self::command::{HookCommand, HookCommands, HookExit, HookOutput, HookSkill, MAX_HOOK_OUTPUT};
pub use self::config::{
    DEFAULT_HOOK_TIMEOUT, HookConfigError, HookProblem, HookSet, MAX_HOOK_TIMEOUT, MAX_HOOKS,
};
pub use self::event::HookEvent;
use self::in_thread::ThreadHooks;
#[cfg(feature = "run")]
pub use self::sandbox::SandboxedHooks;
use self::state::HooksState;
use crate::agent::Agent;
use crate::id::ThreadId;
use crate::middleware::{Middleware, MiddlewareError, MiddlewareFactory};
use crate::state::{AnyState, States};

const NAME: &str = "hooks";

/// The user's own hooks, and the hooks of loaded skills.
///
/// Add it after `Skills`, `Summarisation` and `ToolPermissions`, so that hooks see what those did. The user's own hooks need no
/// approval. Hooks of a skill run while the skill is loaded, if the rules of the skill session allow kind `hook` for
/// `<skill> <Event>` and do not deny the command.
///
/// ```
/// use prowess_agent::middleware::{HookSet, Hooks};
/// use serde_json::json;
///
/// let own = HookSet::parse(&json!({
///     "UserPromptSubmit": [{"hooks": [{"type": "prompt", "prompt": "Write in German."}]}]
/// }))?;
/// let hooks = Hooks::new(own); // add `.commands(…)` to run commands, `.agent(…)` to call agents
/// # Ok::<(), prowess_agent::middleware::HookConfigError>(())
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
    /// Starts with the user's own hooks. Hooks of loaded skills are found by themselves.
    pub fn new(own: HookSet) -> Self {
        Self(Arc::new(Inner { own, commands: None, agents: BTreeMap::new() }))
    }

    /// Sets what runs the commands of hooks. Without it, hooks that are commands fail.
    #[must_use]
    pub fn commands(mut self, commands: impl HookCommands + 'static) -> Self {
        Arc::make_mut(&mut self.0).commands = Some(Arc::new(commands));
        self
    }

    /// Adds an agent that hooks can call. A hook that names no agent calls `general-purpose`.
    #[must_use]
    pub fn agent(mut self, name: impl Into<String>, agent: Agent) -> Self {
        Arc::make_mut(&mut self.0).agents.insert(name.into(), agent);
        self
    }
}

#[async_trait]
impl MiddlewareFactory for Hooks {
    fn name(&self) -> &str {
        NAME
    }

    fn state(&self) -> Option<Box<dyn AnyState>> {
        Some(Box::<HooksState>::default())
    }

    async fn open(&self, _: &ThreadId, _: &States) -> Result<Arc<dyn Middleware>, MiddlewareError> {
        Ok(Arc::new(ThreadHooks::new(Arc::clone(&self.0))))
    }
}
