//! One container: made, started, killed, looked at, removed.

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

use super::engine::{Engine, failed, said};
use crate::executor::ExecuteError;

/// How long an engine may take to notice that a container has ended.
const ENDED_WITHIN: Duration = Duration::from_secs(10);
/// How often it is asked.
const ASK_EVERY: Duration = Duration::from_millis(10);
/// How often a removal is tried.
const REMOVALS: u32 = 5;

/// What a container writes.
pub(super) type Output = Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>;

/// One container.
#[derive(Debug)]
pub(super) struct Instance<'a> {
    docker: &'a Docker,
    name: &'a str,
}

impl<'a> Instance<'a> {
    /// Makes a container; it does not run yet.
    pub(super) async fn create(
        docker: &'a Docker,
        name: &'a str,
        body: ContainerCreateBody,
    ) -> Result<Self, ExecuteError> {
        let options = CreateContainerOptionsBuilder::default().name(name).build();
        let created = docker.create_container(Some(options), body).await;
        created.map_err(failed("make the container"))?;
        Ok(Self { docker, name })
    }

    /// Starts it, and hears it from its first word.
    pub(super) async fn start(&self, engine: &Engine, image: &str) -> Result<Output, ExecuteError> {
        let options = AttachContainerOptionsBuilder::default().stream(true).stdout(true).stderr(true).build();
        let attached = self.docker.attach_container(self.name, Some(options)).await;
        let attached = attached.map_err(failed("attach to the container"))?;
        match self.docker.start_container(self.name, None).await {
            Ok(()) => Ok(attached.output),
            Err(error) if said(&error).contains("/bin/bash") => Err(ExecuteError::NoSandbox {
                what: format!("image {image:?} has no /bin/bash"),
                remedy: format!("Use another, or add bash to it with `{} build`.", engine.program()),
            }),
            Err(error) => Err(failed("start the container")(error)),
        }
    }

    /// Sends a signal to its first process. One that has ended does not mind.
    pub(super) async fn signal(&self, signal: &str) {
        let options = KillContainerOptionsBuilder::default().signal(signal).build();
        let _ = self.docker.kill_container(self.name, Some(options)).await;
    }

    /// The number of its first process on the host, if it has one.
    pub(super) async fn first_process(&self) -> Option<i64> {
        self.docker.inspect_container(self.name, None).await.ok()?.state?.pid.filter(|process| *process > 0)
    }

    /// What the engine knows of it once it has ended; it is killed if it does not.
    pub(super) async fn end(&self) -> Result<ContainerState, ExecuteError> {
        let mut until = Instant::now() + ENDED_WITHIN;
        let mut killed = false;
        loop {
            let state = match self.docker.inspect_container(self.name, None).await {
                Ok(inspected) => inspected.state.unwrap_or_default(),
                // Podman has a word of its own for those that have ended and are not tidied up yet.
                Err(Error::JsonDataError { message, .. }) if message.contains("`stopped`") => {
                    ContainerState::default()
                }
                Err(error) => return Err(failed("look at the container")(error)),
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

    /// Removes it with all that is in it, running or not.
    pub(super) async fn remove(self) -> Result<(), ExecuteError> {
        remove(self.docker, self.name).await.map_err(failed("remove the container"))
    }
}

/// Removes a container, running or not. One that is gone already does not matter.
pub(super) async fn remove(docker: &Docker, name: &str) -> Result<(), Error> {
    let mut tries = 0;
    loop {
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        match docker.remove_container(name, Some(options)).await {
            Ok(()) | Err(Error::DockerResponseServerError { status_code: 404, .. }) => return Ok(()),
            // Somebody else may be at it.
            Err(_) if tries < REMOVALS => tries += 1,
            Err(error) => return Err(error),
        }
        sleep(Duration::from_millis(100)).await;
    }
}
