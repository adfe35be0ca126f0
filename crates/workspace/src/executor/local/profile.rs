//! The sandbox as a list of arguments. Nothing here touches the system.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::network::Bridge;
use super::place::{OWN, WRITABLE};
use super::privileges::drop_root;
use super::reach::Reach;
use super::system::{System, WRITTEN};
use crate::command::Level;
use crate::limits::{Limits, MAX_TIMEOUT};

/// The descriptors that a sandbox starts with, beside the three that every program has.
pub(super) mod descriptor {
    use std::os::fd::RawFd;

    /// bubblewrap's arguments: variables among them, which no process list shows this way.
    pub(in super::super) const ARGUMENTS: RawFd = 3;
    /// Where bubblewrap says which process is the first inside, and how the command ended.
    pub(in super::super) const STATUS: RawFd = 4;
    /// The first process inside waits here until its supervisor has heard of it.
    pub(in super::super) const GATE: RawFd = 5;
    /// Where the first process inside says that it is there.
    pub(in super::super) const HERE: RawFd = 6;
    /// The bridge's way to the proxy, where there is a network.
    pub(in super::super) const PROXY_SOCKET: RawFd = 7;
    /// The filter of system calls.
    pub(in super::super) const FILTER: RawFd = 8;
    /// The first of the files written for the inside.
    pub(in super::super) const WRITTEN: RawFd = 9;
    /// The arguments of the bubblewrap around the sandbox, where there is a network.
    pub(in super::super) const AROUND: RawFd = 13;
    const _: () = assert!(super::WRITTEN.len() <= (AROUND - WRITTEN) as usize);
}

/// What `/dev/shm` may hold.
const SHARED_MEMORY: u64 = 16 * 1024 * 1024;

/// A sandbox for one command.
#[derive(Debug)]
pub(super) struct Profile<'a> {
    pub(super) level: Level,
    pub(super) system: &'a System,
    /// Where the host's directories and files are taken from.
    pub(super) reach: &'a Reach,
    /// Prefixes of the host that the user bound, read-only, at the same place.
    pub(super) prefixes: &'a [PathBuf],
    /// The workspace on the host; none when the sandbox itself is tried.
    pub(super) workspace: Option<&'a Path>,
    /// The directory of the host that the command writes instead of the workspace.
    pub(super) apart: Option<&'a Path>,
    /// The skills of the workspace that are there.
    pub(super) skills: &'a [String],
    /// Linked inputs with their places on the inside.
    pub(super) read_only: Vec<(&'a Path, String)>,
    pub(super) variables: &'a BTreeMap<String, String>,
    /// The directory to run in, on the inside.
    pub(super) directory: String,
    pub(super) temporary_bytes: u64,
    pub(super) filter: bool,
    /// Whether the sandbox is started in a network that is made for it, and makes none itself.
    pub(super) bridged: bool,
}

