//! What of the files a call may see and change.

use prowess_backend::{BackendError, VirtualPath};
use prowess_permission::{Decision, Kind, Permissions, Request};
use serde_json::Value;

use super::Stop;
use crate::parts::gate;
use crate::tool::ToolContext;

/// What a call may see and change, by the rules.
pub(super) struct Reach<'a> {
    pub(super) permissions: Option<&'a Permissions>,
    pub(super) context: ToolContext<'a>,
}

/// What of a place that may be looked at is shown.
pub(super) struct Look<'a> {
    reach: &'a Reach<'a>,
    /// Whether a rule allows the place, so nobody was asked about what is below it.
    by_rule: bool,
}

impl Reach<'_> {
    /// Asks for a look at a path and what is below it.
    pub(super) async fn look(&self, path: &VirtualPath) -> Result<Look<'_>, Stop> {
        self.find(path)?;
        let by_rule = self.decision(path) == Decision::Allow;
        self.pass(Request::new(Kind::READ, path.as_str())).await?;
        Ok(Look { reach: self, by_rule })
    }

    /// Asks to write a file.
    pub(super) async fn write(&self, path: &VirtualPath, details: Value) -> Result<(), Stop> {
        self.find(path)?;
        self.pass(Request::new(Kind::WRITE, path.as_str()).with_details(details)).await
    }

    /// Asks to change a file, which tells what is in it.
    pub(super) async fn edit(&self, path: &VirtualPath, details: Value) -> Result<(), Stop> {
        if self.decision(path) == Decision::Deny {
            self.look(path).await?;
        }
        self.write(path, details).await
    }

    /// Asks to run a command line.
    pub(super) async fn run(&self, command: &str) -> Result<(), Stop> {
        self.pass(Request::new(Kind::RUN, command)).await
    }

    async fn pass(&self, request: Request) -> Result<(), Stop> {
        match self.permissions {
            Some(permissions) => Ok(gate::pass(permissions, request, &self.context).await?),
            None => Ok(()),
        }
    }

    fn decision(&self, path: &VirtualPath) -> Decision {
        let decide = |of: &Permissions| of.decide(&Request::new(Kind::READ, path.as_str())).decision;
        self.permissions.map_or(Decision::Allow, decide)
    }

    /// What is not to be known of is not there.
    fn find(&self, path: &VirtualPath) -> Result<(), BackendError> {
        if self.is_secret(path) { Err(BackendError::NotFound { path: path.clone() }) } else { Ok(()) }
    }

    fn is_secret(&self, _: &VirtualPath) -> bool {
        false
    }
}

impl Look<'_> {
    /// Whether it may be said that this is there.
    pub(super) fn names(&self, path: &VirtualPath) -> bool {
        !self.reach.is_secret(path) && self.reach.decision(path) != Decision::Deny
    }

    /// Whether there can be files whose names may be said and whose contents may not.
    pub(super) fn withholds(&self) -> bool {
        self.by_rule && self.reach.permissions.is_some()
    }

    /// Whether what is in it may be shown. What has a rule of its own that wants somebody asked is not, where nobody was.
    pub(super) fn shows(&self, path: &VirtualPath) -> bool {
        self.names(path) && (!self.by_rule || self.reach.decision(path) == Decision::Allow)
    }
}
