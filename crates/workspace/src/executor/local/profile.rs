//! The sandbox as a list of arguments for bubblewrap. This file does no I/O.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::layout::{self, OWN, WRITABLE};
use super::network::Bridge;
use super::privileges::drop_root;
use super::reach::Reach;
use super::system::{System, WRITTEN};
use crate::command::{Level, Mount, MountSource};
use crate::limits::{Limits, MAX_TIMEOUT};
use crate::stage::skill_of;
use crate::tree::{EARLIER, PROJECT, SKILLS, WORK};

/// The descriptors that a sandbox starts with, in addition to the three of every program.
pub(super) mod descriptor {
    use std::os::fd::RawFd;

    /// The arguments of bubblewrap. They include variables, which no process list shows this way.
    pub(in super::super) const ARGUMENTS: RawFd = 3;
    /// Where bubblewrap reports the first process inside, and how the command ended.
    pub(in super::super) const STATUS: RawFd = 4;
    /// The first process inside waits here until its supervisor knows it.
    pub(in super::super) const GATE: RawFd = 5;
    /// Where the first process inside reports that it runs.
    pub(in super::super) const HERE: RawFd = 6;
    /// The proxy's socket for the bridge, if there is a network.
    pub(in super::super) const PROXY_SOCKET: RawFd = 7;
    /// The system call filter.
    pub(in super::super) const FILTER: RawFd = 8;
    /// The first of the files that are written for the inside.
    pub(in super::super) const WRITTEN: RawFd = 9;
    /// The arguments of the bubblewrap around the sandbox, if there is a network.
    pub(in super::super) const AROUND: RawFd = 13;
    const _: () = assert!(super::WRITTEN.len() <= (AROUND - WRITTEN) as usize);
}

/// The size of `/dev/shm`, in bytes.
const SHARED_MEMORY: u64 = 16 * 1024 * 1024;

/// Directories of the system that no command can do without.
const NEEDED: [&str; 8] = [
    "/usr/bin",
    "/usr/sbin",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libx32",
    "/usr/local/bin",
    "/usr/local/lib",
];
/// The size of a directory that hides another, in bytes. Nothing is written to it.
const EMPTY_SIZE: &str = "4096";

/// A sandbox for one command.
#[derive(Debug)]
pub(super) struct Profile<'a> {
    pub(super) level: Level,
    pub(super) system: &'a System,
    /// Where local directories and files are taken from.
    pub(super) reach: &'a Reach,
    /// Local directories that the user makes visible, read-only, at the same place.
    pub(super) prefixes: &'a [PathBuf],
    /// The workspace; `None` if the sandbox itself is tested.
    pub(super) workspace: Option<&'a Path>,
    /// The local directory that the command writes instead of the workspace.
    pub(super) apart: Option<&'a Path>,
    /// The skills that the command sees.
    pub(super) skills: &'a [String],
    /// Linked inputs and their paths inside.
    pub(super) read_only: Vec<(&'a Path, String)>,
    /// What the command sees besides the workspace.
    pub(super) mounts: &'a [Mount],
    /// Links and their targets.
    pub(super) aliases: &'a [(String, String)],
    pub(super) variables: &'a BTreeMap<String, String>,
    /// The directory to run in, as a path inside.
    pub(super) directory: String,
    pub(super) temporary_bytes: u64,
    pub(super) filter: bool,
    /// Whether the sandbox is started in a network namespace that has a bridge, instead of making its own.
    pub(super) bridged: bool,
}

