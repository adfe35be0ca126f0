//! The least that a tool can be: a bare `rmcp` server whose one tool answers with its argument.

use std::sync::Arc;

use anyhow::Result;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use prowess_mcp::rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, JsonObject, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use prowess_mcp::rmcp::service::RequestContext;
use prowess_mcp::rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use prowess_mcp::rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService, stdio};
use prowess_mcp::rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt as _};
use tokio::net::TcpListener;

#[derive(Clone)]
struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tool = Tool::new("echo", "Answers with its argument.", Arc::new(JsonObject::new()));
        Ok(ListToolsResult::with_all_items(vec![tool]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = request.arguments.as_ref().and_then(|given| given.get("text")?.as_str());
        Ok(CallToolResult::success(vec![ContentBlock::text(text.unwrap_or_default())]).into())
    }
}

/// Serves it on standard input and output.
pub(crate) async fn on_stdio() -> Result<()> {
    Echo.serve(stdio()).await?.waiting().await?;
    Ok(())
}

/// Serves it over HTTP, without a guard, once `begun` was told where.
pub(crate) async fn over_http(begun: impl FnOnce(String) -> Result<()>) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    begun(format!("serving at http://{}/mcp", listener.local_addr()?))?;
    let config = StreamableHttpServerConfig::default().with_json_response(true);
    let service = StreamableHttpService::new(|| Ok(Echo), Arc::new(LocalSessionManager::default()), config);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}
