//! Who sees an agent work.

use crate::id::CallId;
use crate::run::Event;

/// Sees an agent work. It must not block.
pub trait Watcher: Send + Sync {
    /// Something can be seen.
    fn see(&self, sight: Sight<'_>);
}

/// What can be seen.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Sight<'a> {
    /// Something happened, and is stored.
    Stored(&'a Event),
    /// The model says something. It is not stored yet, and said again if the call has to be made again.
    Text(&'a str),
    /// The model thinks something.
    Reasoning(&'a str),
    /// A tool says how far it is.
    Progress(&'a CallId, &'a str),
}

/// Sees nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoWatcher;

impl Watcher for NoWatcher {
    fn see(&self, _: Sight<'_>) {}
}

impl<F: Fn(Sight<'_>) + Send + Sync> Watcher for F {
    fn see(&self, sight: Sight<'_>) {
        self(sight);
    }
}
