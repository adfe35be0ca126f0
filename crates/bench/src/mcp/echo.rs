//! The floor of a load: a bare `rmcp` server whose tool returns the answers of `prowess mcp`, recorded before.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use prowess_mcp::rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, JsonObject, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use prowess_mcp::rmcp::service::RequestContext;
use prowess_mcp::rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use prowess_mcp::rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService, stdio};
use prowess_mcp::rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt as _};
use tokio::net::TcpListener;

/// The answers of the tool, by the name of the skill.
#[derive(Clone)]
pub(crate) struct Echo(Arc<HashMap<String, CallToolResult>>);

impl Echo {
    /// Reads the answers from a file that [`super::latency`] wrote.
    pub(crate) fn of(answers: &Path) -> Result<Self> {
        let text = std::fs::read(answers).with_context(|| format!("could not read {}", answers.display()))?;
        Ok(Self(Arc::new(serde_json::from_slice(&text)?)))
    }
}

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tool = Tool::new("load_skill", "Answers what it always does.", Arc::new(JsonObject::new()));
        Ok(ListToolsResult::with_all_items(vec![tool]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.arguments.as_ref().and_then(|given| given.get("skill_name")?.as_str());
        let answer = name.and_then(|name| self.0.get(name)).cloned();
        Ok(answer.ok_or_else(|| ErrorData::invalid_params("no answer has that name", None))?.into())
    }
}

/// Serves on standard input and output.
pub(crate) async fn on_stdio(echo: Echo) -> Result<()> {
    echo.serve(stdio()).await?.waiting().await?;
    Ok(())
}

/// Serves over HTTP without a guard, and passes its address to `begun`.
pub(crate) async fn over_http(echo: Echo, begun: impl FnOnce(String) -> Result<()>) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    begun(format!("serving at http://{}/mcp", listener.local_addr()?))?;
    let config = StreamableHttpServerConfig::default().with_json_response(true);
    let service = StreamableHttpService::new(
        move || Ok(echo.clone()),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}
