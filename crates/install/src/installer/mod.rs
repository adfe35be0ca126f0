//! What the commands do: look at a source, then add, restore, verify, update and remove skills.
//!
//! An [`Installer`] joins the other modules for one [`Scope`]: a project or a user. It asks nobody and prints nothing. A front
//! end shows what [`Installer::look_at`] and [`Installer::plan`] return, asks the person, and then calls [`Installer::add`].

mod add;
mod error;
mod locks;
mod look;
mod remove;
mod restore;
mod update;
mod verify;

use std::path::{Path, PathBuf};

pub use add::{Added, AgentFiles, Change};
pub use error::InstallError;
pub use look::{Candidate, Listed, ListedSkill, LookOptions, Looked, MAX_SOURCE_BYTES, list, look_in};
pub use remove::Removed;
pub use restore::{Restored, Strictness};
pub use update::{LocalEdits, NewVersion, Newest, Updated, Upstream};
pub use verify::{Drift, Verified};

use crate::agents::Agent;
use crate::known_sources::{KnownSources, real_path};
use crate::lock::own::LockedSkill;
use crate::lock::{GlobalLock, OwnLock, SharedLock};
use crate::place::{Links, Place, Report};
use crate::snapshot::fetch::{FetchOptions, LockSources};
use crate::snapshot::http::NamedBy;
use crate::source::Source;
use crate::store::Store;
use locks::Locks;

/// The directory of a place, in a project or in the home directory of a user.
const AGENTS: &str = ".agents";

/// Whose skills are installed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scope {
    /// Those of a project: in `.agents/skills` of this directory.
    Project(PathBuf),
    /// Those of a user: in `.agents/skills` of the home directory.
    User {
        /// The home directory.
        home: PathBuf,
        /// `$XDG_STATE_HOME`, if it is set.
        state: Option<PathBuf>,
    },
}

impl Scope {
    /// The directory from which relative sources of the lock are taken.
    fn directory(&self) -> &Path {
        match self {
            Self::Project(directory) => directory,
            Self::User { home, .. } => home,
        }
    }

    /// The directory with the skills.
    pub fn skills(&self) -> PathBuf {
        self.directory().join(AGENTS).join("skills")
    }

    /// The lock that pins.
    pub fn own_lock(&self) -> PathBuf {
        match self {
            Self::Project(directory) => OwnLock::path(directory),
            Self::User { home, .. } => OwnLock::path(&home.join(AGENTS)),
        }
    }

    /// The lock that `skills` reads and writes.
    pub fn shared_lock(&self) -> PathBuf {
        match self {
            Self::Project(directory) => SharedLock::path(directory),
            Self::User { home, state } => GlobalLock::path(home, state.as_deref()),
        }
    }
}

/// Installs skills of one scope.
#[derive(Debug)]
pub struct Installer {
    scope: Scope,
    store: Store,
    place: Place,
    /// The directories of agents that need links or copies.
    agents: Vec<(&'static Agent, PathBuf)>,
    known: Option<KnownSources>,
}

impl Installer {
    /// An installer for a scope, with this content cache. `secret` belongs to the user, and must be the same for all processes:
    /// it proves that a journal is the user's own. `variable` returns a variable of the environment: some agents let it name the
    /// directory of a user's skills.
    ///
    /// # Errors
    ///
    /// The directory of the scope is not absolute.
    pub fn new(
        scope: Scope,
        store: Store,
        secret: &[u8],
        variable: impl Fn(&str) -> Option<PathBuf>,
    ) -> Result<Self, InstallError> {
        let directory = |agent: &'static Agent| match &scope {
            Scope::Project(project) => Some(project.join(agent.project_directory)),
            Scope::User { home, .. } => agent.global_directory(home, &variable),
        };
        let root = scope.directory().join(AGENTS);
        let skills = scope.skills();
        let agents: Vec<(&'static Agent, PathBuf)> = Agent::all()
            .iter()
            .filter_map(|agent| Some((agent, directory(agent)?)))
            .filter(|(_, directory)| *directory != skills)
            .collect();
        // A project can come from a stranger.
        let links = if matches!(scope, Scope::Project(_)) { Links::ToAgents } else { Links::Below };
        let mut place = Place::new(&root)?.with_links(links).with_secret(secret);
        for path in [scope.own_lock(), scope.shared_lock()] {
            place = place.with_lock_file(&path);
        }
        let mut known = std::collections::BTreeSet::new();
        for (_, directory) in agents.iter().filter(|(_, directory)| known.insert(directory.clone())) {
            place = place.with_agent_directory(directory);
        }
        Ok(Self { scope, store, place, agents, known: None })
    }

