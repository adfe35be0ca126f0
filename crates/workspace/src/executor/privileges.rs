//! The user that commands run as.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::process::{Gid, Uid, geteuid};

/// The user and group of commands that root starts: `nobody`.
const NOBODY: u32 = 65534;

/// The user and group that commands run as, if they differ from those of this process.
///
/// Root starts commands as `nobody`. That user must own the writable directories of a workspace (`work/`, `out/`,
/// `runs/`), and must be able to reach it.
pub fn sandbox_owner() -> Option<(u32, u32)> {
    geteuid().is_root().then_some((NOBODY, NOBODY))
}

/// [`sandbox_owner`] for system calls.
pub(super) fn owner() -> Option<(Uid, Gid)> {
    sandbox_owner().map(|(user, group)| (Uid::from_raw(user), Gid::from_raw(group)))
}

/// Whether a user with one group may pass all directories on the way to a path, by their modes.
pub(crate) fn can_enter(path: &Path, owner: (u32, u32)) -> bool {
    path.ancestors().skip(1).all(|directory| can_pass(directory, owner))
}

/// Whether a user with one group may pass a directory, by its mode.
pub(super) fn can_pass(directory: &Path, (user, group): (u32, u32)) -> bool {
    std::fs::metadata(directory).is_ok_and(|metadata| {
        let needed = match (metadata.uid() == user, metadata.gid() == group) {
            (true, _) => 0o100,
            (false, true) => 0o010,
            (false, false) => 0o001,
        };
        metadata.mode() & needed != 0
    })
}

/// The program and arguments that give up root for good, before the command that follows.
pub(super) fn drop_root(setpriv: &Path) -> Vec<OsString> {
    let mut chain = vec![setpriv.as_os_str().to_owned()];
    chain.extend(
        [
            &format!("--reuid={NOBODY}"),
            &format!("--regid={NOBODY}"),
            "--clear-groups",
            "--bounding-set=-all",
            "--inh-caps=-all",
            "--no-new-privs",
            "--pdeathsig=KILL",
        ]
        .map(OsString::from),
    );
    chain
}
