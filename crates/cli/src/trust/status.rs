//! How a project stands with the user, item by item.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::Result;
use prowess_catalog::SkillEntry;
use prowess_catalog::trusted::TrustedEntries;

use super::items::{self, Purpose};
use super::trust_file::{Record, TrustFile};
use super::{Item, ItemKind};
use crate::config::{FILE_NAME, OfProject, Source};
use crate::project::{MEMORY, Project};
use crate::terminal::{count, printable};

/// How many items are named that are not trusted.
const MAX_NAMED: usize = 5;

/// What of a project may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TrustStatus {
    /// It brings nothing.
    NothingToTrust,
    /// All of it, because the user said so for this command.
    Whole,
    /// Nothing, because nobody was asked. It was not even looked at.
    Unasked,
    /// Something was said of it before: this is how each item stands, by its path below the project's top.
    Known {
        items: BTreeMap<String, ItemTrust>,
        /// The text of its configuration as it was when it was trusted.
        configuration: Option<String>,
    },
}

/// An item, and how it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ItemTrust {
    pub(super) kind: ItemKind,
    pub(super) status: ItemStatus,
}

/// How an item stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ItemStatus {
    /// It is as it was when it was trusted.
    Trusted,
    /// Nobody said anything of it.
    New,
    /// It is not as it was when something was said of it.
    Changed,
    /// Somebody said no, and it is as it was then.
    Refused,
    /// It cannot be trusted as it is now.
    Unfit(String),
    /// It is as it was, and has a link to this item, which is not trusted.
    LeadsTo(String),
}

/// Looks at how a project stands. What it brings is read only if something was said of it before.
pub(crate) fn status(project: Option<&Project>) -> Result<TrustStatus> {
    let Some(project) = project.filter(|project| project.brings_something()) else {
        return Ok(TrustStatus::NothingToTrust);
    };
    let Some(file) = TrustFile::of_user() else { return Ok(TrustStatus::Unasked) };
    let Some(record) = file.get(project.top())? else { return Ok(TrustStatus::Unasked) };
    let items = items::find_items(project, Purpose::Compare, &record.paths().collect());
    let configuration = record.trusted_configuration().map(ToOwned::to_owned);
    Ok(TrustStatus::Known { items: judge(&items, Some(&record)), configuration })
}

/// How each item stands by what is remembered. What is gone does no harm.
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
    // What leads to something that is not trusted is not trusted either, and so on until nothing changes.
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

/// Whether a place is trusted that a link leads to: an item, or all items of a directory of skills.
fn is_trusted(place: &str, judged: &BTreeMap<String, ItemTrust>) -> bool {
    if let Some(item) = judged.get(place) {
        return item.status == ItemStatus::Trusted;
    }
    let below = format!("{place}/");
    let mut entries = judged.iter().filter(|(path, _)| path.starts_with(&below)).peekable();
    entries.peek().is_some() && entries.all(|(_, item)| item.status == ItemStatus::Trusted)
}

impl TrustStatus {
    /// Whether there is something about which nobody was asked as it is now.
    pub(crate) fn has_questions(&self) -> bool {
        match self {
            Self::NothingToTrust | Self::Whole => false,
            Self::Unasked => true,
            Self::Known { items, .. } => items.values().any(|item| item.status.is_open()),
        }
    }

    /// What counts of the project's configuration: all of it, or what it forbade when it was last trusted.
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

    /// The configuration that was trusted, while there is another that is not.
    fn earlier(&self, project: &Project) -> Option<&str> {
        let Self::Known { configuration, .. } = self else { return None };
        configuration.as_deref().filter(|_| project.has_configuration() && !self.trusts(FILE_NAME))
    }

