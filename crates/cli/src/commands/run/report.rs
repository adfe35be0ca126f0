//! The report of a run: for people, and as JSON.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use prowess_workspace::artifact::ArtifactFile;
use prowess_workspace::{RunReport, RunWarning};
use serde::Serialize;

use super::results;
use crate::terminal::{Style, printable, size, styled};

/// The report as JSON, with the place of the files.
#[derive(Serialize)]
pub(super) struct JsonReport<'a> {
    #[serde(flatten)]
    pub(super) report: &'a RunReport,
    /// The directory that file names are relative to.
    pub(super) workspace: Cow<'a, str>,
}

/// Copies the results that were collected completely, and adds a warning for each of the others.
pub(super) fn copy_out(
    report: &mut RunReport,
    files: &BTreeMap<String, Vec<u8>>,
    directory: &Path,
    workspace: &Path,
) -> Vec<PathBuf> {
    let mut copied = Vec::new();
    for file in &report.output_files {
        let outcome = match files.get(&file.name) {
            None => {
                Err(format!("it is too large; the whole file is {}", workspace.join(&file.name).display()))
            }
            Some(bytes) => results::copy(directory, &file.name, bytes).map_err(|error| error.to_string()),
        };
        match outcome {
            Ok(path) => copied.push(path),
            Err(reason) => {
                let warning = format!("`{}` was not copied: {reason}", file.name);
                report.warnings.push(RunWarning::Other(warning));
            }
        }
    }
    copied
}

/// Prints the report for a person.
pub(super) fn print_summary(
    report: &RunReport,
    copied: &[PathBuf],
    workspace: &Path,
    fetch: &dyn Fn(&ArtifactFile) -> Option<String>,
    err: &mut impl Write,
) -> Result<()> {
    let seconds = report.duration_ms as f64 / 1000.0;
    let (end, style) = match report.exit_code {
        _ if report.timed_out => (format!("timed out after {seconds:.2} s"), Style::Bad),
        0 => (format!("exit 0 after {seconds:.2} s"), Style::Good),
        137 => (format!("killed after {seconds:.2} s"), Style::Bad),
        code => (format!("exit {code} after {seconds:.2} s"), Style::Bad),
    };
    writeln!(err, "{}, sandbox {}", styled(end, style), report.sandbox.level)?;
    let mut line = |label: &str, text: &str| {
        writeln!(err, "  {} {}", styled(format!("{label:<10}"), Style::Faint), printable(text))
    };
    for missing in &report.sandbox.missing {
        line("missing", &missing.to_string())?;
    }
    for file in &report.output_files {
        let cut = if file.truncated { ", truncated" } else { "" };
        let path = workspace.join(&file.name);
        line("file", &format!("{} ({}, {}{cut})", path.display(), size(file.size_bytes), file.mime_type))?;
    }
    for saved in &report.artifact_files {
        let name = format!("{}@{}", saved.name, saved.version);
        line("saved", &fetch(saved).map_or(name.clone(), |line| format!("{name}: `{line}`")))?;
    }
    for path in copied {
        line("copied", &path.display().to_string())?;
    }
    if !report.output_files.is_empty() {
        line("workspace", &workspace.display().to_string())?;
    }
    for warning in &report.warnings {
        line("warning", &warning.to_string())?;
    }
    Ok(())
}
