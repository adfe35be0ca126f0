//! The trust status of a project and of its items.

use anyhow::Result;
use bytes::Bytes;
use prowess_catalog::SkillEntry;
use prowess_catalog::trusted::TrustedEntries;
use std::collections::{BTreeMap, BTreeSet};

use super::items::{self, Purpose};
use super::trust_file::{Record, TrustFile};
use super::{Item, ItemKind};
use crate::config::{self, FILE_NAME, OfProject, Source};
use crate::project::Project;
use crate::terminal::{count, printable};

/// How many untrusted items are named.
const MAX_NAMED: usize = 5;

/// How far a project is trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TrustStatus {
    /// It has nothing that needs trust.
    NothingToTrust,
    /// Completely, because the user said so for this command.
    Whole,
    /// Not at all, because nobody was asked. Its items were not read.
    Unasked,
    /// There are earlier decisions. This is the status of each item, by its path below the top.
    Known {
        items: BTreeMap<String, ItemTrust>,
        /// The text of the configuration when it was trusted.
        configuration: Option<String>,
        /// The trusted definitions of sub-agents, by their paths below the top, as they were read.
        agents: BTreeMap<String, Vec<u8>>,
        /// The trusted memory files, as they were read to check them.
        memory: BTreeMap<String, Bytes>,
    },
}

/// An item with its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ItemTrust {
    pub(super) kind: ItemKind,
    pub(super) status: ItemStatus,
}

/// The trust status of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ItemStatus {
    /// It has not changed since it was trusted.
    Trusted,
    /// Nobody decided about it.
    New,
    /// It has changed since the last decision.
    Changed,
    /// It was refused, and has not changed since.
    Refused,
    /// It cannot be trusted as it is.
    Unfit(String),
    /// It has not changed, but links to this item, which is not trusted.
    LeadsTo(String),
}

/// Finds out how far a project is trusted. Its items are read only if there are earlier decisions.
pub(crate) fn status(project: Option<&Project>) -> Result<TrustStatus> {
    let Some(project) = project.filter(|project| project.brings_something()) else {
        return Ok(TrustStatus::NothingToTrust);
    };
    let Some(file) = TrustFile::of_user() else { return Ok(TrustStatus::Unasked) };
    let Some(record) = file.get(project.top())? else { return Ok(TrustStatus::Unasked) };
    let items = items::find_items(project, Purpose::Compare, &record.paths().collect());
    let configuration = record.trusted_configuration().map(ToOwned::to_owned);
    let judged = judge(&items, Some(&record));
    let counts = |path: &str| judged.get(path).is_some_and(|item| item.status == ItemStatus::Trusted);
    let agents = agent_texts(&items, counts);
    let memory = memory_texts(items, counts);
    Ok(TrustStatus::Known { items: judged, configuration, agents, memory })
}

/// The texts of the memory files that count.
fn memory_texts(items: BTreeMap<String, Item>, counts: impl Fn(&str) -> bool) -> BTreeMap<String, Bytes> {
    let memory = items.into_iter().filter(|(path, item)| item.kind == ItemKind::Memory && counts(path));
    memory.filter_map(|(path, mut item)| Some((path, Bytes::from(item.texts.remove("")?)))).collect()
}

/// The definitions of sub-agents in the items that count, by their paths below the top.
fn agent_texts(items: &BTreeMap<String, Item>, counts: impl Fn(&str) -> bool) -> BTreeMap<String, Vec<u8>> {
    let of_agents = items.iter().filter(|(path, item)| item.kind == ItemKind::Agent && counts(path));
    let texts = of_agents.flat_map(|(path, item)| {
        let path_of =
            move |below: &str| if below.is_empty() { path.clone() } else { format!("{path}/{below}") };
        item.texts.iter().map(move |(below, text)| (path_of(below), text.clone()))
    });
    texts.collect()
}

