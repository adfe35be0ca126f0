//! Notes in a thread the directory it works in.

use std::path::PathBuf;

use async_trait::async_trait;
use prowess_agent::middleware::MiddlewareError;
use prowess_agent::thread_state::StateChange;
use prowess_agent::{Event, Middleware, MiddlewareAction, MiddlewareContext, State, States};

const NAME: &str = "place";

/// Middleware that notes the working directory in the thread.
#[derive(Clone, Debug)]
pub(crate) struct ThreadDirectory(pub(super) PathBuf);

/// The directory that a thread worked in last.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorksIn(Option<PathBuf>);

impl State for WorksIn {
    type Delta = PathBuf;

    fn apply(&mut self, delta: PathBuf) {
        self.0 = Some(delta);
    }
}

impl ThreadDirectory {
    /// The directory that a thread worked in last.
    pub(crate) fn of(states: &States) -> Option<&PathBuf> {
        states.get::<WorksIn>(NAME)?.0.as_ref()
    }

    /// The directory that an event notes, if it does.
    pub(crate) fn noted(event: &Event) -> Option<PathBuf> {
        let Event::StateChanged { changes } = event else { return None };
        let noted = changes.iter().find(|change| change.owner == NAME)?;
        serde_json::from_value(noted.delta.clone()).ok()
    }
}

#[async_trait]
impl Middleware for ThreadDirectory {
    fn name(&self) -> &str {
        NAME
    }

    fn state(&self) -> Option<Box<dyn prowess_agent::state::AnyState>> {
        Some(Box::<WorksIn>::default())
    }

    async fn before_agent(
        &self,
        moment: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        if Self::of(moment.states) == Some(&self.0) {
            return Ok(Vec::new());
        }
        Ok(vec![MiddlewareAction::Change(StateChange::new::<WorksIn>(NAME, &self.0))])
    }
}
