//! What a person would have: skills on a disk, a database in a file, files, sandboxed runs.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use prowess_agent::middleware::Skills;
use prowess_agent::{Agent, AgentBuilder, Model, Thread, ThreadId};
use prowess_backend::LocalBackend;
use prowess_catalog::{Catalog, Root, ScanOptions};
use prowess_permission::{Decision, Permissions, Policy, Rule, RuleSource};
use prowess_skills::{Dialect, RunSetup, SessionOptions, SkillSession, SkillSessionBuilder};
use prowess_store::SqliteStore;
use prowess_workspace::{Artifacts, LocalExecutor, LocalOptions, Runner, Workspaces};
use tempfile::TempDir;

pub(crate) struct World {
    pub(crate) scratch: TempDir,
    pub(crate) store: SqliteStore,
}

impl World {
    /// A world with skills: a name, more lines of frontmatter, and instructions.
    pub(crate) async fn new(skills: &[(&str, &str, &str)]) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o711)).unwrap();
        let store = SqliteStore::open(scratch.path().join("threads.db")).await.unwrap();
        let world = Self { scratch, store };
        std::fs::create_dir(world.files()).unwrap();
        std::fs::create_dir(world.root()).unwrap();
        for (name, frontmatter, body) in skills {
            world.write(
                &format!("{name}/SKILL.md"),
                &format!("---\nname: {name}\ndescription: Looks after {name}.\n{frontmatter}---\n{body}\n"),
            );
        }
        world
    }

    /// Where the skills are.
    pub(crate) fn root(&self) -> PathBuf {
        self.files().join("skills")
    }

    fn files(&self) -> PathBuf {
        self.scratch.path().join("files")
    }

    /// Writes a file of a skill.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// The files that agents see: `/skills` among them.
    pub(crate) fn backend(&self) -> Arc<LocalBackend> {
        Arc::new(LocalBackend::open(self.files()).unwrap())
    }

    pub(crate) fn catalog(&self) -> Catalog {
        Catalog::discover(&[Root::explicit(self.root())], &ScanOptions::default())
    }

    /// The skills, in the words of a dialect, with commands that may be run.
    pub(crate) fn skills(&self, dialect: Dialect) -> Skills {
        self.skills_with(move |_| SessionOptions::new(dialect), &[("run", "*", Decision::Allow)])
    }

    pub(crate) fn skills_with(
        &self,
        options: impl Fn(&ThreadId) -> SessionOptions + Send + Sync + 'static,
        rules: &[(&str, &str, Decision)],
    ) -> Skills {
        let (catalog, runner) = (self.catalog(), self.runner());
        let rules: Vec<Rule> =
            rules.iter().map(|(kind, pattern, action)| Rule::new(kind, pattern, *action)).collect();
        Skills::new(move |thread| {
            let policy = Policy::new().rules(RuleSource::User, rules.clone());
            builder(&catalog, options(thread))
                .permissions(Permissions::unattended(policy))
                .runs(RunSetup::new(runner.clone(), thread.as_str()))
        })
    }

    pub(crate) fn runner(&self) -> Runner {
        Runner {
            workspaces: Workspaces::open(self.scratch.path().join("workspaces")).unwrap(),
            artifacts: Some(Arc::new(Artifacts::in_memory())),
            executor: Some(Arc::new(LocalExecutor::new(LocalOptions::default()))),
        }
    }

    /// An agent whose threads are in the database.
    pub(crate) fn agent(&self, model: Arc<dyn Model>) -> AgentBuilder {
        Agent::builder(model).store(Arc::new(self.store.clone()))
    }
}

fn builder(catalog: &Catalog, options: SessionOptions) -> SkillSessionBuilder {
    SkillSession::builder(catalog.clone()).options(options)
}

pub(crate) async fn open(agent: &Agent) -> Thread {
    agent.open(ThreadId::new()).await.unwrap()
}
