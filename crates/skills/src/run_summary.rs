//! The summary of a run, for a screen.

use serde::{Deserialize, Serialize};

/// The summary of a run: what a screen shows. It does not depend on the text for the model.
///
/// ```
/// use prowess_skills::RunSummary;
///
/// let mut ran = RunSummary::default();
/// ran.exit_code = 2;
/// assert_eq!(serde_json::to_value(&ran)?["exit_code"], 2);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RunSummary {
    /// Its exit code.
    pub exit_code: i32,
    /// Whether it exceeded its time limit.
    pub timed_out: bool,
    /// How it was isolated.
    pub sandbox: String,
    /// The files that it returned.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<RunSummaryFile>,
    /// The artifacts that it saved.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<RunSummaryArtifact>,
    /// The files of the project that it created, changed or removed, by their real paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub project_files: Vec<RunSummaryProjectFile>,
    /// How many more files of the project it created, changed or removed.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_project_files: usize,
    /// Changes of the project that were not copied back.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_copied_back: Vec<RunSummaryNotCopied>,
    /// How many more changes were not copied back.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_not_copied_back: usize,
    /// If it failed, the beginning of the last line that it wrote: to its standard error, or else to its standard output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_line: Option<String>,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A change of the project that was not copied back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSummaryNotCopied {
    /// The real path of the file.
    pub path: String,
    /// Why not.
    pub reason: String,
}

/// A file of the project that a run wrote or removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSummaryProjectFile {
    /// Its real path.
    pub path: String,
    /// Whether it is new.
    pub is_new: bool,
    /// Whether it is gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_removed: bool,
}

/// A file that a run returned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSummaryFile {
    /// Its name in the workspace.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
}

/// An artifact that a run saved.
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
        use prowess_workspace::RunWarning;
        use prowess_workspace::writable::ProjectChange;

        let file = |file: &prowess_workspace::collect::CollectedFile| RunSummaryFile {
            name: file.name.clone(),
            bytes: file.size_bytes,
        };
        let artifact = |saved: &prowess_workspace::artifact::ArtifactFile| RunSummaryArtifact {
            name: saved.name.clone(),
            version: saved.version,
        };
        let project_file = |file: &prowess_workspace::writable::ChangedProjectFile| {
            let path = file.real.to_string_lossy().into_owned();
            let (is_new, is_removed) =
                (file.change == ProjectChange::Created, file.change == ProjectChange::Removed);
            RunSummaryProjectFile { path, is_new, is_removed }
        };
        let warnings = || report.warnings.iter();
        let not_copied = |warning: &RunWarning| match warning {
            RunWarning::NotCopiedBack { real, reason, .. } => {
                let path = real.to_string_lossy().into_owned();
                Some(RunSummaryNotCopied { path, reason: reason.clone() })
            }
            _ => None,
        };
        let more_not_copied = |warning: &RunWarning| match warning {
            RunWarning::MoreNotCopiedBack { count } => *count,
            _ => 0,
        };
        let more_copied = |warning: &RunWarning| match warning {
            RunWarning::MoreCopiedBack { count } => *count,
            _ => 0,
        };
        let has_failed = report.exit_code != 0;
        let last_line = || last_line(&report.stderr).or_else(|| last_line(&report.stdout));
        Self {
            more_project_files: warnings().map(more_copied).sum(),
            not_copied_back: warnings().filter_map(not_copied).collect(),
            more_not_copied_back: warnings().map(more_not_copied).sum(),
            last_line: has_failed.then(last_line).flatten(),
            exit_code: report.exit_code,
            timed_out: report.timed_out,
            sandbox: report.sandbox.level.to_string(),
            files: report.output_files.iter().map(file).collect(),
            artifacts: report.artifact_files.iter().map(artifact).collect(),
            project_files: report.project_files.iter().map(project_file).collect(),
        }
    }
}

/// The beginning of the last line that is not empty.
#[cfg(feature = "run")]
fn last_line(output: &str) -> Option<String> {
    /// How much of the line a summary keeps, in characters.
    const MAX_CHARS: usize = 500;
    let line = output.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    Some(prowess_base::text::cut(line, MAX_CHARS).into_owned())
}
