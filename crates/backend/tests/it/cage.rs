//! A root with a secret file beside it that must stay out of reach.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use prowess_backend::{Backend, LocalBackend, ReadRange, Result, VirtualPath};
use tempfile::{TempDir, tempdir};

/// The contents of the file outside the root, which no operation may read or change.
pub(crate) const SECRET: &str = "SECRET";

/// `inside` is the root; `outside/secret` is beside it.
pub(crate) struct Cage {
    top: TempDir,
    pub(crate) backend: LocalBackend,
}

impl Cage {
    pub(crate) fn new() -> Self {
        let top = tempdir().unwrap();
        fs::create_dir(top.path().join("inside")).unwrap();
        fs::create_dir(top.path().join("outside")).unwrap();
        fs::write(top.path().join("outside/secret"), SECRET).unwrap();
        let backend = LocalBackend::open(top.path().join("inside")).unwrap();
        Self { top, backend }
    }

    pub(crate) fn inside(&self, relative: &str) -> PathBuf {
        self.top.path().join("inside").join(relative)
    }

    pub(crate) fn outside(&self, relative: &str) -> PathBuf {
        self.top.path().join("outside").join(relative)
    }

    /// Makes a link inside the root.
    pub(crate) fn link(&self, name: &str, target: impl AsRef<Path>) {
        symlink(target, self.inside(name)).unwrap();
    }

    pub(crate) async fn read(&self, path: &str) -> Result<String> {
        self.backend.read(&at(path), ReadRange::first(1000)).await?.into_text()
    }

    /// Checks that nothing outside was created, changed or removed.
    pub(crate) fn assert_untouched(&self) {
        let names: Vec<_> =
            fs::read_dir(self.outside("")).unwrap().map(|found| found.unwrap().file_name()).collect();
        assert_eq!(names, ["secret"]);
        assert_eq!(fs::read_to_string(self.outside("secret")).unwrap(), SECRET);
    }
}

pub(crate) fn at(path: &str) -> VirtualPath {
    VirtualPath::parse(path).unwrap()
}

/// The code of the expected error. It must come soon: no operation may wait for somebody.
pub(crate) async fn code<T: std::fmt::Debug>(work: impl Future<Output = Result<T>>) -> &'static str {
    let answer = tokio::time::timeout(Duration::from_secs(20), work).await.expect("it does not hang");
    answer.expect_err("it is refused").code()
}
