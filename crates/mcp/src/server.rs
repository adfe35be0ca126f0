//! One client's server.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prowess_catalog::Catalog;
use prowess_skills::options::Placement;
use prowess_skills::{Dialect, Lifetime, SessionOptions, SkillSession};
#[cfg(feature = "run")]
use prowess_workspace::{ArtifactName, ArtifactStore as _, Artifacts};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorCode, GetPromptRequestParams,
    GetPromptResponse, Implementation, JsonObject, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, SubscriptionFilter,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::json;
use tokio::sync::{Mutex, Semaphore, SemaphorePermit, watch};
use tokio_util::sync::CancellationToken;

use crate::answer_size::bounded;
use crate::carry_over::CarryOver;
use crate::consent::Waiting;
use crate::live::{LiveSkills, Version};
use crate::outputs::{Outputs, Whose};
use crate::skills_extension::{Publication, SKILLS_EXTENSION, Unserved};
use crate::{prompts, resources};

/// How often it is looked whether a client is still there that hears of changes.
const LOOK_FOR_PEER: Duration = Duration::from_secs(5);
/// How many calls of one client may run or wait for an answer at once.
const MAX_CALLS: usize = 64;
/// What a client hears that makes more.
const TOO_MANY: ErrorCode = ErrorCode(-32000);

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
    /// Room for calls.
    calls: Semaphore,
    /// Ends the calls that run.
    stop: CancellationToken,
    /// How often there were new outputs.
    put_out: watch::Sender<u64>,
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
            calls: Semaphore::new(MAX_CALLS),
            stop: CancellationToken::new(),
            put_out: watch::Sender::new(0),
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

    pub(crate) fn waiting(&self) -> &Waiting {
        &self.0.carry_over.waiting
    }

    pub(crate) fn outputs(&self) -> &Outputs {
        &self.0.carry_over.outputs
    }

    pub(crate) fn outputs_changed(&self) {
        self.0.put_out.send_modify(|times| *times += 1);
    }

    /// Whether nothing that the session knows lasts.
    pub(crate) fn is_brief(&self) -> bool {
        self.0.is_brief
    }

    /// Is cancelled when calls have to end.
    pub(crate) fn stop(&self) -> &CancellationToken {
        &self.0.stop
    }

    /// Room for a call.
    fn room(&self) -> Result<SemaphorePermit<'_>, ErrorData> {
        let too_many = |_| ErrorData::new(TOO_MANY, format!("More than {MAX_CALLS} calls at once"), None);
        self.0.calls.try_acquire().map_err(too_many)
    }

    /// Notes that the client will say nothing more: what only listens ends.
    pub(crate) fn end(&self) {
        self.0.ended.send_replace(true);
    }

    /// The scope that commands of this client save artifacts in.
    #[cfg(feature = "run")]
    pub(crate) fn scope(&self) -> Option<&Whose> {
        self.0.artifacts.as_ref().map(Artifacts::scope)
    }

    #[cfg(not(feature = "run"))]
    pub(crate) fn scope(&self) -> Option<&Whose> {
        None
    }

    /// The bytes of an artifact.
    #[cfg(feature = "run")]
    pub(crate) async fn artifact(
        &self,
        scope: Option<Whose>,
        name: &str,
        version: u64,
    ) -> Result<Vec<u8>, String> {
        let store = self.0.artifacts.as_ref().ok_or("there is no store of artifacts")?;
        let store = scope.map_or_else(|| store.clone(), |scope| store.in_scope(scope));
        let name = ArtifactName::parse(name).map_err(|error| error.to_string())?;
        let size = store.size(&name, version).await.map_err(|error| error.to_string())?;
        if size > crate::answer_size::MAX_FILE {
            let scope = store.scope();
            return Err(format!(
                "{name} has {size} bytes, and an answer holds {} of a file; on the server's machine \
                 `prowess artifacts get {name}@{version} --scope {scope}` gets it",
                crate::answer_size::MAX_FILE
            ));
        }
        let loaded = store.load(&name, Some(version)).await.map_err(|error| error.to_string())?;
        Ok(loaded.bytes.to_vec())
    }

    #[cfg(not(feature = "run"))]
    #[expect(clippy::unused_async, reason = "with runs there is something to wait for")]
    pub(crate) async fn artifact(&self, _: Option<Whose>, _: &str, _: u64) -> Result<Vec<u8>, String> {
        Err("there is no store of artifacts".to_owned())
    }

    /// What a client should hear of, from the server's beginning on: what changed before it listened is told at once.
    fn changes(&self) -> Changes {
        let mut versions = self.0.live.versions();
        let told = self.0.begun;
        if *versions.borrow_and_update() != told {
            versions.mark_changed();
        }
        Changes { versions, put_out: self.0.put_out.subscribe(), ended: self.0.ended.subscribe(), told }
    }
}

