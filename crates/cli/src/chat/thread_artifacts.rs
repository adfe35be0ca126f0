//! Threads have their own artifacts. In old versions all threads shared them.

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

/// Notes in a thread that it has its own artifacts.
#[derive(Clone, Debug)]
pub(super) struct OwnArtifacts;

/// Whether a thread has its own artifacts.
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

/// Copies the artifacts that an old thread saved in the shared scope. Its log has their versions, and a version was
/// never used twice, so it gets only what it saved.
pub(super) async fn adopt_shared(thread: &Thread, own: &Artifacts) -> Result<()> {
    if has_own(thread.states()) {
        return Ok(());
    }
    let all = own.in_scope(Scope::shared());
    for (name, version) in saved(thread.state().messages()) {
        all.copy(&name, version, own.scope()).await.map_err(|error| anyhow!("{error}"))?;
    }
    Ok(())
}

/// The artifacts that the runs of a conversation saved, the oldest version of each name first.
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
