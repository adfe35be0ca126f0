//! Why no sandbox works on this machine, and what a person can do about it.

use std::path::Path;

use crate::command::Level;
use crate::missing::Missing;

/// Why no sandbox works.
#[derive(Clone, Debug)]
pub(super) struct NoSandbox {
    pub(super) what: String,
    pub(super) remedy: String,
}

impl NoSandbox {
    /// A directory of `sandbox.read_only` cannot be made visible.
    pub(super) fn bad_prefix(path: &Path) -> Self {
        Self {
            what: format!("commands cannot be given {}", path.display()),
            remedy: "Name the directory of one program, such as /opt/node.".to_owned(),
        }
    }

    /// This process is root and has no program that gives root up.
    pub(super) fn no_setpriv() -> Self {
        Self {
            what: "setpriv was not found, so root cannot be given up".to_owned(),
            remedy: "Install the package util-linux, or run as another user.".to_owned(),
        }
    }
}

/// What a person can do if only this level works, for this reason. `has_other_wish` says that the user does not want the
/// strongest level.
pub(super) fn remedy(level: Level, why: &Missing, has_other_wish: bool) -> String {
    let mut remedy = match why {
        _ if has_other_wish => "Ask for `bwrap`",
        Missing::Bubblewrap => "Install the package `bubblewrap`",
        // bubblewrap has no error code for this.
        Missing::BubblewrapFailed { error } if error.contains("Can't find source path") => {
            "Correct the directories in `sandbox.read_only`"
        }
        _ => {
            "Allow user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, \
             kernel.apparmor_restrict_unprivileged_userns)"
        }
    }
    .to_owned();
    remedy.push_str(match level {
        Level::BwrapNoproc => ", or allow the level `bwrap-noproc` (`--sandbox bwrap-noproc`).",
        Level::Landlock => {
            ", or use containers (`--executor container`), or allow the level `landlock` (`--sandbox landlock`)."
        }
        _ => ", or use containers (`--executor container`), or allow the level `none` (`--sandbox none`).",
    });
    remedy
}
