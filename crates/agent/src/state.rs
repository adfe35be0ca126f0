//! The states that middleware have in a thread. They are typed, and only deltas change them.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize as _, Serialize};

use crate::thread_state::StateChange;

/// The state of a middleware in a thread: the result of applying all its deltas, which the thread's log stores.
///
/// The meaning of a stored delta must never change: later versions read the logs of earlier ones.
///
/// ```
/// use prowess_agent::thread_state::StateChange;
/// use prowess_agent::State;
///
/// #[derive(Clone, Debug, Default)]
/// struct Visits(u64);
///
/// impl State for Visits {
///     type Delta = u64;
///
///     fn apply(&mut self, more: u64) {
///         self.0 += more;
///     }
/// }
///
/// // A tool or a middleware returns this, and the log stores it. `States::get` returns the resulting state.
/// let change = StateChange::new::<Visits>("visits", &2);
/// assert_eq!(change.delta, 2);
/// ```
pub trait State: Clone + Default + Debug + Send + Sync + 'static {
    /// A change of the state.
    type Delta: Serialize + DeserializeOwned;

    /// Applies a delta. It cannot fail: the code that creates a delta checks it.
    fn apply(&mut self, delta: Self::Delta);
}

/// A [`State`] whose type only its owner knows.
pub trait AnyState: Any + Debug + Send + Sync {
    /// Applies a stored delta.
    ///
    /// # Errors
    ///
    /// The delta cannot be read.
    fn apply_stored(&mut self, change: &StateChange) -> Result<(), serde_json::Error>;

    /// Checks that a stored delta can be applied.
    ///
    /// # Errors
    ///
    /// The delta cannot be read.
    fn check(&self, change: &StateChange) -> Result<(), serde_json::Error>;

    /// A copy that can be changed independently.
    fn boxed_clone(&self) -> Box<dyn AnyState>;
}

impl<S: State> AnyState for S {
    fn apply_stored(&mut self, change: &StateChange) -> Result<(), serde_json::Error> {
        self.apply(S::Delta::deserialize(&change.delta)?);
        Ok(())
    }

    fn check(&self, change: &StateChange) -> Result<(), serde_json::Error> {
        S::Delta::deserialize(&change.delta).map(drop)
    }

    fn boxed_clone(&self) -> Box<dyn AnyState> {
        Box::new(self.clone())
    }
}

/// The states of a thread, by the names of their middleware. A clone shares each state until one of them changes it.
///
/// ```
/// use prowess_agent::middleware::Todos;
/// use prowess_agent::States;
///
/// let states = States::default(); // for a thread: `thread.states()`
/// assert!(Todos::of(&states).is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct States(BTreeMap<String, Arc<dyn AnyState>>);

impl States {
    pub(crate) fn add(&mut self, owner: &str, state: Box<dyn AnyState>) {
        self.0.insert(owner.to_owned(), state.into());
    }

    /// The state of the middleware `owner`, if it has this type.
    pub fn get<S: State>(&self, owner: &str) -> Option<&S> {
        let state: &dyn Any = &**self.0.get(owner)?;
        state.downcast_ref()
    }

    /// Checks that changes can be applied.
    ///
    /// # Errors
    ///
    /// The owner of a delta that cannot be read, and why.
    pub(crate) fn check(&self, changes: &[StateChange]) -> Result<(), (String, serde_json::Error)> {
        let known = changes.iter().filter_map(|change| Some((change, self.0.get(&change.owner)?)));
        for (change, state) in known {
            state.check(change).map_err(|error| (change.owner.clone(), error))?;
        }
        Ok(())
    }

    /// Applies changes. It ignores those of middleware that the agent no longer has.
    ///
    /// # Errors
    ///
    /// The owner of a delta that cannot be read, and why.
    pub(crate) fn apply(&mut self, changes: &[StateChange]) -> Result<(), (String, serde_json::Error)> {
        for change in changes {
            let Some(shared) = self.0.get_mut(&change.owner) else { continue };
            let applied = match Arc::get_mut(shared) {
                Some(state) => state.apply_stored(change),
                None => {
                    let mut own = shared.boxed_clone();
                    own.apply_stored(change).map(|()| *shared = own.into())
                }
            };
            applied.map_err(|error| (change.owner.clone(), error))?;
        }
        Ok(())
    }
}

impl StateChange {
    /// A change of the state of `owner`.
    ///
    /// # Panics
    ///
    /// The delta cannot be written as JSON. That is a bug in its type.
    pub fn new<S: State>(owner: &str, delta: &S::Delta) -> Self {
        let delta = serde_json::to_value(delta)
            .unwrap_or_else(|error| panic!("{owner}: a delta cannot be written as JSON: {error}"));
        Self { owner: owner.to_owned(), delta }
    }
}
