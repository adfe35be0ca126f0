//! The container as a request to the engine. This file does no I/O.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig, Mount,
    MountBindOptions, MountBindOptionsPropagationEnum, MountType,
};

use super::directory;
use super::engine::EngineFacts;
use super::script::OWN_PROCESSES;
use super::tree_parts::Part;
use crate::command::{self, MountSource};
use crate::executor::layout::{OWN, WRITABLE};
use crate::limits::Limits;
use crate::stage::skill_of;
use crate::tree::{EARLIER, PROJECT, SKILLS, WORK};

/// The label of our containers. Its value is the owner.
pub(super) const LABEL: &str = "prowess.owner";
/// How many processors a command may use, by default.
pub(super) const DEFAULT_PROCESSORS: f64 = 2.0;
/// The size of `/dev/shm`, in bytes.
const SHARED_MEMORY: i64 = 16 * 1024 * 1024;

/// Directories that some engines make writable by default.
const UNASKED: [&str; 1] = ["/var/tmp"];

/// A container for one command.
#[derive(Debug)]
pub(super) struct Profile<'a> {
    pub(super) facts: &'a EngineFacts,
    pub(super) image: &'a str,
    /// The volumes of the image, which no limit would cover.
    pub(super) volumes: &'a [String],
    /// The user and group of the command.
    pub(super) user: (u32, u32),
    pub(super) owner: String,
    /// The workspace; `None` if the engine itself is tested.
    pub(super) workspace: Option<&'a Path>,
    /// The local directory that the command writes instead of the workspace.
    pub(super) apart: Option<&'a Path>,
    /// The skills that the command sees.
    pub(super) skills: &'a [String],
    /// What the command sees besides the workspace.
    pub(super) mounted: &'a [command::Mount],
    /// Local directories with the links and mount points of the tree.
    pub(super) parts: Vec<Part>,
    /// Linked inputs and their paths inside.
    pub(super) read_only: Vec<(&'a Path, String)>,
    /// The directory of the container.
    pub(super) directory: PathBuf,
    /// The system call filter for the engine; `None` for the engine's own.
    pub(super) filter: Option<String>,
    pub(super) limits: &'a Limits,
    pub(super) processors: f64,
    pub(super) line: Vec<String>,
}

