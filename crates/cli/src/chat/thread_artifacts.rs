//! Threads of earlier versions, which all had the same artifacts.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use async_trait::async_trait;
use prowess_agent::message::Content;
use prowess_agent::middleware::MiddlewareError;
use prowess_agent::thread_state::StateChange;
use prowess_agent::{Message, Middleware, MiddlewareAction, MiddlewareContext, State, States, Thread};
use prowess_skills::{Dialect, SkillToolKind};
use prowess_workspace::{ArtifactName, Artifacts, Scope};
use serde_json::Value;

const NAME: &str = "artifacts";

/// Notes in a thread that it has artifacts of its own.
#[derive(Clone, Debug)]
pub(super) struct OwnArtifacts;

/// Whether a thread has artifacts of its own: what it saves is not among those of all.
#[derive(Clone, Debug, Default)]
struct HasOwn(bool);

impl State for HasOwn {
    type Delta = bool;

    fn apply(&mut self, delta: bool) {
        self.0 = delta;
    }
}

fn has_own(states: &States) -> bool {
    states.get::<HasOwn>(NAME).is_some_and(|noted| noted.0)
}

#[async_trait]
impl Middleware for OwnArtifacts {
    fn name(&self) -> &str {
        NAME
    }

    fn state(&self) -> Option<Box<dyn prowess_agent::state::AnyState>> {
        Some(Box::<HasOwn>::default())
    }

    async fn before_agent(
        &self,
        moment: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        if has_own(moment.states) {
            return Ok(Vec::new());
        }
        Ok(vec![MiddlewareAction::Change(StateChange::new::<HasOwn>(NAME, &true))])
    }
}

/// Gives a thread of an earlier version copies of what it saved among the artifacts of all. Its log has the versions, and
/// no version was given twice there: what it did not save it does not get.
pub(super) async fn adopt_shared(thread: &Thread, own: &Artifacts) -> Result<()> {
    if has_own(thread.states()) {
        return Ok(());
    }
    let all = own.in_scope(Scope::shared());
    for (name, version) in saved(thread.run().messages()) {
        all.copy(&name, version, own.scope()).await.map_err(|error| anyhow!("{error}"))?;
    }
    Ok(())
}

/// The artifacts that runs in a conversation have saved, of a name the oldest first.
fn saved(messages: &[Arc<Message>]) -> BTreeSet<(ArtifactName, u64)> {
    let mut saved = BTreeSet::new();
    for message in messages {
        let Content::Tool(result) = &message.content else { continue };
        let is_run = Dialect::tool_kind(&result.name).is_some_and(SkillToolKind::reports);
        let Some(report) = is_run.then(|| serde_json::from_str::<Value>(&result.text).ok()).flatten() else {
            continue;
        };
        for file in report["artifact_files"].as_array().into_iter().flatten() {
            let name = file["name"].as_str().and_then(|name| ArtifactName::parse(name).ok());
            saved.extend(name.zip(file["version"].as_u64()));
        }
    }
    saved
}