    /// Remembers the sources that the user adds. The lock of a project may name them again, even if they are private.
    #[must_use]
    pub fn with_known_sources(self, known: KnownSources) -> Self {
        Self { known: Some(known), ..self }
    }

    /// Who named a source of a lock. The user's own lock has what the user typed. In a project, the user named a source if it
    /// lies in the project itself, if the user added it on this machine, or if the user configured a token for its host.
    fn who_named(&self, source: &Source, options: &FetchOptions) -> NamedBy {
        let Scope::Project(project) = &self.scope else { return NamedBy::Typed };
        let is_inside = || match source {
            Source::Local(local) => real_path(&local.path)
                .zip(real_path(project))
                .is_some_and(|(path, project)| path.starts_with(project)),
            _ => false,
        };
        let has_token = || match source {
            Source::Download(url) | Source::WellKnown(url) => {
                url.host().is_some_and(|host| options.tokens.contains_key(&host))
            }
            _ => false,
        };
        let is_known = || self.known.as_ref().is_some_and(|known| known.has(source));
        let is_typed = options.locks == LockSources::Typed || is_inside() || has_token() || is_known();
        if is_typed { NamedBy::Typed } else { NamedBy::Stranger }
    }

    /// The scope.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The content cache.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The directory of a skill.
    pub fn skill_path(&self, name: &str) -> PathBuf {
        self.place.skill_path(name)
    }

    /// Finishes or undoes what a killed process has left. Call it at the start of every command.
    ///
    /// # Errors
    ///
    /// Another process takes too long, or the place cannot be changed.
    pub fn recover(&self) -> Result<Report, InstallError> {
        Ok(self.place.recover()?)
    }

    /// The skills that the lock pins.
    ///
    /// # Errors
    ///
    /// A lock cannot be read.
    pub fn locked(&self) -> Result<OwnLock, InstallError> {
        Ok(self.locks()?.own)
    }

    /// The source of a locked skill.
    fn source_of(&self, locked: &LockedSkill) -> Result<Source, InstallError> {
        Ok(locked.source(self.scope.directory())?)
    }

    fn locks(&self) -> Result<Locks, InstallError> {
        Locks::read(&self.scope)
    }

    /// Whether an agent is used in this scope: it has a directory of its own there, and no link leads out of the project. A
    /// directory that projects use for their own skills says nothing about the agent.
    pub fn has_agent(&self, agent: &Agent) -> bool {
        if self.has_common_directory(agent) {
            return false;
        }
        let Some(directory) = self.agent_directory(agent) else { return false };
        let parent = directory.parent().filter(|parent| *parent != self.scope.directory());
        parent.is_some_and(Path::is_dir) && !self.place.refuses_agent_directory(directory)
    }

    /// Whether the directory of an agent in this scope can have skills that are not of prowess.
    fn has_common_directory(&self, agent: &Agent) -> bool {
        matches!(self.scope, Scope::Project(_)) && agent.has_common_directory()
    }

    /// The directory of an agent's skills in this scope. `None` if the agent reads the place itself, or has no such directory.
    fn agent_directory(&self, agent: &Agent) -> Option<&Path> {
        self.agents.iter().find(|(known, _)| known.id == agent.id).map(|(_, directory)| directory.as_path())
    }
}
