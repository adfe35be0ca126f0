//! One client's server.

use std::fmt;
use std::sync::Arc;

use prowess_catalog::Catalog;
use prowess_skills::options::Placement;
use prowess_skills::{Dialect, Lifetime, SessionOptions, SkillSession};
#[cfg(feature = "run")]
use prowess_workspace::Artifacts;
use tokio::sync::{Mutex, watch};
use tokio_util::sync::CancellationToken;

use crate::carry_over::CarryOver;
use crate::changes::Changes;
use crate::consent::WaitingQuestions;
use crate::live::{LiveSkills, Version};
use crate::outputs::Outputs;
use crate::skills_extension::{Publication, Unserved};
use crate::unanswered_calls::UnansweredCalls;

/// The options of a session whose client has no system message that a server could write: the text of loaded skills
/// comes in answers, and stays.
///
/// ```
/// use prowess_skills::options::Placement;
/// use prowess_skills::Dialect;
///
/// assert_eq!(prowess_mcp::session_options(Dialect::Trpc).placement, Placement::ToolAnswer);
/// ```
pub fn session_options(dialect: Dialect) -> SessionOptions {
    let mut options = SessionOptions::new(dialect);
    options.placement = Placement::ToolAnswer;
    options.lifetime = Lifetime::Session;
    options
}

/// Serves skills to one client. Clones are handles on the same server.
///
/// It is a handler of `rmcp`, which serves it on any of its transports:
///
/// ```
/// use prowess_catalog::Catalog;
/// use prowess_mcp::rmcp::ServiceExt as _;
/// use prowess_mcp::{LiveSkills, SkillServer};
/// use prowess_skills::SkillSession;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let session = SkillSession::builder(Catalog::empty()).start().await;
/// let server = SkillServer::new(LiveSkills::new(Catalog::empty()), session);
/// let (client, ours) = tokio::io::duplex(4096);
/// drop(client); // one that went before it said anything
/// assert!(server.serve(ours).await.is_err());
/// # }
/// ```
#[derive(Clone)]
pub struct SkillServer(Arc<Inner>);

struct Inner {
    live: Arc<LiveSkills>,
    session: SkillSession,
    /// The skills that the session works with.
    seen: Mutex<Catalog>,
    /// The version of the skills that the server began with.
    begun: Version,
    carry_over: CarryOver,
    /// Whether it is there for one request alone, and nothing that the session knows lasts.
    is_brief: bool,
    unanswered_calls: UnansweredCalls,
    /// Ends the calls that run.
    stop: CancellationToken,
    /// How often there were new outputs.
    new_outputs: watch::Sender<u64>,
    /// Whether the client has said all that it will say.
    ended: watch::Sender<bool>,
    #[cfg(feature = "run")]
    artifacts: Option<Artifacts>,
}

impl Inner {
    fn new(live: Arc<LiveSkills>, session: SkillSession) -> Self {
        let seen = Mutex::new(session.engine().catalog_view().catalog().clone());
        let begun = *live.versions().borrow();
        Self {
            begun,
            live,
            session,
            seen,
            carry_over: CarryOver::default(),
            is_brief: false,
            unanswered_calls: UnansweredCalls::default(),
            stop: CancellationToken::new(),
            new_outputs: watch::Sender::new(0),
            ended: watch::Sender::new(false),
            #[cfg(feature = "run")]
            artifacts: None,
        }
    }
}

#[cfg(any(feature = "http", feature = "run"))]
impl Inner {
    /// Another of the same kind, with room of its own.
    fn beside(&self) -> Self {
        Self {
            begun: self.begun,
            carry_over: self.carry_over.clone(),
            is_brief: self.is_brief,
            stop: self.stop.clone(),
            #[cfg(feature = "run")]
            artifacts: self.artifacts.clone(),
            ..Self::new(Arc::clone(&self.live), self.session.clone())
        }
    }
}

impl SkillServer {
    /// A server of these skills for one client, whose session is this. Permissions that nobody else answers for are
    /// asked of the client.
    pub fn new(live: Arc<LiveSkills>, session: SkillSession) -> Self {
        Self(Arc::new(Inner::new(live, session)))
    }

