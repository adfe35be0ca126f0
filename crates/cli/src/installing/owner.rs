//! Whether other users can change a project while skills are installed in it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};
use prowess_catalog::RootLayout;

use super::shown;

/// A directory to which everybody may add files, such as `/tmp`.
const SHARED: u32 = 0o1002;

/// Refuses a project of another user. As for Git, `safe.directory` in your own Git configuration allows it.
pub(super) fn check_owner(top: &Path) -> Result<()> {
    let Some(refusal) = refusal(top) else { return Ok(()) };
    if is_safe(top) {
        return Ok(());
    }
    let top = shown(top);
    bail!(
        "{refusal}, so others could change what is installed here; use a directory of your own, or --global\n\
         If you trust them: git config --global --add safe.directory '{top}'"
    )
}

fn refusal(top: &Path) -> Option<String> {
    let me = rustix::process::geteuid();
    let mut ours = vec![0, me.as_raw()];
    // Git does the same for `sudo`.
    if me.is_root() {
        ours.extend(std::env::var("SUDO_UID").ok().and_then(|id| id.parse::<u32>().ok()));
    }
    let marks = RootLayout::default().project_marks;
    let paths = [top.to_owned()].into_iter().chain(marks.iter().map(|mark| top.join(mark)));
    for path in paths {
        let Ok(found) = path.symlink_metadata() else { continue };
        if !ours.contains(&found.uid()) {
            return Some(format!("{} belongs to another user", shown(&path)));
        }
        if path == top && found.mode() & SHARED == SHARED {
            return Some(format!("everybody can write to {}", shown(&path)));
        }
    }
    None
}

/// Whether the user's own Git configuration calls the directory safe. That of a repository does not count.
fn is_safe(top: &Path) -> bool {
    let output = Command::new("git")
        .args(["config", "--null", "--type=path", "--get-all", "safe.directory"])
        .current_dir("/")
        .env_remove("GIT_DIR")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let Ok(output) = output else { return false };
    let mut is_safe = false;
    for value in output.stdout.split_inclusive(|byte| *byte == 0) {
        let value = value.strip_suffix(b"\0").unwrap_or(value);
        is_safe = match value {
            // An empty value takes back those before it.
            b"" => false,
            b"*" => true,
            value => {
                let below = value.strip_suffix(b"/*").map(|above| Path::new(OsStr::from_bytes(above)));
                is_safe
                    || Path::new(OsStr::from_bytes(value)) == top
                    || below.is_some_and(|above| top.starts_with(above))
            }
        };
    }
    is_safe
}
