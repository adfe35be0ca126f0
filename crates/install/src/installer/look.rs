//! Looks at a source before anything is installed.

use crate::discover::{DiscoverOptions, FoundSkill, Notice, discover};
use crate::folder_hash::computed_hash;
use crate::hidden_text::{self, HiddenText};
use crate::snapshot::MAX_SKILL_BYTES;
use crate::snapshot::fetch::{Fetched, Site};
use crate::source::Source;
use crate::store::{Selection, Store, Stored};
use crate::tree::{ReadFiles as _, SkillTree, TreeError};

use super::{InstallError, Installer};

/// What to look for in a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LookOptions {
    /// The only skills that are wanted, by name. Empty or `*` are all.
    pub skills: Vec<String>,
    /// Also look below a root that is a skill, and five directories deep.
    pub full_depth: bool,
    /// Also find skills that are marked as internal.
    pub internal: bool,
}

/// The skills of a source, in the content cache. What a person looks at is what is installed, even if the source changes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Looked {
    /// The source.
    pub source: Source,
    /// The commit that was fetched from a Git repository.
    pub commit: Option<String>,
    /// The skills that can be installed.
    pub candidates: Vec<Candidate>,
    /// The skills that cannot be installed, and why.
    pub refused: Vec<(String, String)>,
    /// The names of all skills of the source.
    pub available: Vec<String>,
    /// The wanted names that no skill has.
    pub missing: Vec<String>,
    /// What was left out, and why.
    pub notices: Vec<String>,
}

/// A skill that can be installed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Candidate {
    /// The skill, as it was found in the source.
    pub found: FoundSkill,
    /// Its files.
    pub stored: Stored,
    /// The hash of `skills` over its files.
    pub computed_hash: String,
    /// The SHA-1 of its Git tree.
    pub folder_sha1: Option<String>,
    /// The digest of its archive, from the index of a web site.
    pub site_digest: Option<String>,
    /// Text in its files that a person does not see, or that does more than it seems.
    pub hidden: Vec<HiddenText>,
}

impl Candidate {
    /// The name of the directory in which it is installed.
    pub fn directory_name(&self) -> &str {
        &self.found.directory_name
    }
}

/// The most bytes of all skills of a source together. A small repository can name one large file many times.
pub const MAX_SOURCE_BYTES: u64 = 1024 * 1024 * 1024;

/// The skills that a source has. Only their manifests were read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Listed {
    /// The commit that was fetched from a Git repository.
    pub commit: Option<String>,
    /// The skills that can be installed.
    pub skills: Vec<ListedSkill>,
    /// The skills that cannot be installed, and why.
    pub refused: Vec<(String, String)>,
    /// The names of all skills of the source.
    pub available: Vec<String>,
    /// The wanted names that no skill has.
    pub missing: Vec<String>,
    /// What was left out, and why.
    pub notices: Vec<String>,
}

/// A skill of a source.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListedSkill {
    /// The skill, as it was found in the source.
    pub found: FoundSkill,
    /// What its files are, by their names and sizes.
    pub selection: Selection,
}

/// Finds the skills of a fetched source. Nothing is written, and only manifests are read.
///
/// # Errors
///
/// The source has no such directory.
pub fn list(source: &Source, fetched: &mut Fetched, options: &LookOptions) -> Result<Listed, InstallError> {
    let mut wanted = options.skills.clone();
    let subpath = match source {
        Source::Git(git) => {
            wanted.extend(git.skill.clone());
            git.subpath.clone()
        }
        _ => None,
    };
    let found =
        DiscoverOptions { subpath, full_depth: options.full_depth, wanted, internal: options.internal };
    let snapshot = &mut *fetched.snapshot;
    let discovery = discover(snapshot, &found)?;
    let (mut skills, mut refused) = (Vec::new(), Vec::new());
    if let Some(site) = &fetched.site {
        refused.extend(site.refused.iter().map(|(name, why)| (name.clone(), why.to_string())));
    }
    for found in discovery.skills {
        match Store::select(snapshot, &found.directory) {
            Ok(selection) => skills.push(ListedSkill { found, selection }),
            Err(error) => refused.push((found.name().to_string(), error.to_string())),
        }
    }
    let notices = snapshot.notices().iter().cloned();
    Ok(Listed {
        commit: snapshot.commit().map(str::to_owned),
        skills,
        refused,
        available: discovery.available.iter().map(ToString::to_string).collect(),
        missing: discovery.missing,
        notices: notices.chain(discovery.notices.iter().map(Notice::to_string)).collect(),
    })
}

