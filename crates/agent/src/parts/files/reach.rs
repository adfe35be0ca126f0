//! What of the files a call may see and change.

use prowess_backend::{BackendError, VirtualPath};
use prowess_permission::{Decision, Kind, Permissions, Refusal, Request};
use prowess_skills::Owner;
use serde_json::Value;

use super::Stop;
use crate::parts::{consult, skills};
use crate::tool::{ToolAnswer, ToolContext, ToolOutput};

/// What a call may see and change: by the rules, and by the skills that the agent is denied.
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
        let Some(permissions) = self.permissions else { return Ok(()) };
        let consulted = self.context.consulted;
        let _allowed = consult::allow(permissions, consulted).map_err(ToolOutput::from)?;
        match permissions.request(request).await {
            Ok(_) => Ok(()),
            // The thread asks, where nobody else can.
            Err(Refusal::NobodyToAsk { request, .. }) => {
                Err(ToolOutput::Ask(consult::question(&request, consulted)).into())
            }
            Err(refusal) => Err(ToolOutput::from(ToolAnswer::error(format!("Error: {refusal}"))).into()),
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

    /// Whether it is of a skill that this agent is not to know of.
    fn is_secret(&self, path: &VirtualPath) -> bool {
        let session = skills::session(self.context.moment);
        session.is_some_and(|session| session.owner_of(path.as_str()) == Owner::Denied)
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
