//! What came of a command, for whoever shows it.

use serde::{Deserialize, Serialize};

/// What came of a command of a skill: what a screen shows of it, without reading what the model reads.
///
/// ```
/// use prowess_skills::RunSummary;
///
/// let ran = RunSummary { exit_code: 2, ..RunSummary::default() };
/// assert_eq!(serde_json::to_value(&ran)?["exit_code"], 2);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunSummary {
    /// Its exit code.
    pub exit_code: i32,
    /// Whether its time was over.
    pub timed_out: bool,
    /// How it was isolated.
    pub sandbox: String,
    /// The files that were asked for, by their names in the workspace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<RunSummaryFile>,
    /// What was kept of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<RunSummaryArtifact>,
}

/// A file that a command left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSummaryFile {
    /// Its name in the workspace.
    pub name: String,
    /// How long it is.
    pub bytes: u64,
}

/// An artifact that was made of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSummaryArtifact {
    /// Its name.
    pub name: String,
    /// Its version, from 0.
    pub version: u64,
}

#[cfg(feature = "run")]
impl From<&prowess_workspace::RunReport> for RunSummary {
    fn from(report: &prowess_workspace::RunReport) -> Self {
        let file = |file: &prowess_workspace::collect::CollectedFile| RunSummaryFile {
            name: file.name.clone(),
            bytes: file.size_bytes,
        };
        let artifact = |saved: &prowess_workspace::artifact::ArtifactFile| RunSummaryArtifact {
            name: saved.name.clone(),
            version: saved.version,
        };
        Self {
            exit_code: report.exit_code,
            timed_out: report.timed_out,
            sandbox: report.sandbox.level.to_string(),
            files: report.output_files.iter().map(file).collect(),
            artifacts: report.artifact_files.iter().map(artifact).collect(),
        }
    }
}
