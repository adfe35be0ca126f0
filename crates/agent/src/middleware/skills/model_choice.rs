//! `model` and `effort` of loaded skills: which model is called while they are loaded, and how much it reasons. `model` of
//! sub-agents is looked up in the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use prowess_base::text::cut;
use prowess_skills::SkillView;
use prowess_skills::prowess_catalog::skill::Extensions;
use prowess_skills::prowess_catalog::untrusted::one_line;

use crate::agent::NextModel;
use crate::middleware::{Middleware, MiddlewareContext};
use crate::model::{Effort, Model, ModelError, ModelErrorKind, ModelResponse};

/// How much of a name that a skill wrote is shown to a person, in characters.
const MAX_SHOWN: usize = 64;
/// How much of a reason is shown to a person, in characters.
const MAX_REASON: usize = 200;

/// What an agent has for a name that skills use.
#[derive(Clone)]
#[non_exhaustive]
pub enum SkillModel {
    /// This model.
    Use(Arc<dyn Model>),
    /// The thread's own model is meant.
    Own,
    /// No model. The thread's own model stays, and the person reads why.
    Unavailable {
        /// The reason, as a part of a sentence: "there is no API key for openai".
        reason: String,
    },
}

impl Debug for SkillModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Use(model) => f.debug_tuple("Use").field(&model.name()).finish(),
            Self::Own => f.write_str("Own"),
            Self::Unavailable { reason } => f.debug_struct("Unavailable").field("reason", reason).finish(),
        }
    }
}

/// The models that skills can choose, by the names that skills use. Clones share their memory: each name is looked up
/// once, a model that its provider does not have is called once, and a person reads each notice once.
///
/// ```
/// use prowess_agent::middleware::{SkillModel, SkillModels};
///
/// let models = SkillModels::new(|name| match name {
///     "default" => SkillModel::Own,
///     _ => SkillModel::Unavailable { reason: "this agent has one model".to_owned() },
/// });
/// ```
#[derive(Clone)]
pub struct SkillModels(Arc<Inner>);

struct Inner {
    find: Box<Find>,
    known: Mutex<BTreeMap<String, SkillModel>>,
    told: Mutex<BTreeSet<String>>,
}

type Find = dyn Fn(&str) -> SkillModel + Send + Sync;

impl SkillModels {
    /// The models that `find` gives for names. It is never asked for `inherit`, which is the thread's own model.
    pub fn new(find: impl Fn(&str) -> SkillModel + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner { find: Box::new(find), known: Mutex::default(), told: Mutex::default() }))
    }

    /// What the agent has for a name.
    pub fn get(&self, name: &str) -> SkillModel {
        let mut known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(name.to_owned()).or_insert_with(|| (self.0.find)(name)).clone()
    }

    /// Remembers that the provider has no such model.
    fn forget(&self, name: &str, reason: String) {
        let mut known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(name.to_owned(), SkillModel::Unavailable { reason });
    }

    /// Tells the person that the thread's own model is called instead.
    fn tell(&self, by: &str, name: &str, reason: &str, next: &NextModel<'_>) {
        let (name, reason) = (one_line(name), one_line(reason));
        let text = format!(
            "{by} asks for the model `{}`; {} is used instead: {}",
            cut(&name, MAX_SHOWN),
            next.model.name(),
            cut(&reason, MAX_REASON)
        );
        if self.0.told.lock().unwrap_or_else(PoisonError::into_inner).insert(text.clone()) {
            tracing::warn!(by, %text, "A wanted model is not available");
            next.notice(&text);
        }
    }
}

impl Debug for SkillModels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SkillModels").finish_non_exhaustive()
    }
}

/// The `model` of a loaded skill or of a sub-agent.
pub(super) struct WantedModel {
    /// Who wants it, as in "skill 'review'".
    by: String,
    name: String,
}

/// The model that the loaded skills want. The skill that was loaded last wins. `None` if it is the thread's own.
pub(super) fn wanted(skills: &SkillView) -> Option<WantedModel> {
    let (skill, name) = last(skills, |extensions| extensions.model.clone())?;
    let name = name.trim();
    let by = || format!("skill '{}'", one_line(&skill));
    (name != "inherit").then(|| WantedModel { by: by(), name: name.to_owned() })
}

/// Makes a call with the wanted model. If there is no such model, the thread's own model is called.
pub(super) async fn call(
    wanted: WantedModel,
    models: &SkillModels,
    mut next: NextModel<'_>,
) -> Result<ModelResponse, ModelError> {
    let WantedModel { by, name } = wanted;
    let own = next.clone();
    match models.get(&name) {
        SkillModel::Own => return own.call().await,
        SkillModel::Unavailable { reason } => {
            models.tell(&by, &name, &reason, &own);
            return own.call().await;
        }
        SkillModel::Use(model) => next.model = model,
    }
    match next.call().await {
        Err(error) if error.kind == ModelErrorKind::NoSuchModel => {
            models.tell(&by, &name, &error.message, &own);
            models.forget(&name, error.message);
            own.call().await
        }
        // Its window is smaller than that of the thread's own model. A later request may be shorter.
        Err(error) if error.is_unsent => {
            models.tell(&by, &name, "the request is too long for its context window", &own);
            own.call().await
        }
        response => response,
    }
}

/// The model of a sub-agent, as middleware: the one that its definition names. If there is no such model, or its provider
/// does not have it, another one is called, and a notice says so.
#[derive(Clone, Debug)]
pub struct SubAgentModel {
    models: SkillModels,
    agent: String,
    wanted: String,
    instead: Arc<dyn Model>,
}

impl SubAgentModel {
    /// The model `wanted` of `models` for the sub-agent of this name, or else the model `instead`.
    pub fn new(
        models: SkillModels,
        agent: impl Into<String>,
        wanted: impl Into<String>,
        instead: Arc<dyn Model>,
    ) -> Self {
        Self { models, agent: agent.into(), wanted: wanted.into(), instead }
    }
}

#[async_trait]
impl Middleware for SubAgentModel {
    fn name(&self) -> &str {
        "sub_agent_model"
    }

    async fn wrap_model_call(
        &self,
        _: MiddlewareContext<'_>,
        mut next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        next.model = Arc::clone(&self.instead);
        let by = format!("sub-agent '{}'", one_line(&self.agent));
        call(WantedModel { by, name: self.wanted.clone() }, &self.models, next).await
    }
}

/// The effort that the loaded skills want. The skill that was loaded last wins.
pub(super) fn effort(skills: &SkillView) -> Option<Effort> {
    let (skill, name) = last(skills, |extensions| extensions.effort.clone())?;
    let effort = parse_effort(&name);
    if effort.is_none() {
        tracing::warn!(skill, effort = name, "The skill wants an unknown effort");
    }
    effort
}

/// The last loaded skill that has this field, and its value.
fn last(skills: &SkillView, field: impl Fn(&Extensions) -> Option<String>) -> Option<(String, String)> {
    let (state, view) = (skills.state(), skills.engine().catalog_view());
    state.loaded().iter().rev().find_map(|skill| {
        let entry = view.get(&skill.name).filter(|entry| entry.skill.location == skill.location)?;
        Some((skill.name.clone(), field(&entry.skill.extensions)?))
    })
}

fn parse_effort(name: &str) -> Option<Effort> {
    match name {
        "low" => Some(Effort::Low),
        "medium" => Some(Effort::Medium),
        "high" => Some(Effort::High),
        "max" | "xhigh" => Some(Effort::Max),
        _ => None,
    }
}
