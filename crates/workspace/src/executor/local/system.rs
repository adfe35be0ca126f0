//! The parts of this machine's system that commands see.

use std::path::PathBuf;

/// Files and directories of `/etc` that programs need and that contain nothing private.
const ETC: &[&str] = &[
    "/etc/alternatives",
    "/etc/fonts",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
];

/// The parts of this machine's system that commands see.
#[derive(Clone, Debug)]
pub(super) struct System {
    /// Directories and files that commands see read-only, at the same path.
    pub(super) bound: Vec<PathBuf>,
    /// Links in `/` with their targets, such as `/bin` to `usr/bin`.
    pub(super) links: Vec<(String, String)>,
}

impl System {
    /// Finds these files on this machine.
    pub(super) fn detect() -> Self {
        let mut system = Self { bound: vec![PathBuf::from("/usr")], links: Vec::new() };
        for name in ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
            let at = PathBuf::from("/").join(name);
            match std::fs::read_link(&at) {
                Ok(target) => {
                    let target = target.to_string_lossy().trim_start_matches('/').to_owned();
                    system.links.push((target, format!("/{name}")));
                }
                Err(_) if at.is_dir() => system.bound.push(at),
                Err(_) => {}
            }
        }
        system.bound.extend(ETC.iter().map(PathBuf::from).filter(|at| at.exists()));
        system
    }
}

/// Files of `/etc` that the sandbox replaces, so that commands do not see those of this machine.
pub(super) const WRITTEN: [(&str, &str); 4] = [
    (
        "/etc/passwd",
        "skill:x:1000:1000:skill:/tmp/home:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
    ),
    ("/etc/group", "skill:x:1000:\nnogroup:x:65534:\n"),
    ("/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
    ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
];
