//! The request that the model would get now, from what all middleware add.

use std::sync::Arc;

use super::AgentError;
use crate::message::Message;
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
    /// The messages at its end that the thread does not have yet.
    pub(crate) added: Vec<Message>,
}

/// Makes the next request. Nothing is stored, so it can also be made for a state that the thread does not have yet.
///
/// Stable sections come first, so that providers can cache them.
pub(crate) async fn make(context: MiddlewareContext<'_>) -> Result<NextRequest, AgentError> {
    let (mut request, mut changes, mut added) = (ModelRequest::default(), Vec::new(), Vec::new());
    let own = context.prompt.map(|text| PromptSection {
        owner: "agent".to_owned(),
        text: text.to_owned(),
        is_stable: true,
    });
    request.system.extend(own);
    for middleware in context.middleware {
        let adds = middleware.sections(context).await.map_err(AgentError::of(middleware.name()))?;
        request.system.extend(adds.sections);
        changes.extend(adds.changes);
        added.extend(adds.messages.into_iter().map(Message::not_by_person));
    }
    request.system.sort_by_key(|section| !section.is_stable);
    request.messages = conversation(context);
    request.messages.extend(added.iter().cloned().map(Arc::new));
    let tools = tools(context)?;
    request.tools = tools.definitions().to_vec();
    Ok(NextRequest { request, tools, changes, added })
}

/// The messages that the model sees, in the form in which it sees them.
pub(crate) fn conversation(context: MiddlewareContext<'_>) -> Vec<Arc<Message>> {
    let state = context.thread_state;
    state.summary().into_iter().cloned().chain(shown(context, state.seen())).collect()
}

/// The messages at these places of the thread, in the form in which the model sees them. Places that the thread does not
/// have are left out.
///
/// Whatever reaches a model, or is measured for one, must be read here: a stored message can contain text that was removed
/// since, such as that of an unloaded skill.
pub(crate) fn shown<'a>(
    context: MiddlewareContext<'a>,
    places: impl Iterator<Item = usize> + 'a,
) -> impl Iterator<Item = Arc<Message>> + 'a {
    places.filter_map(move |index| {
        let message = context.thread_state.messages().get(index)?;
        let shown =
            context.middleware.iter().find_map(|middleware| middleware.shown(context, index, message));
        Some(shown.map_or_else(|| Arc::clone(message), Arc::new))
    })
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
