//! The directories that a transaction changes. Below the directory that has the place, no link leads out.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Component, Path, PathBuf};

use prowess_base::beneath::{self, DIRECTORY, Follow};
use rustix::fs::{self, Access, AtFlags, FileType};
use rustix::io::Errno;

use super::{Links, Place, PlaceError, SKILLS};
use crate::disk;

/// The open directories of a place.
#[derive(Debug)]
pub(super) struct Directories {
    /// The directory of the place.
    pub(super) root: OwnedFd,
    /// The directory with the skills.
    pub(super) skills: OwnedFd,
}

/// An agent's open directory.
#[derive(Debug)]
pub(super) struct AgentDirectory {
    pub(super) handle: OwnedFd,
    /// The way from here to the directory of skills, for a link.
    to_skills: String,
}

impl AgentDirectory {
    /// The text of the link for a skill.
    pub(super) fn link(&self, name: &str) -> String {
        format!("{}/{name}", self.to_skills)
    }
}

impl Directories {
    /// Opens the place, and makes its directories if needed.
    pub(super) fn make(place: &Place) -> Result<Self, PlaceError> {
        let (base_path, _) = parts(place)?;
        let open_base =
            || beneath::open_directory(base_path).map_err(|error| PlaceError::io("open", base_path, error));
        let base = open_base()?;
        let root = open_below(place, &base, &place.root, Missing::Make)?;
        let skills = open_below(place, &base, &place.root.join(SKILLS), Missing::Make)?;
        let absent = || PlaceError::io("open", &place.root, Errno::NOENT);
        Ok(Self { root: root.ok_or_else(absent)?, skills: skills.ok_or_else(absent)? })
    }

    /// Opens the directory of the place, if it exists.
    pub(super) fn open_root(place: &Place) -> Result<Option<OwnedFd>, PlaceError> {
        open_existing(place, &place.root)
    }

    /// Opens the directory of skills, if it exists.
    pub(super) fn open_skills(place: &Place) -> Result<Option<OwnedFd>, PlaceError> {
        open_existing(place, &place.root.join(SKILLS))
    }

    /// Whether an agent's directory exists, can be reached, and is another one than the directory of skills.
    pub(super) fn has_agent(place: &Place, path: &Path) -> bool {
        let opened = if is_beside(place, path) {
            open_existing(place, path).ok().flatten()
        } else {
            beneath::open_directory(path).ok()
        };
        let identity = |handle: OwnedFd| identity(&handle).ok();
        let skills = Self::open_skills(place).ok().flatten().and_then(identity);
        opened.and_then(identity).is_some_and(|found| Some(found) != skills)
    }

    /// Whether a link on the way to an agent's directory is not followed.
    pub(super) fn refuses_agent(place: &Place, path: &Path) -> bool {
        is_beside(place, path) && matches!(open_existing(place, path), Err(PlaceError::LeadsOut { .. }))
    }

    /// Opens an agent's directory. `None` if it does not exist, or if it is the directory of skills itself, perhaps through
    /// a link: then the agent sees the skills already.
    pub(super) fn open_agent(
        &self,
        place: &Place,
        path: &Path,
        missing: Missing,
    ) -> Result<Option<AgentDirectory>, PlaceError> {
        if !place.agent_directories.iter().any(|listed| listed == path) {
            return Err(PlaceError::NotListed(path.to_owned()));
        }
        let (base_path, root_name) = parts(place)?;
        let failed = |error: Errno| PlaceError::io("open", path, error);
        let skills = place.root.join(SKILLS);
        let absolute = || text_of(&skills).map(str::to_owned);
        let agent = if let Ok(relative) = path.strip_prefix(base_path) {
            let base = beneath::open_directory(base_path).map_err(failed)?;
            let Some(handle) = open_below(place, &base, path, missing)? else { return Ok(None) };
            // A relative link counts from the real directory. If the way there has a link, that is elsewhere.
            let is_direct = beneath::open(&base, relative, DIRECTORY, Follow::Never).is_ok();
            let to_skills = if is_direct {
                format!("{}{root_name}/{SKILLS}", "../".repeat(relative.components().count()))
            } else {
                absolute()?
            };
            AgentDirectory { handle, to_skills }
        } else {
            // A person chose a directory elsewhere, for example in a variable of the environment.
            if missing == Missing::Make {
                std::fs::create_dir_all(path).map_err(|error| PlaceError::io("create", path, error))?;
            }
            let handle = match beneath::open_directory(path) {
                Err(Errno::NOENT) => return Ok(None),
                opened => opened.map_err(failed)?,
            };
            AgentDirectory { handle, to_skills: absolute()? }
        };
        let [mine, ours] = [&agent.handle, &self.skills].map(identity);
        Ok((mine.map_err(failed)? != ours.map_err(failed)?).then_some(agent))
    }

