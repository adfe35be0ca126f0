//! Makes a server for each MCP client.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prowess_catalog::Catalog;
use prowess_mcp::{AddressedArtifacts, LiveSkills, SkillServer};
use prowess_permission::Permissions;
use prowess_skills::embeddings::Embeddings;
use prowess_skills::{RunSetup, SessionOptions, SkillSession};
use prowess_workspace::{ArtifactStore, Artifacts, Scope};

use crate::workspace_dir::new_workspace_id;

/// Makes servers that share skills, rules and settings.
pub(super) struct ServerFactory {
    pub(super) live: Arc<LiveSkills>,
    pub(super) options: SessionOptions,
    pub(super) permissions: Permissions,
    pub(super) runs: Option<RunSetup>,
    /// Searches skills by meaning.
    pub(super) embeddings: Option<Arc<Embeddings>>,
    /// The artifact scope that all clients share; without it, each client has its own.
    pub(super) wider: Option<Scope>,
    pub(super) artifacts: Option<Artifacts>,
    /// How many servers were made.
    pub(super) made: AtomicU64,
    pub(super) example: tokio::sync::Mutex<Option<SkillSession>>,
}

impl ServerFactory {
    /// A session that no client uses. Other sessions reuse what it knows of these skills.
    async fn shared_session(&self, catalog: Catalog) -> SkillSession {
        let mut example = self.example.lock().await;
        match &*example {
            Some(session) if session.engine().catalog_view().catalog().is_same(&catalog) => session.clone(),
            _ => {
                let mut options = SessionOptions::default();
                options.modes = self.options.modes.clone();
                let session = SkillSession::builder(catalog).options(options);
                example.insert(session.permissions(self.permissions.clone()).build().await).clone()
            }
        }
    }

    /// Makes a server for one client, with its own session and workspace.
    pub(super) async fn server(&self) -> SkillServer {
        let catalog = self.live.catalog();
        let mut session = SkillSession::builder(catalog.clone())
            .options(self.options.clone())
            .permissions(self.permissions.clone())
            .embeddings(self.embeddings.clone())
            .sibling(&self.shared_session(catalog).await);
        // Without a scope nothing is saved.
        let artifacts = self.artifacts.as_ref().and_then(|artifacts| {
            let scope = self.wider.clone().map_or_else(Scope::new_session, Ok);
            Some(artifacts.in_scope(scope.ok()?))
        });
        if let Some(runs) = &self.runs {
            let mut runs = runs.clone();
            // Two clients may come at the same time.
            runs.workspace = format!("{} {}", new_workspace_id(), self.made.fetch_add(1, Ordering::Relaxed));
            let addressed = artifacts.clone().map(AddressedArtifacts::new);
            runs.runner.artifacts = addressed.map(|artifacts| Arc::new(artifacts) as Arc<dyn ArtifactStore>);
            session = session.runs(runs);
        }
        let server = SkillServer::new(Arc::clone(&self.live), session.build().await);
        match artifacts {
            Some(artifacts) => server.artifacts(artifacts),
            None => server,
        }
    }
}
