//! The builder of a session or a service.

use std::sync::Arc;

use prowess_catalog::Catalog;
use prowess_permission::Permissions;

use super::{SessionInner, SessionState, SkillSession};
use crate::embeddings::Embeddings;
use crate::engine::SkillEngine;
use crate::files::{LocalFiles, SkillFiles};
use crate::lock::Lock;
use crate::options::SessionOptions;
use crate::saved::SavedState;
use crate::secret::Secret;
use crate::service::SkillService;
use crate::state::SkillState;
use crate::visibility::VisibleSkills;

/// Builds a [`SkillSession`] or a [`SkillService`].
///
/// ```
/// use prowess_permission::{Decision, RuleSource, Permissions, Policy, Rule};
/// use prowess_skills::{Dialect, SessionOptions, SkillSession};
///
/// # use prowess_catalog::{Catalog, Root, ScanOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # std::fs::create_dir(scratch.path().join("greet"))?;
/// # let manifest = "---\nname: greet\ndescription: Says hello.\n---\nWave.\n";
/// # std::fs::write(scratch.path().join("greet/SKILL.md"), manifest)?;
/// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// let rules = [Rule::new("skill", "secret-*", Decision::Deny)];
/// let session = SkillSession::builder(catalog)
///     .options(SessionOptions::new(Dialect::OpenCode))
///     .permissions(Permissions::unattended(Policy::new().rules(RuleSource::User, rules)))
///     .build()
///     .await;
/// assert_eq!(session.tools()[0].name, "skill");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SkillSessionBuilder {
    catalog: Catalog,
    options: SessionOptions,
    files: Arc<dyn SkillFiles>,
    permissions: Option<Permissions>,
    secret: Option<Secret>,
    saved: Option<SavedState>,
    embeddings: Option<Arc<Embeddings>>,
    visible: Option<Arc<VisibleSkills>>,
    #[cfg(feature = "run")]
    runs: Option<crate::run::RunSetup>,
}

impl SkillSessionBuilder {
    pub(super) fn new(catalog: Catalog) -> Self {
        Self {
            catalog,
            options: SessionOptions::default(),
            files: Arc::new(LocalFiles),
            permissions: None,
            secret: None,
            saved: None,
            embeddings: None,
            visible: None,
            #[cfg(feature = "run")]
            runs: None,
        }
    }

    /// Sets how the session runs commands of skills. Without it, the session runs no commands.
    #[cfg(feature = "run")]
    pub fn runs(mut self, runs: crate::run::RunSetup) -> Self {
        self.runs = Some(runs);
        self
    }

    /// Sets the options.
    pub fn options(mut self, options: SessionOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the permissions. The default lets the model load all trusted skills and asks nobody.
    pub fn permissions(mut self, permissions: Permissions) -> Self {
        self.permissions = Some(permissions);
        self
    }

    /// Sets the permissions if there are none yet.
    pub fn default_permissions(mut self, permissions: Permissions) -> Self {
        self.permissions.get_or_insert(permissions);
        self
    }

    /// Sets where skills are read from. The default is the local disk.
    pub fn files(mut self, files: Arc<dyn SkillFiles>) -> Self {
        self.files = files;
        self
    }

    /// Sets how the tool `search_skills` searches by meaning. Without it, the tool searches by words alone.
    pub fn embeddings(mut self, embeddings: Option<Arc<Embeddings>>) -> Self {
        self.embeddings = embeddings;
        self
    }

    /// Sets the secret of the conversation. The default is the secret of the restored state, or a random one.
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// Restores a saved state. If it has more loaded skills than the budget allows now, the session unloads those that were
    /// loaded first. The session trusts the state, so keep it where others cannot write.
    pub fn saved_state(mut self, saved: SavedState) -> Self {
        self.saved = Some(saved);
        self
    }

    /// Shares the list of visible skills with another session, if both have the same catalog, rules and modes. Use it if you start
    /// many sessions.
    ///
    /// ```
    /// use prowess_permission::{Decision, RuleSource, Permissions, Policy, Rule};
    /// use prowess_skills::SkillSession;
    ///
    /// # use prowess_catalog::{Catalog, Root, ScanOptions};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let scratch = tempfile::tempdir()?;
    /// # std::fs::create_dir(scratch.path().join("greet"))?;
    /// # let manifest = "---\nname: greet\ndescription: Says hello.\n---\nWave.\n";
    /// # std::fs::write(scratch.path().join("greet/SKILL.md"), manifest)?;
    /// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
    /// let allowed = Permissions::unattended(Policy::new());
    /// let one = SkillSession::builder(catalog.clone()).permissions(allowed.clone()).build().await;
    /// let other = SkillSession::builder(catalog.clone()).permissions(allowed.clone()).sibling(&one).build().await;
    /// one.load("greet", None).await?;
    /// assert!(other.engine().catalog_view().get("greet").is_some() && other.state().loaded().is_empty());
    ///
    /// // With other rules, a session makes its own list.
    /// let rules = [Rule::new("skill", "greet", Decision::Deny)];
    /// let denied = Permissions::unattended(Policy::new().rules(RuleSource::User, rules));
    /// let third = SkillSession::builder(catalog).permissions(denied).sibling(&one).build().await;
    /// assert!(third.engine().catalog_view().get("greet").is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn sibling(mut self, other: &SkillSession) -> Self {
        self.visible = Some(other.engine().visible());
        self
    }

    /// Builds a service, for a program that owns the state. With eager discovery, it first looks for the resources of all
    /// skills.
    pub async fn build_service(self) -> SkillService {
        self.service_and_state().await.0
    }

    /// Builds a session. With eager discovery, it first looks for the resources of all skills.
    pub async fn build(self) -> SkillSession {
        let (service, state) = self.service_and_state().await;
        let state = Lock::new(SessionState { state: Arc::new(state), sequence: 0 });
        SkillSession(Arc::new(SessionInner { service, state }))
    }

    async fn service_and_state(self) -> (SkillService, SkillState) {
        let Self { catalog, options, files, permissions, secret, saved, embeddings, visible, .. } = self;
        let permissions = permissions.unwrap_or_default();
        let (mut state, saved_secret) = saved.map(|saved| (saved.state, saved.secret)).unwrap_or_default();
        state.keep_last(options.budgets.max_loaded_skills);
        let visible = visible
            .filter(|visible| visible.is_of(&catalog, &permissions, &options.modes))
            .unwrap_or_else(|| Arc::new(VisibleSkills::new(&catalog, &permissions, &options.modes)));
        let secret = secret.or(saved_secret).unwrap_or_else(Secret::random);
        let engine = SkillEngine::with_visible(visible, options, permissions, secret);
        let service = SkillService::new(engine, files, embeddings);
        #[cfg(feature = "run")]
        let service = service.with_runner(self.runs.map(crate::run::SkillRunner::new));
        service.discover_eagerly().await;
        (service, state)
    }
}
