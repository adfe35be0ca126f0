//! Tools of servers as a part of an agent.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use prowess_agent::parts::Skills;
use prowess_agent::{
    Act, Effect, Middleware, Moment, NextTool, Tool, ToolAnswer, ToolContext, ToolDefinition, ToolOutput,
};
use prowess_permission::{Decision, Kind, Permissions, Request};
use prowess_skills::SkillSession;
use serde_json::{Value, json};

use super::server::Server;
use super::servers::Servers;
use super::tool_answer;
use super::tools::ServerTool;

const NAME: &str = "server_tools";

/// The tools of all servers, as a part of an agent. A model calls them `label__tool`.
///
/// Each call passes the rules of kind `mcp`, whose subject is our label for the server and its name for the tool, such
/// as `docs search`; what no rule settles is asked, and waits in the thread. An approval that is remembered is for the
/// tool as the server described it when it was given.
///
/// ```
/// use std::sync::Arc;
/// use prowess_agent::{Agent, NoWatcher, ThreadId};
/// use prowess_mcp::host::{ServerTools, Servers};
/// use prowess_models::{Scripted, Turn};
/// use prowess_permission::{Decision, Layer, Permissions, Policy, Rule};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (servers, _) = Servers::connect([], None).await;
/// let rules = [Rule::new("mcp", "docs search", Decision::Allow)]; // all others are asked about
/// let permissions = Permissions::unattended(Policy::new().with(Layer::User, rules));
/// let model = Arc::new(Scripted::new([Turn::new().say("Hello.")]));
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
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    tools: Vec<Arc<Remote>>,
    /// What the servers had said of changes when they were asked.
    at: Option<Vec<u64>>,
}

/// One tool, at its server.
struct Remote {
    server: Arc<Server>,
    tool: ServerTool,
}

impl ServerTools {
    /// The tools of these servers, called when these permissions let it pass.
    pub fn new(servers: Arc<Servers>, permissions: Permissions) -> Self {
        Self(Arc::new(Inner { servers, permissions, known: RwLock::default() }))
    }

    /// Asks the servers for their tools, unless none of them said that they are others now. What is left out is logged.
    async fn refresh(&self) {
        let now = self.0.servers.versions();
        if self.0.known.read().unwrap_or_else(PoisonError::into_inner).at.as_ref() == Some(&now) {
            return;
        }
        let mut tools = Vec::new();
        for server in self.0.servers.all() {
            match server.tools().await {
                Ok(list) => {
                    for left_out in &list.left_out {
                        tracing::warn!(server = %server.label(), "A tool is left out: {left_out}");
                    }
                    let remote = |tool| Arc::new(Remote { server: Arc::clone(server), tool });
                    tools.extend(list.tools.into_iter().map(remote));
                }
                Err(error) => tracing::warn!(%error, "A server's tools cannot be had"),
            }
        }
        *self.0.known.write().unwrap_or_else(PoisonError::into_inner) = Known { tools, at: Some(now) };
    }

    fn known(&self) -> Vec<Arc<Remote>> {
        self.0.known.read().unwrap_or_else(PoisonError::into_inner).tools.clone()
    }

    fn find(&self, name: &str) -> Option<Arc<Remote>> {
        self.known().into_iter().find(|remote| remote.tool.name == name)
    }

    fn decide(&self, remote: &Remote, moment: Moment<'_>) -> Decision {
        self.0.permissions.decide(&remote.request(moment)).decision
    }
}

impl Remote {
    fn subject(&self) -> String {
        format!("{} {}", self.server.label(), self.tool.their_name)
    }

    /// What is asked about a call. While the model has words of a server's skill, it is asked each time.
    fn request(&self, moment: Moment<'_>) -> Request {
        let (server, tool) = (self.server.label(), &self.tool.their_name);
        let at_work = Skills::session(moment).map(SkillSession::servers_at_work).unwrap_or_default();
        let request = Request::new(Kind::MCP, self.subject())
            .bound_to(self.tool.digest().to_string())
            .titled(format!("call `{tool}` of the MCP server `{server}`"));
        if at_work.is_empty() {
            return request;
        }
        request.with_details(json!({"mcp_skills_at_work": at_work})).each_time()
    }

