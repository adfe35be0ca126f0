//! The skills that users of the server uploaded: kept as artifacts, unpacked by digest, and merged with the server's skills into
//! one catalog for each user.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use async_trait::async_trait;
use bytes::Bytes;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use prowess_base::hex;
use prowess_catalog::{Catalog, Digest, Root, ScanOptions, Severity, SkillName};
use prowess_install::installer::{Candidate, LookOptions, look_in};
use prowess_install::snapshot::archive::{ArchiveLimits, unpack};
use prowess_install::snapshot::fetch::Fetched;
use prowess_install::source::Source;
use prowess_install::store::Store;
use prowess_permission::Policy;
use prowess_serve::view::time;
use prowess_serve::{
    OwnSkillCard, OwnSkillHook, OwnSkillLook, OwnSkillRefusal, OwnSkillRequirement, OwnSkillState, OwnSkills,
    OwnSkillsDecider, SkillFile,
};
use prowess_store::serve::{NewOwnSkill, OwnSkill, OwnSkillError, OwnSkillLimits, OwnSkillRows, SkillDigest};
use prowess_workspace::dir::remove_tree;
use prowess_workspace::{ArtifactError, ArtifactName, ArtifactStore as _, Artifacts, Scope};

use super::rule_names;
use crate::installing::{self, CandidateFile};
use crate::terminal::{printable, size};
use crate::trust;

/// How much one user may have.
const LIMITS: OwnSkillLimits = OwnSkillLimits { skills: 50, bytes: 100 << 20 };
/// How many users' catalogs stay in memory, besides those that threads use.
const MAX_CATALOGS: usize = 256;
/// How many findings about a skill are listed.
const MAX_FINDINGS: usize = 200;
/// The directory with the unpacked skills of users, in the server's directory.
const TREES: &str = "own-skills";
/// The directory beside them in which archives are looked at.
const LOOKED_AT: &str = "looked-at";
/// How old such a directory is if a process that was killed left it. Others may look at an archive now.
const ABANDONED: Duration = Duration::from_secs(3600);
/// The model of a skill that uses the one of its thread.
const INHERIT: &str = "inherit";
/// The label of the root of a user's skill.
pub(super) const LABEL: &str = "Yours";

