//! The agents of `prowess serve`: those of a chat, with a directory of its own for each thread.

mod files;
#[cfg(feature = "oidc")]
mod oidc;
mod own_skills;
mod rule_names;
mod skills;

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use async_trait::async_trait;
use prowess_agent::middleware::FollowedFiles;
use prowess_agent::model::ModelUsage;
use prowess_agent::{ThreadId, Usage};
use prowess_base::places::{MEMORY, PROJECT, SKILLS, WORK};
use prowess_permission::{ApprovalStore, Broker, Decision, RuleSource};
use prowess_serve::view::Places;
use prowess_serve::{
    AgentCard, BoxError, OwnSkills, OwnSkillsDecider, ServedAgents, ServedCost, ServedFiles, ServedThread,
    SkillDetail, SkillList, SkillsPart,
};
use prowess_store::Database;
use prowess_workspace::dir::remove_tree;
use prowess_workspace::inventory::{ContentDigest, Contents};
use prowess_workspace::workspace::Removed;
use prowess_workspace::{ArtifactError, ArtifactName, ArtifactStore as _};
use serde_json::json;

use self::own_skills::UsersSkills;
pub(crate) use self::own_skills::decider_parser;
use crate::chat::{AgentSetup, ChatAgents, Following, forget_unused, has_files_from_before};
use crate::config::{Amount, Settings};
use crate::options::RootArgs;
use crate::skills::Skills;
use crate::visibility::ChatSkills;

#[cfg(feature = "oidc")]
pub(crate) use self::oidc::configured as oidc;

/// Refuses settings that this build cannot follow.
#[cfg(not(feature = "oidc"))]
pub(crate) fn check_oidc(settings: &crate::config::OidcSettings) -> Result<()> {
    if settings.issuer.is_some() {
        anyhow::bail!(
            "[serve.oidc] is set, but this prowess was built without OpenID Connect: build it with `cargo install --locked \
             --path crates/cli --features oidc`, or remove the table"
        );
    }
    Ok(())
}

/// The directory with the projects of threads, in the server's directory.
const PROJECTS: &str = "projects";
/// How often the server looks for changed skills.
const LOOK: Duration = Duration::from_secs(5);
/// How often the server looks for removals to finish.
const SWEEP: Duration = Duration::from_secs(3600);
/// How long the directories of a thread stay on this machine if nobody uses them and the object store has the files.
const UNUSED: Duration = Duration::from_secs(24 * 3600);
/// The most bytes and files that a fork copies.
const MAX_COPIED_BYTES: u64 = 512 << 20;
const MAX_COPIED_FILES: usize = 50_000;
/// How many directories in each other a fork copies.
const MAX_COPIED_DEPTH: usize = 64;

/// The agents of a server.
pub(crate) struct ServerAgents {
    agents: ChatAgents,
    own_skills: Arc<UsersSkills>,
    database: Database,
    approvals: Arc<dyn ApprovalStore>,
    /// The directory of the server.
    data: PathBuf,
    root_args: RootArgs,
    /// The contents of threads' files, if they follow the threads from machine to machine.
    contents: Option<Contents>,
}

impl ServerAgents {
    /// The agents, and notices for the person who starts the server.
    pub(crate) async fn new(
        setup: AgentSetup,
        own_skills: OwnSkillsDecider,
        database: &Database,
    ) -> Result<(Arc<Self>, Vec<String>)> {
        let (data, root_args) = (setup.state.clone(), setup.root_args.clone());
        let contents = setup.workspace_dir.contents()?;
        let (agents, notices) = ChatAgents::of_server(setup, database).await?;
        let approvals = database.approvals();
        let own_skills = UsersSkills::new(
            own_skills,
            database.own_skills(),
            agents.artifacts().clone(),
            &data,
            Arc::clone(agents.shared_catalog()),
            agents.rules(),
        );
        let server = Self {
            agents,
            own_skills: Arc::new(own_skills),
            database: database.clone(),
            approvals,
            data,
            root_args,
            contents,
        };
        Ok((Arc::new(server), notices))
    }

    /// Looks for changed skills, and for removals to finish, until the server stops.
    pub(crate) async fn watch_skills(self: Arc<Self>) {
        tokio::join!(self.look_for_skills(), self.sweep_files());
    }