impl Installer {
    /// Finds the skills of a fetched source, and copies them to the content cache.
    ///
    /// # Errors
    ///
    /// The source has no such directory, its skills have more than [`MAX_SOURCE_BYTES`], or the cache cannot be written.
    pub fn look_at(
        &self,
        source: &Source,
        fetched: Fetched,
        options: &LookOptions,
    ) -> Result<Looked, InstallError> {
        look_in(&self.store, source, fetched, options)
    }
}

/// Finds the skills of a fetched source, and copies them to a content cache.
///
/// # Errors
///
/// The source has no such directory, its skills have more than [`MAX_SOURCE_BYTES`], or the cache cannot be written.
pub fn look_in(
    store: &Store,
    source: &Source,
    mut fetched: Fetched,
    options: &LookOptions,
) -> Result<Looked, InstallError> {
    let Listed { commit, skills, mut refused, available, missing, notices } =
        list(source, &mut fetched, options)?;
    // Counted before anything is written.
    let bytes = skills.iter().map(|skill| skill.selection.all_bytes);
    if bytes.fold(0, u64::saturating_add) > MAX_SOURCE_BYTES {
        return Err(InstallError::SourceTooLarge { name: source.to_string(), most: MAX_SOURCE_BYTES });
    }
    let Fetched { mut snapshot, site } = fetched;
    let mut candidates = Vec::new();
    for ListedSkill { found, .. } in skills {
        let stored = match store.stage(&mut *snapshot, &found.directory) {
            Ok(stored) => stored,
            Err(error) if error.is_about_the_skill() => {
                refused.push((found.name().to_string(), error.to_string()));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let folder_sha1 = snapshot.folder_sha1(&found.directory);
        let site_digest = site.as_ref().and_then(|site| digest_of(site, &found.directory));
        let left_out = Store::left_out_files(&mut *snapshot, &found.directory)?;
        candidates.push(candidate(found, stored, left_out, folder_sha1, site_digest)?);
    }
    Ok(Looked { source: source.clone(), commit, candidates, refused, available, missing, notices })
}

fn candidate(
    found: FoundSkill,
    stored: Stored,
    left_out: Vec<(String, Vec<u8>)>,
    folder_sha1: Option<String>,
    site_digest: Option<String>,
) -> Result<Candidate, InstallError> {
    let mut files =
        files(&stored).map_err(|source| InstallError::Tree { name: found.directory_name.clone(), source })?;
    let is_executable = |path: &str| stored.tree.files.get(path).is_some_and(|file| file.is_executable);
    let scan = |(path, bytes): &(String, Vec<u8>)| hidden_text::scan(path, bytes, is_executable(path));
    let hidden = files.iter().flat_map(scan).collect();
    files.extend(left_out);
    let computed_hash = computed_hash(files);
    Ok(Candidate { found, stored, computed_hash, folder_sha1, site_digest, hidden })
}

/// All files of a stored skill.
fn files(stored: &Stored) -> Result<Vec<(String, Vec<u8>)>, TreeError> {
    let directory = stored.open()?;
    let read = |path: &String| Ok((path.clone(), directory.read_file(path, MAX_SKILL_BYTES)?));
    stored.tree.files.keys().map(read).collect()
}

/// The hidden text in the files of a stored skill that `old` does not have.
pub(super) fn new_hidden_text(old: &SkillTree, stored: &Stored) -> Result<Vec<HiddenText>, TreeError> {
    let difference = old.difference(&stored.tree);
    let directory = stored.open()?;
    let mut found = Vec::new();
    for path in difference.added.iter().chain(&difference.changed) {
        let is_executable = stored.tree.files.get(path).is_some_and(|file| file.is_executable);
        let bytes = directory.read_file(path, MAX_SKILL_BYTES)?;
        found.extend(hidden_text::scan(path, &bytes, is_executable));
    }
    Ok(found)
}

/// The hash of `skills` over the files of a skill that was staged from `directory` of a source. It also counts the files that
/// neither tool installs.
pub(super) fn hash(fetched: &mut Fetched, directory: &str, stored: &Stored) -> Result<String, InstallError> {
    let failed = |source| InstallError::Tree { name: directory.to_owned(), source };
    let mut files = files(stored).map_err(failed)?;
    files.extend(Store::left_out_files(&mut *fetched.snapshot, directory)?);
    Ok(computed_hash(files))
}

/// The digest of a skill's archive, from the index of a web site.
pub(super) fn digest_of(site: &Site, directory: &str) -> Option<String> {
    site.skills.iter().find(|skill| skill.name == directory).map(|skill| skill.digest.to_string())
}

/// The files of a skill of a fetched source, by its directory there.
pub(super) fn stage(store: &Store, fetched: &mut Fetched, directory: &str) -> Result<Stored, InstallError> {
    Ok(store.stage(&mut *fetched.snapshot, directory)?)
}
