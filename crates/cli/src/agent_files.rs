//! Finds the files that define sub-agents: `agents/*.md` of prowess, Claude Code and opencode.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use prowess_agent::middleware::{AgentDefinition, MAX_DEFINITION_BYTES};
use prowess_base::beneath::{self, DIRECTORY, FILE, Follow};
use prowess_catalog::{Environment, Root, RootKind, RootLayout};
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::config::{Settings, SubAgentName};
use crate::project::Project;
use crate::terminal::printable;
use crate::trust::TrustStatus;

/// How many directories deep the user's files may be.
const MAX_DEPTH: usize = 4;
/// How many entries of the user's directories are looked at, in each of them.
const MAX_ENTRIES: usize = 2_000;

/// The directories with sub-agents. Their precedence is that of skills.
pub(crate) fn layout(skills: &RootLayout) -> RootLayout {
    let mut layout = skills.clone();
    layout.folders = vec!["agent".to_owned(), "agents".to_owned()];
    layout
}

/// Whether a file can define a sub-agent, by its name.
pub(crate) fn is_definition(name: &str) -> bool {
    name.ends_with(".md")
}

/// Whether an entry of a directory with sub-agents can define some: a Markdown file, or a directory.
pub(crate) fn is_candidate(directory: impl AsFd, name: &str) -> bool {
    is_definition(name)
        || beneath::stat(directory, name)
            .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory)
}

/// Whether a directory has such an entry.
pub(crate) fn has_some(directory: &Path) -> bool {
    let Ok(opened) = beneath::open_directory(directory) else { return false };
    let Ok(listed) = std::fs::read_dir(directory) else { return false };
    let mut names = listed.take(MAX_ENTRIES).flatten().map(|entry| entry.file_name());
    names.any(|name| name.to_str().is_some_and(|name| is_candidate(&opened, name)))
}

/// A sub-agent, and where it is defined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundAgent {
    pub(crate) definition: AgentDefinition,
    /// The file, or `prowess.toml`.
    pub(crate) origin: String,
    pub(crate) owner: Owner,
}

/// Who defined a sub-agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    User,
    Project,
}

/// The sub-agents of a chat, and the files that define none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FoundAgents {
    pub(crate) agents: BTreeMap<String, FoundAgent>,
    /// Files that are not used, and why.
    pub(crate) problems: Vec<String>,
}

impl FoundAgents {
    /// The sub-agents of the user's files, then those of the configuration, then those of the project that are trusted. Of
    /// several with the same name, the last one counts, but a project takes no name of the user's.
    pub(crate) fn find(
        environment: &Environment,
        project: Option<&Project>,
        trust: &TrustStatus,
        settings: &Settings,
    ) -> Self {
        let mut found = Self::default();
        let roots = layout(&RootLayout::default()).resolve(environment);
        for root in
            roots.iter().filter(|root| matches!(root.kind, RootKind::User | RootKind::UserCompatibility))
        {
            found.add_root(root);
        }
        for (name, table) in &settings.agent {
            let definition = table.definition(&name.value);
            found.insert(definition, crate::config::FILE_NAME.to_owned(), Owner::User);
        }
        if let Some(project) = project {
            found.add_project(project, trust);
        }
        found
    }

    /// Adds the trusted files of a project, in the order of its roots.
    fn add_project(&mut self, project: &Project, trust: &TrustStatus) {
        let files = trust.agents(Some(project));
        for root in project.agent_roots() {
            let Ok(below) = root.path.strip_prefix(project.top()) else { continue };
            for (path, text) in files.iter().filter(|(path, _)| Path::new(path).starts_with(below)) {
                self.add_file(text, &project.top().join(path), Owner::Project);
            }
        }
    }

    /// Adds the files of one of the user's directories.
    fn add_root(&mut self, root: &Root) {
        let Ok(directory) = beneath::open_directory(&root.path) else { return };
        let mut files = Vec::new();
        let mut left = MAX_ENTRIES;
        list(&directory, Path::new("."), 0, &mut left, &mut files);
        if left == 0 {
            let place = printable(&root.path.display().to_string());
            self.problems.push(format!("{place} has more than {MAX_ENTRIES} entries; the rest is not read"));
        }
        files.sort();
        for file in files {
            let path = root.path.join(file.strip_prefix(".").unwrap_or(&file));
            match read(&directory, &file) {
                Ok(text) => self.add_file(&text, &path, Owner::User),
                Err(error) => self.problem(&path, &error),
            }
        }
    }

    fn add_file(&mut self, text: &[u8], path: &Path, owner: Owner) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match AgentDefinition::parse(text, name) {
            Ok(None) => {}
            // The names of prowess's own agents stand for other rules.
            Ok(Some(definition)) => match definition.name.as_str().parse::<SubAgentName>() {
                Ok(_) => self.insert(definition, path.display().to_string(), owner),
                Err(problem) => self.problem(path, &problem),
            },
            Err(error) => self.problem(path, &error.to_string()),
        }
    }

    fn insert(&mut self, definition: AgentDefinition, origin: String, owner: Owner) {
        let name = definition.name.as_str().to_owned();
        // The user's rules, and what the user expects of the name, are about the user's own.
        let own = self.agents.get(&name).filter(|own| own.owner == Owner::User && owner == Owner::Project);
        if let Some(own) = own {
            let (place, own) = (printable(&origin), printable(&own.origin));
            let name = printable(&name);
            self.problems.push(format!("{place} is not used: you have a sub-agent `{name}` in {own}"));
            return;
        }
        self.agents.insert(name, FoundAgent { definition, origin, owner });
    }

    fn problem(&mut self, path: &Path, problem: &str) {
        let place = printable(&path.display().to_string());
        self.problems.push(format!("{place} defines no sub-agent: {}", printable(problem)));
    }
}

/// Lists the Markdown files below a directory. Links to directories are not followed.
fn list(root: &impl AsFd, path: &Path, depth: usize, left: &mut usize, files: &mut Vec<PathBuf>) {
    let Ok(directory) = beneath::open(root, path, DIRECTORY, Follow::Never) else { return };
    let mut names = Vec::new();
    let _ = beneath::list(directory, |name, _| {
        names.push(name.to_owned());
        if names.len() >= *left { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    *left = left.saturating_sub(names.len());
    for name in names {
        let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else { continue };
        let path = path.join(name);
        let kind = beneath::stat(root, &path).map(|found| FileType::from_raw_mode(found.st_mode));
        match kind {
            Ok(FileType::Directory) if depth < MAX_DEPTH => list(root, &path, depth + 1, left, files),
            Ok(FileType::RegularFile | FileType::Symlink) if is_definition(name) => files.push(path),
            _ => {}
        }
    }
}

/// Reads a file of the user. A link may lead to another file in the same directory, and no further.
fn read(root: &impl AsFd, path: &Path) -> Result<Vec<u8>, String> {
    let file = beneath::open(root, path, FILE, Follow::Beneath).map_err(|error| match error {
        Errno::XDEV => "it is a link that leads out of its directory".to_owned(),
        error => format!("it cannot be read: {error}"),
    })?;
    let file = std::fs::File::from(file);
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        return Err("it is not a file".to_owned());
    }
    let mut text = Vec::new();
    // One byte more shows that the file is too long.
    let read = file.take(MAX_DEFINITION_BYTES as u64 + 1).read_to_end(&mut text);
    read.map(|_| text).map_err(|error| format!("it cannot be read: {error}"))
}