/// The status of each item, by the recorded decisions. Missing items are ignored.
pub(super) fn judge(items: &BTreeMap<String, Item>, record: Option<&Record>) -> BTreeMap<String, ItemTrust> {
    let remembered = |path: &str| {
        let of = |digests: &BTreeMap<String, String>| digests.get(path).cloned();
        record.map_or((None, None), |record| (of(&record.items), of(&record.refused)))
    };
    let judge = |(path, item): (&String, &Item)| {
        let status = match (&item.digest, remembered(path)) {
            (Err(problem), _) => ItemStatus::Unfit(problem.clone()),
            (Ok(now), (Some(trusted), _)) if *now == trusted => ItemStatus::Trusted,
            (Ok(now), (_, Some(refused))) if *now == refused => ItemStatus::Refused,
            (Ok(_), (None, None)) => ItemStatus::New,
            (Ok(_), _) => ItemStatus::Changed,
        };
        (path.clone(), ItemTrust { kind: item.kind, status })
    };
    let mut judged: BTreeMap<String, ItemTrust> = items.iter().map(judge).collect();
    // An item that links to an untrusted one is not trusted either, and so on.
    loop {
        let trusted: BTreeSet<&String> = judged
            .iter()
            .filter(|(_, item)| item.status == ItemStatus::Trusted)
            .map(|(path, _)| path)
            .collect();
        let reach = |path: &&String| {
            let to = items.get(*path)?.leads_to.iter().find(|to| !is_trusted(to, &judged))?;
            Some(((*path).clone(), to.clone()))
        };
        let fallen: Vec<(String, String)> = trusted.iter().filter_map(reach).collect();
        if fallen.is_empty() {
            return judged;
        }
        for (path, to) in fallen {
            if let Some(item) = judged.get_mut(&path) {
                item.status = ItemStatus::LeadsTo(to);
            }
        }
    }
}

/// Whether the target of a link is trusted: an item, or all items of a skill directory.
fn is_trusted(place: &str, judged: &BTreeMap<String, ItemTrust>) -> bool {
    if let Some(item) = judged.get(place) {
        return item.status == ItemStatus::Trusted;
    }
    let below = format!("{place}/");
    let mut entries = judged.iter().filter(|(path, _)| path.starts_with(&below)).peekable();
    entries.peek().is_some() && entries.all(|(_, item)| item.status == ItemStatus::Trusted)
}

impl TrustStatus {
    /// Whether there are items that nobody decided about in their present state.
    pub(crate) fn has_questions(&self) -> bool {
        match self {
            Self::NothingToTrust | Self::Whole => false,
            Self::Unasked => true,
            Self::Known { items, .. } => items.values().any(|item| item.status.is_open()),
        }
    }

    /// The part of the project's configuration that is used: all of it, or the restrictions that were trusted before.
    pub(crate) fn configuration(&self, project: Option<&Project>) -> Result<OfProject> {
        let Some(project) = project else { return Ok(OfProject::Nothing) };
        if self.trusts(FILE_NAME) {
            return Ok(project.configuration()?.cloned().map_or(OfProject::Nothing, OfProject::Whole));
        }
        Ok(match self.earlier(project) {
            Some(text) => OfProject::Restrictions(Source::earlier(project.top(), text)),
            None => OfProject::Nothing,
        })
    }

    /// The trusted configuration, if the present one is not trusted.
    fn earlier(&self, project: &Project) -> Option<&str> {
        let Self::Known { configuration, .. } = self else { return None };
        configuration.as_deref().filter(|_| project.has_configuration() && !self.trusts(FILE_NAME))
    }

    /// The memory files of the project that are used, by their paths below the top.
    pub(crate) fn memory(&self, project: &Project) -> BTreeMap<String, Bytes> {
        match self {
            Self::NothingToTrust | Self::Unasked => BTreeMap::new(),
            Self::Known { memory, .. } => memory.clone(),
            Self::Whole => {
                memory_texts(items::find_items(project, Purpose::Compare, &BTreeSet::new()), |_| true)
            }
        }
    }

    /// The memory files of the project that are not used.
    fn unused_memory(&self, project: &Project) -> Vec<String> {
        let paths = project.present_memory().map(|path| path.to_string_lossy().into_owned());
        paths.filter(|path| !self.trusts(path)).map(|path| printable(&path)).collect()
    }

