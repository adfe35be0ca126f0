//! A library of skills on the disk, and servers of it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prowess_catalog::{Catalog, Root, ScanOptions};
use prowess_mcp::{LiveSkills, SkillServer, Watching, session_options};
use prowess_permission::{Decision, Permissions, Policy, Rule, RuleSource};
use prowess_skills::{Dialect, SkillSession};

use crate::client::Client;

/// A directory of skills that is gone when it is dropped.
pub(crate) struct Library(tempfile::TempDir);

impl Library {
    pub(crate) fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755)).unwrap();
        Self(place)
    }

    /// The library that most tests are about.
    pub(crate) fn usual() -> Self {
        Self::new()
            .skill("greet", "argument-hint: '[who]'\n", "Wave at $ARGUMENTS.")
            .skill("kit", "license: MIT\nmetadata:\n  version: 1.10\n  tag: '007'\n", "Use `scripts/say.sh`.")
            .file("kit/scripts/say.sh", "echo said\n")
            .file("kit/references/deep/notes.md", "# Notes\r\n")
            .file("kit/assets/logo.png", [0x89, b'P', b'N', b'G', 0, 0xff])
    }

    /// A skill with more frontmatter than a name and a description, and with a body.
    pub(crate) fn skill(self, name: &str, fields: &str, body: &str) -> Self {
        self.write_skill(name, fields, body);
        self
    }

    pub(crate) fn write_skill(&self, name: &str, fields: &str, body: &str) {
        let text = format!("---\nname: {name}\ndescription: Looks after {name}.\n{fields}---\n{body}\n");
        self.write(&format!("{name}/SKILL.md"), text);
    }

    pub(crate) fn file(self, path: &str, contents: impl AsRef<[u8]>) -> Self {
        self.write(path, contents);
        self
    }

    pub(crate) fn write(&self, path: &str, contents: impl AsRef<[u8]>) {
        let path = self.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, contents).unwrap();
    }

    pub(crate) fn join(&self, path: &str) -> PathBuf {
        self.path().join(path)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn catalog(&self, options: &ScanOptions) -> Catalog {
        Catalog::discover(&[Root::explicit(self.path())], options)
    }

    /// A server of it, with these rules beside the defaults.
    pub(crate) async fn server(&self, rules: &[(&'static str, &'static str, Decision)]) -> SkillServer {
        self.server_with(Dialect::DeepAgents, &ScanOptions::default(), rules).await
    }

    pub(crate) async fn server_with(
        &self,
        dialect: Dialect,
        options: &ScanOptions,
        rules: &[(&'static str, &'static str, Decision)],
    ) -> SkillServer {
        let catalog = self.catalog(options);
        let session = SkillSession::builder(catalog.clone())
            .options(session_options(dialect))
            .permissions(permissions(rules));
        SkillServer::new(LiveSkills::new(catalog), session.build().await)
    }

    /// A server that sees when the library changes.
    pub(crate) async fn watched(&self) -> (SkillServer, Watching) {
        let roots = vec![Root::explicit(self.path())];
        let live = LiveSkills::new(self.catalog(&ScanOptions::default()));
        let session = SkillSession::builder(live.catalog()).options(session_options(Dialect::DeepAgents));
        let server = SkillServer::new(Arc::clone(&live), session.build().await);
        let again = roots.clone();
        let look = move |known: &Catalog| known.refreshed(&again, &ScanOptions::default());
        (server, live.watch(roots, ScanOptions::default(), look).unwrap())
    }

    /// A client of the newest revision of a server of it.
    pub(crate) async fn client(&self) -> Client {
        Client::newest(self.server(&[]).await).await
    }
}

pub(crate) fn permissions(rules: &[(&'static str, &'static str, Decision)]) -> Permissions {
    let rules = rules.iter().map(|(kind, pattern, decision)| Rule::new(kind, pattern, *decision));
    Permissions::unattended(Policy::new().rules(RuleSource::User, rules))
}
