//! Which user commands run as.

use std::ffi::OsString;
use std::path::Path;

use rustix::process::{Gid, Uid, geteuid};

/// The user and group that a root process becomes before it starts anything: `nobody`.
const NOBODY: u32 = 65534;

/// The user and group that own what a command may write, when they are not those of this process.
///
/// A process of root starts commands as `nobody`: the writable parts of a workspace (`work/`, `out/`, `runs/`)
/// must belong to that user, and all of it must be reachable for it.
pub fn sandbox_owner() -> Option<(u32, u32)> {
    geteuid().is_root().then_some((NOBODY, NOBODY))
}

/// The same, as the system calls take it.
pub(super) fn owner() -> Option<(Uid, Gid)> {
    sandbox_owner().map(|(user, group)| (Uid::from_raw(user), Gid::from_raw(group)))
}

/// The program and arguments that give up root for good and then become what follows them.
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
