//! The tools of the session's dialect as MCP tools.

use std::sync::Arc;

use prowess_skills::{SkillSession, SkillToolAnswer, SkillToolKind, ToolSpec};
use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use serde_json::Value;

use crate::consent::{CallIdentity, Consent, ConsentOutcome};
use crate::progress;
use crate::server::SkillServer;

fn tool(spec: ToolSpec) -> Tool {
    let kind = spec.kind;
    let schema = match spec.parameters {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    };
    let annotations = ToolAnnotations::new()
        .read_only(!kind.runs())
        .idempotent(kind.is_idempotent())
        .open_world(kind.runs());
    Tool::new(spec.name, spec.description, Arc::new(schema)).with_annotations(annotations)
}

impl SkillServer {
    /// The tools that the client can call now.
    pub(crate) async fn tools(&self) -> Vec<Tool> {
        let session = self.session().await;
        session.tools().iter().filter(|spec| self.can(spec.kind)).cloned().map(tool).collect()
    }

    /// Whether the server offers tools of this kind. A sessionless client cannot continue earlier calls.
    fn can(&self, kind: SkillToolKind) -> bool {
        !(self.is_brief() && kind.spans_calls())
    }

    /// Whether the server has a tool with this name.
    fn has(&self, session: &SkillSession, name: &str) -> bool {
        session.engine().tool_kind(name).is_some_and(|kind| self.can(kind))
    }

    /// Makes a call. A failure is a result that says so; only an unknown tool is an error of the protocol.
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
            call: CallIdentity::of(&("tool", name, &arguments)),
            state: request.request_state,
            responses: request.input_responses,
        };
        let call = Box::pin(consent.attend(|replies| {
            let arguments = arguments.clone();
            async move { session.attempt(name, arguments, &replies).await }
        }));
        Ok(match progress::report(context, self.stop(), name, call).await? {
            ConsentOutcome::Done(answer) => self.result(answer).into(),
            ConsentOutcome::Failed(error) => {
                CallToolResult::error(vec![ContentBlock::text(error.for_model())]).into()
            }
            ConsentOutcome::Refused(refusal) => {
                CallToolResult::error(vec![ContentBlock::text(format!("Error: {refusal}"))]).into()
            }
            ConsentOutcome::Asks(question) => question.into(),
        })
    }

    /// An answer with its data, and with the addresses of a run's outputs.
    fn result(&self, mut answer: SkillToolAnswer) -> CallToolResult {
        let mut outputs = Vec::new();
        if let Some(report) = &mut answer.data {
            outputs = self.outputs().keep(report, self.scope());
            if !outputs.is_empty() {
                self.outputs_changed();
                // Put the addresses into the text: MCP clients do not show links to their models.
                #[cfg(feature = "run")]
                {
                    answer.text = prowess_skills::run::report_text(report.clone());
                }
            }
        }
        let mut content = vec![ContentBlock::text(answer.text)];
        content.extend(outputs.into_iter().map(ContentBlock::resource_link));
        let mut result =
            if answer.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
        result.structured_content = answer.data.filter(Value::is_object);
        result
    }
}
