//! The options of the local executor.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use secrecy::SecretString;

use crate::command::Level;
use crate::executor::environment::VariableOptions;

/// The options of the local executor.
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
    /// The weakest sandbox that is allowed. Without it nothing runs.
    pub least: Level,
    /// The strongest sandbox that is tried. A weaker one can be chosen here if `least` allows it.
    pub strongest: Level,
    /// Local directories that commands see read-only, at the same path: for example a Python or Node that is not in
    /// `/usr`. Their `bin` comes first in `PATH`.
    pub read_only: Vec<PathBuf>,
    /// Variables for every command. Commands see nothing else of this process's environment.
    pub environment: BTreeMap<String, String>,
    /// Variables that a request may set although they make a program load code, such as `LD_PRELOAD` and `BASH_ENV`.
    /// They take effect only inside the sandbox.
    pub allow_loaders: BTreeSet<String>,
    /// Secrets that are replaced in all output of commands. Values under four bytes are ignored: they would make the
    /// output unreadable and protect nothing.
    pub redact: Vec<SecretString>,
    /// Where `bwrap`, `setpriv` and `socat` are looked for; `None` means the `PATH` of this process.
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
    /// The options for variables.
    pub(super) fn variable_options(&self) -> VariableOptions<'_> {
        VariableOptions {
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
        // With a relative entry, the current directory could provide the sandbox programs.
        directories.iter().filter(|at| at.is_absolute()).map(|at| at.join(name)).find(|at| at.is_file())
    }
}
