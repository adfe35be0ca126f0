//! The file of `--state`.

use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use prowess_skills::SavedState;

/// The largest state file, in bytes.
const MAX_STATE_BYTES: u64 = 16 << 20;

/// A file with a session's state.
#[derive(Clone, Debug)]
pub(crate) struct StateFile(PathBuf);

impl StateFile {
    pub(crate) fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Reads the saved state; `None` if there is none.
    pub(crate) fn restore(&self) -> Result<Option<SavedState>> {
        let shown = self.0.display();
        // Checked before it is opened, because opening a FIFO waits for a writer.
        match std::fs::metadata(&self.0) {
            Ok(found) if found.is_file() && found.permissions().mode() & 0o022 != 0 => {
                bail!("{shown} is not used, because others can write to it: run `chmod go-w {shown}`")
            }
            Ok(found) if found.is_file() => {}
            Ok(_) => bail!("{shown} is not a file; choose another one with --state"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Reported now, not after the first change.
                if !self.directory().is_dir() {
                    bail!(
                        "cannot save {shown}: its directory does not exist; create it, or choose another file"
                    );
                }
                return Ok(None);
            }
            Err(error) => return Err(error).with_context(|| format!("{shown} cannot be read")),
        }
        let file = std::fs::File::open(&self.0).with_context(|| format!("{shown} cannot be read"))?;
        let mut bytes = Vec::new();
        file.take(MAX_STATE_BYTES + 1)
            .read_to_end(&mut bytes)
            .with_context(|| format!("{shown} cannot be read"))?;
        let damaged = |why: &dyn std::fmt::Display| {
            anyhow!("cannot restore {shown}: {why}; move it away to start a new session")
        };
        if bytes.len() as u64 > MAX_STATE_BYTES {
            return Err(damaged(&format!("it is larger than {MAX_STATE_BYTES} bytes")));
        }
        serde_json::from_slice(&bytes).map(Some).map_err(|error| damaged(&error))
    }

    /// Saves `state` under a temporary name and renames it, so that a crash leaves the old state or the new one. Only
    /// the user can read it, because it contains the session's secret.
    pub(crate) fn save(&self, state: &SavedState) -> Result<()> {
        let context = || format!("cannot save the state in {}", self.0.display());
        let mut draft = tempfile::NamedTempFile::new_in(self.directory()).with_context(context)?;
        serde_json::to_writer_pretty(&mut draft, state).with_context(context)?;
        draft.write_all(b"\n").and_then(|()| draft.as_file().sync_all()).with_context(context)?;
        draft.persist(&self.0).with_context(context)?;
        Ok(())
    }

    fn directory(&self) -> &Path {
        match self.0.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }
}
