//! Makes directories reachable for the user of the sandbox.
//!
//! Root gives up its privileges before it enters the sandbox. Then `nobody` cannot enter `/root`, where root's workspaces
//! and interpreters often are. A first bubblewrap, still with root's privileges, mounts them at an empty place, and the
//! sandbox takes them from there. The mounts are in a namespace, so nobody else sees them.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::privileges;

/// Directories that every system has, and that rarely contain workspaces.
const ROOMS: [&str; 4] = ["/mnt", "/media", "/srv", "/opt"];

/// The directories to mount, and their mount points.
#[derive(Debug, Default)]
pub(super) struct Reach {
    room: Option<&'static str>,
    brought: Vec<PathBuf>,
}

impl Reach {
    /// Finds which of these the sandbox's user cannot reach.
    pub(super) fn new(sources: &[&Path]) -> Self {
        let Some(owner) = privileges::sandbox_owner() else { return Self::default() };
        // Many sources lie in the same directories.
        let mut known: HashMap<&Path, bool> = HashMap::new();
        let mut brought = Vec::new();
        for source in sources {
            let mut can_pass =
                |directory| *known.entry(directory).or_insert_with(|| privileges::can_pass(directory, owner));
            if !source.ancestors().skip(1).all(&mut can_pass) {
                brought.push(source.to_path_buf());
            }
        }
        let is_free =
            |room: &&&str| Path::new(room).is_dir() && !sources.iter().any(|source| source.starts_with(room));
        Self { room: ROOMS.iter().find(is_free).copied(), brought }
    }

    /// Where the sandbox finds a directory or file.
    pub(super) fn at(&self, source: &Path) -> PathBuf {
        match (self.room, self.brought.iter().position(|brought| brought == source)) {
            (Some(room), Some(number)) => Path::new(room).join(number.to_string()),
            _ => source.to_owned(),
        }
    }

    /// The program and arguments that mount everything, before the command that follows; empty if all can be reached.
    pub(super) fn command_line(&self, bwrap: &Path) -> Vec<OsString> {
        let Some(room) = self.room.filter(|_| !self.brought.is_empty()) else { return Vec::new() };
        let mut line: Vec<OsString> = vec![bwrap.into()];
        line.extend(["--die-with-parent", "--dev-bind", "/", "/", "--tmpfs", room].map(Into::into));
        for source in &self.brought {
            line.extend(["--bind".into(), source.into(), self.at(source).into()]);
        }
        line.push("--".into());
        line
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::super::privileges::can_enter;
    use super::*;

    #[test]
    fn a_private_directory_cannot_be_entered_by_others() {
        let private = tempfile::tempdir().unwrap();
        let only_the_owner = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(private.path(), only_the_owner).unwrap();
        let metadata = private.path().metadata().unwrap();
        let (owner, group) = (metadata.uid(), metadata.gid());
        let inside = private.path().join("x");
        assert!(can_enter(&inside, (owner, group)));
        assert!(!can_enter(&inside, (owner + 1, group)));
        assert!(can_enter(Path::new("/usr/bin"), (owner + 1, group + 1)));
        // The group's bit counts for the group, and for nobody else.
        let set = |mode| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(private.path(), mode).unwrap();
        };
        set(0o710);
        assert!(can_enter(&inside, (owner + 1, group)));
        assert!(!can_enter(&inside, (owner + 1, group + 1)));
        set(0o701);
        assert!(!can_enter(&inside, (owner + 1, group)));
    }

    #[test]
    fn what_was_brought_is_taken_from_its_new_place() {
        let reach = Reach { room: Some("/mnt"), brought: vec!["/root/w".into(), "/root/py".into()] };
        assert_eq!(reach.at(Path::new("/root/py")), Path::new("/mnt/1"));
        assert_eq!(reach.at(Path::new("/opt/node")), Path::new("/opt/node"));
        let line = reach.command_line(Path::new("/usr/bin/bwrap"));
        let line: Vec<_> = line.iter().map(|part| part.to_string_lossy()).collect();
        assert_eq!(
            line.join(" "),
            "/usr/bin/bwrap --die-with-parent --dev-bind / / --tmpfs /mnt --bind /root/w /mnt/0 --bind /root/py /mnt/1 --"
        );
        assert!(Reach::default().command_line(Path::new("/usr/bin/bwrap")).is_empty());
    }
}
