//! One run in a container, from a checked command to its end.

use std::collections::BTreeMap;
use std::time::Instant;

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::ContainerState;
use rustix::process::{getegid, geteuid};
use tokio::sync::{mpsc, oneshot, watch};

use super::directory::ContainerDirectory;
use super::engine::{EngineFacts, EngineKind, failed};
use super::filter::filter;
use super::instance::{self, Instance};
use super::owner::Owner;
use super::profile::Profile;
use super::script::{NO_DIRECTORY, NO_LIFE, first_process};
use super::supervise::{ContainerEnd, Listeners, supervise};
use super::{ContainerOptions, input, tree_parts};
use crate::command::{Command, Exit, Finished, Input, Level, Network, Sandbox};
use crate::executor::ExecuteError;
use crate::executor::check::check_command;
use crate::executor::environment::{check_variables, variables};
use crate::executor::exit::{cut_warnings, exit_of_code, exit_with_memory};
use crate::executor::layout::{InsidePaths, WritableDirs, alias_warnings};
use crate::executor::local::seccomp::Memory;
use crate::executor::privileges::sandbox_owner;
use crate::executor::run_directory::{make_run_directory, mount_point};
use crate::executor::set_ids;
use crate::executor::stream::Piece;
use crate::executor::watch::Watch;
use crate::warning::RunWarning;

/// Runs commands with one engine.
pub(super) struct ContainerRunner<'a> {
    pub(super) docker: &'a Docker,
    pub(super) facts: &'a EngineFacts,
    pub(super) options: &'a ContainerOptions,
    pub(super) owner: &'a Owner,
}

/// Refuses commands that cannot run in a container.
pub(super) fn check(options: &ContainerOptions, command: &Command) -> Result<(), ExecuteError> {
    check_command(command)?;
    if command.network != Network::None {
        return Err(ExecuteError::Refused(
            "containers have no network: run without network, or use the local executor".to_owned(),
        ));
    }
    if command.terminal {
        return Err(ExecuteError::Refused(
            "containers have no terminals: run without a terminal, or use the local executor".to_owned(),
        ));
    }
    check_variables(options.variable_options(), &command.environment, true)
}

