//! The restriction of a sub-agent: what its parent may not do while the sub-agent starts, it may not do either.

use async_trait::async_trait;
use prowess_skills::SkillDelta;
use prowess_skills::allowed_tools::{Restriction, ToolNames};
use serde::{Deserialize, Serialize};

use super::SkillsState;
use super::listed_call::ListedCall;
use crate::agent::NextTool;
use crate::middleware::{Middleware, MiddlewareContext};
use crate::state::{AnyState, State, States};
use crate::thread_state::StateChange;
use crate::tool::{ToolAnswer, ToolOutput};

const NAME: &str = "restriction";

/// Holds a sub-agent to the lists of `allowed-tools` that restricted its parents. The sub-agent's own thread keeps these
/// lists, so they hold in every process.
#[derive(Clone, Debug)]
pub(crate) struct InheritedRestriction {
    names: ToolNames,
}

impl InheritedRestriction {
    /// The middleware for a sub-agent of this thread.
    pub(crate) fn for_sub_agent(context: MiddlewareContext<'_>) -> Self {
        Self {
            names: super::at(context)
                .map(|skills| skills.engine().options().tools.clone())
                .unwrap_or_default(),
        }
    }

    /// The change that tells a sub-agent's thread its restrictions, if there are any. `seeds` begin that thread. A skill that
    /// they load adds its list, as if its parent had loaded it.
    pub(crate) fn seed(context: MiddlewareContext<'_>, seeds: &[StateChange]) -> Option<StateChange> {
        let loaded = |change: &StateChange| match SkillsState::delta(change)? {
            SkillDelta::Loaded { skill, .. } => Some(skill.allowed_tools),
            _ => None,
        };
        let own = super::at(context).and_then(|skills| skills.restriction());
        let own = own.map(|own| own.and(seeds.iter().filter_map(loaded).flatten()));
        let all: Vec<Restriction> = Restrictions::of(context.states).iter().cloned().chain(own).collect();
        (!all.is_empty()).then(|| StateChange::new::<Restrictions>(NAME, &all))
    }
}

/// The restrictions of all agents above this thread's agent. A call must pass each of them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Restrictions(Vec<Restriction>);

impl Restrictions {
    fn of(states: &States) -> &[Restriction] {
        states.get::<Self>(NAME).map_or(&[], |all| &all.0)
    }
}

impl State for Restrictions {
    type Delta = Vec<Restriction>;

    fn apply(&mut self, all: Vec<Restriction>) {
        self.0 = all;
    }
}

#[async_trait]
impl Middleware for InheritedRestriction {
    fn name(&self) -> &str {
        NAME
    }

    fn state(&self) -> Option<Box<dyn AnyState>> {
        Some(Box::<Restrictions>::default())
    }

    async fn wrap_tool_call(&self, context: MiddlewareContext<'_>, next: NextTool<'_>) -> ToolOutput {
        let call = ListedCall::new(context, &next.call.name, Some(next.kind()), next.arguments);
        let objects = |restriction: &Restriction| restriction.objection(&self.names, call.checked());
        match Restrictions::of(context.states).iter().find_map(objects) {
            Some(objection) => ToolAnswer::error(objection).into(),
            None => next.call().await,
        }
    }
}
