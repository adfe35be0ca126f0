//! The container engine: where it listens, and what it supports.

use std::path::{Path, PathBuf};

use bollard::errors::Error;
use bollard::models::SystemInfo;
use bollard::{ClientVersion, Docker};

use super::filter::filter;
use super::options::ContainerOptions;
use crate::executor::ExecuteError;
use crate::executor::local::seccomp::Memory;
use crate::missing::Missing;

/// How long an engine may take to respond, in seconds.
const ANSWERS_WITHIN: u64 = 60;
/// The API versions to try, newest first.
const VERSIONS: [ClientVersion; 2] = [version(44), version(41)];
/// Where engines listen. The user's own Podman comes after these.
const SOCKETS: [&str; 2] = ["/var/run/docker.sock", "/run/podman/podman.sock"];

/// The supported container engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineKind {
    /// Docker, or an engine that reports to be Docker.
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
    /// Its kind.
    pub kind: EngineKind,
    /// Its version.
    pub version: String,
    /// Where it listens.
    pub socket: PathBuf,
}

impl Engine {
    /// Its command line program.
    pub(super) fn program(&self) -> &'static str {
        match self.kind {
            EngineKind::Podman => "podman",
            EngineKind::Docker => "docker",
        }
    }
}

/// Facts that an engine reports about itself.
#[derive(Clone, Debug)]
pub(super) struct EngineFacts {
    pub(super) engine: Engine,
    /// The minor version of its API.
    pub(super) minor_version: usize,
    /// Whether it runs without root.
    pub(super) rootless: bool,
    /// Whether our system call filter replaces its own.
    pub(super) needs_filter: bool,
    /// Whether it limits memory.
    pub(super) memory: bool,
    /// How many processors it has.
    pub(super) processors: Option<f64>,
    /// The missing protections.
    pub(super) missing: Vec<Missing>,
}

/// Finds an engine that answers.
pub(super) async fn find(options: &ContainerOptions) -> Result<(Docker, EngineFacts), ExecuteError> {
    let host = std::env::var("DOCKER_HOST").ok();
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let mut tried = Vec::new();
    for socket in sockets(options.socket.as_deref(), host.as_deref(), own.as_deref())? {
        match try_socket(&socket).await {
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

/// The sockets to try.
fn sockets(
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
            what: format!("DOCKER_HOST is {host:?}: an engine on another machine cannot see the workspace"),
            remedy: "Set it to unix://PATH, the socket of an engine on this machine.".to_owned(),
        }),
        None => {
            let own = own.map(|directory| directory.join("podman/podman.sock"));
            Ok(SOCKETS.iter().map(PathBuf::from).chain(own).collect())
        }
    }
}

async fn try_socket(socket: &Path) -> Result<(Docker, EngineFacts), String> {
    if !socket.exists() {
        return Err("no such socket".to_owned());
    }
    let mut connected = Err("it has no API version that prowess supports".to_owned());
    for version in &VERSIONS {
        let docker = connect(socket, version).map_err(|error| message_of(&error))?;
        match docker.version().await {
            Ok(found) => {
                connected = Ok((docker, found, version.minor_version));
                break;
            }
            // It is too old or too new.
            Err(Error::DockerResponseServerError { status_code: 400, message }) => connected = Err(message),
            Err(error) => return Err(message_of(&error)),
        }
    }
    let (docker, version, minor_version) = connected?;
    let parts = version.components.unwrap_or_default();
    let is_podman = parts.iter().any(|part| part.name.contains("Podman"));
    let engine = Engine {
        kind: if is_podman { EngineKind::Podman } else { EngineKind::Docker },
        version: version.version.unwrap_or_default(),
        socket: socket.to_owned(),
    };
    let info = docker.info().await.map_err(|error| message_of(&error))?;
    Ok((docker, facts(engine, minor_version, &info, filter(Memory::Counted).is_some())))
}

/// How an engine filters system calls by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filters {
    /// It cannot filter system calls.
    Never,
    /// It uses no filter by default, or one that somebody configured.
    Otherwise,
    /// It uses its own filter.
    ByItself,
}

impl Filters {
    /// Parses the security options of an engine, such as `name=seccomp,profile=builtin`.
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

/// Reads the facts that an engine reports about itself. `has_filter` says whether prowess has a filter for this
/// machine.
fn facts(engine: Engine, minor_version: usize, info: &SystemInfo, has_filter: bool) -> EngineFacts {
    let security = info.security_options.as_deref().unwrap_or_default();
    let has = |what: &str| security.iter().any(|one| one.contains(what));
    let mut missing = Vec::new();
    let wants_filter = match Filters::of(security) {
        // A filter for an engine without support would be an error.
        Filters::Never => {
            missing.push(Missing::EngineFilter);
            false
        }
        Filters::Otherwise => true,
        // Docker's own filter is good.
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

/// The engine's own error message.
pub(super) fn message_of(error: &Error) -> String {
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

/// An error for a failed request to the engine.
pub(super) fn failed(action: &str) -> impl FnOnce(Error) -> ExecuteError {
    let action = action.to_owned();
    move |error| ExecuteError::System { action, error: std::io::Error::other(message_of(&error)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_named_first_is_asked_alone() {
        let given = sockets(Some("/a.sock".as_ref()), Some("unix:///b.sock"), None).unwrap();
        assert_eq!(given, [PathBuf::from("/a.sock")]);
        assert_eq!(sockets(None, Some("unix:///b.sock"), None).unwrap(), [PathBuf::from("/b.sock")]);
        let usual = sockets(None, Some(""), Some("/run/user/1".as_ref())).unwrap();
        assert_eq!(usual.len(), 3);
        assert_eq!(usual[2], PathBuf::from("/run/user/1/podman/podman.sock"));
    }

    #[test]
    fn another_machine_is_refused() {
        let error = sockets(None, Some("tcp://10.0.0.1:2375"), None).unwrap_err().to_string();
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
