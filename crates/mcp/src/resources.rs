//! Files of skills and outputs of runs, as MCP resources.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prowess_catalog::skill::MANIFEST;
use prowess_skills::SkillSession;
use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::model::{
    CustomRequest, CustomResult, ErrorCode, ListResourcesResult, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, ResourceContents, ResourceTemplate,
};
use rmcp::service::RequestContext;
use serde::Deserialize;

use crate::consent::{CallIdentity, Consent, ConsentOutcome};
use crate::outputs::{Output, OutputContent};
use crate::server::SkillServer;
use crate::skills_extension::Publication;
use crate::{mime, progress};

/// The template of the addresses of skill files.
pub(crate) fn templates() -> Vec<ResourceTemplate> {
    let template = ResourceTemplate::new("skill://{skill}/{+file}", "skill-file");
    vec![template.with_description("A file of a skill: SKILL.md, or one that its instructions name")]
}

/// The parameters of the extension's methods.
#[derive(Default, Deserialize)]
struct ExtensionParams {
    uri: Option<String>,
    cursor: Option<String>,
}

impl SkillServer {
    /// One page of resources: the manifest of every skill, and on the last page the outputs of runs.
    pub(crate) async fn resources(&self, cursor: Option<String>) -> Result<ListResourcesResult, ErrorData> {
        let listed = self.blocking(move |session| Publication::of(session).manifests(cursor.as_deref()));
        let (mut resources, next) = listed.await??;
        if next.is_none() {
            resources.extend(self.outputs().resources());
        }
        let mut result = ListResourcesResult::with_all_items(resources);
        result.next_cursor = next;
        Ok(result)
    }

    /// Reads a file of a skill, if the gate allows it, or an output of a run of this client.
    pub(crate) async fn read(
        &self,
        request: ReadResourceRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let address = request.uri;
        if let Some(output) = self.outputs().get(&address) {
            return Ok(ReadResourceResult::new(vec![self.output(output).await?]).into());
        }
        let wanted = address.clone();
        let file = self.blocking(move |session| Publication::of(session).file(&wanted)).await??;
        let session = self.session().await;
        let name = file.skill.skill.name.as_str();
        let consent = Consent {
            permissions: session.permissions(),
            context,
            waiting: self.waiting(),
            call: CallIdentity::of(&("resource", &address)),
            state: request.request_state,
            responses: request.input_responses,
        };
        let call = Box::pin(consent.attend(|replies| async move {
            session.view().open_to_read(name).drive(session.service().files(), &replies).await
        }));
        let approved = match progress::report(context, self.stop(), &address, call).await? {
            ConsentOutcome::Done((_, approved)) => approved,
            ConsentOutcome::Failed(error) => return Err(ErrorData::invalid_request(error.to_string(), None)),
            ConsentOutcome::Refused(refusal) => {
                return Err(ErrorData::invalid_request(refusal.to_string(), None));
            }
            ConsentOutcome::Asks(question) => return Ok(question.into()),
        };
        let bytes = match approved.filter(|_| file.path == MANIFEST) {
            // The client gets exactly the text that was approved.
            Some(text) => text.manifest().as_bytes().to_vec(),
            None => {
                let at = address.clone();
                self.blocking(move |_| file.read(&at)).await??
            }
        };
        Ok(ReadResourceResult::new(vec![contents(&address, bytes)]).into())
    }

    async fn output(&self, output: Output) -> Result<ResourceContents, ErrorData> {
        let address = output.resource.uri;
        let contents = match output.content {
            OutputContent::Text(text) => ResourceContents::text(text, address),
            OutputContent::Artifact { scope, name, version } => {
                let bytes = self.artifact(scope, &name, version).await;
                contents(&address, bytes.map_err(|error| ErrorData::internal_error(error, None))?)
            }
        };
        Ok(match output.resource.mime_type {
            Some(mime) => contents.with_mime_type(mime),
            None => contents,
        })
    }

    /// Handles the methods of the Skills extension.
    pub(crate) async fn extension(&self, request: CustomRequest) -> Result<CustomResult, ErrorData> {
        let unknown = || ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method.clone(), None);
        if !matches!(request.method.as_str(), "skills/list" | "skills/get" | "resources/directory/read") {
            return Err(unknown());
        }
        let invalid = |error: serde_json::Error| ErrorData::invalid_params(error.to_string(), None);
        let params: Option<ExtensionParams> = request.params_as().map_err(invalid)?;
        let ExtensionParams { uri, cursor } = params.unwrap_or_default();
        let no_uri = || ErrorData::invalid_params("`uri` is missing", None);
        let answer = match request.method.as_str() {
            "skills/list" => {
                self.blocking(move |session| Publication::of(session).list(cursor.as_deref())).await
            }
            "skills/get" => {
                let uri = uri.ok_or_else(no_uri)?;
                self.blocking(move |session| Publication::of(session).get(&uri)).await
            }
            _ => {
                let uri = uri.ok_or_else(no_uri)?;
                self.blocking(move |session| Publication::of(session).directory(&uri, cursor.as_deref()))
                    .await
            }
        };
        answer?.map(CustomResult::new)
    }

    /// Does work that waits for a disk on a blocking thread.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&SkillSession) -> T + Send + 'static,
    ) -> Result<T, ErrorData> {
        let session = self.session().await.clone();
        let done = tokio::task::spawn_blocking(move || work(&session)).await;
        done.map_err(|error| ErrorData::internal_error(format!("Cannot read the skills: {error}"), None))
    }
}

/// The bytes as text if they are text, otherwise as Base64.
fn contents(address: &str, bytes: Vec<u8>) -> ResourceContents {
    let known = mime::of(address);
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => {
            ResourceContents::text(text, address).with_mime_type(known.unwrap_or("text/plain"))
        }
        Ok(text) => blob(address, text.as_bytes(), known),
        Err(error) => blob(address, error.as_bytes(), known),
    }
}

fn blob(address: &str, bytes: &[u8], known: Option<&'static str>) -> ResourceContents {
    let blob = ResourceContents::blob(STANDARD.encode(bytes), address);
    blob.with_mime_type(known.unwrap_or("application/octet-stream"))
}