impl Profile<'_> {
    /// The arguments of bubblewrap, in the order in which it acts on them.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let mut list = Arguments::default();
        list.add(["--unshare-user", "--unshare-ipc", "--unshare-pid"]);
        if !self.bridged {
            list.add(["--unshare-net"]);
        }
        list.add([
            "--unshare-uts",
            "--unshare-cgroup-try",
            "--uid",
            "1000",
            "--gid",
            "1000",
            "--hostname",
            "sandbox",
        ]);
        list.add(["--new-session", "--die-with-parent", "--as-pid-1", "--cap-drop", "ALL"]);
        for path in &self.system.bound {
            list.mount("--ro-bind", path, path);
        }
        for (target, link) in &self.system.links {
            list.add(["--symlink", target, link]);
        }
        for ((path, _), number) in WRITTEN.iter().zip(descriptor::WRITTEN..) {
            list.add(["--perms", "0644", "--file", &number.to_string(), path]);
        }
        if self.level == Level::Bwrap {
            // A kept `/proc/sys` would be writable for real root.
            list.add(["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"]);
        }
        list.add(["--dev", "/dev", "--size", &SHARED_MEMORY.to_string(), "--tmpfs", "/dev/shm"]);
        list.add(["--size", &self.temporary_bytes.to_string(), "--perms", "1777", "--tmpfs", "/tmp"]);
        list.add(["--perms", "0700", "--dir", "/tmp/home"]);
        for path in self.prefixes {
            list.mount("--ro-bind", self.reach.at(path), path);
        }
        if let Some(workspace) = self.workspace.map(|workspace| self.reach.at(workspace)) {
            // Only parts are writable: a command that could write the root could swap `skills` for a link.
            list.mount("--ro-bind", &workspace, "/ws");
            match self.apart {
                Some(own) => list.mount("--bind", self.reach.at(own), OWN),
                None => {
                    for part in WRITABLE {
                        list.mount("--bind", workspace.join(part), format!("/ws/{part}"));
                    }
                }
            }
            // Over all skills that were ever staged: what was not asked about for this command is not there.
            list.add(["--tmpfs", "/ws/skills"]);
            for skill in self.skills {
                let staged = workspace.join("skills").join(skill);
                list.mount("--ro-bind", staged, format!("/ws/skills/{skill}"));
            }
        }
        for (from, to) in &self.read_only {
            list.mount("--ro-bind", self.reach.at(from), to);
        }
        if self.workspace.is_some() {
            list.add(["--remount-ro", "/ws/skills"]);
        }
        // Without this `/dev` and `/` are memory that no limit counts.
        list.add(["--remount-ro", "/dev", "--remount-ro", "/", "--clearenv"]);
        for (name, value) in self.variables {
            list.add(["--setenv", name, value]);
        }
        list.add(["--chdir", &self.directory, "--json-status-fd", &descriptor::STATUS.to_string()]);
        if self.filter {
            list.add(["--seccomp", &descriptor::FILTER.to_string()]);
        }
        list.0
    }
}

/// The whole command line: bring what is out of reach, give up root, make a network if there is to be one, enter the
/// sandbox, and what comes then.
pub(super) fn command_line(
    reach: &Reach,
    setpriv: Option<&Path>,
    bridge: Option<&Bridge>,
    bwrap: &Path,
    inner: Vec<OsString>,
) -> Vec<OsString> {
    let mut line = reach.command_line(bwrap);
    line.extend(setpriv.map(drop_root).unwrap_or_default());
    line.extend(bridge.map(|bridge| bridge.command_line(bwrap)).unwrap_or_default());
    line.push(bwrap.as_os_str().to_owned());
    // `--disable-userns` is what stops nested user namespaces: a filter cannot see the flags of clone3. It stands
    // here because it is an error without the others: when their writer is dead, bubblewrap ends at once.
    line.extend([
        "--disable-userns".into(),
        "--args".into(),
        descriptor::ARGUMENTS.to_string().into(),
        "--".into(),
    ]);
    line.extend(inner);
    line
}

