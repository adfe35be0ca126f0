//! What the person who runs the local executor decides.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use secrecy::SecretString;

use crate::command::Level;
use crate::executor::environment::Given;

/// What the person who runs the local executor decides.
///
/// ```
/// use prowess_workspace::executor::local::{LocalExecutor, LocalOptions};
///
/// let mut options = LocalOptions::default();
/// options.read_only.push("/opt/node".into());
/// let executor = LocalExecutor::new(options);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LocalOptions {
    /// The weakest isolation that may hold a command. Without it nothing runs.
    pub least: Level,
    /// The strongest isolation that is tried: for who wants a weaker one although a stronger could be had, and has
    /// allowed it with `least`.
    pub strongest: Level,
    /// Host directories that commands see read-only, at the same place: the prefix of a Python or a Node that
    /// does not live in `/usr`. Their `bin` comes first in `PATH`.
    pub read_only: Vec<PathBuf>,
    /// Variables that every command gets. Nothing else of the host's environment reaches one.
    pub environment: BTreeMap<String, String>,
    /// Variables of a request that are let through although they make a program load code: `LD_PRELOAD`,
    /// `BASH_ENV`, … They take effect inside the sandbox only.
    pub allow_loaders: BTreeSet<String>,
    /// Values that are replaced in everything a command writes, before anyone sees it. Values under four bytes
    /// are ignored: they would tear the output apart and protect nothing.
    pub redact: Vec<SecretString>,
    /// Where `bwrap`, `setpriv` and `socat` are looked for; the host's `PATH` when `None`.
    pub programs: Option<Vec<PathBuf>>,
}

impl Default for LocalOptions {
    fn default() -> Self {
        Self {
            least: Level::Bwrap,
            strongest: Level::Bwrap,
            read_only: Vec::new(),
            environment: BTreeMap::new(),
            allow_loaders: BTreeSet::new(),
            redact: Vec::new(),
            programs: None,
        }
    }
}

impl LocalOptions {
    /// What it says about variables.
    pub(super) fn given(&self) -> Given<'_> {
        Given {
            environment: &self.environment,
            allow_loaders: &self.allow_loaders,
            prefixes: &self.read_only,
        }
    }

    /// The path of a program that the executor itself starts.
    pub(super) fn find(&self, name: &str) -> Option<PathBuf> {
        let directories = match &self.programs {
            Some(directories) => directories.clone(),
            None => std::env::var_os("PATH")
                .map(|path| std::env::split_paths(&path).collect())
                .unwrap_or_default(),
        };
        // A relative entry of PATH would let the current directory choose the sandbox.
        directories.iter().filter(|at| at.is_absolute()).map(|at| at.join(name)).find(|at| at.is_file())
    }
}
