//! Tools of servers as a part of an agent.

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
use prowess_permission::{Action, Kind, Permissions, Question, owned_subject};
use prowess_skills::allowed_tools::{ToolCall, ToolVerdict};
use rmcp::model::JsonObject;
use serde_json::Value;
use tokio::sync::Mutex;

use super::label::ServerLabel;
use super::server::Server;
use super::servers::Servers;
use super::tool_answer;
use super::tools::ServerTool;

const NAME: &str = "server_tools";
/// When a server is asked for its tools again that was asked in vain.
const AGAIN: Duration = Duration::from_secs(60);

/// The tools of all servers, as a part of an agent. A model calls them `label__tool`.
///
/// Each call passes the rules of kind `mcp`, whose subject is our label for the server and its name for the tool, such
/// as `docs search`; what no rule settles is asked, and waits in the thread. An approval is for the tool as the server
/// described it when somebody was asked: one that is described otherwise by the time of the reply is asked about anew.
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
/// let rules = [Rule::new("mcp", "docs search", Decision::Allow)]; // all others are asked about
/// let permissions = Permissions::unattended(Policy::new().with(RuleSource::User, rules));
/// let model = Arc::new(Scripted::new([ScriptedTurn::new().say("Hello.")]));
/// let agent = Agent::builder(model).with(ServerTools::new(servers, permissions)).build()?;
/// agent.open(ThreadId::new()).await?.say("Hi.", &NoWatcher).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ServerTools(Arc<Inner>);

struct Inner {
    servers: Arc<Servers>,
    permissions: Permissions,
    known: RwLock<BTreeMap<ServerLabel, Known>>,
    /// Held by whoever asks servers for their tools.
    asking: Mutex<()>,
}

/// What is known of one server's tools.
#[derive(Default)]
struct Known {
    remotes: Vec<Arc<Remote>>,
    /// What the server had said of changes when it was last asked.
    version: Option<u64>,
    /// When it was asked in vain, since it last answered.
    failed: Option<Instant>,
}

/// One tool, at its server.
struct Remote {
    server: Arc<Server>,
    /// What a model is told of it.
    definition: Arc<ToolDefinition>,
    tool: ServerTool,
}

/// A tool, as a model calls it.
struct Callable {
    tools: ServerTools,
    remote: Arc<Remote>,
}

impl ServerTools {
    /// The tools of these servers, called when these permissions let it pass.
    pub fn new(servers: Arc<Servers>, permissions: Permissions) -> Self {
        let (known, asking) = (RwLock::default(), Mutex::default());
        Self(Arc::new(Inner { servers, permissions, known, asking }))
    }

    /// Asks those servers for their tools, all at once, that said that they are others now. One that does not answer
    /// keeps those it had, and is asked again in a while. What is left out is logged.
    async fn refresh(&self) {
        let _asking = self.0.asking.lock().await;
        let changed = self.0.servers.all().filter_map(|server| {
            let version = *server.changes().borrow();
            (!server.is_gone() && self.is_due(server, version)).then_some((server, version))
        });
        let asked = changed.map(|(server, version)| async move { (server, version, server.tools().await) });
        for (server, version, listed) in join_all(asked).await {
            let remotes = match listed {
                Ok(list) => {
                    for left_out in &list.left_out {
                        tracing::warn!(server = %server.label(), "A tool is left out: {left_out}");
                    }
                    let remote = |tool| Arc::new(Remote::new(Arc::clone(server), tool));
                    Some(list.tools.into_iter().map(remote).collect())
                }
                Err(error) => {
                    tracing::warn!(%error, "A server's tools cannot be had");
                    None
                }
            };
            let mut known = self.0.known.write().unwrap_or_else(PoisonError::into_inner);
            let known = known.entry(server.label().clone()).or_default();
            known.version = Some(version);
            known.failed = remotes.is_none().then(Instant::now);
            known.remotes = remotes.unwrap_or_else(|| std::mem::take(&mut known.remotes));
        }
    }

    /// Whether a server that is at this version has to be asked.
    fn is_due(&self, server: &Server, version: u64) -> bool {
        let known = self.0.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(server.label()).is_none_or(|known| {
            known.version != Some(version) || known.failed.is_some_and(|failed| failed.elapsed() > AGAIN)
        })
    }