    fn denied(&self) -> String {
        format!("Error: `{}` is denied by the rules of this agent.", self.tool.name)
    }
}

#[async_trait]
impl Middleware for ServerTools {
    fn name(&self) -> &str {
        NAME
    }

    async fn before_agent(&self, _: Moment<'_>) -> Result<Vec<Act>, String> {
        self.refresh().await;
        Ok(Vec::new())
    }

    async fn before_model(&self, _: Moment<'_>) -> Result<Vec<Act>, String> {
        self.refresh().await;
        Ok(Vec::new())
    }

    fn tools(&self, _: Moment<'_>) -> Vec<Arc<dyn Tool>> {
        let is_shown = |remote: &Arc<Remote>| {
            !self.0.permissions.is_denied(&Kind::MCP, &remote.subject()) && !remote.server.is_gone()
        };
        self.known().into_iter().filter(is_shown).map(|remote| remote as Arc<dyn Tool>).collect()
    }

    async fn after_model(&self, moment: Moment<'_>) -> Result<Vec<Act>, String> {
        let Effect::CallTools(calls) = moment.run.next() else { return Ok(Vec::new()) };
        let open = calls.into_iter().filter(|call| !call.approved);
        let ours = open.filter_map(|call| Some((self.find(&call.call.name)?, call.call)));
        Ok(ours
            .filter_map(|(remote, call)| match self.decide(&remote, moment) {
                Decision::Allow => None,
                Decision::Ask => {
                    let request = remote.request(moment);
                    let question = json!({
                        "title": request.title,
                        "kind": request.kind,
                        "subjects": request.patterns,
                        "details": request.details,
                        "server": remote.server.label().as_str(),
                        "arguments": call.arguments,
                        "request": request,
                    });
                    Some(Act::Ask { call: call.id, question })
                }
                Decision::Deny => Some(Act::Answer { call: call.id, text: remote.denied(), is_error: true }),
            })
            .collect())
    }

    async fn wrap_tool_call(&self, moment: Moment<'_>, next: NextTool<'_>) -> ToolOutput {
        let Some(remote) = self.find(&next.call.name) else { return next.call().await };
        // The rules may have changed while the call waited: a denial stands over every reply.
        match self.decide(&remote, moment) {
            Decision::Deny => ToolAnswer::error(remote.denied()).into(),
            Decision::Ask if !next.approved => {
                ToolAnswer::error(format!("Error: nobody let `{}` pass.", remote.tool.name)).into()
            }
            Decision::Ask if next.always => {
                let request = remote.request(moment);
                if let Err(error) = self.0.permissions.broker().remember(&request).await {
                    tracing::warn!(%error, "What was allowed for good is remembered for now alone");
                }
                next.call().await
            }
            Decision::Ask | Decision::Allow => next.call().await,
        }
    }
}

#[async_trait]
impl Tool for Remote {
    fn definition(&self) -> ToolDefinition {
        let ServerTool { name, description, parameters, .. } = &self.tool;
        let description =
            format!("[A tool of the MCP server `{}`, as it says:] {description}", self.server.label());
        ToolDefinition { name: name.clone(), description, parameters: parameters.clone() }
    }

    fn timeout(&self) -> std::time::Duration {
        // The server's own limit comes first, and says more.
        self.server.limits().tool.saturating_add(std::time::Duration::from_secs(5))
    }

    async fn call(&self, arguments: Value, _: ToolContext<'_>) -> ToolOutput {
        let Value::Object(arguments) = arguments else {
            return ToolAnswer::error("Error: the arguments are no object.").into();
        };
        match self.server.call_tool(&self.tool.their_name, arguments).await {
            Ok(result) => tool_answer::framed(self.server.label(), &self.tool.their_name, result).into(),
            Err(error) => ToolAnswer::error(format!("Error: {error}")).into(),
        }
    }
}

impl fmt::Debug for ServerTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTools").field("servers", &self.0.servers).finish_non_exhaustive()
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("tool", &self.tool.name).finish_non_exhaustive()
    }
}
