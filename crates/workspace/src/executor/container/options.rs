//! The options of the container executor.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use secrecy::SecretString;

use super::profile::DEFAULT_PROCESSORS;
use crate::executor::environment::VariableOptions;

/// The default image, which has bash and Python.
pub const DEFAULT_IMAGE: &str = "python:3-slim";

/// The options of the container executor.
///
/// ```
/// use prowess_workspace::executor::container::{ContainerExecutor, ContainerOptions};
///
/// let mut options = ContainerOptions::default();
/// options.image = "node:22-slim".to_owned();
/// let executor = ContainerExecutor::new(options);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ContainerOptions {
    /// The image of the containers. It needs `/bin/bash` 4.4, `cat` and `mkdir`. The engine must have it, because prowess
    /// does not pull images.
    pub image: String,
    /// The engine's socket. By default `DOCKER_HOST` is used, and then the usual sockets.
    pub socket: Option<PathBuf>,
    /// How many processors a command may use.
    pub processors: f64,
    /// Variables for every command. Commands see nothing of this process's environment, and nothing of the image's.
    pub environment: BTreeMap<String, String>,
    /// Variables that a request may set although they make a program load code, such as `LD_PRELOAD` and `BASH_ENV`.
    /// They take effect only inside the container.
    pub allow_loaders: BTreeSet<String>,
    /// Secrets that are replaced in all output of commands. Values under four bytes are ignored: they would make the
    /// output unreadable and protect nothing.
    pub redact: Vec<SecretString>,
}

impl Default for ContainerOptions {
    fn default() -> Self {
        Self {
            image: DEFAULT_IMAGE.to_owned(),
            socket: None,
            processors: DEFAULT_PROCESSORS,
            environment: BTreeMap::new(),
            allow_loaders: BTreeSet::new(),
            redact: Vec::new(),
        }
    }
}

impl ContainerOptions {
    /// The options for variables.
    pub(super) fn variable_options(&self) -> VariableOptions<'_> {
        VariableOptions { environment: &self.environment, allow_loaders: &self.allow_loaders, prefixes: &[] }
    }
}
