//! The engine: where it listens, what it is, and what it can hold.

use std::path::{Path, PathBuf};

use bollard::errors::Error;
use bollard::models::SystemInfo;
use bollard::{ClientVersion, Docker};

use super::filter::filter;
use super::options::ContainerOptions;
use crate::executor::ExecuteError;
use crate::executor::local::seccomp::Memory;
use crate::missing::Missing;

/// How long an engine may take to answer, in seconds.
const ANSWERS_WITHIN: u64 = 60;
/// Versions of the interface, from that of engines of today to that of older ones.
const VERSIONS: [ClientVersion; 2] = [version(44), version(41)];
/// Where engines listen; that of the user's own Podman comes after these.
const SOCKETS: [&str; 2] = ["/var/run/docker.sock", "/run/podman/podman.sock"];

/// The container engines that are known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineKind {
    /// Docker, or what says that it is.
    Docker,
    /// Podman.
    Podman,
}

impl EngineKind {
    /// Its name, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Docker => "Docker",
            Self::Podman => "Podman",
        }
    }
}

/// A container engine that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Engine {
    /// Which one it is.
    pub kind: EngineKind,
    /// Its version.
    pub version: String,
    /// Where it listens.
    pub socket: PathBuf,
}

impl Engine {
    /// The program that people use it with.
    pub(super) fn program(&self) -> &'static str {
        match self.kind {
            EngineKind::Podman => "podman",
            EngineKind::Docker => "docker",
        }
    }
}

/// What an engine says of itself.
#[derive(Clone, Debug)]
pub(super) struct EngineFacts {
    pub(super) engine: Engine,
    /// The version of the interface that it speaks, after the point.
    pub(super) minor_version: usize,
    /// Whether it runs as a plain user.
    pub(super) rootless: bool,
    /// Whether ours takes the place of its filter of system calls.
    pub(super) needs_filter: bool,
    /// Whether it limits memory.
    pub(super) memory: bool,
    /// How many processors it has.
    pub(super) processors: Option<f64>,
    /// What it cannot do.
    pub(super) missing: Vec<Missing>,
}

/// Finds an engine that answers.
pub(super) async fn find(options: &ContainerOptions) -> Result<(Docker, EngineFacts), ExecuteError> {
    let host = std::env::var("DOCKER_HOST").ok();
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let mut tried = Vec::new();
    for socket in places(options.socket.as_deref(), host.as_deref(), own.as_deref())? {
        match meet(&socket).await {
            Ok(found) => return Ok(found),
            Err(why) => tried.push(format!("{} ({why})", socket.display())),
        }
    }
    Err(ExecuteError::NoSandbox {
        what: format!("no container engine answers at {}", tried.join(", ")),
        remedy: "Start one: Docker, or Podman with `podman system service --time=0 &` or `systemctl start \
                 podman.socket`. If it listens elsewhere, name its socket as `sandbox.engine_socket` in \
                 prowess.toml, or as DOCKER_HOST=unix://PATH."
            .to_owned(),
    })
}

const fn version(minor_version: usize) -> ClientVersion {
    ClientVersion { major_version: 1, minor_version }
}

impl EngineFacts {
    /// Connects to the engine again.
    pub(super) fn connect(&self) -> Result<Docker, ExecuteError> {
        connect(&self.engine.socket, &version(self.minor_version))
            .map_err(failed("reach the container engine"))
    }
}

fn connect(socket: &Path, version: &ClientVersion) -> Result<Docker, Error> {
    Docker::connect_with_unix(&socket.to_string_lossy(), ANSWERS_WITHIN, version)
}

