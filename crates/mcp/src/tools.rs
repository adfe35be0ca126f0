//! The tools of the session's dialect, as MCP has tools.

use std::sync::Arc;

use prowess_skills::{SkillSession, SkillToolAnswer, SkillToolKind, ToolSpec};
use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use serde_json::Value;

use crate::consent::{Attended, Call, Consent};
use crate::progress;
use crate::server::SkillServer;

fn tool(spec: ToolSpec) -> Tool {
    let kind = spec.kind;
    let schema = match spec.parameters {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    };
    let annotations =
        ToolAnnotations::new().read_only(!kind.runs()).idempotent(kind.is_idempotent()).open_world(kind.runs());
    Tool::new(spec.name, spec.description, Arc::new(schema)).with_annotations(annotations)
}

impl SkillServer {
    /// The tools that there are now.
    pub(crate) async fn tools(&self) -> Vec<Tool> {
        let session = self.session().await;
        session.tools().iter().filter(|spec| self.can(spec.kind)).cloned().map(tool).collect()
    }

    /// Whether there are tools for an act. Where nothing is known of other calls, none goes on with them.
    fn can(&self, kind: SkillToolKind) -> bool {
        !(self.is_brief() && kind.spans_calls())
    }

    /// Whether there is a tool of this name.
    fn has(&self, session: &SkillSession, name: &str) -> bool {
        session.engine().tool_kind(name).is_some_and(|kind| self.can(kind))
    }

    /// Makes a call. What goes wrong is a result that says so; only a tool that does not exist is an error.
    pub(crate) async fn call(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let session = self.session().await;
        let name = request.name.as_ref();
        if !self.has(session, name) {
            return Err(ErrorData::invalid_params(format!("Unknown tool: {name}"), None));
        }
        let arguments = Value::from(request.arguments.unwrap_or_default());
        let consent = Consent {
            permissions: session.permissions(),
            context,
            waiting: self.waiting(),
            call: Call::of(&("tool", name, &arguments)),
            state: request.request_state,
            responses: request.input_responses,
        };
        let attended = Box::pin(consent.attend(|answered| {
            let arguments = arguments.clone();
            async move { session.attempt(name, arguments, &answered).await }
        }));
        Ok(match progress::attended(context, self.stop(), name, attended).await? {
            Attended::Done(reply) => self.result(reply).into(),
            Attended::Failed(error) => {
                CallToolResult::error(vec![ContentBlock::text(error.for_model())]).into()
            }
            Attended::Refused(refusal) => {
                CallToolResult::error(vec![ContentBlock::text(format!("Error: {refusal}"))]).into()
            }
            Attended::Asks(question) => question.into(),
        })
    }

    /// A reply with its data, and with the addresses of what a command put out.
    fn result(&self, mut reply: SkillToolAnswer) -> CallToolResult {
        let mut outputs = Vec::new();
        if let Some(report) = &mut reply.data {
            outputs = self.outputs().keep(report, self.scope());
            if !outputs.is_empty() {
                self.outputs_changed();
                // The model reads the addresses, too: hosts give their models no links.
                #[cfg(feature = "run")]
                {
                    reply.text = prowess_skills::run::report_text(report.clone());
                }
            }
        }
        let mut content = vec![ContentBlock::text(reply.text)];
        content.extend(outputs.into_iter().map(ContentBlock::resource_link));
        let mut result =
            if reply.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
        result.structured_content = reply.data.filter(Value::is_object);
        result
    }
}