/// Parses the option `--own-skills`.
pub(crate) fn decider_parser() -> impl TypedValueParser<Value = OwnSkillsDecider> {
    let choices = [
        (OwnSkillsDecider::Off, "off", "Users cannot upload skills"),
        (OwnSkillsDecider::Admin, "admin", "An administrator decides whether models see them"),
        (OwnSkillsDecider::User, "user", "The user decides"),
    ];
    let values = choices.map(|(_, name, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(values).try_map(move |given| {
        let chosen = choices.iter().find(|(_, name, _)| *name == given);
        chosen.map(|(decider, ..)| *decider).ok_or("no such choice")
    })
}

/// The skills of the users of a server.
pub(super) struct UsersSkills {
    decider: OwnSkillsDecider,
    rows: OwnSkillRows,
    artifacts: Artifacts,
    /// The server's directory.
    data: PathBuf,
    /// The server's skills.
    server: Arc<Mutex<Catalog>>,
    policy: Policy,
    users: Mutex<HashMap<String, Arc<UserCatalog>>>,
}

/// The skills that the agents of one user see.
struct UserCatalog {
    /// Threads in progress share it.
    catalog: Arc<Mutex<Catalog>>,
    built: tokio::sync::Mutex<Built>,
}

/// What a user's catalog was built from.
#[derive(Default)]
struct Built {
    server: Option<Catalog>,
    digests: Vec<SkillDigest>,
}

/// An archive whose skill was looked at, in a directory that goes away with it.
struct LookedAt {
    candidate: Candidate,
    /// The skill, as a catalog finds it.
    catalog: Catalog,
    instructions: String,
    _directory: tempfile::TempDir,
}

impl UsersSkills {
    pub(super) fn new(
        decider: OwnSkillsDecider,
        rows: OwnSkillRows,
        artifacts: Artifacts,
        data: &Path,
        server: Arc<Mutex<Catalog>>,
        policy: Policy,
    ) -> Self {
        forget_abandoned(&data.join(TREES).join(LOOKED_AT));
        Self { decider, rows, artifacts, data: data.to_owned(), server, policy, users: Mutex::default() }
    }

    /// The skills of a user's agents, up to date. It stays up to date while somebody holds it.
    pub(super) async fn catalog_of(&self, owner: &str) -> Result<Arc<Mutex<Catalog>>> {
        let user = self.user(owner);
        self.renew(owner, &user).await?;
        Ok(Arc::clone(&user.catalog))
    }

    /// Brings the catalogs up to date that threads use.
    pub(super) async fn renew_all(&self) {
        let used: Vec<_> = {
            let users = lock(&self.users);
            let used = users.iter().filter(|(_, user)| is_used(user));
            used.map(|(owner, user)| (owner.clone(), Arc::clone(user))).collect()
        };
        for (owner, user) in used {
            if let Err(error) = self.renew(&owner, &user).await {
                tracing::warn!(error = format!("{error:#}"), "Could not look for the skills of a user");
            }
        }
    }

    fn user(&self, owner: &str) -> Arc<UserCatalog> {
        let mut users = lock(&self.users);
        if users.len() >= MAX_CATALOGS && !users.contains_key(owner) {
            // Others are built again when they are needed.
            users.retain(|_, user| Arc::strong_count(user) > 1 || is_used(user));
        }
        let new = || {
            let catalog = Arc::new(Mutex::new(Catalog::empty()));
            Arc::new(UserCatalog { catalog, built: tokio::sync::Mutex::default() })
        };
        Arc::clone(users.entry(owner.to_owned()).or_insert_with(new))
    }

    /// Whether models may see a skill, as far as trust is concerned.
    fn is_trusted(&self, skill: &OwnSkill) -> bool {
        match (self.decider, &skill.trust) {
            (OwnSkillsDecider::Off, _) | (_, None) => false,
            (OwnSkillsDecider::User, Some(_)) => true,
            (OwnSkillsDecider::Admin, Some(trust)) => trust.by_admin,
        }
    }

    /// The skills of a user that models may see.
    async fn in_use(&self, owner: &str) -> Result<Vec<SkillDigest>> {
        if self.decider == OwnSkillsDecider::Off {
            return Ok(Vec::new());
        }
        let rows = self.rows.list(owner).await?;
        let is_in_use =
            |skill: &OwnSkill| self.is_trusted(skill) && !rule_names::names(&self.policy, &skill.name);
        Ok(rows.iter().filter(|skill| is_in_use(skill)).map(|skill| skill.digest).collect())
    }

    /// Builds the catalog of a user again if something changed.
    async fn renew(&self, owner: &str, user: &UserCatalog) -> Result<()> {
        let mut built = user.built.lock().await;
        let mut digests = self.in_use(owner).await?;
        let server = lock(&self.server).clone();
        if built.digests == digests && built.server.as_ref().is_some_and(|known| known.is_same(&server)) {
            return Ok(());
        }
        let merged = if digests.is_empty() && built.digests.is_empty() && built.server.is_some() {
            server.clone()
        } else {
            let mut roots = Vec::new();
            let mut found = Vec::new();
            for digest in digests {
                match self.unpacked(owner, &digest).await {
                    Ok(path) => {
                        roots.push(root(path));
                        found.push(digest);
                    }
                    // It is tried again.
                    Err(error) => {
                        let digest = Digest::from_bytes(digest);
                        tracing::warn!(error = format!("{error:#}"), %digest, "A skill of a user is left out");
                    }
                }
            }
            digests = found;
            let directory = self.trees(owner)?;
            let own = directory.clone();
            let there = tokio::task::spawn_blocking(move || unpacked_in(&own)).await?;
            // Asked again after that: another process may have unpacked a skill that is new since the first time.
            let kept = self.in_use(owner).await?;
            let server = server.clone();
            tokio::task::spawn_blocking(move || {
                forget_others(&directory, &there, &kept);
                if roots.is_empty() {
                    return server;
                }
                server.over(&Catalog::discover(&roots, &ScanOptions::default()))
            })
            .await?
        };
        *lock(&user.catalog) = merged;
        *built = Built { server: Some(server), digests };
        Ok(())
    }

    /// The directory with the unpacked skills of a user. Nothing else writes there.
    fn trees(&self, owner: &str) -> Result<PathBuf> {
        let is_id = !owner.is_empty() && owner.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_id.then(|| self.data.join(TREES).join(owner)).context("this is no id of a user")
    }

    /// The directory of a skill of a user. Its files have this digest.
    async fn unpacked(&self, owner: &str, digest: &SkillDigest) -> Result<PathBuf> {
        let (directory, wanted) = (self.trees(owner)?, Digest::from_bytes(*digest));
        let known = {
            let directory = directory.clone();
            tokio::task::spawn_blocking(move || anyhow::Ok(Store::open(&directory)?.get(&wanted))).await??
        };
        if let Some(stored) = known {
            return Ok(stored.path);
        }
        let archive = self.archive(owner, digest).await?;
        tokio::task::spawn_blocking(move || {
            let store = Store::open(&directory)?;
            let stored = candidate(&store, &archive)?.stored;
            if stored.digest != wanted {
                store.forget(&stored.digest)?;
                return Err(anyhow!("the stored archive has other files"));
            }
            Ok(stored.path)
        })
        .await?
    }

    fn artifacts(&self, owner: &str) -> Result<Artifacts> {
        Ok(self.artifacts.in_scope(Scope::owner(owner)?))
    }

    async fn archive(&self, owner: &str, digest: &SkillDigest) -> Result<Bytes> {
        Ok(self.artifacts(owner)?.load(&artifact_name(digest)?, None).await?.bytes)
    }

    async fn forget_archive(&self, owner: &str, digest: &SkillDigest) -> Result<()> {
        match self.artifacts(owner)?.delete(&artifact_name(digest)?).await {
            Ok(()) | Err(ArtifactError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Looks at the skill of an archive, and keeps nothing of it.
    async fn look_at(&self, archive: Bytes) -> Result<LookedAt, OwnSkillRefusal> {
        let data = self.data.clone();
        let looked = tokio::task::spawn_blocking(move || look_at(&data, &archive)).await;
        looked.map_err(|error| failed(error.into()))?
    }

    /// Why models cannot see a skill of this name, beside those of the server.
    fn clash(&self, looked: &LookedAt) -> Option<String> {
        let name = looked.candidate.found.name();
        if rule_names::names(&self.policy, name.as_str()) {
            return Some(by_rule(name.as_str()));
        }
        let own = looked.catalog.get(name.as_str())?;
        let merged = lock(&self.server).over(&looked.catalog);
        let is_seen = merged.get(name.as_str()).is_some_and(|entry| entry.root == own.root);
        (!is_seen).then(|| by_server(name.as_str()))
    }

    async fn row(&self, owner: &str, digest: &str) -> Result<OwnSkill, OwnSkillRefusal> {
        let digest: Digest = digest.parse().map_err(|_| OwnSkillRefusal::NotFound)?;
        let row = self.rows.get(owner, digest.as_bytes()).await.map_err(refused)?;
        row.ok_or(OwnSkillRefusal::NotFound)
    }

    /// The skills as a person sees them, with the catalog of their owner.
    fn card(&self, skill: &OwnSkill, catalog: &Catalog) -> OwnSkillCard {
        let is_trusted = self.is_trusted(skill);
        let own_path = self.trees(&skill.owner).ok().map(|trees| trees.join(hex::encode(&skill.digest)));
        let hidden_by = match catalog.get(&skill.name) {
            _ if !is_trusted => None,
            Some(entry) if Some(&entry.root.path) == own_path.as_ref() => None,
            _ if rule_names::names(&self.policy, &skill.name) => Some(by_rule(&skill.name)),
            _ if catalog.entries().iter().any(|entry| collides(entry.skill.name.as_str(), &skill.name)) => {
                Some(by_server(&skill.name))
            }
            _ => Some("The server cannot read its files. Upload it again.".to_owned()),
        };
        OwnSkillCard {
            digest: Digest::from_bytes(skill.digest).to_string(),
            name: skill.name.clone(),
            description: skill.description.clone(),
            files: skill.files,
            bytes: skill.bytes,
            uploaded: time(skill.uploaded),
            state: match (is_trusted, &hidden_by) {
                (false, _) => OwnSkillState::Waiting,
                (true, None) => OwnSkillState::InUse,
                (true, Some(_)) => OwnSkillState::Hidden,
            },
            hidden_by,
            trusted: skill.trust.as_ref().filter(|_| is_trusted).map(|trust| time(trust.at)),
        }
    }

    /// One of these, up to date.
    async fn card_of(&self, skill: &OwnSkill) -> Result<OwnSkillCard, OwnSkillRefusal> {
        let catalog = self.catalog_of(&skill.owner).await.map_err(failed)?;
        let catalog = lock(&catalog).clone();
        Ok(self.card(skill, &catalog))
    }

    async fn look_of(&self, skill: &OwnSkill, looked: &LookedAt) -> Result<OwnSkillLook, OwnSkillRefusal> {
        let candidate = &looked.candidate;
        let manifest = &candidate.found.skill;
        let file =
            |file: &CandidateFile<'_>| SkillFile { path: file.path.to_owned(), bytes: Some(file.bytes) };
        let (scripts, others): (Vec<_>, Vec<_>) =
            installing::candidate_files(candidate).into_iter().partition(|file| file.is_script);
        let hooks = match trust::hooks(manifest) {
            Some(hooks) => hooks.into_iter().map(|(event, does)| OwnSkillHook { event, does }).collect(),
            None => vec![OwnSkillHook { event: "in an unknown form".to_owned(), does: Vec::new() }],
        };
        let requirements = installing::requirements(candidate).into_iter();
        Ok(OwnSkillLook {
            card: self.card_of(skill).await?,
            license: manifest.license.clone(),
            allowed_tools: manifest.allowed_tools.clone(),
            hooks,
            needs: manifest.compatibility.clone(),
            requirements: requirements
                .map(|(field, value)| OwnSkillRequirement { field: field.to_owned(), value })
                .collect(),
            scripts: scripts.iter().map(file).collect(),
            other_files: others.iter().map(file).collect(),
            left_out: candidate.stored.left_out.clone(),
            findings: first(installing::findings(candidate).all()),
            instructions: looked.instructions.clone(),
        })
    }
}

#[async_trait]
impl OwnSkills for UsersSkills {
    fn decider(&self) -> OwnSkillsDecider {
        self.decider
    }

    async fn list(&self, owner: &str) -> Result<Vec<OwnSkillCard>, OwnSkillRefusal> {
        let catalog = self.catalog_of(owner).await.map_err(failed)?;
        let catalog = lock(&catalog).clone();
        let rows = self.rows.list(owner).await.map_err(refused)?;
        Ok(rows.iter().map(|skill| self.card(skill, &catalog)).collect())
    }

    async fn waiting(&self, limit: usize) -> Result<Vec<(String, OwnSkillCard)>, OwnSkillRefusal> {
        let rows = self.rows.waiting(limit).await.map_err(refused)?;
        // None of them is in use.
        Ok(rows.iter().map(|skill| (skill.owner.clone(), self.card(skill, &Catalog::empty()))).collect())
    }

    async fn add(&self, owner: &str, archive: Bytes) -> Result<OwnSkillLook, OwnSkillRefusal> {
        let looked = self.look_at(archive.clone()).await?;
        let (name, stored) = (looked.candidate.found.name(), &looked.candidate.stored);
        if let Some(why) = self.clash(&looked) {
            return Err(OwnSkillRefusal::Conflict(why));
        }
        let rows = self.rows.list(owner).await.map_err(refused)?;
        let twin = rows.iter().find(|row| row.name != name.as_str() && collides(&row.name, name.as_str()));
        if let Some(twin) = twin {
            let (own, twin) = (printable(name.as_str()), printable(&twin.name));
            return Err(OwnSkillRefusal::Conflict(format!(
                "You have a skill `{twin}`, which differs from `{own}` in letter case only. Remove it, or rename one of them."
            )));
        }
        let bytes = stored.tree.bytes().saturating_add(archive.len() as u64);
        let digest = *stored.digest.as_bytes();
        let new = NewOwnSkill {
            digest,
            name: name.as_str().to_owned(),
            description: looked.candidate.found.skill.description.clone(),
            files: stored.tree.files.len() as u64,
            bytes,
        };
        let replaced = self.rows.add(owner, &new, LIMITS).await.map_err(refused)?;
        let saved = async {
            let (artifacts, name) = (self.artifacts(owner)?, artifact_name(&digest)?);
            if artifacts.versions(&name).await?.is_empty() {
                artifacts.save(&name, archive, "application/octet-stream").await?;
            }
            for old in &replaced {
                self.forget_archive(owner, old).await?;
            }
            anyhow::Ok(())
        };
        if let Err(error) = saved.await {
            let _ = self.rows.remove(owner, &digest).await;
            return Err(failed(error));
        }
        let row = self.rows.get(owner, &digest).await.map_err(refused)?.ok_or(OwnSkillRefusal::NotFound)?;
        self.look_of(&row, &looked).await
    }

    async fn look(&self, owner: &str, digest: &str) -> Result<OwnSkillLook, OwnSkillRefusal> {
        let row = self.row(owner, digest).await?;
        let looked = self.look_at(self.archive(owner, &row.digest).await.map_err(failed)?).await?;
        self.look_of(&row, &looked).await
    }

    async fn trust(
        &self,
        owner: &str,
        digest: &str,
        by: &str,
        as_admin: bool,
    ) -> Result<OwnSkillCard, OwnSkillRefusal> {
        let row = self.row(owner, digest).await?;
        // What is trusted is what was shown: the archive still has these files, and the name is still free.
        let looked = self.look_at(self.archive(owner, &row.digest).await.map_err(failed)?).await?;
        if looked.candidate.stored.digest != Digest::from_bytes(row.digest) {
            return Err(failed(anyhow!("the stored archive of a skill has other files")));
        }
        if let Some(why) = self.clash(&looked) {
            return Err(OwnSkillRefusal::Conflict(why));
        }
        let replaced = self.rows.trust(owner, &row.digest, by, as_admin).await.map_err(refused)?;
        for old in &replaced {
            self.forget_archive(owner, old).await.map_err(failed)?;
        }
        self.card_of(&self.row(owner, digest).await?).await
    }

    async fn distrust(&self, owner: &str, digest: &str) -> Result<OwnSkillCard, OwnSkillRefusal> {
        let row = self.row(owner, digest).await?;
        self.rows.distrust(owner, &row.digest).await.map_err(refused)?;
        self.card_of(&self.row(owner, digest).await?).await
    }

    async fn remove(&self, owner: &str, digest: &str) -> Result<OwnSkillCard, OwnSkillRefusal> {
        let row = self.row(owner, digest).await?;
        let mut card = self.card_of(&row).await?;
        card.state = OwnSkillState::Waiting;
        self.rows.remove(owner, &row.digest).await.map_err(refused)?;
        // This takes the files away too.
        self.catalog_of(owner).await.map_err(failed)?;
        self.forget_archive(owner, &row.digest).await.map_err(failed)?;
        Ok(card)
    }
}

/// The first findings, which are the gravest, and how many more there are.
fn first(mut findings: Vec<String>) -> Vec<String> {
    let more = findings.len().saturating_sub(MAX_FINDINGS);
    findings.truncate(MAX_FINDINGS);
    findings.extend((more > 0).then(|| format!("{more} more findings")));
    findings
}

/// Whether a thread uses the catalog.
fn is_used(user: &UserCatalog) -> bool {
    Arc::strong_count(&user.catalog) > 1
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn root(path: PathBuf) -> Root {
    let mut root = Root::explicit(path);
    LABEL.clone_into(&mut root.label);
    root
}

fn artifact_name(digest: &SkillDigest) -> Result<ArtifactName> {
    Ok(ArtifactName::parse(&format!("skills/{}", hex::encode(digest)))?)
}

/// The unpacked skills of a user.
fn unpacked_in(directory: &Path) -> Vec<Digest> {
    let digest = |entry: std::fs::DirEntry| {
        let name = entry.file_name();
        name.to_str().and_then(|name| format!("sha256:{name}").parse::<Digest>().ok())
    };
    std::fs::read_dir(directory).into_iter().flatten().flatten().filter_map(digest).collect()
}

/// Removes those of the unpacked skills of a user that are not in use.
fn forget_others(directory: &Path, there: &[Digest], kept: &[SkillDigest]) {
    let Ok(store) = Store::open(directory) else { return };
    for digest in there.iter().filter(|digest| !kept.contains(digest.as_bytes())) {
        if let Err(error) = store.forget(digest) {
            tracing::warn!(%error, "Could not remove an unpacked skill");
        }
    }
}

/// Removes what processes that were killed looked at.
fn forget_abandoned(looked_at: &Path) {
    for entry in std::fs::read_dir(looked_at).into_iter().flatten().flatten() {
        let made = entry.metadata().and_then(|found| found.modified());
        if made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age > ABANDONED))
            && let Err(error) = remove_tree(&entry.path())
        {
            tracing::warn!(%error, directory = %entry.path().display(), "Could not remove old files");
        }
    }
}

/// The only skill of an archive, unpacked in a store.
fn candidate(store: &Store, archive: &[u8]) -> Result<Candidate, OwnSkillRefusal> {
    let unusable = |why: String| OwnSkillRefusal::Unusable(why);
    let limits = ArchiveLimits::default();
    let snapshot = unpack(archive, &limits).map_err(|error| unusable(format!("{error}.")))?;
    let fetched = Fetched { snapshot: Box::new(snapshot), site: None };
    let source = Source::local(Path::new("upload.skill"));
    let options = LookOptions { internal: true, ..LookOptions::default() };
    let looked = look_in(store, &source, fetched, &options).map_err(|error| failed(error.into()))?;
    if let Some((name, why)) = looked.refused.into_iter().next() {
        return Err(unusable(format!("`{}` cannot be used: {}.", printable(&name), printable(&why))));
    }
    let mut candidates = looked.candidates.into_iter();
    match (candidates.next(), candidates.len()) {
        (Some(only), 0) => Ok(only),
        (Some(_), more) => {
            Err(unusable(format!("The archive has {} skills. Upload one at a time.", more + 1)))
        }
        (None, _) => {
            let notices: Vec<String> = looked.notices.iter().map(|notice| printable(notice)).collect();
            let why = if notices.is_empty() { String::new() } else { format!(": {}", notices.join("; ")) };
            Err(unusable(format!("The archive has no skill that can be used{why}.")))
        }
    }
}

fn look_at(data: &Path, archive: &[u8]) -> Result<LookedAt, OwnSkillRefusal> {
    let looked_at = data.join(TREES).join(LOOKED_AT);
    super::make(&looked_at).map_err(failed)?;
    let directory = tempfile::tempdir_in(looked_at).map_err(|error| failed(error.into()))?;
    let store = Store::open(directory.path()).map_err(|error| failed(error.into()))?;
    let candidate = candidate(&store, archive)?;
    if !is_plain(candidate.found.name().as_str()) {
        return Err(OwnSkillRefusal::Unusable(format!(
            "The name `{}` cannot be used: a name has no `/`, no `\\` and no control characters, and is not `.` or `..`. Change the field \
             `name` in its SKILL.md.",
            printable(candidate.found.name().as_str())
        )));
    }
    // Another model of the provider may have no price, and so pass by the limits of cost.
    if let Some(model) = candidate.found.skill.extensions.model.as_deref().filter(|model| *model != INHERIT) {
        return Err(OwnSkillRefusal::Unusable(format!(
            "Its SKILL.md chooses the model `{}`, and skills of users cannot. Remove the field `model`.",
            printable(model)
        )));
    }
    let name = candidate.found.name().as_str();
    let catalog = Catalog::discover(&[root(candidate.stored.path.clone())], &ScanOptions::default());
    let read = catalog.get(name).map(|entry| entry.read_text());
    let instructions = match read {
        Some(Ok(text)) => text.body().to_owned(),
        Some(Err(error)) => {
            let why = printable(&error.to_string());
            return Err(OwnSkillRefusal::Unusable(format!("Its SKILL.md cannot be read: {why}.")));
        }
        None => {
            let grave = catalog.diagnostics().filter(|found| found.severity == Severity::Error);
            let why: Vec<String> = grave.map(|found| printable(&found.message)).collect();
            return Err(OwnSkillRefusal::Unusable(format!(
                "Its SKILL.md cannot be used: {}.",
                why.join("; ")
            )));
        }
    };
    Ok(LookedAt { instructions, catalog, candidate, _directory: directory })
}

/// Whether a name is one plain part of a path.
fn is_plain(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.chars().any(|c| matches!(c, '/' | '\\') || c.is_control())
}

/// Whether a catalog has room for only one of both names.
fn collides(one: &str, other: &str) -> bool {
    match (SkillName::parse(one), SkillName::parse(other)) {
        (Ok(one), Ok(other)) => one.collides_with(&other),
        _ => one == other,
    }
}

fn by_server(name: &str) -> String {
    format!("This server has a skill `{}`, or keeps the name for one. Choose another name.", printable(name))
}

fn by_rule(name: &str) -> String {
    format!("A rule of this server is about a skill `{}`. Choose another name.", printable(name))
}

fn failed(error: anyhow::Error) -> OwnSkillRefusal {
    OwnSkillRefusal::Failed(error.into())
}

fn refused(error: OwnSkillError) -> OwnSkillRefusal {
    match error {
        OwnSkillError::NotFound => OwnSkillRefusal::NotFound,
        OwnSkillError::NoRoom => OwnSkillRefusal::Conflict(format!(
            "You can have {} skills with {} in all. Remove some.",
            LIMITS.skills,
            size(LIMITS.bytes)
        )),
        error => failed(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write as _};

    use prowess_store::{Database, SqliteStore};

    use super::*;

    fn archive(name: &str, text: &str) -> Bytes {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        zip.start_file("SKILL.md", zip::write::SimpleFileOptions::default()).unwrap();
        write!(zip, "---\nname: {name}\ndescription: {text}\n---\n{text}\n").unwrap();
        zip.finish().unwrap().into_inner().into()
    }

    fn described(catalog: &Mutex<Catalog>) -> Vec<String> {
        let catalog = lock(catalog).clone();
        catalog.entries().iter().map(|entry| entry.skill.description.clone()).collect()
    }

    #[test]
    fn a_name_is_one_part_of_a_path() {
        for name in ["knots", "My Skill", "潮汐", "a.b", "..."] {
            assert!(is_plain(name), "{name}");
        }
        for name in ["", ".", "..", "/", "a/b", "../a", "a\\b", "a\nb", "a\u{7f}"] {
            assert!(!is_plain(name), "{name:?}");
        }
    }

    #[test]
    fn a_start_removes_only_what_a_dead_process_left() {
        let place = tempfile::tempdir().unwrap();
        let (old, new) = (place.path().join("old"), place.path().join("new"));
        for directory in [&old, &new] {
            std::fs::create_dir(directory).unwrap();
            std::fs::write(directory.join("SKILL.md"), "text").unwrap();
        }
        let long_ago = std::time::SystemTime::now() - 2 * ABANDONED;
        std::fs::File::open(&old).unwrap().set_modified(long_ago).unwrap();
        forget_abandoned(place.path());
        assert!(!old.exists() && new.join("SKILL.md").exists());
    }

    #[tokio::test]
    async fn a_skill_that_another_process_unpacks_meanwhile_stays() {
        let data = tempfile::tempdir().unwrap();
        let database = Database::from(SqliteStore::in_memory().unwrap());
        let artifacts = Artifacts::in_memory();
        let process = || {
            UsersSkills::new(
                OwnSkillsDecider::User,
                database.own_skills(),
                artifacts.clone(),
                data.path(),
                Arc::new(Mutex::new(Catalog::empty())),
                Policy::new(),
            )
        };
        let (one, other) = (process(), process());
        let anna = database.accounts().add_user("anna", false).await.unwrap().id;
        let first = one.add(&anna, archive("knots", "first")).await.unwrap().card.digest;
        one.trust(&anna, &first, &anna, false).await.unwrap();
        // What one process sees before the other one has the second skill.
        let directory = one.trees(&anna).unwrap();
        let (there, kept) = (unpacked_in(&directory), one.in_use(&anna).await.unwrap());
        let second = other.add(&anna, archive("tides", "second")).await.unwrap().card.digest;
        other.trust(&anna, &second, &anna, false).await.unwrap();
        let of_anna = other.catalog_of(&anna).await.unwrap();
        forget_others(&directory, &there, &kept);
        let second: Digest = second.parse().unwrap();
        assert!(unpacked_in(&directory).contains(&second));
        assert_eq!(described(&of_anna).len(), 2);
    }

    #[tokio::test]
    async fn a_catalog_that_is_held_hears_of_changes_and_of_nobody_elses() {
        let data = tempfile::tempdir().unwrap();
        let database = Database::from(SqliteStore::in_memory().unwrap());
        let server = Arc::new(Mutex::new(Catalog::empty()));
        let (artifacts, policy) = (Artifacts::in_memory(), Policy::new());
        let skills = UsersSkills::new(
            OwnSkillsDecider::User,
            database.own_skills(),
            artifacts.clone(),
            data.path(),
            Arc::clone(&server),
            policy,
        );
        let mut users = Vec::new();
        for name in ["anna", "ben"] {
            let user = database.accounts().add_user(name, false).await.unwrap().id;
            let look = skills.add(&user, archive("knots", name)).await.unwrap();
            assert_eq!(look.card.state, OwnSkillState::Waiting);
            assert_eq!(described(&skills.catalog_of(&user).await.unwrap()), Vec::<String>::new());
            skills.trust(&user, &look.card.digest, &user, false).await.unwrap();
            users.push((user, look.card.digest));
        }
        let [(anna, hers), (ben, _)] = &users[..] else { panic!() };
        let (of_anna, of_ben) =
            (skills.catalog_of(anna).await.unwrap(), skills.catalog_of(ben).await.unwrap());
        assert_eq!(described(&of_anna), ["anna"]);
        assert_eq!(described(&of_ben), ["ben"]);
        // Idle catalogs of others make room. These are held, and still hear of changes.
        for number in 0..2 * MAX_CATALOGS {
            skills.catalog_of(&format!("idle{number}")).await.unwrap();
        }
        assert!(lock(&skills.users).len() <= MAX_CATALOGS);
        assert!(Arc::ptr_eq(&of_anna, &skills.catalog_of(anna).await.unwrap()));
        // Another process changes the row, and the server finds a skill of its own.
        let digest: Digest = hers.parse().unwrap();
        database.own_skills().distrust(anna, digest.as_bytes()).await.unwrap();
        let own = data.path().join("server");
        std::fs::create_dir_all(own.join("knots")).unwrap();
        std::fs::write(own.join("knots/SKILL.md"), "---\nname: Knots\ndescription: server\n---\n").unwrap();
        *lock(&server) = Catalog::discover(&[Root::explicit(own)], &ScanOptions::default());
        skills.renew_all().await;
        assert_eq!(described(&of_anna), ["server"]);
        assert_eq!(described(&of_ben), ["server"]);
        assert_eq!(skills.list(ben).await.unwrap()[0].state, OwnSkillState::Hidden);
        assert_eq!(skills.list(anna).await.unwrap()[0].state, OwnSkillState::Waiting);
        // Every skill that is removed frees its bytes.
        skills.remove(anna, hers).await.unwrap();
        let kept =
            async |owner: &str| artifacts.in_scope(Scope::owner(owner).unwrap()).list().await.unwrap().len();
        assert_eq!((kept(anna).await, kept(ben).await), (0, 1));
    }
}
