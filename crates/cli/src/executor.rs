//! The options `--executor` and `--image`: where commands run.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use prowess_workspace::{ContainerExecutor, ContainerOptions, Executor, Level, LocalExecutor, LocalOptions};

use crate::config::{ExecutorWord, SandboxSettings};

/// Where commands run.
#[derive(Args, Clone, Debug)]
pub(crate) struct ExecutorArgs {
    /// Where commands run: in a sandbox on this machine, or in a Docker or Podman container [default: local]
    #[arg(long, value_enum, value_name = "KIND")]
    executor: Option<Kind>,
    #[command(flatten)]
    containers: ContainerArgs,
    /// The configured weakest level.
    #[arg(skip)]
    level: Option<Level>,
    /// Variables that commands may get although they load code.
    #[arg(skip)]
    allow_loaders: Vec<String>,
}

/// Options for containers.
#[derive(Args, Clone, Debug)]
pub(crate) struct ContainerArgs {
    /// The container image, which the engine must already have [default: python:3-slim]
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// The configured image.
    #[arg(skip)]
    configured: Option<String>,
    /// The configured socket of the engine.
    #[arg(skip)]
    socket: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Local,
    Container,
}

impl ExecutorArgs {
    /// The options, with configured values for those that were not given.
    pub(crate) fn or_configured(&self, settings: &SandboxSettings) -> Self {
        let executor = self.executor.unwrap_or(match settings.executor {
            ExecutorWord::Local => Kind::Local,
            ExecutorWord::Container => Kind::Container,
        });
        Self {
            executor: Some(executor),
            containers: self.containers.or_configured(settings),
            level: Some(settings.level),
            allow_loaders: settings.allow_loaders.iter().map(ToString::to_string).collect(),
        }
    }

    fn kind(&self) -> Kind {
        self.executor.unwrap_or(Kind::Local)
    }

    /// Builds the executor. `least` is the weakest level to accept; commands see the directories `prefixes`.
    pub(crate) fn build(&self, least: Option<Level>, prefixes: Vec<PathBuf>) -> Result<Arc<dyn Executor>> {
        match self.kind() {
            Kind::Local if self.containers.image.is_some() => {
                bail!("--image is for containers: add --executor container")
            }
            Kind::Local => {
                let mut local = LocalOptions::default();
                if let Some(least) = self.weakest_level(least) {
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

    /// The weakest level to accept, for local commands.
    pub(crate) fn weakest_level(&self, given: Option<Level>) -> Option<Level> {
        self.is_local().then(|| given.or(self.level).unwrap_or(LocalOptions::default().least))
    }

    /// Whether commands run on this machine, with its programs.
    pub(crate) fn is_local(&self) -> bool {
        self.kind() == Kind::Local
    }
}

impl ContainerArgs {
    /// The options, with configured values for those that were not given.
    pub(crate) fn or_configured(&self, settings: &SandboxSettings) -> Self {
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
