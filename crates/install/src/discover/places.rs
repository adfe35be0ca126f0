//! The directories in which skills are looked for.

use std::collections::BTreeSet;

use prowess_catalog::skill::MANIFEST;

use super::notice::Notice;
use super::{MAX_MANIFESTS, below, join};
use crate::snapshot::{Entry, EntryKind};

/// How deep a search of everything goes.
const MAX_SEARCH_DEPTH: usize = 5;
/// How deep skills are looked for in `skills/` and in the directories of agents.
const MAX_CONTAINER_DEPTH: usize = 3;
/// Directories that no search enters.
const SKIPPED: [&str; 5] = ["node_modules", ".git", "dist", "build", "__pycache__"];

/// Below the root, in this order.
const SKILLS: [&str; 4] = ["skills", "skills/.curated", "skills/.experimental", "skills/.system"];

/// The directories of agents in a project, in the order in which `skills` looks at them.
const AGENTS: [&str; 30] = [
    ".agents/skills",
    ".claude/skills",
    ".cline/skills",
    ".codebuddy/skills",
    ".codex/skills",
    ".commandcode/skills",
    ".continue/skills",
    ".factory/skills",
    ".github/skills",
    ".goose/skills",
    ".grok/skills",
    ".iflow/skills",
    ".junie/skills",
    ".kilo/skills",
    ".kilocode/skills",
    ".kimchi/skills",
    ".kiro/skills",
    ".minimax/skills",
    ".mux/skills",
    ".neovate/skills",
    ".opencode/skills",
    ".openhands/skills",
    ".pi/skills",
    ".posit/assistant/skills",
    ".qoder/skills",
    ".roo/skills",
    ".trae/skills",
    ".windsurf/skills",
    ".zcode/skills",
    ".zencoder/skills",
];

/// Whether a directory of a source is one of an agent, or lies in one.
pub(super) fn is_agent_directory(directory: &str) -> bool {
    AGENTS.iter().any(|agent| directory == *agent || below(directory, agent).is_some())
}

/// The directories below `root` in which to look, each with its depth, in order. `named` are those of plugins.
pub(super) fn containers(root: &str, named: Vec<String>) -> Vec<(String, usize)> {
    let deep = SKILLS.iter().chain(&AGENTS).map(|name| (join(root, name), MAX_CONTAINER_DEPTH));
    let mut seen = BTreeSet::new();
    std::iter::once((root.to_owned(), 1))
        .chain(deep)
        .chain(named.into_iter().map(|directory| (directory, 1)))
        .filter(|(directory, _)| seen.insert(directory.clone()))
        .collect()
}

/// The directories of a snapshot that have a SKILL.md.
pub(super) struct Places {
    /// Sorted by bytes.
    directories: BTreeSet<String>,
}

impl Places {
    pub(super) fn new(entries: &[Entry], notices: &mut Vec<Notice>) -> Self {
        let mut directories = BTreeSet::new();
        for entry in entries {
            let (directory, name) = entry.path.rsplit_once('/').unwrap_or(("", &entry.path));
            if name != MANIFEST {
                continue;
            }
            if directories.len() + notices.len() >= MAX_MANIFESTS {
                notices.push(Notice::TooMany { most: MAX_MANIFESTS });
                break;
            }
            match entry.kind {
                EntryKind::File { .. } => drop(directories.insert(directory.to_owned())),
                EntryKind::Link | EntryKind::Submodule | EntryKind::Other => {
                    notices.push(Notice::NotAFile { path: entry.path.clone() });
                }
            }
        }
        Self { directories }
    }

    /// Whether the directory has a SKILL.md.
    pub(super) fn is_skill(&self, directory: &str) -> bool {
        self.directories.contains(directory)
    }

    /// The skills in a container, at most `depth` directories deep. A skill hides the directories in it.
    pub(super) fn in_container(&self, container: &str, depth: usize) -> Vec<String> {
        let is_open = |parent: &str, name: &str| !SKIPPED.contains(&name) && !self.is_skill(parent);
        self.below(container)
            .filter(|(_, rest)| rest.split('/').count() <= depth)
            .filter(|(_, rest)| parents(container, rest).all(|(parent, name)| is_open(&parent, name)))
            .map(|(directory, _)| directory.to_owned())
            .collect()
    }

    /// All skills in `root`, even below other skills.
    pub(super) fn everywhere(&self, root: &str) -> Vec<String> {
        self.below(root)
            .filter(|(_, rest)| rest.split('/').count() <= MAX_SEARCH_DEPTH)
            .filter(|(_, rest)| !rest.split('/').any(|name| SKIPPED.contains(&name)))
            .map(|(directory, _)| directory.to_owned())
            .collect()
    }

    /// The directories below `root`, with their paths from there. The root itself is not among them.
    fn below(&self, root: &str) -> impl Iterator<Item = (&str, &str)> {
        let start = if root.is_empty() { String::new() } else { format!("{root}/") };
        let root = root.to_owned();
        self.directories
            .range(start.clone()..)
            .take_while(move |directory| directory.starts_with(&start))
            .filter_map(move |directory| Some((directory.as_str(), below(directory, &root)?)))
            .filter(|(_, rest)| !rest.is_empty())
    }
}

/// The directories between `container` and the last name of `rest`, each with its own name.
fn parents<'a>(container: &'a str, rest: &'a str) -> impl Iterator<Item = (String, &'a str)> {
    rest.match_indices('/').map(move |(at, _)| {
        let parent = &rest[..at];
        (join(container, parent), parent.rsplit('/').next().unwrap_or(parent))
    })
}
