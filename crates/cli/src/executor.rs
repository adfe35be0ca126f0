//! What holds commands.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use prowess_workspace::{ContainerExecutor, ContainerOptions, Executor, Level, LocalExecutor, LocalOptions};

use crate::config::{ExecutorWord, SandboxSettings};

/// What holds commands.
#[derive(Args, Clone, Debug)]
pub(crate) struct ExecutorArgs {
    /// Where commands run: in a sandbox on this machine, or in a Docker or Podman container [default: local]
    #[arg(long, value_enum, value_name = "KIND")]
    executor: Option<Kind>,
    #[command(flatten)]
    containers: ContainerArgs,
    /// What is enough when nobody says.
    #[arg(skip)]
    level: Option<Level>,
    /// Variables that commands may be given although they load code.
    #[arg(skip)]
    allow_loaders: Vec<String>,
}

/// How containers are made.
#[derive(Args, Clone, Debug)]
pub(crate) struct ContainerArgs {
    /// The container image, which the engine must already have [default: python:3-slim]
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// The image when nobody names one.
    #[arg(skip)]
    configured: Option<String>,
    /// The socket of the engine, if one is configured.
    #[arg(skip)]
    socket: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Local,
    Container,
}

impl ExecutorArgs {
    /// The choice where what was not given is as it is configured.
    pub(crate) fn over(&self, settings: &SandboxSettings) -> Self {
        let executor = self.executor.unwrap_or(match settings.executor {
            ExecutorWord::Local => Kind::Local,
            ExecutorWord::Container => Kind::Container,
        });
        Self {
            executor: Some(executor),
            containers: self.containers.over(settings),
            level: Some(settings.level),
            allow_loaders: settings.allow_loaders.iter().map(ToString::to_string).collect(),
        }
    }

    fn kind(&self) -> Kind {
        self.executor.unwrap_or(Kind::Local)
    }

    /// The executor, with the weakest isolation that is enough, if somebody named it, and directories of this machine
    /// that commands see.
    pub(crate) fn build(&self, least: Option<Level>, prefixes: Vec<PathBuf>) -> Result<Arc<dyn Executor>> {
        match self.kind() {
            Kind::Local if self.containers.image.is_some() => {
                bail!("--image is for containers: add --executor container")
            }
            Kind::Local => {
                let mut local = LocalOptions::default();
                if let Some(least) = self.least(least) {
                    local.least = least;
                }
                local.read_only = prefixes;
                local.allow_loaders.extend(self.allow_loaders.iter().cloned());
                Ok(Arc::new(LocalExecutor::new(local)))
            }
            Kind::Container if least.is_some() => {
                bail!("--sandbox is for the local executor: a container has its own level")
            }
            Kind::Container if !prefixes.is_empty() => {
                bail!("--prefix is for the local executor: a container has only the programs of its image")
            }
            Kind::Container => {
                let mut containers = self.containers.options();
                containers.allow_loaders.extend(self.allow_loaders.iter().cloned());
                Ok(Arc::new(ContainerExecutor::new(containers)))
            }
        }
    }

    /// The weakest level that is enough, if commands are processes of this machine.
    pub(crate) fn least(&self, given: Option<Level>) -> Option<Level> {
        self.is_local().then(|| given.or(self.level).unwrap_or(LocalOptions::default().least))
    }

    /// Whether commands see the programs of this machine.
    pub(crate) fn is_local(&self) -> bool {
        self.kind() == Kind::Local
    }
}

impl ContainerArgs {
    /// The containers where what was not given is as it is configured.
    pub(crate) fn over(&self, settings: &SandboxSettings) -> Self {
        Self {
            image: self.image.clone(),
            configured: Some(settings.image.clone()),
            socket: settings.engine_socket.as_ref().map(|socket| socket.value.0.clone()),
        }
    }

    pub(crate) fn options(&self) -> ContainerOptions {
        let mut options = ContainerOptions::default();
        if let Some(image) = self.image.as_ref().or(self.configured.as_ref()) {
            options.image.clone_from(image);
        }
        options.socket.clone_from(&self.socket);
        options
    }
}
