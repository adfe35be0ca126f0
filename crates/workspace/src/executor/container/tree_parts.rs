//! The parts of the tree that an engine cannot make itself: links, and the mount points in read-only directories.
//!
//! They are made as local directories, and mounted read-only.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::symlinkat;

use crate::command::{Command, Mount};
use crate::dir::Dir;
use crate::executor::layout::WRITABLE;
use crate::stage::{SHORTCUT_DIR, SHORTCUTS, skill_of};
use crate::tree::{EARLIER, PROJECT, SKILLS, WORK};

/// The directory of these parts in the directory of a container.
pub(super) const PARTS: &str = "tree";

/// Directories that a link must not replace: those of the tree, and those that programs in the image need.
const TAKEN: [&str; 18] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/opt", "/proc", PROJECT, "/run", "/sbin",
    SKILLS, "/sys", "/usr", "/var", WORK, EARLIER,
];

/// A local directory, and where the container sees it.
pub(super) type Part = (PathBuf, String);

/// Makes the parts for a command in `directory`, which is at `path`.
pub(super) fn make(directory: &OwnedFd, path: &Path, command: &Command) -> io::Result<Vec<Part>> {
    let mut parts = Parts {
        all: Dir::from_descriptor(directory.try_clone()?).make_dir(PARTS, 0o755, None)?,
        path,
        made: Vec::new(),
    };
    let skills = parts.add("skills", SKILLS)?;
    for skill in &command.skills {
        skills.make_dir(skill_of(skill), 0o755, None)?;
    }
    let work = parts.add("work", WORK)?;
    for part in WRITABLE {
        work.make_dir(part, 0o755, None)?;
    }
    symlinkat(SKILLS, &work, "skills")?;
    let shortcuts = parts.add("places", &format!("/{SHORTCUT_DIR}"))?;
    for (name, place) in SHORTCUTS {
        symlinkat(format!("{WORK}/{place}"), &shortcuts, name)?;
    }
    let earlier = parts.add("earlier", EARLIER)?;
    for part in WRITABLE {
        symlinkat(format!("{WORK}/{part}"), &earlier, part)?;
    }
    symlinkat(SKILLS, &earlier, "skills")?;
    for (number, mount) in
        command.mounts.iter().enumerate().filter(|(_, mount)| mount.source.path().is_none())
    {
        let empty = parts.add(&format!("empty-{number}"), &mount.at)?;
        make_mount_points(&empty, &mount.at, &command.mounts)?;
    }
    parts.add_aliases(&command.aliases)?;
    Ok(parts.made)
}

struct Parts<'a> {
    all: Dir,
    path: &'a Path,
    made: Vec<Part>,
}

impl Parts<'_> {
    /// Makes links, in one directory for all links that lie beside each other. A link below another one is left out.
    fn add_aliases(&mut self, aliases: &[(String, String)]) -> io::Result<()> {
        let mut directories: BTreeMap<&str, Dir> = BTreeMap::new();
        for (number, (link, target)) in aliases.iter().enumerate() {
            let Some((parent, name)) = room_for(link, aliases) else { continue };
            if !directories.contains_key(parent) {
                directories.insert(parent, self.add(&format!("alias-{number}"), parent)?);
            }
            match symlinkat(target.as_str(), &directories[parent], name) {
                // Two skills cannot have the same directory, but one link can be given twice.
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // A directory that is mounted in another one needs a mount point there.
        for (outer, directory) in &directories {
            for inner in directories.keys().filter(|inner| inner != &outer) {
                if let Ok(inside) = Path::new(inner).strip_prefix(outer) {
                    directory.make_dirs(&inside.to_string_lossy(), 0o755, None)?;
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, name: &str, at: &str) -> io::Result<Dir> {
        let part = self.all.make_dir(name, 0o755, None)?;
        self.made.push((self.path.join(PARTS).join(name), at.to_owned()));
        Ok(part)
    }
}

/// Makes the mount points of everything that is mounted in an empty directory. Deeper ones are in another mount.
fn make_mount_points(empty: &Dir, at: &str, mounts: &[Mount]) -> io::Result<()> {
    for mount in mounts {
        let inside = mount.at.strip_prefix(at).and_then(|rest| rest.strip_prefix('/'));
        let Some(inside) = inside.filter(|inside| !is_in_another(at, &mount.at, inside, mounts)) else {
            continue;
        };
        let (parent, name) = inside.rsplit_once('/').unwrap_or(("", inside));
        let parent = empty.make_dirs(parent, 0o755, None)?;
        if mount.source.path().is_none_or(Path::is_dir) {
            parent.make_dir(name, 0o755, None)?;
        } else {
            prowess_base::beneath::create_file(&parent, name, 0o644)?;
        }
    }
    Ok(())
}

/// Whether a mount at `place`, which is `inside` the empty directory `at`, is also in a mount between the two.
fn is_in_another(at: &str, place: &str, inside: &str, mounts: &[Mount]) -> bool {
    inside.contains('/')
        && mounts.iter().any(|other| {
            other.at != at
                && other.at != place
                && Path::new(&other.at).starts_with(at)
                && Path::new(place).starts_with(&other.at)
        })
}

/// The links that are not made.
pub(super) fn left_out_aliases(aliases: &[(String, String)]) -> Vec<(String, String)> {
    aliases.iter().filter(|(link, _)| room_for(link, aliases).is_none()).cloned().collect()
}

/// The directory and name of a link that can be made. A link below another one cannot.
fn room_for<'a>(link: &'a str, aliases: &[(String, String)]) -> Option<(&'a str, &'a str)> {
    let is_inside = |other: &(String, String)| other.0 != link && Path::new(link).starts_with(&other.0);
    place_of(link).filter(|_| !aliases.iter().any(is_inside))
}

/// The directory and name of a link, if the directory can be replaced.
fn place_of(link: &str) -> Option<(&str, &str)> {
    let (parent, name) = link.rsplit_once('/')?;
    let is_taken = TAKEN.iter().any(|taken| Path::new(parent).starts_with(taken));
    (!parent.is_empty() && parent != "/tmp" && !name.is_empty() && !is_taken).then_some((parent, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_replaces_no_directory_that_is_needed() {
        assert_eq!(place_of("/home/ada/site"), Some(("/home/ada", "site")));
        assert_eq!(place_of("/tmp/x/site"), Some(("/tmp/x", "site")));
        for link in ["/site", "/tmp/site", "/usr/share/site", "/work/site", "site", "/home/ada/"] {
            assert_eq!(place_of(link), None, "{link}");
        }
    }
}
