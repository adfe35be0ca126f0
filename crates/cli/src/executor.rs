//! What holds commands.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use prowess_workspace::{ContainerExecutor, ContainerOptions, Executor, Level, LocalExecutor, LocalOptions};

/// What holds commands.
#[derive(Args, Clone, Debug)]
pub(crate) struct Choice {
    /// What holds the command: a sandbox of this machine, or a container of Docker or Podman
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Kind::Local)]
    executor: Kind,
    #[command(flatten)]
    containers: Containers,
}

/// How containers are made.
#[derive(Args, Clone, Debug)]
pub(crate) struct Containers {
    /// The image of containers, which the engine must have [default: python:3-slim]
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Local,
    Container,
}

impl Choice {
    /// The executor, with the weakest isolation that is enough, if somebody named it, and directories of this machine
    /// that commands see.
    pub(crate) fn build(&self, least: Option<Level>, prefixes: Vec<PathBuf>) -> Result<Arc<dyn Executor>> {
        match self.executor {
            Kind::Local if self.containers.image.is_some() => {
                bail!("--image is for containers: add --executor container")
            }
            Kind::Local => {
                let mut local = LocalOptions::default();
                if let Some(least) = least {
                    local.least = least;
                }
                local.read_only = prefixes;
                Ok(Arc::new(LocalExecutor::new(local)))
            }
            Kind::Container if least.is_some() => {
                bail!("--sandbox is for the local executor: a container is a level of its own")
            }
            Kind::Container if !prefixes.is_empty() => {
                bail!("--prefix is for the local executor: a container has the programs of its image")
            }
            Kind::Container => Ok(Arc::new(ContainerExecutor::new(self.containers.options()))),
        }
    }

    /// Whether commands see the programs of this machine.
    pub(crate) fn is_local(&self) -> bool {
        self.executor == Kind::Local
    }
}

impl Containers {
    pub(crate) fn options(&self) -> ContainerOptions {
        let mut options = ContainerOptions::default();
        if let Some(image) = &self.image {
            options.image.clone_from(image);
        }
        options
    }
}