impl Profile<'_> {
    /// The request to the engine.
    pub(super) fn body(self) -> ContainerCreateBody {
        let (entry, rest) = self.line.split_at(1);
        ContainerCreateBody {
            image: Some(self.image.to_owned()),
            hostname: Some("sandbox".to_owned()),
            user: Some(format!("{}:{}", self.user.0, self.user.1)),
            entrypoint: Some(entry.to_vec()),
            cmd: Some(rest.to_vec()),
            working_dir: Some("/".to_owned()),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            labels: Some(HashMap::from([(LABEL.to_owned(), self.owner.clone())])),
            healthcheck: Some(HealthConfig {
                test: Some(vec!["NONE".to_owned()]),
                ..HealthConfig::default()
            }),
            host_config: Some(self.host()),
            ..ContainerCreateBody::default()
        }
    }

    fn host(&self) -> HostConfig {
        let memory = signed(self.limits.memory);
        let processors = self.facts.processors.map_or(self.processors, |all| all.min(self.processors));
        HostConfig {
            network_mode: Some("none".to_owned()),
            readonly_rootfs: Some(true),
            cap_drop: Some(vec!["ALL".to_owned()]),
            security_opt: Some(self.security()),
            ipc_mode: Some("private".to_owned()),
            cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
            // Otherwise the owner of the workspace is a different user inside.
            userns_mode: self.facts.rootless.then(|| "keep-id".to_owned()),
            memory: Some(memory),
            memory_swap: Some(memory),
            pids_limit: Some(signed(self.limits.processes + OWN_PROCESSES)),
            #[allow(clippy::cast_possible_truncation, reason = "a number of processors is small")]
            nano_cpus: Some((processors * 1e9) as i64),
            tmpfs: Some(self.temporary()),
            shm_size: Some(SHARED_MEMORY),
            mounts: Some(self.mounts()),
            // The engine must not keep the output of commands.
            log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
            ..HostConfig::default()
        }
    }

    fn security(&self) -> Vec<String> {
        let filter = self.filter.as_ref().map(|filter| format!("seccomp={filter}"));
        ["no-new-privileges".to_owned()].into_iter().chain(filter).collect()
    }

    fn temporary(&self) -> HashMap<String, String> {
        let size = self.limits.temporary_bytes;
        let own = ("/tmp".to_owned(), format!("rw,exec,nosuid,nodev,size={size},mode=1777"));
        let closed = |at: &str| (at.to_owned(), "ro,noexec,nosuid,nodev,size=4096".to_owned());
        let ours = [WORK, SKILLS, PROJECT, EARLIER, directory::INSIDE];
        let taken = |at: &&str| ours.iter().any(|ours| at.starts_with(ours));
        let volumes = self.volumes.iter().map(String::as_str).filter(|at| !taken(at));
        volumes.chain(UNASKED).map(closed).chain([own]).collect()
    }

    fn mounts(&self) -> Vec<Mount> {
        let mut list = vec![mount(&self.directory, directory::INSIDE, true)];
        if let Some(workspace) = self.workspace {
            list.extend(self.parts.iter().map(|(from, at)| mount(from, at, true)));
            // Only these directories of the workspace: not its root, and not the skills that others staged.
            let is_apart = self.apart.is_some();
            list.extend(
                WRITABLE.map(|part| mount(&workspace.join(part), &format!("{WORK}/{part}"), is_apart)),
            );
            list.extend(self.apart.map(|own| mount(own, OWN, false)));
            let staged = workspace.join("skills");
            let skill =
                |skill: &String| mount(&staged.join(skill), &format!("{SKILLS}/{}", skill_of(skill)), true);
            list.extend(self.skills.iter().map(skill));
        }
        list.extend(self.read_only.iter().map(|(from, to)| mount(from, to, true)));
        for command::Mount { source, at } in self.mounted {
            match source {
                MountSource::ReadOnly(from) => list.push(mount(from, at, true)),
                MountSource::Writable(from) => list.push(mount(from, at, false)),
                // One of the parts.
                MountSource::Empty | MountSource::Listed(_) => {}
            }
        }
        list
    }
}

fn mount(from: &Path, to: &str, read_only: bool) -> Mount {
    let propagation = Some(MountBindOptionsPropagationEnum::RPRIVATE);
    Mount {
        typ: Some(MountType::BIND),
        source: Some(from.to_string_lossy().into_owned()),
        target: Some(to.to_owned()),
        read_only: Some(read_only),
        bind_options: Some(MountBindOptions { propagation, ..MountBindOptions::default() }),
        ..Mount::default()
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::container::engine::{Engine, EngineKind};

    #[test]
    fn the_whole_container() {
        let facts = EngineFacts {
            engine: Engine {
                kind: EngineKind::Podman,
                version: "4.3.1".into(),
                socket: "/run/podman/podman.sock".into(),
            },
            minor_version: 44,
            rootless: false,
            needs_filter: true,
            memory: true,
            processors: Some(8.0),
            missing: Vec::new(),
        };
        let profile = Profile {
            facts: &facts,
            image: "python:3-slim",
            volumes: &["/data".to_owned()],
            user: (65534, 65534),
            owner: "1a2b3c4d.1.2.3".to_owned(),
            workspace: Some("/srv/w1".as_ref()),
            apart: None,
            skills: &["pdf".to_owned()],
            mounted: &[
                command::Mount { source: MountSource::Empty, at: "/project".into() },
                command::Mount { source: MountSource::ReadOnly("/home/a/p".into()), at: "/project/p".into() },
            ],
            parts: vec![("/tmp/cell/tree/work".into(), "/work".into())],
            read_only: vec![("/data/in.csv".as_ref(), "/work/work/inputs/in.csv".to_owned())],
            directory: "/tmp/cell".into(),
            filter: Some("/tmp/cell/filter".into()),
            limits: &Limits::default(),
            processors: 2.0,
            line: ["/bin/bash", "-c", "true"].map(Into::into).into(),
        };
        let mut body = serde_json::to_value(profile.body()).unwrap();
        body.sort_all_objects();
        insta::assert_json_snapshot!(body);
    }
}
