//! What the person who runs the container executor decides.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use secrecy::SecretString;

use crate::executor::environment::Given;

/// The image when none is named: it has bash and Python.
pub const DEFAULT_IMAGE: &str = "python:3-slim";

/// What the person who runs the container executor decides.
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
    /// The image of each container. It needs `/bin/bash` 4.4, `cat` and `mkdir`; the engine must have it, since nothing
    /// is pulled.
    pub image: String,
    /// The engine's socket. Without it `DOCKER_HOST` decides, and then the places where engines listen.
    pub socket: Option<PathBuf>,
    /// How many processors a command may use; no more than there are.
    pub processors: f64,
    /// Variables that every command gets. Nothing of the host's environment reaches one, and nothing of the image's.
    pub environment: BTreeMap<String, String>,
    /// Variables of a request that are let through although they make a program load code: `LD_PRELOAD`,
    /// `BASH_ENV`, … They take effect inside the container only.
    pub allow_loaders: BTreeSet<String>,
    /// Values that are replaced in everything a command writes, before anyone sees it. Values under four bytes
    /// are ignored: they would tear the output apart and protect nothing.
    pub redact: Vec<SecretString>,
}

impl Default for ContainerOptions {
    fn default() -> Self {
        Self {
            image: DEFAULT_IMAGE.to_owned(),
            socket: None,
            processors: 2.0,
            environment: BTreeMap::new(),
            allow_loaders: BTreeSet::new(),
            redact: Vec::new(),
        }
    }
}

impl ContainerOptions {
    /// What it says about variables.
    pub(super) fn given(&self) -> Given<'_> {
        Given { environment: &self.environment, allow_loaders: &self.allow_loaders, prefixes: &[] }
    }
}