/// Which sockets to try.
fn places(
    socket: Option<&Path>,
    host: Option<&str>,
    own: Option<&Path>,
) -> Result<Vec<PathBuf>, ExecuteError> {
    if let Some(socket) = socket {
        return Ok(vec![socket.to_owned()]);
    }
    match host.filter(|host| !host.is_empty()).map(|host| (host, host.strip_prefix("unix://"))) {
        Some((_, Some(path))) => Ok(vec![path.into()]),
        Some((host, None)) => Err(ExecuteError::NoSandbox {
            what: format!("DOCKER_HOST is {host:?}: an engine of another machine cannot see the workspace"),
            remedy: "Set it to unix://PATH, the socket of an engine of this machine.".to_owned(),
        }),
        None => {
            let own = own.map(|directory| directory.join("podman/podman.sock"));
            Ok(SOCKETS.iter().map(PathBuf::from).chain(own).collect())
        }
    }
}

async fn meet(socket: &Path) -> Result<(Docker, EngineFacts), String> {
    if !socket.exists() {
        return Err("there is nothing".to_owned());
    }
    let mut met = Err("it speaks no version of the interface that is known here".to_owned());
    for version in &VERSIONS {
        let docker = connect(socket, version).map_err(|error| said(&error))?;
        match docker.version().await {
            Ok(found) => {
                met = Ok((docker, found, version.minor_version));
                break;
            }
            // It is older, or newer.
            Err(Error::DockerResponseServerError { status_code: 400, message }) => met = Err(message),
            Err(error) => return Err(said(&error)),
        }
    }
    let (docker, version, minor_version) = met?;
    let parts = version.components.unwrap_or_default();
    let is_podman = parts.iter().any(|part| part.name.contains("Podman"));
    let engine = Engine {
        kind: if is_podman { EngineKind::Podman } else { EngineKind::Docker },
        version: version.version.unwrap_or_default(),
        socket: socket.to_owned(),
    };
    let info = docker.info().await.map_err(|error| said(&error))?;
    Ok((docker, facts(engine, minor_version, &info, filter(Memory::Counted).is_some())))
}

/// What an engine does to system calls when nobody asks for a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filters {
    /// It cannot filter.
    Never,
    /// It could, and does not, or with what somebody chose instead of its own filter.
    Otherwise,
    /// With its own filter.
    ByItself,
}

impl Filters {
    /// From the options that an engine says it has, such as `name=seccomp,profile=builtin`.
    fn of(security: &[String]) -> Self {
        let profiles = security.iter().filter_map(|option| {
            let mut parts = option.split(',');
            let name = parts.next()?;
            let is_filter = name.strip_prefix("name=").unwrap_or(name) == "seccomp";
            is_filter.then(|| parts.find_map(|part| part.strip_prefix("profile=")))
        });
        let one = |profile: Option<&str>| match profile {
            Some("builtin" | "default") => Self::ByItself,
            _ => Self::Otherwise,
        };
        profiles.map(one).next().unwrap_or(Self::Never)
    }
}

/// What an engine says of itself; `has_filter` says whether there is a filter of ours for this machine.
fn facts(engine: Engine, minor_version: usize, info: &SystemInfo, has_filter: bool) -> EngineFacts {
    let security = info.security_options.as_deref().unwrap_or_default();
    let has = |what: &str| security.iter().any(|one| one.contains(what));
    let mut missing = Vec::new();
    let wants_filter = match Filters::of(security) {
        // One for an engine that has none would be an error.
        Filters::Never => {
            missing.push(Missing::EngineFilter);
            false
        }
        Filters::Otherwise => true,
        // Docker's own is good.
        Filters::ByItself => engine.kind == EngineKind::Podman,
    };
    if wants_filter && !has_filter {
        missing.push(Missing::FilterForEngine);
    }
    let limits = [
        (info.memory_limit, Missing::EngineMemory),
        (info.swap_limit, Missing::EngineSwap),
        (info.pids_limit, Missing::EngineProcesses),
        (info.cpu_cfs_quota, Missing::EngineProcessors),
    ];
    missing.extend(limits.into_iter().filter(|(can, _)| *can == Some(false)).map(|(_, what)| what));
    EngineFacts {
        needs_filter: wants_filter && has_filter,
        engine,
        minor_version,
        rootless: has("rootless"),
        memory: info.memory_limit != Some(false),
        processors: info.ncpu.and_then(|count| u32::try_from(count).ok()).map(f64::from),
        missing,
    }
}

