//! Decides which local files may become inputs.

use std::path::{Path, PathBuf};

use async_trait::async_trait;

/// Decides which local files may become inputs.
///
/// It is asked about the given path before the file is opened. If the path contains a link, it is asked again about
/// the path that the link leads to.
///
/// ```
/// use std::path::Path;
/// use prowess_workspace::input::InputGate;
/// use prowess_workspace::stage::StageSource;
/// use prowess_workspace::RunContext;
///
/// let pictures = |path: &Path| path.extension().is_some_and(|extension| extension == "png");
/// let skills = |_: &str| None::<StageSource>;
/// let mut context = RunContext::new(&skills);
/// context.input_gate = &pictures; // any function of a path will do
/// ```
#[async_trait]
pub trait InputGate: Send + Sync {
    /// Whether the file or directory at this absolute path, with its contents, may be read.
    async fn allows(&self, path: &Path) -> bool;
}

#[async_trait]
impl<F: Fn(&Path) -> bool + Send + Sync> InputGate for F {
    async fn allows(&self, path: &Path) -> bool {
        self(path)
    }
}

/// Allows these paths and everything below them. An empty list allows nothing.
///
/// ```
/// use std::path::Path;
/// use prowess_workspace::input::{InputGate, InputPaths};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let gate = InputPaths(vec!["/srv/invoices".into()]);
/// assert!(gate.allows(Path::new("/srv/invoices/june.pdf")).await);
/// assert!(!gate.allows(Path::new("/etc/passwd")).await);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputPaths(pub Vec<PathBuf>);

#[async_trait]
impl InputGate for InputPaths {
    async fn allows(&self, path: &Path) -> bool {
        self.0.iter().any(|allowed| path.starts_with(allowed))
    }
}