    /// The trusted definitions of sub-agents: the paths below the project's top, and the texts.
    pub(crate) fn agents(&self, project: Option<&Project>) -> BTreeMap<String, Vec<u8>> {
        match (self, project) {
            (Self::Known { agents, .. }, _) => agents.clone(),
            (Self::Whole, Some(project)) if !project.agent_roots().is_empty() => {
                let items = items::find_items(project, Purpose::Compare, &BTreeSet::new());
                agent_texts(&items, |path| items.get(path).is_some_and(|item| item.digest.is_ok()))
            }
            _ => BTreeMap::new(),
        }
    }

    /// What to say about sub-agents of the project that are not trusted.
    fn unused_agents(&self, project: Option<&Project>) -> Option<String> {
        let is_out = |item: &ItemTrust| item.kind == ItemKind::Agent && item.status != ItemStatus::Trusted;
        match self {
            Self::NothingToTrust | Self::Whole => None,
            Self::Unasked => {
                let has_some = project.is_some_and(|project| !project.agent_roots().is_empty());
                has_some.then(|| "its sub-agents are not used".to_owned())
            }
            Self::Known { items, .. } => {
                let number = items.values().filter(|item| is_out(item)).count();
                let are = if number == 1 { "is" } else { "are" };
                (number > 0).then(|| format!("{} {are} not used", count(number, "sub-agent")))
            }
        }
    }

    fn trusts(&self, path: &str) -> bool {
        match self {
            Self::NothingToTrust | Self::Unasked => false,
            Self::Whole => true,
            Self::Known { items, .. } => {
                items.get(path).is_some_and(|item| item.status == ItemStatus::Trusted)
            }
        }
    }

    /// The trusted entries of the skill directories.
    pub(crate) fn entries(&self, project: Option<&Project>) -> TrustedEntries {
        let mut entries = TrustedEntries::default();
        let (Self::Known { items, .. }, Some(project)) = (self, project) else { return entries };
        for (path, item) in items {
            if item.kind == ItemKind::Skill
                && item.status == ItemStatus::Trusted
                && let Some((root, name)) = path.rsplit_once('/')
            {
                entries.insert(project.top().join(root), name);
            }
        }
        entries
    }

    /// Why a skill of the project is not trusted, as a sentence.
    pub(crate) fn reason(&self, project: Option<&Project>, entry: &SkillEntry) -> Option<String> {
        let (Self::Known { items, .. }, Some(project)) = (self, project) else { return None };
        let root = entry.root.path.strip_prefix(project.top()).ok()?;
        let below =
            std::path::Path::new(entry.skill.location.directory()).strip_prefix(&entry.root.path).ok()?;
        let path = root.join(below.components().next()?);
        Some(items.get(path.to_str()?)?.status.about("it"))
    }

    /// One line about what is not trusted and therefore not used in a chat.
    pub(crate) fn notice(&self, project: Option<&Project>, skills: usize) -> Option<String> {
        let memory = project.map(|project| self.unused_memory(project)).unwrap_or_default();
        let are = if memory.len() == 1 { "is" } else { "are" };
        let memory = (!memory.is_empty()).then(|| format!("its {} {are} not read", memory.join(" and ")));
        let (configuration, agents) = (self.unused_configuration(project), self.unused_agents(project));
        self.notice_line([hidden_skills(skills), agents, configuration, memory], |_| true)
    }

    /// The same for commands that list skills. An AGENTS.md alone is only for chats.
    pub(crate) fn notice_of_list(&self, project: Option<&Project>, skills: usize) -> Option<String> {
        let concerns_list = skills > 0 || self.unused_configuration(project).is_some();
        self.notice(project, skills).filter(|_| concerns_list)
    }

    /// The same, only about the configuration.
    pub(crate) fn notice_of_configuration(&self, project: Option<&Project>) -> Option<String> {
        self.notice_line([self.unused_configuration(project)], |kind| kind == ItemKind::Configuration)
    }