    async fn look_for_skills(self: &Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK).await;
            let server = Arc::clone(self);
            let looked = tokio::task::spawn_blocking(move || server.look_again()).await;
            if let Ok(Err(error)) = looked {
                tracing::warn!(%error, "Could not look for skills");
            }
            self.own_skills.renew_all().await;
        }
    }

    /// If files follow their threads: finishes removals in the object store, and removes directories that nobody uses here,
    /// until the server stops. Any number of servers can do this.
    async fn sweep_files(&self) {
        let Some(contents) = &self.contents else { return };
        self.wake_unfollowed().await;
        loop {
            match contents.sweep().await {
                Ok(0) => {}
                Ok(swept) => tracing::info!(swept, "Removed files that no thread has"),
                Err(error) => tracing::warn!(%error, "Could not remove all files that no thread has"),
            }
            let project = |thread: &ThreadId| self.project(thread);
            forget_unused(&self.data, self.agents.workspaces(), project, UNUSED).await;
            tokio::time::sleep(SWEEP).await;
        }
    }

    /// Lets a worker store the files of threads that are on this machine alone, from before files followed their threads.
    async fn wake_unfollowed(&self) {
        let queue = self.database.queue();
        let projects = std::fs::read_dir(self.data.join(PROJECTS)).into_iter().flatten().flatten();
        for project in projects {
            let Some(thread) = project.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            if self.has_files_from_before(&thread).await
                && let Err(error) = queue.wake(&thread).await
            {
                tracing::warn!(%thread, %error, "Could not queue a thread whose files are on this machine alone");
            }
        }
    }

    async fn has_files_from_before(&self, thread: &ThreadId) -> bool {
        has_files_from_before(&self.data, self.agents.workspaces(), thread, &self.project(thread)).await
    }

    fn look_again(&self) -> Result<()> {
        let known = self.agents.shared_catalog().lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Skills { catalog, .. } =
            self.root_args.discover_silently(&known, &self.root_args.scan_options())?;
        *self.agents.shared_catalog().lock().unwrap_or_else(PoisonError::into_inner) = catalog;
        Ok(())
    }

    /// The directory that is `/project` in a thread.
    fn project(&self, thread: &ThreadId) -> PathBuf {
        self.data.join(PROJECTS).join(thread.as_str())
    }

    /// What a user approved for good, also by replies in other processes.
    async fn broker(&self, owner: &str) -> Result<Arc<Broker>> {
        Ok(Broker::open(Arc::clone(&self.approvals), format!("user {owner}")).await?)
    }

    async fn of_thread(&self, owner: &str, thread: &ThreadId) -> Result<ChatAgents> {
        let project = self.project(thread);
        let following = self.following(owner);
        if following.is_none() {
            make(&project)?;
        }
        let store = self.database.acting_for(owner).threads();
        let catalog = self.own_skills.catalog_of(owner).await?;
        Ok(self.agents.for_thread(store, &self.broker(owner).await?, catalog, project, following))
    }

    /// How the files of a user's threads follow them, if they do.
    fn following(&self, owner: &str) -> Option<Following> {
        let threads = self.database.acting_for(owner).owned_threads();
        Some(Following::new(self.contents.clone()?, owner, &self.data, threads))
    }

    async fn served(&self, owner: &str, thread: &ThreadId) -> Result<ServedThread> {
        let agents = self.of_thread(owner, thread).await?;
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        Ok(ServedThread {
            agent: agents.agent(thread)?,
            artifacts: agents.artifacts_of(thread)?,
            places: Places::new(agents.places_of(thread).into_iter().map(|(real, name)| (text(real), name))),
            files: agents.files_of(thread)?,
        })
    }

    /// The skills that the agents of a user may see.
    async fn skills_of(&self, owner: &str) -> Option<ChatSkills> {
        match self.own_skills.catalog_of(owner).await {
            Ok(catalog) => {
                let catalog = catalog.lock().unwrap_or_else(PoisonError::into_inner).clone();
                Some(self.agents.visible_in(&catalog))
            }
            Err(error) => {
                tracing::error!(error = format!("{error:#}"), "The skills of a user cannot be found");
                None
            }
        }
    }

    async fn copy(
        &self,
        owner: &str,
        (from, to): (&ThreadId, &ThreadId),
        files: &FollowedFiles,
        named: &[String],
    ) -> Result<()> {
        let (source, target) = (self.of_thread(owner, from).await?, self.of_thread(owner, to).await?);
        source.artifacts_of(from)?.copy_all(target.artifacts_of(to)?.scope()).await?;
        if let Some(following) = self.following(owner) {
            if !files.is_empty() {
                let parse = |digest: &String| digest.parse::<ContentDigest>().map_err(|why| anyhow!(why));
                let named = named.iter().map(parse).collect::<Result<Vec<_>>>()?;
                let contents = following.family(from, files.family()).await?;
                contents.fork(from.as_str(), to.as_str(), &named).await?;
            }
            return Ok(());
        }
        let directories =
            [(self.project(from), self.project(to)), (source.thread_files(from), target.thread_files(to))];
        let workspaces = source.workspaces().clone();
        let (one, other) = (from.as_str().to_owned(), to.as_str().to_owned());
        let copied = tokio::task::spawn_blocking(move || {
            let mut room = (MAX_COPIED_BYTES, MAX_COPIED_FILES);
            for (from, to) in directories {
                copy_files(&from, &to, &mut room, 0)?;
            }
            // A thread can go on without the files of its commands.
            if let Err(error) = workspaces.copy_files(&one, &other) {
                tracing::warn!(%error, "Could not copy a workspace");
            }
            anyhow::Ok(())
        });
        copied.await?
    }

    async fn removed(&self, owner: &str, thread: &ThreadId) -> Result<()> {
        let agents = self.of_thread(owner, thread).await?;
        let (workspaces, name) = (agents.workspaces().clone(), thread.as_str().to_owned());
        let removed = tokio::task::spawn_blocking(move || workspaces.remove(&name)).await?;
        if removed.map_err(|error| anyhow!("{error}"))? == Removed::InUse {
            return Err(anyhow!("a command is running in the workspace"));
        }
        let own = agents.artifacts_of(thread)?;
        if own.scope().thread_id().is_some() {
            for record in own.list().await? {
                match own.delete(&ArtifactName::parse(&record.name)?).await {
                    Ok(()) | Err(ArtifactError::NotFound { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        if let Some(following) = self.following(owner) {
            following.family(thread, None).await?.remove(thread.as_str()).await?;
        }
        let directories = [self.project(thread), agents.thread_files(thread)];
        let removed = tokio::task::spawn_blocking(move || {
            for directory in directories {
                remove_tree(&directory)
                    .with_context(|| format!("{} cannot be removed", directory.display()))?;
            }
            anyhow::Ok(())
        });
        removed.await?
    }
}

#[async_trait]
impl ServedAgents for ServerAgents {
    fn card(&self) -> AgentCard {
        let settings = self.agents.settings();
        let policy = self.agents.rules();
        let rules = [
            RuleSource::Defaults,
            RuleSource::BuiltInAgent,
            RuleSource::User,
            RuleSource::Project,
            RuleSource::Agent,
        ];
        let rules = rules.into_iter().flat_map(|source| policy.rules_of(source));
        // Paths of the server are not for its users, and the agent cannot reach them.
        let rules = rules.filter(|rule| !names_server_path(rule.pattern.as_str())).map(|rule| {
            let decision = match rule.decision {
                Decision::Allow => "allow",
                Decision::Ask => "ask",
                Decision::Deny => "deny",
            };
            json!({"kind": rule.kind.as_str(), "pattern": rule.pattern.as_str(), "decision": decision})
        });
        let window = self.agents.model().limits().context;
        let options = crate::chat::session_options(&settings.skills);
        AgentCard {
            name: "prowess".to_owned(),
            description: "Works on tasks with skills, files and commands in a sandbox.".to_owned(),
            model: settings.model.name.to_string(),
            window,
            budgets: json!({
                "overview_tokens": settings.skills.overview_tokens(window),
                "loaded_skills": options.budgets.max_loaded_skills,
                "loaded_tokens": options.budgets.max_loaded_tokens,
            }),
            limits: json!({
                "model_calls": settings.limits.model_calls.0,
                "tokens": settings.limits.tokens.map(|most| most.0),
                "cost": settings.limits.cost.map(|Amount(most)| most),
            }),
            sandbox: format!("{:?}", settings.sandbox.level).to_lowercase(),
            rules: rules.collect(),
            approvers: "the owner of the thread, with the scope `approve`".to_owned(),
        }
    }

    async fn thread(&self, owner: &str, thread: &ThreadId) -> Result<ServedThread, BoxError> {
        Ok(self.served(owner, thread).await?)
    }

    fn followed_files(&self) -> Option<&dyn ServedFiles> {
        self.contents.is_some().then_some(self as &dyn ServedFiles)
    }

    async fn fork(
        &self,
        owner: &str,
        from: &ThreadId,
        to: &ThreadId,
        files: &FollowedFiles,
        named: &[String],
    ) -> Result<(), BoxError> {
        Ok(self.copy(owner, (from, to), files, named).await?)
    }

    async fn remove(&self, owner: &str, thread: &ThreadId) -> Result<(), BoxError> {
        Ok(self.removed(owner, thread).await?)
    }

    async fn skills(&self, owner: &str, search: Option<&str>, part: SkillsPart<'_>) -> SkillList {
        self.skills_of(owner).await.map(|found| skills::list(&found, search, part)).unwrap_or_default()
    }

    async fn skill(&self, owner: &str, name: &str) -> Option<SkillDetail> {
        skills::detail(&self.skills_of(owner).await?, name)
    }

    fn own_skills(&self) -> Option<Arc<dyn OwnSkills>> {
        Some(Arc::clone(&self.own_skills) as Arc<dyn OwnSkills>)
    }

    fn cost(&self, spent: &ModelUsage) -> Option<ServedCost> {
        cost(self.agents.settings(), spent)
    }
}

fn cost(settings: &Settings, spent: &ModelUsage) -> Option<ServedCost> {
    if settings.price.is_empty() {
        return None;
    }
    let cost = settings.prices().ok()?.cost(spent);
    let micros = u64::try_from(cost.micros()).unwrap_or(u64::MAX);
    cost.is_whole()
        .then(|| ServedCost { micros, text: format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000) })
}

/// Whether these settings have a price for a model.
pub(crate) fn has_price(settings: &Settings, model: &str) -> bool {
    cost(settings, &ModelUsage::on(model, Usage::new(1, 1))).is_some()
}

/// Whether the pattern of a rule names a path of the server: one outside of the tree that a model sees.
fn names_server_path(pattern: &str) -> bool {
    let is_in_tree = |path: &str| {
        [PROJECT, SKILLS, WORK, MEMORY].iter().any(|place| {
            path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '*', '?']))
        })
    };
    let names_one = |word: &str| {
        let is_path = word.strip_prefix('/').is_some_and(|rest| !rest.starts_with(['*', '?']));
        is_path && !is_in_tree(word)
    };
    pattern.split(|c: char| c.is_whitespace() || matches!(c, '=' | ':' | '"' | '\'')).any(names_one)
}

