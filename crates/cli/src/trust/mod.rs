//! Whether a project is trusted: asked once, and again when what it brings has changed.

mod store;
mod summary;
mod walk;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, Read as _, Write as _};

use anyhow::{Context as _, Result, bail};

pub(crate) use self::store::{TrustFile, Trusted};
use self::walk::{Item, ItemKind};
use crate::config::FILE_NAME;
use crate::project::{MEMORY, Project};
use crate::terminal::{count, shown};

/// The longest answer that is read, in bytes.
const MAX_ANSWER: u64 = 1024;
/// How many changes are named.
const MAX_NAMED: usize = 5;

/// Whether what a project brings may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It brings nothing.
    NothingToTrust,
    /// It is as it was when it was trusted.
    Trusted,
    /// Nobody said so.
    Untrusted,
    /// Somebody said no, and it is as it was then.
    Refused,
    /// Somebody said so, and something is not as it was.
    Changed(Vec<Change>),
}

/// What is not as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    New(String),
    Changed(String),
    /// It cannot be trusted as it is now.
    Unfit(String, String),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |path: &str| shown(path.rsplit('/').next().unwrap_or(path));
        match self {
            Self::New(path) => write!(f, "{} is new", name(path)),
            Self::Changed(path) => write!(f, "{} changed", name(path)),
            Self::Unfit(path, problem) => write!(f, "{} {problem}", name(path)),
        }
    }
}

/// How a project stands with the user. What it brings is read only if it was trusted before.
pub(crate) fn standing(project: Option<&Project>) -> Result<Standing> {
    let Some(project) = project.filter(|project| project.brings_something()) else {
        return Ok(Standing::NothingToTrust);
    };
    let Some(file) = TrustFile::of_user() else { return Ok(Standing::Untrusted) };
    let Some(trusted) = file.get(project.top())? else { return Ok(Standing::Untrusted) };
    Ok(settled(&walk::items(project), &trusted))
}

/// How a project stands about which somebody said something before.
fn settled(items: &BTreeMap<String, Item>, before: &Trusted) -> Standing {
    match (changes(items, &before.items), before.refused) {
        (changes, false) if changes.is_empty() => Standing::Trusted,
        (changes, false) => Standing::Changed(changes),
        (changes, true) if changes.is_empty() => Standing::Refused,
        (_, true) => Standing::Untrusted,
    }
}

/// What is not as it was. What is gone does no harm.
fn changes(items: &BTreeMap<String, Item>, before: &BTreeMap<String, String>) -> Vec<Change> {
    let change = |(path, item): (&String, &Item)| match (&item.digest, before.get(path)) {
        (Err(problem), _) => Some(Change::Unfit(path.clone(), problem.clone())),
        (Ok(_), None) => Some(Change::New(path.clone())),
        (Ok(now), Some(before)) => (now != before).then(|| Change::Changed(path.clone())),
    };
    items.iter().filter_map(change).collect()
}

impl Standing {
    /// Whether what the project brings may be used.
    pub(crate) fn is_trusted(&self) -> bool {
        matches!(self, Self::NothingToTrust | Self::Trusted)
    }

    /// Why a project is not trusted, as the rest of a sentence about it.
    pub(crate) fn reason(&self) -> Option<String> {
        match self {
            Self::NothingToTrust | Self::Trusted => None,
            Self::Untrusted | Self::Refused => Some("is not trusted".to_owned()),
            Self::Changed(changes) => Some(format!("changed since it was trusted ({})", listed(changes))),
        }
    }

    /// One line about a project that is not trusted: what of it a conversation is without, and what to do.
    pub(crate) fn notice(&self, project: Option<&Project>, skills: usize) -> Option<String> {
        let memory = project.is_some_and(Project::has_memory).then(|| format!("its {MEMORY} not read"));
        self.told([hidden(skills), unused(project), memory])
    }

    /// The same for what only looks at skills.
    pub(crate) fn notice_of_skills(&self, skills: usize) -> Option<String> {
        self.told([hidden(skills)])
    }

    /// The same for what only reads the configuration.
    pub(crate) fn notice_of_configuration(&self, project: Option<&Project>) -> Option<String> {
        self.told([unused(project)])
    }