    /// Whether what the project tells models counts.
    pub(crate) fn trusts_memory(&self, project: &Project) -> bool {
        self.trusts(&project.memory().to_string_lossy())
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

    /// The entries of the project's directories of skills that are trusted one by one.
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

    /// Why a skill of the project is not trusted, as a sentence about it.
    pub(crate) fn reason(&self, project: Option<&Project>, entry: &SkillEntry) -> Option<String> {
        let (Self::Known { items, .. }, Some(project)) = (self, project) else { return None };
        let root = entry.root.path.strip_prefix(project.top()).ok()?;
        let below =
            std::path::Path::new(entry.skill.location.directory()).strip_prefix(&entry.root.path).ok()?;
        let path = root.join(below.components().next()?);
        Some(format!("it {}", items.get(path.to_str()?)?.status))
    }

    /// One line about what is not trusted: what of it a conversation is without, and what to do.
    pub(crate) fn notice(&self, project: Option<&Project>, skills: usize) -> Option<String> {
        let memory = project.filter(|project| project.has_memory() && !self.trusts_memory(project));
        let memory = memory.map(|_| format!("its {MEMORY} not read"));
        self.told([hidden(skills), self.unused(project), memory], |_| true)
    }

    /// The same for what only looks at skills.
    pub(crate) fn notice_of_skills(&self, skills: usize) -> Option<String> {
        self.told([hidden(skills)], |kind| matches!(kind, ItemKind::Skill | ItemKind::Directory))
    }

    /// The same for what only reads the configuration.
    pub(crate) fn notice_of_configuration(&self, project: Option<&Project>) -> Option<String> {
        self.told([self.unused(project)], |kind| kind == ItemKind::Configuration)
    }

    fn unused(&self, project: Option<&Project>) -> Option<String> {
        let project = project.filter(|project| project.has_configuration() && !self.trusts(FILE_NAME))?;
        let stays = if self.earlier(project).is_some() {
            ", except the restrictions that you trusted before"
        } else {
            ""
        };
        Some(format!("its {FILE_NAME} not used{stays}"))
    }

    fn told(
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
        let named = listed(items.iter().filter(|(_, item)| counts(item.kind)));
        let is_new = |item: &ItemTrust| matches!(item.status, ItemStatus::New | ItemStatus::Refused);
        Some(if trusted > 0 {
            let trusted = stay(trusted);
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

/// How many items stay trusted, for a person.
pub(super) fn stay(trusted: usize) -> String {
    format!("{} {} trusted", count(trusted, "other item"), if trusted == 1 { "stays" } else { "stay" })
}

fn hidden(skills: usize) -> Option<String> {
    (skills > 0).then(|| format!("{} hidden from models", count(skills, "project skill")))
}

/// The first items that are not trusted, and how many more there are.
pub(super) fn listed<'a>(items: impl IntoIterator<Item = (&'a String, &'a ItemTrust)>) -> String {
    let is_out = |(_, item): &(&String, &ItemTrust)| item.status != ItemStatus::Trusted;
    let all: Vec<_> = items.into_iter().filter(is_out).collect();
    let mut named: Vec<String> = all
        .iter()
        .take(MAX_NAMED)
        .map(|(path, item)| format!("{} {}", item.name(path), item.status))
        .collect();
    if all.len() > MAX_NAMED {
        named.push(format!("{} more", all.len() - MAX_NAMED));
    }
    named.join(", ")
}

impl ItemTrust {
    /// What it is called, by its path: directories of skills have the same names.
    fn name(&self, path: &str) -> String {
        if self.kind == ItemKind::Directory { printable(path) } else { name(path) }
    }
}

/// The last part of an item's path.
fn name(path: &str) -> String {
    printable(path.rsplit('/').next().unwrap_or(path))
}

impl ItemStatus {
    /// Whether nobody was asked about the item as it is.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::New | Self::Changed)
    }
}

impl fmt::Display for ItemStatus {
    /// The rest of a sentence about the item.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trusted => f.write_str("is trusted"),
            Self::New => f.write_str("is new"),
            Self::Changed => f.write_str("changed"),
            Self::Refused => f.write_str("was refused"),
            Self::Unfit(problem) => f.write_str(problem),
            Self::LeadsTo(path) => write!(f, "has a link to {}, which is not trusted", name(path)),
        }
    }
}