/// Creates a directory that only this user can read.
fn make(path: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.with_context(|| format!("cannot create {}", path.display()))
}

/// Copies files and directories, no links, while there is room.
fn copy_files(from: &Path, to: &Path, room: &mut (u64, usize), depth: usize) -> Result<()> {
    if depth > MAX_COPIED_DEPTH {
        return Err(anyhow!("the thread has too many directories in each other for a fork"));
    }
    let Ok(entries) = std::fs::read_dir(from) else { return Ok(()) };
    make(to)?;
    for entry in entries.flatten() {
        // It may have vanished meanwhile.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            copy_files(&entry.path(), &to.join(entry.file_name()), room, depth + 1)?;
        } else if metadata.is_file() {
            let (bytes, files) = (room.0.checked_sub(metadata.len()), room.1.checked_sub(1));
            let (Some(bytes), Some(files)) = (bytes, files) else {
                return Err(anyhow!("the thread has too many files for a fork"));
            };
            *room = (bytes, files);
            std::fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::names_server_path;

    #[test]
    fn rules_about_the_server_are_told_from_those_about_the_tree() {
        for shown in
            ["*", "/*", "*/.env", "/project", "/project/*", "/work/out/x", "tides sh /work/a", "pdf *"]
        {
            assert!(!names_server_path(shown), "{shown}");
        }
        for hidden in
            ["/etc/shadow*", "/home/ada/*", "/projects/*", "tides sh /srv/x", "pdf --in=/srv/x", "/"]
        {
            assert!(names_server_path(hidden), "{hidden}");
        }
    }
}
