//! The server for one client.

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
use crate::consent::ElicitedQuestions;
use crate::live::{LiveSkills, Version};
use crate::outputs::Outputs;
use crate::skills_extension::{Publication, Unserved};
use crate::unanswered_calls::UnansweredCalls;

/// The options of a session over MCP. A server cannot write the client's system message, so the text of a loaded skill is
/// in the tool's answer, and stays there.
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

/// Serves skills to one client. Clones share the same server.
///
/// It is a handler of `rmcp`, which serves it on any transport:
///
/// ```
/// use prowess_catalog::Catalog;
/// use prowess_mcp::rmcp::ServiceExt as _;
/// use prowess_mcp::{LiveSkills, SkillServer};
/// use prowess_skills::SkillSession;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let session = SkillSession::builder(Catalog::empty()).build().await;
/// let server = SkillServer::new(LiveSkills::new(Catalog::empty()), session);
/// let (client, ours) = tokio::io::duplex(4096);
/// drop(client); // the client leaves before it says anything
/// assert!(server.serve(ours).await.is_err());
/// # }
/// ```
#[derive(Clone)]
pub struct SkillServer(Arc<Inner>);

struct Inner {
    live: Arc<LiveSkills>,
    session: SkillSession,
    /// The catalog that the session uses.
    seen: Mutex<Catalog>,
    /// The version of the skills when the server began.
    begun: Version,
    carry_over: CarryOver,
    /// Whether this server handles one request only, so that the state of its session does not last.
    is_brief: bool,
    unanswered_calls: UnansweredCalls,
    /// Ends the calls in progress.
    stop: CancellationToken,
    /// Counts how often runs had new outputs.
    new_outputs: watch::Sender<u64>,
    /// Whether the client will send nothing more.
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
    /// A copy with its own count of unanswered calls.
    fn copy(&self) -> Self {
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
    /// A server of these skills for one client, with its session. If nobody else replies to a question of the permission
    /// gate, the server asks the client.
    pub fn new(live: Arc<LiveSkills>, session: SkillSession) -> Self {
        Self(Arc::new(Inner::new(live, session)))
    }

    /// Adds the artifacts that the runs of this client save, so that the client can read them. Give each client its own
    /// scope ([`Scope::new_session`](prowess_workspace::Scope::new_session)), here and for its runs.
    #[cfg(feature = "run")]
    #[must_use]
    pub fn artifacts(self, artifacts: Artifacts) -> Self {
        self.with(|inner| inner.artifacts = Some(artifacts))
    }

    /// Makes the calls of this server end when `stop` is cancelled.
    #[cfg(feature = "http")]
    pub(crate) fn until(self, stop: CancellationToken) -> Self {
        self.with(|inner| inner.stop = stop)
    }

    /// Makes this a server for one request, which leaves its state for later requests in `carry_over`.
    #[cfg(feature = "http")]
    pub(crate) fn for_one_request(self, carry_over: CarryOver) -> Self {
        self.with(|inner| (inner.carry_over, inner.is_brief) = (carry_over, true))
    }

    /// Applies a change to this server, or to a copy if it is shared.
    #[cfg(any(feature = "http", feature = "run"))]
    fn with(self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = Arc::try_unwrap(self.0).unwrap_or_else(|shared| shared.copy());
        change(&mut inner);
        Self(Arc::new(inner))
    }

    /// The skills that the Skills extension does not serve, and why: they violate the specification, or exceed
    /// [`MAX_SERVED_FILES`](crate::MAX_SERVED_FILES) or [`MAX_SERVED_BYTES`](crate::MAX_SERVED_BYTES).
    pub async fn unserved(&self) -> Vec<Unserved> {
        self.blocking(|session| Publication::of(session).unserved()).await.unwrap_or_default()
    }

    /// The session, with the current skills.
    pub(crate) async fn session(&self) -> &SkillSession {
        // Other requests wait meanwhile, so that none uses a skill that was removed.
        let mut seen = self.0.seen.lock().await;
        let catalog = self.0.live.catalog();
        if !seen.is_same(&catalog) {
            self.0.session.refresh(&catalog).await;
            *seen = catalog;
        }
        &self.0.session
    }

    pub(crate) fn waiting(&self) -> &ElicitedQuestions {
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
    pub(crate) fn client_artifacts(&self) -> Option<&Artifacts> {
        self.0.artifacts.as_ref()
    }

    /// Whether this server handles one request only.
    pub(crate) fn is_brief(&self) -> bool {
        self.0.is_brief
    }

    /// Is cancelled when the calls have to end.
    pub(crate) fn stop(&self) -> &CancellationToken {
        &self.0.stop
    }

    /// Notes that the client will send nothing more. This ends subscriptions.
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
        Changes {
            versions,
            new_outputs: self.0.new_outputs.subscribe(),
            ended: self.0.ended.subscribe(),
            told,
        }
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
    async fn a_shared_server_is_copied_for_a_change_and_loses_nothing() {
        let session = SkillSession::builder(Catalog::empty()).build().await;
        let server = SkillServer::new(LiveSkills::new(Catalog::empty()), session);
        let brief = server.for_one_request(CarryOver::default());
        let (held, stop) = (brief.clone(), CancellationToken::new());
        let changed = brief.until(stop.clone());
        assert!(changed.is_brief());
        assert!(std::ptr::eq(changed.waiting(), held.waiting()));
        stop.cancel();
        assert!(changed.stop().is_cancelled() && !held.stop().is_cancelled());
        let again = changed.clone().for_one_request(CarryOver::default());
        assert!(again.stop().is_cancelled(), "it ends with the server that it was copied from");
    }
}