    /// The same, with the artifacts that its commands save: the client may read those that it had saved. Give each client
    /// a scope of its own ([`Scope::new_session`](prowess_workspace::Scope::new_session)), here and for its runs.
    #[cfg(feature = "run")]
    #[must_use]
    pub fn with_artifacts(self, artifacts: Artifacts) -> Self {
        self.with(|inner| inner.artifacts = Some(artifacts))
    }

    /// The same, whose calls end when this is cancelled.
    #[cfg(feature = "http")]
    pub(crate) fn until(self, stop: CancellationToken) -> Self {
        self.with(|inner| inner.stop = stop)
    }

    /// The same for one request, which leaves here what later ones need.
    #[cfg(feature = "http")]
    pub(crate) fn for_one_request(self, carry_over: CarryOver) -> Self {
        self.with(|inner| (inner.carry_over, inner.is_brief) = (carry_over, true))
    }

    /// A server that is like this one but for the change, and has served nobody yet.
    #[cfg(any(feature = "http", feature = "run"))]
    fn with(self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = Arc::try_unwrap(self.0).unwrap_or_else(|shared| shared.beside());
        change(&mut inner);
        Self(Arc::new(inner))
    }

    /// The skills that the Skills extension does not serve, and why: they breach the specification, or are larger than
    /// [`MAX_SERVED_FILES`](crate::MAX_SERVED_FILES) and [`MAX_SERVED_BYTES`](crate::MAX_SERVED_BYTES).
    pub async fn unserved(&self) -> Vec<Unserved> {
        self.blocking(|session| Publication::of(session).unserved()).await.unwrap_or_default()
    }

    /// The session, with the skills there are now.
    pub(crate) async fn session(&self) -> &SkillSession {
        // Whoever comes meanwhile waits: nobody works with skills that were taken away.
        let mut seen = self.0.seen.lock().await;
        let catalog = self.0.live.catalog();
        if !seen.is_same(&catalog) {
            self.0.session.refresh(&catalog).await;
            *seen = catalog;
        }
        &self.0.session
    }

    pub(crate) fn waiting(&self) -> &WaitingQuestions {
        &self.0.carry_over.waiting
    }

    pub(crate) fn outputs(&self) -> &Outputs {
        &self.0.carry_over.outputs
    }

    pub(crate) fn outputs_changed(&self) {
        self.0.new_outputs.send_modify(|times| *times += 1);
    }

    pub(crate) fn overview(&self) -> String {
        self.0.live.overview(&self.0.session)
    }

    pub(crate) fn unanswered_calls(&self) -> &UnansweredCalls {
        &self.0.unanswered_calls
    }

    #[cfg(feature = "run")]
    pub(crate) fn artifacts(&self) -> Option<&Artifacts> {
        self.0.artifacts.as_ref()
    }

    /// Whether nothing that the session knows lasts.
    pub(crate) fn is_brief(&self) -> bool {
        self.0.is_brief
    }

    /// Is cancelled when calls have to end.
    pub(crate) fn stop(&self) -> &CancellationToken {
        &self.0.stop
    }

    /// Notes that the client will say nothing more: what only listens ends.
    pub(crate) fn end(&self) {
        self.0.ended.send_replace(true);
    }

    /// The changes that a client has to hear of, since the server began. It hears at once of changes that came before it
    /// listened.
    pub(crate) fn changes(&self) -> Changes {
        let mut versions = self.0.live.versions();
        let told = self.0.begun;
        if *versions.borrow_and_update() != told {
            versions.mark_changed();
        }
        Changes { versions, new_outputs: self.0.new_outputs.subscribe(), ended: self.0.ended.subscribe(), told }
    }
}

impl fmt::Debug for SkillServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SkillServer").field("session", &self.0.session).finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_that_others_hold_is_changed_beside_it_and_loses_nothing() {
        let session = SkillSession::builder(Catalog::empty()).start().await;
        let server = SkillServer::new(LiveSkills::new(Catalog::empty()), session);
        let brief = server.for_one_request(CarryOver::default());
        let (held, stop) = (brief.clone(), CancellationToken::new());
        let changed = brief.until(stop.clone());
        assert!(changed.is_brief());
        assert!(std::ptr::eq(changed.waiting(), held.waiting()));
        stop.cancel();
        assert!(changed.stop().is_cancelled() && !held.stop().is_cancelled());
        let again = changed.clone().for_one_request(CarryOver::default());
        assert!(again.stop().is_cancelled(), "it ends with the one that it was made of");
    }
}
