//! The requests of the protocol, as `rmcp` hands them to a [`SkillServer`].

use std::collections::BTreeMap;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, GetPromptRequestParams,
    GetPromptResponse, Implementation, JsonObject, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, SubscriptionFilter,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::json;

use crate::answer_size::bounded;
use crate::server::SkillServer;
use crate::skills_extension::SKILLS_EXTENSION;
use crate::{prompts, resources};

/// Refuses a cursor: the whole list is on the first page.
fn only_page(request: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match request.and_then(|request| request.cursor) {
        None => Ok(()),
        Some(_) => Err(ErrorData::invalid_params(
            "There is no such page; ask for the list again without a cursor",
            None,
        )),
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
        let overview = self.overview();
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
        let _unanswered = self.unanswered_calls().begin()?;
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
        let _unanswered = self.unanswered_calls().begin()?;
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
        let _unanswered = self.unanswered_calls().begin()?;
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
        let _unanswered = self.unanswered_calls().begin()?;
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
        let _unanswered = self.unanswered_calls().begin()?;
        bounded(self.extension(request).await?)
    }

    /// Clients of older revisions hear of every change; they need not subscribe.
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.changes().notify(&context.peer).await;
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut accepted = requested.clone();
        accepted.resource_subscriptions = None;
        Some(accepted)
    }

    /// Clients of the newest revision hear of the changes that they subscribed to.
    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.changes().notify_subscriber(&context).await;
        Ok(())
    }
}
