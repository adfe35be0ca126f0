//! One container: created, started, ended and removed.

use std::pin::Pin;
use std::time::Duration;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::models::{ContainerCreateBody, ContainerState};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, KillContainerOptionsBuilder,
    RemoveContainerOptionsBuilder,
};
use futures_util::Stream;
use tokio::time::{Instant, sleep};

use super::engine::{Engine, failed, message_of};
use crate::executor::ExecuteError;

/// How long an engine may take to notice that a container has ended.
const ENDED_WITHIN: Duration = Duration::from_secs(10);
/// How often the engine is asked.
const ASK_EVERY: Duration = Duration::from_millis(10);
/// How many times a removal is tried.
const REMOVALS: u32 = 5;

/// The output of a container.
pub(super) type Output = Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>;

/// One container.
#[derive(Debug)]
pub(super) struct Instance<'a> {
    docker: &'a Docker,
    name: &'a str,
}

impl<'a> Instance<'a> {
    /// Creates a container. It does not run yet.
    pub(super) async fn create(
        docker: &'a Docker,
        name: &'a str,
        body: ContainerCreateBody,
    ) -> Result<Self, ExecuteError> {
        let options = CreateContainerOptionsBuilder::default().name(name).build();
        let created = docker.create_container(Some(options), body).await;
        created.map_err(failed("create the container"))?;
        Ok(Self { docker, name })
    }

    /// Starts the container, and attaches to its output first.
    pub(super) async fn start(&self, engine: &Engine, image: &str) -> Result<Output, ExecuteError> {
        let options = AttachContainerOptionsBuilder::default().stream(true).stdout(true).stderr(true).build();
        let attached = self.docker.attach_container(self.name, Some(options)).await;
        let attached = attached.map_err(failed("attach to the container"))?;
        match self.docker.start_container(self.name, None).await {
            Ok(()) => Ok(attached.output),
            Err(error) if message_of(&error).contains("/bin/bash") => Err(ExecuteError::NoSandbox {
                what: format!("image {image:?} has no /bin/bash"),
                remedy: format!("Use another image, or add bash to it with `{} build`.", engine.program()),
            }),
            Err(error) => Err(failed("start the container")(error)),
        }
    }

    /// Sends a signal to the first process, if it still runs.
    pub(super) async fn signal(&self, signal: &str) {
        let options = KillContainerOptionsBuilder::default().signal(signal).build();
        let _ = self.docker.kill_container(self.name, Some(options)).await;
    }

    /// The number of the first process on this machine, if it runs.
    pub(super) async fn first_process(&self) -> Option<i64> {
        self.docker.inspect_container(self.name, None).await.ok()?.state?.pid.filter(|process| *process > 0)
    }

    /// Waits until the container has ended, and returns its state. A container that does not end is killed.
    pub(super) async fn end(&self) -> Result<ContainerState, ExecuteError> {
        let mut until = Instant::now() + ENDED_WITHIN;
        let mut killed = false;
        loop {
            let state = match self.docker.inspect_container(self.name, None).await {
                Ok(inspected) => inspected.state.unwrap_or_default(),
                // Podman has its own state for containers that have ended but are not cleaned up yet.
                Err(Error::JsonDataError { message, .. }) if message.contains("`stopped`") => {
                    ContainerState::default()
                }
                Err(error) => return Err(failed("inspect the container")(error)),
            };
            if state.running == Some(false) && state.pid.unwrap_or(0) == 0 {
                return Ok(state);
            }
            if Instant::now() >= until {
                if killed {
                    return Ok(state);
                }
                killed = true;
                until = Instant::now() + ENDED_WITHIN;
                self.signal("KILL").await;
            }
            sleep(ASK_EVERY).await;
        }
    }

    /// Removes the container, running or not.
    pub(super) async fn remove(self) -> Result<(), ExecuteError> {
        remove(self.docker, self.name).await.map_err(failed("remove the container"))
    }
}

/// Removes a container, running or not. If that fails, it tries again: another process may be removing the container.
pub(super) async fn remove(docker: &Docker, name: &str) -> Result<(), Error> {
    let mut tries = 0;
    loop {
        match try_remove(docker, name).await {
            Err(_) if tries < REMOVALS => tries += 1,
            result => return result,
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Tries once to remove a container, running or not. It is no error if it is gone.
pub(super) async fn try_remove(docker: &Docker, name: &str) -> Result<(), Error> {
    let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
    match docker.remove_container(name, Some(options)).await {
        Ok(()) | Err(Error::DockerResponseServerError { status_code: 404, .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
