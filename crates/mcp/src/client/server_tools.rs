//! The middleware that gives the tools of servers to an agent.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::future::join_all;
use prowess_agent::middleware::MiddlewareError;
use prowess_agent::middleware::Skills;
use prowess_agent::model::ToolDefinition;
use prowess_agent::tool::ToolKind;
use prowess_agent::{
    Middleware, MiddlewareAction, MiddlewareContext, Tool, ToolAnswer, ToolContext, ToolOutput,
};
use prowess_permission::{Action, Granted, Kind, Permissions, Question, owned_subject};
use prowess_skills::allowed_tools::{CheckedCall, ToolVerdict};
use rmcp::model::JsonObject;
use serde_json::Value;
use tokio::sync::Mutex;

use super::label::ServerLabel;
use super::server::Server;
use super::servers::Servers;
use super::tool_answer;
use super::tool_list::ServerTool;

const NAME: &str = "server_tools";
/// When a server that did not answer is asked for its tools again.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// The tools of all servers, as middleware of an agent. A model calls them `label__tool`.
///
/// Each call passes the rules of kind `mcp`. Their subject is the server's label and the server's name for the tool, such as
/// `docs search`. If no rule decides, a person is asked, and the call waits in the thread. An approval is bound to the
/// server's description of the tool. If the description changes before the reply, the person is asked again.
///
/// ```
/// use std::sync::Arc;
/// use prowess_agent::{Agent, NoWatcher, ThreadId};
/// use prowess_mcp::client::{ServerTools, Servers};
/// use prowess_models::{Scripted, ScriptedTurn};
/// use prowess_permission::{Decision, RuleSource, Permissions, Policy, Rule};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (servers, _) = Servers::connect([], None).await;
/// let rules = [Rule::new("mcp", "docs search", Decision::Allow)]; // a person is asked about all others
/// let permissions = Permissions::unattended(Policy::new().rules(RuleSource::User, rules));
/// let model = Arc::new(Scripted::new([ScriptedTurn::new().say("Hello.")]));
/// let agent = Agent::builder(model).middleware(ServerTools::new(servers, permissions)).build()?;
/// agent.open(ThreadId::new()).await?.say("Hi.", &NoWatcher).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ServerTools {
    shared: Arc<Shared>,
    permissions: Permissions,
}

/// What agents with different permissions share.
struct Shared {
    servers: Arc<Servers>,
    known: RwLock<BTreeMap<ServerLabel, KnownTools>>,
    /// Held while servers are asked for their tools.
    asking: Mutex<()>,
}

/// The known tools of one server.
#[derive(Default)]
struct KnownTools {
    remotes: Vec<Arc<RemoteTool>>,
    /// The server's count of changes when it was last asked.
    version: Option<u64>,
    /// When it last failed to answer, if it has not answered since.
    failed: Option<Instant>,
}

/// One tool of a server.
struct RemoteTool {
    server: Arc<Server>,
    /// The definition for the model.
    definition: Arc<ToolDefinition>,
    tool: ServerTool,
}

/// A tool that a model can call.
struct CallableTool {
    tools: ServerTools,
    remote: Arc<RemoteTool>,
}

impl ServerTools {
    /// The tools of these servers, guarded by these permissions.
    pub fn new(servers: Arc<Servers>, permissions: Permissions) -> Self {
        let (known, asking) = (RwLock::default(), Mutex::default());
        Self { shared: Arc::new(Shared { servers, known, asking }), permissions }
    }

    /// The same tools for another agent, guarded by other permissions.
    #[must_use]
    pub fn permissions(mut self, permissions: Permissions) -> Self {
        self.permissions = permissions;
        self
    }

    /// Asks all servers that announced changes for their tools, at the same time. A server that does not answer keeps its
    /// known tools, and is asked again later. Logs the tools that are left out.
    async fn refresh(&self) {
        let _asking = self.shared.asking.lock().await;
        let changed = self.shared.servers.all().filter_map(|server| {
            let version = *server.changes().borrow();
            (!server.is_gone() && self.is_due(server, version)).then_some((server, version))
        });
        let asked = changed.map(|(server, version)| async move { (server, version, server.tools().await) });
        for (server, version, listed) in join_all(asked).await {
            let remotes = match listed {
                Ok(list) => {
                    for left_out in &list.left_out {
                        tracing::warn!(server = %server.label(), "A tool of the server is left out: {left_out}");
                    }
                    let remote = |tool| Arc::new(RemoteTool::new(Arc::clone(server), tool));
                    Some(list.tools.into_iter().map(remote).collect())
                }
                Err(error) => {
                    tracing::warn!(%error, "Cannot list a server's tools");
                    None
                }
            };
            let mut known = self.shared.known.write().unwrap_or_else(PoisonError::into_inner);
            let known = known.entry(server.label().clone()).or_default();
            known.version = Some(version);
            known.failed = remotes.is_none().then(Instant::now);
            known.remotes = remotes.unwrap_or_else(|| std::mem::take(&mut known.remotes));
        }
    }