/// What a client has still to be told.
struct Changes {
    versions: watch::Receiver<Version>,
    put_out: watch::Receiver<u64>,
    ended: watch::Receiver<bool>,
    told: Version,
}

impl Changes {
    /// Whether skills are others, when something is; `None` when nothing will change any more.
    async fn next(&mut self) -> Option<bool> {
        tokio::select! {
            biased;
            _ = self.ended.wait_for(|ended| *ended) => None,
            changed = self.versions.changed() => {
                changed.ok()?;
                let version = *self.versions.borrow_and_update();
                let before = std::mem::replace(&mut self.told, version);
                Some(version.skills != before.skills)
            }
            changed = self.put_out.changed() => {
                changed.ok()?;
                Some(false)
            }
        }
    }
}

/// A list that is given whole has no second page.
fn only_page(request: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match request.and_then(|request| request.cursor) {
        None => Ok(()),
        Some(_) => Err(ErrorData::invalid_params("There is no such page", None)),
    }
}

impl ServerHandler for SkillServer {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::builder()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        let settings: JsonObject = [("directoryRead".to_owned(), json!(true))].into_iter().collect();
        capabilities.extensions = Some(BTreeMap::from([(SKILLS_EXTENSION.to_owned(), settings)]));
        let implementation =
            Implementation::new("prowess", env!("CARGO_PKG_VERSION")).with_title("Agent Skills");
        let info = ServerConfig::new(capabilities).with_server_info(implementation);
        let overview = self.0.live.overview(&self.0.session);
        if overview.is_empty() { info } else { info.with_instructions(overview) }
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        only_page(request)?;
        Ok(ListToolsResult::with_all_items(self.tools().await))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let _room = self.room()?;
        match self.call(request, &context).await? {
            CallToolResponse::Complete(result) => bounded(result).map(Into::into),
            asks => Ok(asks),
        }
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        only_page(request)?;
        Ok(ListPromptsResult::with_all_items(prompts::list(self.session().await)))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let _room = self.room()?;
        match self.prompt(request, &context).await? {
            GetPromptResponse::Complete(result) => bounded(result).map(Into::into),
            asks => Ok(asks),
        }
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let _room = self.room()?;
        bounded(self.resources(request.and_then(|request| request.cursor)).await?)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        only_page(request)?;
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let _room = self.room()?;
        match self.read(request, &context).await? {
            ReadResourceResponse::Complete(result) => bounded(result).map(Into::into),
            asks => Ok(asks),
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let _room = self.room()?;
        bounded(self.extension(request).await?)
    }

    /// Tells clients of older revisions, who need not ask for it.
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let mut changes = self.changes();
        let peer = context.peer;
        loop {
            let next = tokio::time::timeout(LOOK_FOR_PEER, changes.next()).await;
            let has_other_skills = match next {
                Ok(Some(has_other_skills)) => has_other_skills,
                Err(_) if !peer.is_transport_closed() => continue,
                Ok(None) | Err(_) => return,
            };
            let mut told = peer.notify_resource_list_changed().await;
            if has_other_skills && told.is_ok() {
                told = peer.notify_tool_list_changed().await.and(peer.notify_prompt_list_changed().await);
            }
            if told.is_err() {
                return;
            }
        }
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut accepted = requested.clone();
        accepted.resource_subscriptions = None;
        Some(accepted)
    }

    /// Tells clients of the newest revision what they asked to be told.
    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.changes();
        loop {
            let has_other_skills = tokio::select! {
                () = context.cancelled() => return Ok(()),
                next = changes.next() => match next {
                    Some(has_other_skills) => has_other_skills,
                    None => return Ok(()),
                },
            };
            let (sink, accepted) = (context.sink(), context.accepted());
            // A client that is gone is seen in the next round.
            if accepted.resources_list_changed == Some(true) {
                let _ = sink.notify_resource_list_changed().await;
            }
            if has_other_skills && accepted.tools_list_changed == Some(true) {
                let _ = sink.notify_tool_list_changed().await;
            }
            if has_other_skills && accepted.prompts_list_changed == Some(true) {
                let _ = sink.notify_prompt_list_changed().await;
            }
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