/// What an engine said about a failure, without the words of those between.
pub(super) fn said(error: &Error) -> String {
    match error {
        Error::DockerResponseServerError { message, .. } => message.clone(),
        Error::IOError { err } => err.to_string(),
        other => {
            let mut source: &dyn std::error::Error = other;
            while let Some(deeper) = source.source() {
                source = deeper;
            }
            source.to_string()
        }
    }
}

/// The error for something that an engine did not do.
pub(super) fn failed(action: &str) -> impl FnOnce(Error) -> ExecuteError {
    let action = action.to_owned();
    move |error| ExecuteError::System { action, error: std::io::Error::other(said(&error)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_named_first_is_asked_alone() {
        let given = places(Some("/a.sock".as_ref()), Some("unix:///b.sock"), None).unwrap();
        assert_eq!(given, [PathBuf::from("/a.sock")]);
        assert_eq!(places(None, Some("unix:///b.sock"), None).unwrap(), [PathBuf::from("/b.sock")]);
        let usual = places(None, Some(""), Some("/run/user/1".as_ref())).unwrap();
        assert_eq!(usual.len(), 3);
        assert_eq!(usual[2], PathBuf::from("/run/user/1/podman/podman.sock"));
    }

    #[test]
    fn another_machine_is_refused() {
        let error = places(None, Some("tcp://10.0.0.1:2375"), None).unwrap_err().to_string();
        assert!(error.contains("DOCKER_HOST") && error.contains("unix://"), "{error}");
    }

    #[test]
    fn what_an_engine_cannot_do_is_missing() {
        let engine = Engine { kind: EngineKind::Podman, version: "4".into(), socket: "/x".into() };
        let info = SystemInfo { pids_limit: Some(false), ..SystemInfo::default() };
        let facts = facts(engine, 44, &info, true);
        assert_eq!(facts.missing, [Missing::EngineFilter, Missing::EngineProcesses]);
        assert!(facts.memory && !facts.rootless);
    }

    #[test]
    fn only_an_engine_s_own_filter_counts() {
        for (options, expected) in [
            (&["name=apparmor", "name=seccomp,profile=builtin", "name=cgroupns"][..], Filters::ByItself),
            (&["name=seccomp,profile=default"], Filters::ByItself),
            (&["name=seccomp,profile=unconfined"], Filters::Otherwise),
            (&["name=seccomp,profile=/etc/docker/builtin"], Filters::Otherwise),
            (&["name=seccomp"], Filters::Otherwise),
            (&["name=seccomp,profile="], Filters::Otherwise),
            (&["name=rootless", "name=selinux"], Filters::Never),
            (&["name=no-seccomp,profile=builtin"], Filters::Never),
            (&[], Filters::Never),
        ] {
            let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
            assert_eq!(Filters::of(&options), expected, "{options:?}");
        }
    }

    #[test]
    fn a_filter_is_given_or_its_lack_is_told() {
        let with = |kind, option: &str, has_filter| {
            let engine = Engine { kind, version: "1".into(), socket: "/x".into() };
            let security_options = Some(vec![option.to_owned()]);
            let facts =
                facts(engine, 44, &SystemInfo { security_options, ..SystemInfo::default() }, has_filter);
            (facts.needs_filter, facts.missing.len())
        };
        let (builtin, unconfined) = ("name=seccomp,profile=builtin", "name=seccomp,profile=unconfined");
        assert_eq!(with(EngineKind::Docker, builtin, true), (false, 0));
        assert_eq!(with(EngineKind::Docker, builtin, false), (false, 0));
        assert_eq!(with(EngineKind::Docker, unconfined, true), (true, 0));
        assert_eq!(with(EngineKind::Docker, unconfined, false), (false, 1));
        assert_eq!(with(EngineKind::Podman, builtin, true), (true, 0));
        assert_eq!(with(EngineKind::Podman, builtin, false), (false, 1));
        assert_eq!(with(EngineKind::Docker, "name=apparmor", true), (false, 1));
    }
}