    fn told(&self, left_out: impl IntoIterator<Item = Option<String>>) -> Option<String> {
        let reason = self.reason()?;
        let left_out: Vec<String> = left_out.into_iter().flatten().collect();
        (!left_out.is_empty()).then(|| {
            let left_out = left_out.join(", ");
            format!("this project {reason}: {left_out}; `prowess trust` shows what it brings")
        })
    }
}

fn hidden(skills: usize) -> Option<String> {
    (skills > 0).then(|| format!("{} hidden from models", count(skills, "project skill")))
}

fn unused(project: Option<&Project>) -> Option<String> {
    project.is_some_and(Project::has_configuration).then(|| format!("its {FILE_NAME} not used"))
}

/// The first changes, and how many more there are.
fn listed(changes: &[Change]) -> String {
    let mut named: Vec<String> = changes.iter().take(MAX_NAMED).map(ToString::to_string).collect();
    if changes.len() > MAX_NAMED {
        named.push(format!("{} more", changes.len() - MAX_NAMED));
    }
    named.join(", ")
}

/// Asks on the error stream whether to trust a project, of which the summary was shown, and remembers the answer.
pub(crate) fn ask(survey: &Survey<'_>, answers: &mut impl BufRead) -> Result<bool> {
    let mut err = anstream::stderr();
    crate::terminal::forget_typed();
    let width = terminal_size::terminal_size().map_or(usize::MAX, |(width, _)| usize::from(width.0));
    write!(err, "\n{} ", crate::rows::folded(summary::QUESTION, width).join("\n"))?;
    err.flush()?;
    let mut line = String::new();
    answers.take(MAX_ANSWER).read_line(&mut line)?;
    let is_yes = matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes");
    if is_yes {
        survey.remember()?;
    } else if line.ends_with('\n') {
        // Who types nothing at all has not answered.
        survey.refuse()?;
    }
    Ok(is_yes)
}

/// What a project brings, looked at once: what is shown is what is remembered.
pub(crate) struct Survey<'a> {
    project: &'a Project,
    items: BTreeMap<String, Item>,
    before: Option<Trusted>,
}

impl<'a> Survey<'a> {
    /// Looks at all that a project brings.
    pub(crate) fn of(project: &'a Project) -> Result<Self> {
        let before = TrustFile::of_user().map(|file| file.get(project.top())).transpose()?.flatten();
        Ok(Self { project, items: walk::items(project), before })
    }

    /// How the project stands.
    pub(crate) fn standing(&self) -> Standing {
        match &self.before {
            _ if self.items.is_empty() => Standing::NothingToTrust,
            None => Standing::Untrusted,
            Some(before) => settled(&self.items, before),
        }
    }

    /// Why the project cannot be trusted as it is, whatever anybody says.
    pub(crate) fn obstacle(&self) -> Option<String> {
        let unfit = self.items.iter().filter_map(|(path, item)| {
            let problem = item.digest.as_ref().err()?;
            Some(Change::Unfit(path.clone(), problem.clone()))
        });
        let unfit: Vec<Change> = unfit.collect();
        (!unfit.is_empty()).then(|| listed(&unfit))
    }

    /// Remembers that the project is trusted as it was when this looked at it.
    pub(crate) fn remember(&self) -> Result<()> {
        if let Some(obstacle) = self.obstacle() {
            bail!("{} cannot be trusted: {obstacle}", self.project.top().display());
        }
        self.put(false)
    }

    /// Remembers that the project is not to be trusted as it was when this looked at it, so that nobody is asked again.
    fn refuse(&self) -> Result<()> {
        self.put(true)
    }

    fn put(&self, refused: bool) -> Result<()> {
        let file = TrustFile::of_user().context("there is no home to remember it in: set HOME")?;
        let top = self.project.top().to_str();
        let top =
            top.with_context(|| format!("{} has a name that is no text", self.project.top().display()))?;
        // What is seen from another directory of the project, and is still there, stays trusted.
        let before = self.before.as_ref().filter(|before| before.refused == refused);
        let mut items = before.map(|before| before.items.clone()).unwrap_or_default();
        items.retain(|path, _| self.project.top().join(path).symlink_metadata().is_ok());
        for (path, item) in &self.items {
            if let Ok(digest) = &item.digest {
                items.insert(path.clone(), digest.clone());
            }
        }
        let at = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        file.put(Trusted { project: top.to_owned(), at, items, refused })
    }
}