    /// Checks that entries can be renamed to `directory`.
    pub(super) fn check_writable(&self, directory: &OwnedFd, path: &Path) -> Result<(), PlaceError> {
        let failed = |error: Errno| PlaceError::io("open", path, error);
        let [there, here] = [directory, &self.root].map(fs::fstat);
        if there.map_err(failed)?.st_dev != here.map_err(failed)?.st_dev {
            return Err(PlaceError::OtherFileSystem(path.to_owned()));
        }
        fs::accessat(directory, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::empty())
            .map_err(|_| PlaceError::NotWritable(path.to_owned()))
    }
}

/// Checks that the entry `name` can be renamed to another directory. A directory that nobody may write to cannot.
pub(super) fn check_movable(directory: &OwnedFd, name: &str, path: &Path) -> Result<(), PlaceError> {
    let is_directory = beneath::stat(directory, name)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
    if is_directory && fs::accessat(directory, name, Access::WRITE_OK, AtFlags::empty()).is_err() {
        return Err(PlaceError::NotWritable(path.to_owned()));
    }
    Ok(())
}

/// What to do about a directory that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Make,
    Skip,
}

/// The UTF-8 text of a path.
pub(super) fn text_of(path: &Path) -> Result<&str, PlaceError> {
    path.to_str().ok_or_else(|| PlaceError::NotUtf8(path.to_owned()))
}

/// The directory that has the place, and the name of the place in it.
fn parts(place: &Place) -> Result<(&Path, &str), PlaceError> {
    match (place.root.parent(), place.root.file_name()) {
        (Some(base), Some(name)) => Ok((base, text_of(name.as_ref())?)),
        _ => Err(PlaceError::Root(place.root.clone())),
    }
}

/// Whether a directory is below the one that has the place. A person chose one that is elsewhere.
fn is_beside(place: &Place, path: &Path) -> bool {
    parts(place).is_ok_and(|(base, _)| path.starts_with(base))
}

fn open_existing(place: &Place, path: &Path) -> Result<Option<OwnedFd>, PlaceError> {
    let (base_path, _) = parts(place)?;
    match beneath::open_directory(base_path) {
        Ok(base) => open_below(place, &base, path, Missing::Skip),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(PlaceError::io("open", base_path, error)),
    }
}

/// Opens the directory `relative` below `base`. Follows the links that the place allows.
fn open_at(place: &Place, base: &OwnedFd, relative: &Path) -> Result<OwnedFd, Errno> {
    let direct = beneath::open(base, relative, DIRECTORY, Follow::Never);
    if !matches!(direct, Err(Errno::LOOP | Errno::NOTDIR)) {
        return direct;
    }
    let target = beneath::open(base, relative, DIRECTORY, Follow::Beneath)?;
    if place.links == Links::Below {
        return Ok(target);
    }
    let (base_path, _) = parts(place).map_err(|_| Errno::LOOP)?;
    let found = identity(&target)?;
    let skills = place.root.join(SKILLS);
    let listed = || {
        let all = place.agent_directories.iter().chain([&skills]);
        all.filter_map(|listed| listed.strip_prefix(base_path).ok())
    };
    let leads_to = |allowed: &Path| {
        let opened = beneath::open(base, allowed, DIRECTORY, Follow::Never);
        opened.is_ok_and(|opened| identity(&opened) == Ok(found))
    };
    // A directory of skills may be another one, and a directory of an agent that of another agent.
    let is_allowed = if listed().any(|listed| listed == relative) {
        listed().any(leads_to)
    } else {
        listed().filter_map(Path::parent).filter(|parent| is_hidden(parent)).any(leads_to)
    };
    if is_allowed { Ok(target) } else { Err(Errno::LOOP) }
}

/// Whether the name of a directory begins with a dot, as those of agents do.
fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// What tells a directory from all others.
fn identity(handle: &OwnedFd) -> Result<impl PartialEq + Copy + use<>, Errno> {
    fs::fstat(handle).map(|stat| (stat.st_dev, stat.st_ino))
}

/// Opens the directory at `path`, which is below that of `base`.
fn open_below(
    place: &Place,
    base: &OwnedFd,
    path: &Path,
    missing: Missing,
) -> Result<Option<OwnedFd>, PlaceError> {
    let (base_path, _) = parts(place)?;
    let relative = path.strip_prefix(base_path).unwrap_or(path);
    let mut so_far = PathBuf::new();
    let mut opened: Option<OwnedFd> = None;
    for component in relative.components() {
        let Component::Normal(name) = component else { return Err(PlaceError::NotListed(path.to_owned())) };
        so_far.push(name);
        let open = || open_at(place, base, &so_far);
        let result = match open() {
            Err(Errno::NOENT) if missing == Missing::Make => {
                let parent = opened.as_ref().map_or(base.as_fd(), |opened| opened.as_fd());
                disk::make_directory(parent, name).and_then(|()| open())
            }
            result => result,
        };
        let at = base_path.join(&so_far);
        opened = Some(match result {
            Ok(directory) => directory,
            Err(Errno::NOENT) if missing == Missing::Skip => return Ok(None),
            Err(Errno::XDEV | Errno::LOOP) => {
                return Err(PlaceError::LeadsOut { path: at, base: base_path.to_owned() });
            }
            Err(error) => return Err(PlaceError::io("open", &at, error)),
        });
    }
    Ok(opened)
}
