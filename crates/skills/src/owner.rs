//! The owner of a file: which skill it belongs to, and whether a model may read it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use prowess_catalog::{CatalogView, SkillEntry, Storage, Trust};
use prowess_permission::real_path::real_path;
use prowess_permission::{Decision, Kind, Question, RealPath};

use crate::view::SkillView;

/// The owner of a file, for tools that read files.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileOwner {
    /// A skill that the agent may see. Reading its files is part of loading it.
    Skill(String),
    /// A skill that the agent may not see. The model must not read the file or learn its name.
    Denied,
    /// No skill.
    Nobody,
}

/// Why a model must not read files, even with approval.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WithheldFile {
    /// They belong to this skill, which is denied or not trusted. Show its name to a person, never to a model.
    Denied(String),
    /// They belong to this skill, which must be loaded first.
    LoadFirst(String),
}

/// The directories of all skills, by path and by real path.
#[derive(Debug)]
pub(crate) struct Owners(BTreeMap<String, DirectoryOwner>);

/// The skill of a directory, ordered from least to most access.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DirectoryOwner {
    /// It is denied, off, outside the kits in use, or not trusted.
    Hidden(String),
    /// Another skill of the same name takes precedence.
    Shadowed(String),
    /// The agent may see it.
    Visible(String),
}

impl DirectoryOwner {
    fn owner(&self) -> FileOwner {
        match self {
            Self::Visible(name) => FileOwner::Skill(name.clone()),
            Self::Hidden(_) | Self::Shadowed(_) => FileOwner::Denied,
        }
    }
}

impl Owners {
    pub(crate) fn of(view: &CatalogView) -> Self {
        let catalog = view.catalog();
        let shadowed = catalog.shadowed().iter().map(|shadowed| &shadowed.entry);
        let all = catalog.entries().iter().chain(shadowed).chain(catalog.untrusted());
        let mut owners: BTreeMap<String, DirectoryOwner> = BTreeMap::new();
        for entry in all {
            let name = entry.skill.name.to_string();
            let owned = match view.get(&name) {
                Some(visible) if Arc::ptr_eq(visible, entry) => DirectoryOwner::Visible(name),
                // Without a visible skill of that name, the agent may not see it: a rule denies it, or it is off.
                Some(_) if entry.trust == Trust::Trusted => DirectoryOwner::Shadowed(name),
                _ => DirectoryOwner::Hidden(name),
            };
            for directory in directories(entry) {
                // If several roots lead to a directory, the most access counts.
                let known = owners.entry(directory).or_insert_with(|| owned.clone());
                if owned > *known {
                    *known = owned.clone();
                }
            }
        }
        Self(owners)
    }

    /// Whether there are skills whose files a model must not read.
    #[cfg(feature = "run")]
    pub(crate) fn has_hidden(&self) -> bool {
        self.0.values().any(|owned| !matches!(owned, DirectoryOwner::Visible(_)))
    }

    /// The owner of a path. For a skill inside a skill, it is the inner one.
    pub(crate) fn of_path(&self, path: &str) -> FileOwner {
        let path = normalized(path);
        let mut start = path.as_str();
        loop {
            if let Some(owned) = self.0.get(start) {
                return owned.owner();
            }
            match start.rsplit_once('/') {
                Some((above, _)) if !above.is_empty() => start = above,
                _ => return FileOwner::Nobody,
            }
        }
    }

    /// [`Owners::of_path`] for a file system that ignores letter case.
    pub(crate) fn of_path_in_any_case(&self, path: &str) -> FileOwner {
        let path = normalized(path).to_lowercase();
        let folded = self.0.iter().map(|(directory, owned)| (directory.to_lowercase(), owned));
        let around = folded.filter(|(directory, _)| is_at_or_below(&path, directory));
        around
            .max_by_key(|(directory, _)| directory.len())
            .map_or(FileOwner::Nobody, |(_, owned)| owned.owner())
    }