impl Profile<'_> {
    /// The arguments of bubblewrap, in the order in which it acts on them.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let mut list = Arguments::default();
        self.add_namespaces(&mut list);
        self.add_system(&mut list);
        self.add_workspace(&mut list);
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

    /// New namespaces, a plain user, and no capabilities.
    fn add_namespaces(&self, list: &mut Arguments) {
        list.add(["--unshare-user", "--unshare-ipc", "--unshare-pid"]);
        if !self.bridged {
            list.add(["--unshare-net"]);
        }
        list.add(["--unshare-uts", "--unshare-cgroup-try", "--uid", "1000", "--gid", "1000"]);
        list.add(["--hostname", "sandbox"]);
        list.add(["--new-session", "--die-with-parent", "--as-pid-1", "--cap-drop", "ALL"]);
    }

    /// The system, read-only, with its own `/proc`, `/dev` and `/tmp`.
    fn add_system(&self, list: &mut Arguments) {
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
            // Root could write to `/proc/sys`.
            list.add(["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"]);
        }
        list.add(["--dev", "/dev", "--size", &SHARED_MEMORY.to_string(), "--tmpfs", "/dev/shm"]);
        list.add(["--size", &self.temporary_bytes.to_string(), "--perms", "1777", "--tmpfs", "/tmp"]);
        list.add(["--perms", "0700", "--dir", "/tmp/home"]);
        for path in self.prefixes {
            list.mount("--ro-bind", self.reach.at(path), path);
        }
    }

    /// The directories of the workspace, the skills of this command, linked inputs, and everything else that it sees.
    fn add_workspace(&self, list: &mut Arguments) {
        if let Some(workspace) = self.workspace.map(|workspace| self.reach.at(workspace)) {
            // Only these directories of the workspace: not its root, and not the skills that others staged.
            let how = if self.apart.is_some() { "--ro-bind" } else { "--bind" };
            for part in WRITABLE {
                list.mount(how, workspace.join(part), format!("{WORK}/{part}"));
            }
            if let Some(own) = self.apart {
                list.mount("--bind", self.reach.at(own), OWN);
            }
            list.add(["--dir", SKILLS]);
            for skill in self.skills {
                let staged = workspace.join("skills").join(skill);
                list.mount("--ro-bind", staged, format!("{SKILLS}/{}", skill_of(skill)));
            }
            for (link, target) in layout::links() {
                list.add(["--symlink", &target, &link]);
            }
        }
        for (from, to) in &self.read_only {
            list.mount("--ro-bind", self.reach.at(from), to);
        }
        for Mount { source, at } in self.mounts {
            match source {
                MountSource::ReadOnly(from) => list.mount("--ro-bind", self.reach.at(from), at),
                MountSource::Writable(from) => list.mount("--bind", self.reach.at(from), at),
                MountSource::Empty | MountSource::Listed(_) => list.add(["--dir", at]),
            }
        }
        for (link, target) in self.aliases.iter().filter(|(link, _)| self.has_room(link)) {
            list.add(["--symlink", target, link]);
        }
        for project in self.projects_in_the_system() {
            list.add(["--size", EMPTY_SIZE, "--perms", "0555", "--tmpfs", project, "--remount-ro", project]);
        }
    }

    /// The real paths of projects in a directory of the system, such as `/usr/src`. A command would see everything in them, so
    /// something empty is mounted over them, unless commands need files there.
    fn projects_in_the_system(&self) -> impl Iterator<Item = &str> {
        let is_below = |path: &Path| {
            let is_needed = |needed: &Path| needed.starts_with(path) || path.starts_with(needed);
            self.system.bound.iter().any(|bound| path.starts_with(bound) && path != bound.as_path())
                && !NEEDED.map(Path::new).into_iter().any(is_needed)
                && !self.prefixes.iter().any(|prefix| prefix.starts_with(path))
        };
        let projects = self.aliases.iter().filter(|(_, target)| target == PROJECT);
        projects.map(|(link, _)| link.as_str()).filter(move |link| is_below(Path::new(link)))
    }

    /// The links that are not made, because something else is there. A directory of the system is seen as it is.
    pub(super) fn left_out_aliases(&self) -> Vec<(String, String)> {
        let is_seen = |link: &str| {
            let mut system = self.system.bound.iter().chain(self.prefixes);
            system.any(|bound| Path::new(link).starts_with(bound))
                && !self.projects_in_the_system().any(|project| project == link)
        };
        self.aliases.iter().filter(|(link, _)| !self.has_room(link) && !is_seen(link)).cloned().collect()
    }

    /// Whether a link can be made at this path: nothing else is there, above it or below it, except `/` and `/tmp`.
    fn has_room(&self, link: &str) -> bool {
        let own = [PROJECT, WORK, SKILLS, OWN, EARLIER, "/proc", "/dev", "/tmp/home"].map(Path::new);
        let mounts = self.mounts.iter().map(|mount| Path::new(&mount.at));
        let system = self.system.bound.iter().chain(self.prefixes).map(PathBuf::as_path);
        let links = self.system.links.iter().map(|(_, link)| Path::new(link));
        let written = WRITTEN.iter().map(|(path, _)| Path::new(*path));
        let link = Path::new(link);
        let mut taken = own.into_iter().chain(mounts).chain(system).chain(links).chain(written);
        // A link below another link would be made in the directory that the other one leads to.
        let is_inside = |other: &&(String, String)| Path::new(&other.0) != link && link.starts_with(&other.0);
        link.is_absolute()
            && link.file_name().is_some()
            && !self.aliases.iter().any(|other| is_inside(&other))
            && link != Path::new("/tmp")
            && !taken.any(|taken| taken.starts_with(link) || link.starts_with(taken))
    }
}

/// The whole command line: make unreachable directories reachable, give up root, make a network if needed, enter the
/// sandbox, and run `inner`.
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
    // `--disable-userns` forbids nested user namespaces; a filter cannot see the flags of clone3. It is here because
    // it is an error without the other arguments: if their writer is dead, bubblewrap ends at once.
    line.extend([
        "--disable-userns".into(),
        "--args".into(),
        descriptor::ARGUMENTS.to_string().into(),
        "--".into(),
    ]);
    line.extend(inner);
    line
}