    fn known(&self) -> Vec<Arc<Remote>> {
        let known = self.0.known.read().unwrap_or_else(PoisonError::into_inner);
        known.values().flat_map(|known| &known.remotes).cloned().collect()
    }

    /// The tool that has this name now.
    async fn current(&self, name: &str) -> Option<Arc<Remote>> {
        self.refresh().await;
        self.known().into_iter().find(|remote| remote.tool.name == name)
    }
}

impl Remote {
    fn new(server: Arc<Server>, tool: ServerTool) -> Self {
        let ServerTool { name, description, parameters, .. } = &tool;
        let description =
            format!("[A tool of the MCP server `{}`, as it says:] {description}", server.label());
        let definition = ToolDefinition { name: name.clone(), description, parameters: parameters.clone() };
        Self { server, definition: Arc::new(definition), tool }
    }

    fn subject(&self) -> String {
        owned_subject(self.server.label().as_str(), &self.tool.their_name)
    }

    /// Whether a loaded skill that may do so has approved it in advance.
    fn is_listed(&self, moment: MiddlewareContext<'_>) -> bool {
        let call = ToolCall { name: &self.tool.name, argument: None };
        let verdict = Skills::at(moment).map(|skills| skills.check_tool(call));
        matches!(verdict, Some(ToolVerdict::Preapproved { .. }))
    }

    /// What is asked about a call. While the model has words of a server's skill, it is asked each time.
    fn question(&self, arguments: &JsonObject, moment: MiddlewareContext<'_>) -> Question {
        let because_of = Skills::at(moment).map(|skills| skills.server_skills_in_context()).unwrap_or_default();
        let is_led = !because_of.is_empty();
        let deed = Action::CallServerTool {
            server: self.server.label().as_str().to_owned(),
            tool: self.tool.their_name.clone(),
            description: self.tool.description.clone(),
            arguments: arguments.clone(),
            because_of,
        };
        let question =
            Question::new(Kind::MCP, self.subject()).bound_to(self.tool.digest().to_string()).to(deed);
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
        let is_shown = |remote: &Arc<Remote>| {
            !self.0.permissions.is_denied(&Kind::MCP, &remote.subject()) && !remote.server.is_gone()
        };
        let callable = |remote| Arc::new(Callable { tools: self.clone(), remote }) as Arc<dyn Tool>;
        self.known().into_iter().filter(is_shown).map(callable).collect()
    }
}

#[async_trait]
impl Tool for Callable {
    fn definition(&self) -> Arc<ToolDefinition> {
        Arc::clone(&self.remote.definition)
    }

    fn act(&self) -> ToolKind {
        ToolKind::Server
    }

    fn timeout(&self) -> Duration {
        // The server's own limit comes first, and says more.
        self.remote.server.limits().tool.saturating_add(Duration::from_secs(5))
    }

    async fn call(&self, arguments: Value, context: ToolContext<'_>) -> ToolOutput {
        let Value::Object(arguments) = arguments else {
            return ToolAnswer::error("Error: the arguments are no object.").into();
        };
        // What was let pass is what the server said when somebody was asked. By now it may say something else.
        let Some(remote) = self.tools.current(&self.remote.tool.name).await else {
            let gone = format!("Error: its server has no `{}` any more.", self.remote.tool.name);
            return ToolAnswer::error(gone).into();
        };
        let question = remote.question(&arguments, context.moment());
        let permissions = &self.tools.0.permissions;
        let is_preapproved =
            remote.is_listed(context.moment()) && permissions.request_preapproved(&question).is_ok();
        if !is_preapproved && let Err(output) = context.pass(permissions, question).await {
            return output;
        }
        let (server, tool) = (&remote.server, &remote.tool.their_name);
        match server.call_tool(tool, arguments).await {
            Ok(result) => tool_answer::framed(server.label(), tool, result).into(),
            Err(error) => ToolAnswer::error(format!("Error: {error}")).into(),
        }
    }
}

impl fmt::Debug for ServerTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTools").field("servers", &self.0.servers).finish_non_exhaustive()
    }
}

impl fmt::Debug for Callable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callable").field("tool", &self.remote.tool.name).finish_non_exhaustive()
    }
}