    /// The owners of a local path, of the directory around it, and of everything in it.
    fn around<'a>(
        &'a self,
        path: &str,
        ignores_case: bool,
    ) -> impl Iterator<Item = (&'a str, &'a DirectoryOwner)> {
        let fold = move |text: &str| if ignores_case { text.to_lowercase() } else { text.to_owned() };
        let path = fold(&normalized(path));
        // Of nested skills, only the innermost counts.
        let mut innermost: Option<(usize, (&str, &DirectoryOwner))> = None;
        let mut found = Vec::new();
        for (directory, owned) in &self.0 {
            let folded = fold(directory);
            if is_at_or_below(&path, &folded) && innermost.is_none_or(|(length, _)| folded.len() > length) {
                innermost = Some((folded.len(), (directory, owned)));
            } else if is_at_or_below(&folded, &path) {
                found.push((directory.as_str(), owned));
            }
        }
        found.into_iter().chain(innermost.map(|(_, found)| found))
    }
}

pub(crate) fn is_at_or_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The directories of a skill: its path, and its real path if it differs.
pub(crate) fn directories(entry: &SkillEntry) -> Vec<String> {
    let spelled = normalized(entry.skill.location.directory());
    if entry.root.storage != Storage::Local {
        return vec![spelled];
    }
    let real = real_path(Path::new(&spelled)).to_string_lossy().into_owned();
    if real == spelled { vec![spelled] } else { vec![spelled, real] }
}

/// A path without repeated slashes and without a slash at its end.
fn normalized(path: &str) -> String {
    let parts = path.split('/').filter(|part| !part.is_empty());
    parts.fold(String::new(), |path, part| path + "/" + part)
}

impl SkillView {
    /// The owner of the file at `path`, so that file tools respect the rules about skills. The path must not contain `.` or
    /// `..`.
    pub fn owner_of(&self, path: &str) -> FileOwner {
        self.visible().owners().of_path(path)
    }

    /// [`SkillView::owner_of`] for a file system that ignores letter case.
    pub fn owner_of_any_case(&self, path: &str) -> FileOwner {
        self.visible().owners().of_path_in_any_case(path)
    }

    /// Checks that a model may read a local file, or everything in a local directory.
    ///
    /// # Errors
    ///
    /// It contains files of a skill that a model must not read.
    pub fn check_owners(&self, file: &RealPath) -> Result<(), WithheldFile> {
        self.check_owners_except(file, |_, _| false)
    }

    /// [`SkillView::check_owners`] with exceptions: `may_read` gets the directory of a skill and the reason.
    pub(crate) fn check_owners_except(
        &self,
        file: &RealPath,
        may_read: impl Fn(&str, &WithheldFile) -> bool,
    ) -> Result<(), WithheldFile> {
        self.withheld_around(file, may_read).into_iter().next().map_or(Ok(()), |(_, withheld)| Err(withheld))
    }

    /// The directories around a local path, and in it, whose files a model must not read.
    pub(crate) fn withheld_around(
        &self,
        file: &RealPath,
        may_read: impl Fn(&str, &WithheldFile) -> bool,
    ) -> Vec<(String, WithheldFile)> {
        let visible = self.visible();
        let mut all = Vec::new();
        for path in file.paths() {
            for (directory, owned) in visible.owners().around(path, file.ignores_case()) {
                let checked = match owned {
                    DirectoryOwner::Visible(name) => self.check_readable(name),
                    // A rule allows the name, although another skill has it.
                    DirectoryOwner::Shadowed(name) if self.allows_skill(name) => Ok(()),
                    DirectoryOwner::Shadowed(name) | DirectoryOwner::Hidden(name) => {
                        Err(WithheldFile::Denied(name.clone()))
                    }
                };
                if let Err(withheld) = checked
                    && !may_read(directory, &withheld)
                {
                    all.push((directory.to_owned(), withheld));
                }
            }
        }
        all
    }

    /// Checks that a model may read files of a skill without loading it.
    ///
    /// # Errors
    ///
    /// The skill must be loaded first.
    pub fn check_readable(&self, name: &str) -> Result<(), WithheldFile> {
        if self.state().get(name).is_some() || self.allows_skill(name) {
            return Ok(());
        }
        Err(WithheldFile::LoadFirst(name.to_owned()))
    }

    fn allows_skill(&self, name: &str) -> bool {
        self.engine().permissions().decide(&Question::new(Kind::SKILL, name)).decision == Decision::Allow
    }
}
