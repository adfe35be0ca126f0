//! Whose a file is, for whoever reads files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use prowess_catalog::{CatalogView, SkillEntry, Storage as RootPlace, Trust};
use prowess_permission::real_path::real_path;
use prowess_permission::{Decision, Kind, Question, RealPath};

use crate::view::SkillView;

/// Whose a file is, for tools that read files.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileOwner {
    /// A skill that this agent may know of: reading its files is part of loading it.
    Skill(String),
    /// A skill that is denied to this agent: the file must not be read, nor its name be told.
    Denied,
    /// No skill.
    Nobody,
}

/// Why files must not be read, whoever is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WithheldFile {
    /// They are of this skill, which this agent must not know of: it is denied or not trusted. Its name is for a person,
    /// and never for a model.
    Denied(String),
    /// They are of this skill, which has to be loaded first.
    LoadFirst(String),
}

/// The directories of all skills, as they are spelled and as links lead to them.
#[derive(Debug)]
pub(crate) struct Owners(BTreeMap<String, Owned>);

/// What is known of the skill that a directory belongs to, from the least to the most that may be done with it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owned {
    /// It is denied, or not trusted.
    Hidden(String),
    /// Another skill of its name, which is this one's, takes precedence over it.
    Shadowed(String),
    /// It may be known of.
    Visible(String),
}

impl Owned {
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
        let mut owners: BTreeMap<String, Owned> = BTreeMap::new();
        for entry in all {
            let name = entry.skill.name.to_string();
            let owned = match view.get(&name) {
                Some(visible) if Arc::ptr_eq(visible, entry) => Owned::Visible(name),
                _ if entry.trust == Trust::Trusted => Owned::Shadowed(name),
                _ => Owned::Hidden(name),
            };
            for directory in directories(entry) {
                // A directory that several roots lead to is what the best of them makes of it.
                let known = owners.entry(directory).or_insert_with(|| owned.clone());
                if owned > *known {
                    *known = owned.clone();
                }
            }
        }
        Self(owners)
    }

    /// A skill inside a skill is the one that is meant.
    pub(crate) fn of_path(&self, path: &str) -> FileOwner {
        let path = plain(path);
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

    /// The same where the letter case of a path does not count.
    pub(crate) fn of_path_in_any_case(&self, path: &str) -> FileOwner {
        let path = plain(path).to_lowercase();
        let folded = self.0.iter().map(|(directory, owned)| (directory.to_lowercase(), owned));
        let around = folded.filter(|(directory, _)| is_at_or_below(&path, directory));
        around
            .max_by_key(|(directory, _)| directory.len())
            .map_or(FileOwner::Nobody, |(_, owned)| owned.owner())
    }

    /// The owners of a place on this machine: of the directory that it lies in, and of what lies in it.
    fn around<'a>(&'a self, path: &str, ignores_case: bool) -> impl Iterator<Item = (&'a str, &'a Owned)> {
        let fold = move |text: &str| if ignores_case { text.to_lowercase() } else { text.to_owned() };
        let path = fold(&plain(path));
        // Of skills in skills, only the innermost is asked.
        let mut innermost: Option<(usize, (&str, &Owned))> = None;
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

fn is_at_or_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Where the files of a skill are.
pub(crate) fn directories(entry: &SkillEntry) -> Vec<String> {
    let spelled = plain(entry.skill.location.directory());
    if entry.root.place != RootPlace::Local {
        return vec![spelled];
    }
    let real = real_path(Path::new(&spelled)).to_string_lossy().into_owned();
    if real == spelled { vec![spelled] } else { vec![spelled, real] }
}

/// A path without doubled slashes and without one at its end.
fn plain(path: &str) -> String {
    let parts = path.split('/').filter(|part| !part.is_empty());
    parts.fold(String::new(), |path, part| path + "/" + part)
}

impl SkillView {
    /// Whose file `path` is, so that tools which read files keep to what skills are allowed and denied. The
    /// path is one where the skills live, without `.` and `..` in it.
    pub fn owner_of(&self, path: &str) -> FileOwner {
        self.known().owners().of_path(path)
    }

    /// The same for a file system that ignores the letter case of paths.
    pub fn owner_of_any_case(&self, path: &str) -> FileOwner {
        self.known().owners().of_path_in_any_case(path)
    }

    /// Whether what is at a place of this machine, with all that it holds, has files of skills that must not be read.
    ///
    /// # Errors
    ///
    /// It has: why they must not be.
    pub fn check_owners(&self, place: &RealPath) -> Result<(), WithheldFile> {
        self.check_owners_but(place, |_, _| false)
    }

    /// The same for somebody who may read certain files anyway: by the directory of their skill, and why not others.
    pub(crate) fn check_owners_but(
        &self,
        place: &RealPath,
        may_read: impl Fn(&str, &WithheldFile) -> bool,
    ) -> Result<(), WithheldFile> {
        let known = self.known();
        for path in place.paths() {
            for (directory, owned) in known.owners().around(path, place.ignores_case()) {
                let checked = match owned {
                    Owned::Visible(name) => self.check_readable(name),
                    // Its name was allowed, and no text of it was loaded or approved.
                    Owned::Shadowed(name) if self.allows_skill(name) => Ok(()),
                    Owned::Shadowed(name) | Owned::Hidden(name) => Err(WithheldFile::Denied(name.clone())),
                };
                if let Err(withheld) = checked
                    && !may_read(directory, &withheld)
                {
                    return Err(withheld);
                }
            }
        }
        Ok(())
    }

    /// Whether files of a skill may be read without loading it.
    ///
    /// # Errors
    ///
    /// It has to be loaded first.
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