    fn unused_configuration(&self, project: Option<&Project>) -> Option<String> {
        let project = project.filter(|project| project.has_configuration() && !self.trusts(FILE_NAME))?;
        let earlier = self.earlier(project).map(|text| Source::earlier(project.top(), text));
        let stays = if earlier.is_some_and(|source| config::restricts(&source)) {
            ", except the hooks and the `deny` and `ask` rules that you trusted before"
        } else {
            ""
        };
        Some(format!("its {FILE_NAME} is not used{stays}"))
    }

    fn notice_line(
        &self,
        left_out: impl IntoIterator<Item = Option<String>>,
        counts: impl Fn(ItemKind) -> bool,
    ) -> Option<String> {
        if matches!(self, Self::NothingToTrust | Self::Whole) {
            return None;
        }
        let left_out: Vec<String> = left_out.into_iter().flatten().collect();
        if left_out.is_empty() {
            return None;
        }
        let left_out = left_out.join(", ");
        let none = BTreeMap::new();
        let items = if let Self::Known { items, .. } = self { items } else { &none };
        let trusted = items.values().filter(|item| item.status == ItemStatus::Trusted).count();
        let named = list_untrusted(items.iter().filter(|(_, item)| counts(item.kind)));
        let is_new = |item: &ItemTrust| matches!(item.status, ItemStatus::New | ItemStatus::Refused);
        Some(if trusted > 0 {
            let trusted = stay_trusted(trusted);
            format!(
                "part of this project is not trusted ({named}): {left_out}; {trusted}; `prowess trust` shows the rest"
            )
        } else if items.values().all(is_new) {
            format!("this project is not trusted: {left_out}; `prowess trust` shows what it contains")
        } else {
            format!(
                "this project is not trusted ({named}): {left_out}; `prowess trust` shows what it contains"
            )
        })
    }
}

/// How many items stay trusted, as text.
pub(super) fn stay_trusted(trusted: usize) -> String {
    format!("{} {} trusted", count(trusted, "other item"), if trusted == 1 { "stays" } else { "stay" })
}

fn hidden_skills(skills: usize) -> Option<String> {
    let are = if skills == 1 { "is" } else { "are" };
    (skills > 0).then(|| format!("{} {are} hidden from models", count(skills, "project skill")))
}

/// The first untrusted items, and how many more there are.
pub(super) fn list_untrusted<'a>(items: impl IntoIterator<Item = (&'a String, &'a ItemTrust)>) -> String {
    let is_out = |(_, item): &(&String, &ItemTrust)| item.status != ItemStatus::Trusted;
    let all: Vec<_> = items.into_iter().filter(is_out).collect();
    let mut named: Vec<String> =
        all.iter().take(MAX_NAMED).map(|(path, item)| item.status.about(&item.name(path))).collect();
    if all.len() > MAX_NAMED {
        named.push(format!("{} more", all.len() - MAX_NAMED));
    }
    named.join(", ")
}

impl ItemTrust {
    /// The name of the item. Skill directories and memory files are named by their path.
    fn name(&self, path: &str) -> String {
        match self.kind {
            ItemKind::Directory | ItemKind::Memory => printable(path),
            ItemKind::Skill | ItemKind::Agent | ItemKind::Configuration => last_part(path),
        }
    }
}

/// The last part of an item's path.
fn last_part(path: &str) -> String {
    printable(path.rsplit('/').next().unwrap_or(path))
}

impl ItemStatus {
    /// Whether nobody decided about the item in its present state.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::New | Self::Changed)
    }

    /// A sentence about the item, which `name` names.
    pub(super) fn about(&self, name: &str) -> String {
        match self {
            Self::Trusted => format!("{name} is trusted"),
            Self::New => format!("{name} is new"),
            Self::Changed => format!("{name} changed"),
            Self::Refused => format!("you said no to {name}"),
            Self::Unfit(problem) => format!("{name} {}", printable(problem)),
            Self::LeadsTo(path) => {
                format!("{name} has a link to {}, which is not trusted", last_part(path))
            }
        }
    }
}
