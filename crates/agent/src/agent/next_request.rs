//! The request that the model would get now, from what all middleware add.

use super::AgentError;
use crate::middleware::contract::MiddlewareContext;
use crate::model::{ModelRequest, PromptSection};
use crate::thread_state::StateChange;
use crate::tool::Tools;

/// The next request to the model.
pub(crate) struct NextRequest {
    /// The request, before any middleware wraps the call.
    pub(crate) request: ModelRequest,
    /// The tools in it.
    pub(crate) tools: Tools,
    /// The state changes that make its prompt sections true.
    pub(crate) changes: Vec<StateChange>,
}

/// Makes the next request. Nothing is stored, so it can also be made for a state that the thread does not have yet.
///
/// Stable sections come first, so that providers can cache them.
pub(crate) async fn make(context: MiddlewareContext<'_>) -> Result<NextRequest, AgentError> {
    let (mut request, mut changes) = (ModelRequest::default(), Vec::new());
    let own = context.prompt.map(|text| PromptSection {
        owner: "agent".to_owned(),
        text: text.to_owned(),
        is_stable: true,
    });
    request.system.extend(own);
    for middleware in context.middleware {
        let added = middleware.sections(context).await.map_err(AgentError::of(middleware.name()))?;
        request.system.extend(added.sections);
        changes.extend(added.changes);
    }
    request.system.sort_by_key(|section| !section.is_stable);
    request.messages = context.thread_state.view().cloned().collect();
    let tools = tools(context)?;
    request.tools = tools.definitions().to_vec();
    Ok(NextRequest { request, tools, changes })
}

/// All tools that the agent has now.
pub(crate) fn tools(context: MiddlewareContext<'_>) -> Result<Tools, AgentError> {
    let mut tools = Tools::default();
    let added = context.middleware.iter().flat_map(|middleware| middleware.tools(context));
    for tool in context.own_tools.iter().cloned().chain(added) {
        if context.selection.has(&tool.definition().name, tool.kind()) {
            tools.add(tool)?;
        }
    }
    Ok(tools)
}