    /// Whether a server at this version must be asked.
    fn is_due(&self, server: &Server, version: u64) -> bool {
        let known = self.shared.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(server.label()).is_none_or(|known| {
            known.version != Some(version) || known.failed.is_some_and(|failed| failed.elapsed() > ASK_AGAIN)
        })
    }

    fn known(&self) -> Vec<Arc<RemoteTool>> {
        let known = self.shared.known.read().unwrap_or_else(PoisonError::into_inner);
        known.values().flat_map(|known| &known.remotes).cloned().collect()
    }

    /// The current tool with this name.
    async fn current(&self, name: &str) -> Option<Arc<RemoteTool>> {
        self.refresh().await;
        self.known().into_iter().find(|remote| remote.tool.name == name)
    }
}

impl RemoteTool {
    fn new(server: Arc<Server>, tool: ServerTool) -> Self {
        let ServerTool { name, description, parameters, .. } = &tool;
        let description =
            format!("[A tool of the MCP server `{}`, as it says:] {description}", server.label());
        let definition = ToolDefinition::new(name, description, parameters.clone());
        Self { server, definition: Arc::new(definition), tool }
    }

    fn subject(&self) -> String {
        owned_subject(self.server.label().as_str(), &self.tool.their_name)
    }

    /// The loaded skill that preapproves the tool.
    fn preapproving_skill(&self, context: MiddlewareContext<'_>) -> Option<String> {
        let call = CheckedCall::new(&self.tool.name);
        match Skills::at(context)?.check_tool(call) {
            ToolVerdict::Preapproved { skill } => Some(skill),
            _ => None,
        }
    }

    /// The question about a call. It is asked each time while a server's skill influences the model.
    fn question(&self, arguments: &JsonObject, context: MiddlewareContext<'_>) -> Question {
        let because_of =
            Skills::at(context).map(|skills| skills.server_skills_in_context()).unwrap_or_default();
        let is_led = !because_of.is_empty();
        let action = Action::CallServerTool {
            server: self.server.label().as_str().to_owned(),
            tool: self.tool.their_name.clone(),
            description: self.tool.description.clone(),
            arguments: arguments.clone(),
            because_of,
        };
        let question =
            Question::new(Kind::MCP, self.subject()).binding(self.tool.digest().to_string()).action(action);
        if is_led { question.each_time() } else { question }
    }
}

#[async_trait]
impl Middleware for ServerTools {
    fn name(&self) -> &str {
        NAME
    }

    async fn before_agent(&self, _: MiddlewareContext<'_>) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        self.refresh().await;
        Ok(Vec::new())
    }

    async fn before_model(&self, _: MiddlewareContext<'_>) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        self.refresh().await;
        Ok(Vec::new())
    }

    fn tools(&self, _: MiddlewareContext<'_>) -> Vec<Arc<dyn Tool>> {
        let is_shown = |remote: &Arc<RemoteTool>| {
            !self.permissions.is_denied(&Kind::MCP, &remote.subject()) && !remote.server.is_gone()
        };
        let callable = |remote| Arc::new(CallableTool { tools: self.clone(), remote }) as Arc<dyn Tool>;
        self.known().into_iter().filter(is_shown).map(callable).collect()
    }
}

#[async_trait]
impl Tool for CallableTool {
    fn definition(&self) -> Arc<ToolDefinition> {
        Arc::clone(&self.remote.definition)
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Server
    }

    fn server(&self) -> Option<&str> {
        Some(self.remote.server.label().as_str())
    }

    fn timeout(&self) -> Duration {
        // The server's own limit ends the call first, with a better message.
        self.remote.server.limits().tool.saturating_add(Duration::from_secs(5))
    }

    async fn call(&self, arguments: Value, context: ToolContext<'_>) -> ToolOutput {
        let Value::Object(arguments) = arguments else {
            return ToolAnswer::error("Error: the arguments must be an object.").into();
        };
        // The server may have changed the tool since the person was asked.
        let Some(remote) = self.tools.current(&self.remote.tool.name).await else {
            let gone = format!("Error: the server no longer has the tool `{}`.", self.remote.tool.name);
            return ToolAnswer::error(gone).into();
        };
        let question = remote.question(&arguments, context.middleware());
        let permissions = &self.tools.permissions;
        let mut preapproved_by = remote.preapproving_skill(context.middleware());
        let passed = match preapproved_by {
            Some(_) => context.pass_preapproved(permissions, question).await,
            None => context.pass(permissions, question).await,
        };
        match passed.map(|grant| grant.how()) {
            Ok(Granted::Preapproved) => {}
            Ok(_) => preapproved_by = None,
            Err(output) => return output,
        }
        let (server, tool) = (&remote.server, &remote.tool.their_name);
        match server.call_tool(tool, arguments).await {
            Ok(result) => {
                tool_answer::framed(server.label(), tool, result).preapproved_by(preapproved_by).into()
            }
            Err(error) => ToolAnswer::error(format!("Error: {error}")).into(),
        }
    }
}

impl fmt::Debug for ServerTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTools").field("servers", &self.shared.servers).finish_non_exhaustive()
    }
}

impl fmt::Debug for CallableTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallableTool").field("tool", &self.remote.tool.name).finish_non_exhaustive()
    }
}
