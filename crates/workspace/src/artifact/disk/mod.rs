//! Artifacts on the local disk: bytes in one directory, the index in another.

mod blobs;
mod index;

use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;

use super::ArtifactError;
use crate::dir::Dir;

pub use blobs::DiskBlobs;
pub use index::DiskIndex;

/// Opens a directory of artifacts, and creates it if it is missing.
fn open(path: &Path) -> Result<Arc<Dir>, ArtifactError> {
    let opened = (|| {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        Dir::open(path)
    })();
    let failed = |error| ArtifactError::store(format!("opening the artifacts at {}", path.display()), error);
    opened.map(Arc::new).map_err(failed)
}
