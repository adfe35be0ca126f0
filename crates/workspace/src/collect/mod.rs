//! Collects the output files of a run, after all of its processes have ended.

mod globs;
mod limits;
mod walk;

use bytes::Bytes;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use crate::executor::local::Redactor;
use crate::mime::{Mime, text_of};
use crate::warning::RunWarning;
use crate::workspace::Workspace;

pub(crate) use globs::Globs;
pub use globs::{GlobError, GlobProblem, MAX_GLOB_ALTERNATIVES, MAX_GLOB_BYTES, MAX_GLOBS, normalize_glob};
pub use limits::CollectLimits;
pub use walk::MAX_VISITED;
pub(crate) use walk::{CollectableSkills, collect};

/// A collected file, as a report shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CollectedFile {
    /// Its path in the workspace. Control characters and bytes that are not UTF-8 are escaped.
    pub name: String,
    /// Its text; `None` if it is not text, or was not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Its media type, from its content and then its name.
    pub mime_type: String,
    /// How many bytes it has.
    pub size_bytes: u64,
    /// Whether only its beginning was collected, or it changed while it was read.
    pub truncated: bool,
}

/// A collected file with its bytes.
#[derive(Clone, Debug)]
pub(crate) struct CollectedBytes {
    pub(crate) name: String,
    pub(crate) mime: Mime,
    pub(crate) size: u64,
    pub(crate) truncated: bool,
    /// Whether it changed while it was read. Then it may mix two versions.
    pub(crate) moving: bool,
    pub(crate) bytes: Bytes,
}

impl CollectedBytes {
    /// The file as a report shows it, with its text if `inline` is true.
    pub(crate) fn describe(self, inline: bool) -> CollectedFile {
        let _span = tracing::debug_span!("workspace.inline", inline).entered();
        let content = (inline && self.mime.is_text).then(|| into_text(self.bytes, self.truncated)).flatten();
        CollectedFile {
            name: self.name,
            content,
            mime_type: self.mime.name.into_owned(),
            size_bytes: self.size,
            truncated: self.truncated,
        }
    }
}

/// The collected files.
#[derive(Debug, Default)]
pub(crate) struct Collection {
    pub(crate) files: Vec<CollectedBytes>,
    pub(crate) warnings: Vec<RunWarning>,
    /// Whether a limit ended the walk, so that there are more files.
    pub(crate) is_cut: bool,
}

impl Collection {
    /// Replaces secrets in the text of files, as in the output of a command. Saved artifacts keep their bytes.
    pub(crate) fn redact(&mut self, secrets: &[SecretString]) {
        for file in &mut self.files {
            if let Some(shown) = Redactor::new(secrets).redacted(&file.bytes) {
                file.bytes = shown.into();
                self.warnings.push(RunWarning::HasSecret { path: file.name.clone() });
            }
        }
    }
}

impl Workspace {
    /// Collects the files that match one of `globs`, in the order of their paths, with their text inline.
    ///
    /// Globs are relative to the workspace. `**` spans directories, and `$OUTPUT_DIR` and the like stand for the
    /// workspace's directories. Links are not followed. Links, FIFOs, sockets and devices are left out with a warning.
    /// A limit that is reached is a warning, and a truncated file is marked.
    ///
    /// # Errors
    ///
    /// A glob is refused. Nothing was read.
    pub fn collect(
        &self,
        globs: &[String],
        limits: CollectLimits,
    ) -> Result<(Vec<CollectedFile>, Vec<RunWarning>), GlobError> {
        let mut warnings = Vec::new();
        let limits = limits.bounded(&mut warnings);
        let collection = collect(self.dir(), &Globs::parse(globs)?, limits, CollectableSkills::All);
        warnings.extend(collection.warnings);
        Ok((collection.files.into_iter().map(|file| file.describe(true)).collect(), warnings))
    }
}

/// The bytes as text, if they are text. They are not copied if nobody else holds them.
fn into_text(bytes: Bytes, truncated: bool) -> Option<String> {
    let mut bytes = Vec::from(bytes);
    if truncated {
        let whole = text_of(&bytes, truncated)?.len();
        bytes.truncate(whole);
    }
    String::from_utf8(bytes).ok()
}