/// What runs first inside: it says that it is there, waits at the gate, limits itself, and runs the command.
///
/// bubblewrap binds the life of the first process to its own only at the end of its work. A supervisor that was
/// killed before that cannot open the gate, and one that opens it is heard of when it dies: nothing runs without a
/// supervisor. As the first process it also takes in orphans, and everything dies with it.
///
/// The limits are set here and not outside because each sandbox then counts its own processes, not those of a
/// user. Descriptors have one digit because that is all that some shells understand; 7 is the command's standard
/// error, which the shell shall not write to when it sees a child killed; it is put in its place by the child, because
/// some shells do that before they make one.
pub(super) fn gated(limits: &Limits, address_space: Option<u64>, command: &[&OsStr]) -> Vec<OsString> {
    use descriptor::{GATE, HERE};
    let seconds = limits.timeout.min(MAX_TIMEOUT).as_secs() + 1;
    let (files, blocks) = (limits.open_files, limits.file_size / 512);
    let processes = limits.processes;
    let memory = address_space.map(|bytes| format!("ulimit -v {}; ", bytes / 1024)).unwrap_or_default();
    // `-u` is what bash calls the limit, `-p` what dash calls it.
    let script = format!(
        "echo >&{HERE}; read -r go <&{GATE} || exit 125; exec {GATE}<&- {HERE}>&- 7>&2 2>/dev/null; \
         ulimit -c 0; ulimit -n {files}; ulimit -f {blocks}; ulimit -t {seconds}; {memory}\
         ulimit -u {processes} || ulimit -p {processes}; (exec \"$@\" 2>&7 7>&-); exit $?"
    );
    let mut line: Vec<OsString> = vec!["/bin/sh".into(), "-c".into(), script.into(), "sh".into()];
    line.extend(command.iter().map(|part| (*part).to_owned()));
    line
}

#[derive(Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn add<const N: usize>(&mut self, parts: [&str; N]) {
        self.0.extend(parts.map(OsString::from));
    }

    fn mount(&mut self, how: &str, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) {
        self.0.extend([how.into(), from.as_ref().to_owned(), to.as_ref().to_owned()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system() -> System {
        System {
            bound: vec!["/usr".into(), "/etc/ld.so.cache".into()],
            links: vec![("usr/bin".into(), "/bin".into()), ("usr/lib".into(), "/lib".into())],
        }
    }

    fn text(arguments: &[OsString]) -> String {
        let joined: Vec<_> = arguments.iter().map(|part| part.to_string_lossy()).collect();
        joined.join(" ").replace(" --", "\n--")
    }

    #[test]
    fn the_whole_profile() {
        let variables = BTreeMap::from([("LANG".to_owned(), "C.UTF-8".to_owned())]);
        let profile = Profile {
            level: Level::Bwrap,
            system: &system(),
            reach: &Reach::default(),
            prefixes: &["/opt/python".into()],
            workspace: Some(Path::new("/srv/w1")),
            apart: None,
            skills: &["pdf".into()],
            read_only: vec![(Path::new("/data/in.csv"), "/ws/work/inputs/in.csv".into())],
            variables: &variables,
            directory: "/ws/skills/pdf".into(),
            temporary_bytes: 64 * 1024 * 1024,
            filter: true,
            bridged: false,
        };
        insta::assert_snapshot!(text(&profile.arguments()));
    }

    #[test]
    fn a_command_that_runs_apart_writes_nothing_of_the_workspace() {
        let profile = Profile {
            level: Level::Bwrap,
            system: &system(),
            reach: &Reach::default(),
            prefixes: &[],
            workspace: Some(Path::new("/srv/w1")),
            apart: Some(Path::new("/srv/hooks")),
            skills: &[],
            read_only: Vec::new(),
            variables: &BTreeMap::new(),
            directory: OWN.into(),
            temporary_bytes: 64 * 1024 * 1024,
            filter: true,
            bridged: false,
        };
        let arguments = text(&profile.arguments());
        let writable: Vec<&str> = arguments.lines().filter(|line| line.starts_with("--bind ")).collect();
        assert_eq!(writable, ["--bind /srv/hooks /own"]);
        assert!(arguments.contains("--ro-bind /srv/w1 /ws\n"), "{arguments}");
    }

    #[test]
    fn the_whole_command_line() {
        let limits = Limits::default();
        let inner = gated(
            &limits,
            Some(4 * limits.memory),
            &["/bin/bash".as_ref(), "-lc".as_ref(), "echo hi".as_ref()],
        );
        let (setpriv, bwrap) = (Path::new("/usr/bin/setpriv"), Path::new("/usr/bin/bwrap"));
        let line = command_line(&Reach::default(), Some(setpriv), None, bwrap, inner);
        insta::assert_snapshot!(text(&line));
    }
}
