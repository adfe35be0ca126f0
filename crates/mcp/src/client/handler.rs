//! The client that a server sees: it declares the Skills extension and offers nothing else.

#![expect(deprecated, reason = "refuses deprecated requests of servers of older revisions by their names")]

use std::collections::BTreeMap;

use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ErrorCode, Implementation,
    JsonObject, ListRootsResult,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use tokio::sync::watch;

use crate::skills_extension::SKILLS_EXTENSION;

/// Refuses sampling, roots and forms, and counts the changes that the server announces.
#[derive(Clone)]
pub(crate) struct Client {
    /// How often the server announced a change.
    pub(crate) changes: watch::Sender<u64>,
}

impl Client {
    pub(crate) fn note_change(&self) {
        self.changes.send_modify(|times| *times += 1);
    }
}

fn refused(method: &str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("this client does not offer {method}"), None)
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.extensions = Some(BTreeMap::from([(SKILLS_EXTENSION.to_owned(), JsonObject::new())]));
        ClientConfig::new(capabilities, Implementation::new("prowess", env!("CARGO_PKG_VERSION")))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Err(refused("roots/list"))
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Err(refused("elicitation/create"))
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.note_change();
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.note_change();
    }
}