/// The first process inside: it reports that it runs, waits at the gate, sets its limits, and runs the command.
///
/// bubblewrap ties the life of the first process to its own only at the end of its setup. A supervisor that is killed
/// before that cannot open the gate. One that dies later ends the sandbox. So nothing runs without a supervisor. The
/// first process also adopts orphans, and all processes die with it.
///
/// The limits are set inside, so that each sandbox counts its own processes and not those of a user. Descriptors have one
/// digit, because some shells understand no more. Descriptor 7 is the command's standard error. The shell must not write
/// to it when a child is killed, so the child itself moves it into place.
pub(super) fn gated(limits: &Limits, address_space: Option<u64>, command: &[&OsStr]) -> Vec<OsString> {
    use descriptor::{GATE, HERE};
    let seconds = limits.timeout.min(MAX_TIMEOUT).as_secs() + 1;
    let (files, blocks) = (limits.open_files, limits.file_size / 512);
    let processes = limits.processes;
    let memory = address_space.map(|bytes| format!("ulimit -v {}; ", bytes / 1024)).unwrap_or_default();
    // bash calls the limit `-u`, dash calls it `-p`.
    let script = format!(
        "echo >&{HERE}; read -r go <&{GATE} || exit 125; exec {GATE}<&- {HERE}>&- 7>&2 2>/dev/null; \
         ulimit -c 0; ulimit -n {files}; ulimit -f {blocks}; ulimit -t {seconds}; {memory}\
         ulimit -u {processes} || ulimit -p {processes}; (exec \"$@\" 2>&7 7>&-); exit $?"
    );
    let mut line: Vec<OsString> = vec!["/bin/sh".into(), "-c".into(), script.into(), "sh".into()];
    line.extend(command.iter().map(|argument| (*argument).to_owned()));
    line
}

#[derive(Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn add<const N: usize>(&mut self, arguments: [&str; N]) {
        self.0.extend(arguments.map(OsString::from));
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
            read_only: vec![(Path::new("/data/in.csv"), "/work/work/inputs/in.csv".into())],
            mounts: &[
                Mount { source: MountSource::Empty, at: "/project".into() },
                Mount {
                    source: MountSource::ReadOnly("/home/a/p/plan.json".into()),
                    at: "/project/plan.json".into(),
                },
                Mount { source: MountSource::Writable("/srv/copy".into()), at: "/project/dist".into() },
            ],
            aliases: &[
                "/home/a/p",
                "/home/a/p/skills/pdf",
                "/usr/share/p",
                "/work/p",
                "/",
                "/tmp",
                "relative",
            ]
            .map(|link| (link.to_owned(), "/project".to_owned())),
            variables: &variables,
            directory: "/skills/pdf".into(),
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
            mounts: &[],
            aliases: &[],
            variables: &BTreeMap::new(),
            directory: OWN.into(),
            temporary_bytes: 64 * 1024 * 1024,
            filter: true,
            bridged: false,
        };
        let arguments = text(&profile.arguments());
        let writable: Vec<&str> = arguments.lines().filter(|line| line.starts_with("--bind ")).collect();
        assert_eq!(writable, ["--bind /srv/hooks /own"]);
        assert!(arguments.contains("--ro-bind /srv/w1/out /work/out\n"), "{arguments}");
    }

    #[test]
    fn a_project_in_the_system_is_hidden_unless_commands_need_its_files() {
        let hides = |project: &str, prefixes: &[PathBuf]| {
            let aliases = [(project.to_owned(), PROJECT.to_owned())];
            let profile = Profile {
                level: Level::Bwrap,
                system: &system(),
                reach: &Reach::default(),
                prefixes,
                workspace: None,
                apart: None,
                skills: &[],
                read_only: Vec::new(),
                mounts: &[],
                aliases: &aliases,
                variables: &BTreeMap::new(),
                directory: "/".into(),
                temporary_bytes: 1024,
                filter: true,
                bridged: false,
            };
            text(&profile.arguments()).contains(&format!("--tmpfs {project}\n"))
        };
        for project in ["/usr/src/app", "/usr/share/app", "/usr/local/src", "/usr/local/share/a"] {
            assert!(hides(project, &[]), "{project}");
        }
        for project in ["/usr", "/usr/bin", "/usr/local", "/usr/lib/app", "/usr/local/bin", "/home/a/p"] {
            assert!(!hides(project, &[]), "{project}");
        }
        assert!(!hides("/usr/share/app", &["/usr/share/app/python".into()]));
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