impl ContainerRunner<'_> {
    /// Runs a checked command to its end.
    pub(super) async fn run(
        &self,
        command: &Command,
        cancel: &mut oneshot::Receiver<()>,
        watcher: &mpsc::Sender<Piece>,
    ) -> Result<Finished, ExecuteError> {
        let started = Instant::now();
        let volumes = self.volumes().await?;
        let run = make_run_directory(&command.workspace, &command.skills, false)?;
        let inside = InsidePaths::sandboxed(command, run.name());
        let mut read_only = Vec::new();
        for (from, to) in &command.read_only {
            mount_point(&command.workspace, to, from.is_dir()).map_err(|error| ExecuteError::System {
                action: format!("make a mount point for {to:?}"),
                error: error.into(),
            })?;
            read_only.push((from.as_path(), inside.path(to)));
        }
        let variables =
            variables(self.options.variable_options(), &command.environment, &inside, command.terminal);
        let mut directory = self.make_directory(&variables, &command.stdin)?;
        let mut profile = self.profile(&volumes, &directory, command, inside.start(command))?;
        profile.workspace = Some(&command.workspace);
        profile.apart = command.apart.as_deref();
        profile.read_only = read_only;
        let written = WritableDirs::by(command);
        let mut watch = Watch::new(written.clone(), &command.limits, !self.facts.memory);
        let held = self.run_container(profile, &mut directory, command, &mut watch, cancel, watcher).await;
        // The container is gone, and nobody has used its files yet.
        let uncleared = set_ids::clear(&written);
        let (kept, state) = held?;
        let name = run.name().to_owned();
        drop(run);
        let mut warnings = watch.warnings(started.elapsed());
        warnings.extend(uncleared);
        warnings.extend(cut_warnings(&kept.stdout, &kept.stderr));
        warnings.extend(kept.left_behind.clone().map(|reason| RunWarning::ContainerLeft { reason }));
        let code = state.exit_code.unwrap_or(-1);
        let exit = match kept.verdict {
            Some(verdict) => verdict,
            None if !kept.began => return Err(not_started(command, code, &kept)),
            None => {
                let by_itself = exit_of_code(i32::try_from(code).unwrap_or(-1));
                exit_with_memory(
                    by_itself,
                    directory.out_of_memory() || state.oom_killed == Some(true),
                    &mut warnings,
                )
            }
        };
        warnings.extend(alias_warnings(command, exit, tree_parts::left_out_aliases(&command.aliases)));
        let ContainerEnd { stdout, stderr, .. } = kept;
        let (duration, sandbox) = (started.elapsed(), self.sandbox());
        Ok(Finished { exit, stdout, stderr, duration, sandbox, run: Some(name), warnings })
    }

    /// Tries a container with a command that does nothing.
    pub(super) async fn attempt(&self) -> Result<Sandbox, ExecuteError> {
        let volumes = self.volumes().await?;
        let command = Command::new("/nonexistent", "", "true");
        let mut directory = self.make_directory(&BTreeMap::new(), &command.stdin)?;
        let profile = self.profile(&volumes, &directory, &command, "/".to_owned())?;
        let (_never, mut cancel) = oneshot::channel();
        let (watcher, _) = mpsc::channel(1);
        let mut watch = Watch::new(WritableDirs::by(&command), &command.limits, false);
        let held =
            self.run_container(profile, &mut directory, &command, &mut watch, &mut cancel, &watcher).await?;
        match held {
            (ContainerEnd { began: true, .. }, state) if state.exit_code == Some(0) => Ok(self.sandbox()),
            (kept, state) => Err(not_started(&command, state.exit_code.unwrap_or(-1), &kept)),
        }
    }

    fn sandbox(&self) -> Sandbox {
        Sandbox { level: Level::Container, missing: self.facts.missing.clone() }
    }

    /// The volumes of the image. It is an error if the engine does not have the image.
    async fn volumes(&self) -> Result<Vec<String>, ExecuteError> {
        let image = &self.options.image;
        match self.docker.inspect_image(image).await {
            Ok(found) => Ok(found.config.and_then(|config| config.volumes).unwrap_or_default()),
            Err(Error::DockerResponseServerError { status_code: 404, .. }) => {
                let engine = &self.facts.engine;
                let (name, program) = (engine.kind.name(), engine.program());
                Err(ExecuteError::NoSandbox {
                    what: format!("{name} at {} has no image {image:?}", engine.socket.display()),
                    remedy: format!(
                        "Get it with `{program} pull {image}`, build it with `{program} build -t {image} DIRECTORY`, \
                         or use another image. prowess does not pull images."
                    ),
                })
            }
            Err(error) => Err(failed("find the image")(error)),
        }
    }

    fn make_directory(
        &self,
        variables: &BTreeMap<String, String>,
        stdin: &Input,
    ) -> Result<ContainerDirectory, ExecuteError> {
        ContainerDirectory::new(&std::env::temp_dir(), self.owner, variables, stdin).map_err(no_directory)
    }

    /// The request for a container, still without a workspace.
    fn profile<'p>(
        &'p self,
        volumes: &'p [String],
        directory: &ContainerDirectory,
        command: &'p Command,
        start: String,
    ) -> Result<Profile<'p>, ExecuteError> {
        let parts = directory.make_tree_parts(command).map_err(no_directory)?;
        let memory = if self.facts.memory { Memory::Counted } else { Memory::Watched };
        let filter = filter(memory).filter(|_| self.facts.needs_filter);
        // Docker takes the filter itself, Podman takes a path.
        let filter = match (filter, self.facts.engine.kind) {
            (Some(filter), EngineKind::Podman) => {
                let kept = directory.keep_filter(&filter).map_err(no_directory)?;
                Some(kept.to_string_lossy().into_owned())
            }
            (filter, _) => filter,
        };
        Ok(Profile {
            facts: self.facts,
            image: &self.options.image,
            volumes,
            user: sandbox_owner().unwrap_or_else(|| (geteuid().as_raw(), getegid().as_raw())),
            owner: self.owner.to_string(),
            workspace: None,
            apart: None,
            skills: &command.skills,
            mounted: &command.mounts,
            parts,
            read_only: Vec::new(),
            directory: directory.path().to_owned(),
            filter,
            limits: &command.limits,
            processors: self.options.processors,
            line: first_process(command, start),
        })
    }

    /// Creates a container, supervises it to its end, and always removes it.
    async fn run_container(
        &self,
        profile: Profile<'_>,
        directory: &mut ContainerDirectory,
        command: &Command,
        watch: &mut Watch,
        cancel: &mut oneshot::Receiver<()>,
        watcher: &mpsc::Sender<Piece>,
    ) -> Result<(ContainerEnd, ContainerState), ExecuteError> {
        if cancel.try_recv().is_ok() {
            return Ok((ContainerEnd::never(Exit::Cancelled), ContainerState::default()));
        }
        let name = directory.name().to_owned();
        let (began, has_begun) = watch::channel(false);
        let near = directory.take_input();
        let forwarding = match (&command.stdin, near) {
            (Input::Pipe(from), Some(to)) => {
                let from = from.try_clone();
                let from = from
                    .map_err(|error| ExecuteError::System { action: "duplicate the input".into(), error })?;
                Some(tokio::spawn(input::forward(from, to, has_begun)))
            }
            _ => None,
        };
        let held = match Instance::create(self.docker, &name, profile.body()).await {
            Err(error) => {
                // A container that was created late or in part must not stay.
                let _ = instance::remove(self.docker, &name).await;
                Err(error)
            }
            Ok(container) => {
                let listeners = Listeners { cancel, watcher, began: &began, directory };
                let mut held = self.keep_one(&container, command, listeners, watch).await;
                if let (Err(error), Ok((kept, _))) = (container.remove().await, &mut held) {
                    kept.left_behind = Some(error.to_string());
                }
                held
            }
        };
        if let Some(forwarding) = forwarding {
            forwarding.abort();
        }
        held
    }

    async fn keep_one(
        &self,
        container: &Instance<'_>,
        command: &Command,
        listeners: Listeners<'_>,
        watch: &mut Watch,
    ) -> Result<(ContainerEnd, ContainerState), ExecuteError> {
        let output = container.start(&self.facts.engine, &self.options.image).await?;
        let kept =
            supervise(container, output, &command.limits, &self.options.redact, listeners, watch).await?;
        Ok((kept, container.end().await?))
    }
}

fn no_directory(error: std::io::Error) -> ExecuteError {
    ExecuteError::System { action: "make the directory of the container".to_owned(), error }
}

/// The error for a command that never started.
fn not_started(command: &Command, code: i64, kept: &ContainerEnd) -> ExecuteError {
    let said = String::from_utf8_lossy(&kept.stderr.head).trim().to_owned();
    match code {
        NO_DIRECTORY => {
            ExecuteError::Refused(format!("directory {:?} is not in the workspace", command.directory))
        }
        NO_LIFE => ExecuteError::NoSandbox {
            what: format!("the container does not see the files of this machine: {said}"),
            remedy: "Use an engine that runs directly on this machine, not in a virtual machine.".to_owned(),
        },
        _ => ExecuteError::System {
            action: "set up the container".to_owned(),
            error: std::io::Error::other(format!("{said} (code {code})")),
        },
    }
}
