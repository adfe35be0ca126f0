//! The state that parts of an agent have in a thread: typed, and changed by deltas alone.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize as _, Serialize};

use crate::thread_state::StateChange;

/// What a part of an agent keeps in a thread. It is the fold of its deltas, which the thread's log has.
///
/// What a stored delta means must stay: a later version reads all that earlier ones wrote.
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
/// // What a tool or a part gives back, and the log keeps; `States::get` reads the sum of all.
/// let change = StateChange::new::<Visits>("visits", &2);
/// assert_eq!(change.delta, 2);
/// ```
pub trait State: Clone + Default + Debug + Send + Sync + 'static {
    /// A change.
    type Delta: Serialize + DeserializeOwned;

    /// Changes it. It cannot fail: whoever makes a delta checks it.
    fn apply(&mut self, delta: Self::Delta);
}

/// A state whose type only its owner knows.
pub trait AnyState: Any + Debug + Send + Sync {
    /// Changes it by a stored delta.
    ///
    /// # Errors
    ///
    /// The delta cannot be read.
    fn apply_stored(&mut self, change: &StateChange) -> Result<(), serde_json::Error>;

    /// Whether it could be changed so.
    ///
    /// # Errors
    ///
    /// The delta cannot be read.
    fn check(&self, change: &StateChange) -> Result<(), serde_json::Error>;

    /// The same state, to be changed by itself.
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

/// The states of a thread, by their owners. A clone shares each state until one of the two changes it.
///
/// ```
/// use prowess_agent::middleware::Todos;
/// use prowess_agent::States;
///
/// let states = States::default(); // a thread's are `thread.states()`
/// assert!(Todos::of(&states).is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct States(BTreeMap<String, Arc<dyn AnyState>>);

impl States {
    pub(crate) fn add(&mut self, owner: &str, state: Box<dyn AnyState>) {
        self.0.insert(owner.to_owned(), state.into());
    }

    /// The state of an owner, if it has one of this type.
    pub fn get<S: State>(&self, owner: &str) -> Option<&S> {
        let state: &dyn Any = &**self.0.get(owner)?;
        state.downcast_ref()
    }

    /// Whether changes can be made.
    ///
    /// # Errors
    ///
    /// A delta cannot be read, and whose it is.
    pub(crate) fn check(&self, changes: &[StateChange]) -> Result<(), (String, serde_json::Error)> {
        let known = changes.iter().filter_map(|change| Some((change, self.0.get(&change.owner)?)));
        for (change, state) in known {
            state.check(change).map_err(|error| (change.owner.clone(), error))?;
        }
        Ok(())
    }

    /// Makes changes. Those of owners that are no longer there are left.
    ///
    /// # Errors
    ///
    /// A delta cannot be read, and whose it is.
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
    /// The delta has a form that JSON does not have. That is a mistake in its type.
    pub fn new<S: State>(owner: &str, delta: &S::Delta) -> Self {
        let delta = serde_json::to_value(delta)
            .unwrap_or_else(|error| panic!("{owner} made a delta of no form: {error}"));
        Self { owner: owner.to_owned(), delta }
    }
}
