//! The outputs of a run: which files to collect, which to save as artifacts, and how the report shows them.

use std::collections::BTreeSet;

use tracing::field::Empty;

use super::{RunError, Runner};
use crate::artifact::{ArtifactError, ArtifactFile, ArtifactName, ArtifactStore};
use crate::blocking::blocking;
use crate::collect::{CollectLimits, CollectableSkills, CollectedBytes, Collection, Globs, collect};
use crate::executor::OutputSink;
use crate::path::{InnerPath, expand_in};
use crate::report::{MAX_REPORT_BYTES, ReportRoom, RunReport};
use crate::request::{RunOutputs, RunRequest};
use crate::span::{count, step};
use crate::warning::RunWarning;
use crate::workspace::Workspace;

/// The requested output files, checked before anything runs.
pub(super) struct OutputPlan {
    output_files: Globs,
    outputs: Globs,
    limits: CollectLimits,
}

impl OutputPlan {
    pub(super) fn parse(request: &RunRequest, warnings: &mut Vec<RunWarning>) -> Result<Self, RunError> {
        let outputs = request.outputs.as_ref();
        let prefixes = [
            request.artifact_prefix.as_deref(),
            outputs.and_then(|outputs| outputs.name_template.as_deref()),
        ];
        for prefix in prefixes.into_iter().flatten() {
            ArtifactName::with_prefix(prefix, "x")?;
        }
        Ok(Self {
            output_files: Globs::parse(&request.output_files)?,
            outputs: Globs::parse(outputs.map_or(&[], |outputs| &outputs.globs))?,
            limits: collect_limits(outputs, warnings),
        })
    }

    /// Replaces `$RUN_DIR` with the run's own directory. Without one, globs with `$RUN_DIR` match nothing: they must
    /// not match files of other runs.
    pub(super) fn for_run_directory(
        self,
        request: &RunRequest,
        run: Option<&str>,
        warnings: &mut Vec<RunWarning>,
    ) -> Self {
        let is_name = |run: &&str| InnerPath::parse(run).is_ok_and(|path| path.split() == ("", *run));
        let own = run.filter(is_name).map(|run| format!("runs/{}", globset::escape(run)));
        let mut bind = |globs: &[String], known: Globs| {
            let is_run = |glob: &str| expand_in(glob, "") != expand_in(glob, "run");
            if !globs.iter().any(|glob| is_run(glob)) {
                return known;
            }
            let mut bound = Vec::new();
            for glob in globs {
                match &own {
                    _ if !is_run(glob) => bound.push(glob.clone()),
                    Some(own) => match expand_in(glob, own).strip_prefix(own.as_str()) {
                        Some(below) if below.is_empty() || below.starts_with('/') => {
                            bound.push(format!("{own}{below}"));
                        }
                        _ => warnings.push(RunWarning::RunDirectoryGlob { glob: glob.clone() }),
                    },
                    None => warnings.push(RunWarning::NoRunDirectory { glob: glob.clone() }),
                }
            }
            Globs::parse(&bound).unwrap_or_else(|error| {
                warnings.push(RunWarning::NotCollected { reason: error.to_string() });
                Globs::default()
            })
        };
        let globs = request.outputs.as_ref().map_or(&[][..], |outputs| &outputs.globs);
        Self {
            output_files: bind(&request.output_files, self.output_files),
            outputs: bind(globs, self.outputs),
            limits: self.limits,
        }
    }
}

/// The limits for files that `outputs` names. Files that are not saved are read only as far as a report can show
/// them.
fn collect_limits(outputs: Option<&RunOutputs>, warnings: &mut Vec<RunWarning>) -> CollectLimits {
    let limits = outputs.map(RunOutputs::limits).unwrap_or_default().bounded(warnings);
    if outputs.is_some_and(|outputs| outputs.save) {
        return limits;
    }
    let most = MAX_REPORT_BYTES as u64;
    CollectLimits {
        max_file_bytes: limits.max_file_bytes.min(most),
        max_total_bytes: limits.max_total_bytes.min(most),
        ..limits
    }
}

impl Runner {
    /// Collects the files that the request asks for, saves artifacts, and adds both to the report.
    pub(super) async fn collect(
        &self,
        workspace: &Workspace,
        skills: Vec<String>,
        request: &RunRequest,
        plan: OutputPlan,
        output: &dyn OutputSink,
        report: &mut RunReport,
    ) {
        if plan.output_files.is_empty() && plan.outputs.is_empty() {
            return;
        }
        let place = workspace.clone();
        let collected = blocking(move || {
            let visible = CollectableSkills::Only(&skills);
            let plain = collect(place.dir(), &plan.output_files, CollectLimits::default(), visible);
            (plain, collect(place.dir(), &plan.outputs, plan.limits, visible))
        });
        let (mut plain, mut declared) = match collected.await {
            Ok(collected) => collected,
            Err(error) => {
                report.warnings.push(RunWarning::NotCollected { reason: error.to_string() });
                return;
            }
        };
        for file in plain.files.iter().chain(&declared.files) {
            output.file(&file.name, &file.bytes, !file.truncated && !file.moving);
        }
        let omitted = request.save_as_artifacts && request.omit_inline_content;
        let inline = request.outputs.as_ref().is_some_and(|outputs| outputs.inline);
        let mut saved = BTreeSet::new();
        if request.save_as_artifacts {
            let prefix = request.artifact_prefix.as_deref().unwrap_or_default();
            self.save(&plain.files, prefix, &mut saved, report).await;
        }
        if let Some(RunOutputs { save: true, name_template, .. }) = &request.outputs {
            let prefix = name_template.as_deref().unwrap_or_default();
            self.save(&declared.files, prefix, &mut saved, report).await;
        }
        let secrets = self.executor.as_ref().map_or(&[][..], |executor| executor.secrets());
        plain.redact(secrets);
        declared.redact(secrets);
        let mut room = ReportRoom::beside(report);
        add_to_report(plain, !omitted, &mut room, report);
        add_to_report(declared, inline, &mut room, report);
        report.artifact_files.retain(|saved| room.names(&saved.name));
        room.report_cuts(report);
    }

    async fn save(
        &self,
        files: &[CollectedBytes],
        prefix: &str,
        saved: &mut BTreeSet<ArtifactName>,
        report: &mut RunReport,
    ) {
        let Some(artifacts) = &self.artifacts else {
            if !files.is_empty() {
                report.warnings.push(RunWarning::NoArtifacts);
            }
            return;
        };
        for file in files {
            let outcome = save_one(artifacts.as_ref(), file, prefix, saved).await;
            match outcome {
                Ok(Some(kept)) => report.artifact_files.push(kept),
                Ok(None) => {}
                Err(reason) => {
                    report.warnings.push(RunWarning::NotSaved { path: file.name.clone(), reason });
                }
            }
        }
    }
}

/// Adds collected files to the report, each once.
fn add_to_report(collection: Collection, inline: bool, room: &mut ReportRoom, report: &mut RunReport) {
    report.truncated |= collection.is_cut;
    for file in collection.files {
        match report.output_files.iter_mut().find(|known| known.name == file.name) {
            Some(known) if known.content.is_none() && inline => *known = room.describe(file, true),
            Some(_) => {}
            None if room.names(&file.name) => report.output_files.push(room.describe(file, inline)),
            None => {}
        }
    }
    for warning in collection.warnings {
        if !report.warnings.contains(&warning) {
            report.warnings.push(warning);
        }
    }
}

/// Saves a file as an artifact, unless this run has already saved one of the same name.
async fn save_one(
    artifacts: &dyn ArtifactStore,
    file: &CollectedBytes,
    prefix: &str,
    saved: &mut BTreeSet<ArtifactName>,
) -> Result<Option<ArtifactFile>, String> {
    if file.moving {
        return Err("it changed while it was collected".to_owned());
    }
    if file.truncated {
        return Err("it is truncated".to_owned());
    }
    let name = ArtifactName::with_prefix(prefix, &file.name).map_err(|problem| problem.to_string())?;
    if saved.contains(&name) {
        return Ok(None);
    }
    let span =
        tracing::info_span!("workspace.keep", bytes = count(file.bytes.len()), otel.status_code = Empty);
    let version = step(&span, artifacts.save(&name, file.bytes.clone(), &file.mime.name))
        .await
        .map_err(|error: ArtifactError| error.to_string())?;
    let kept = ArtifactFile { name: name.to_string(), version };
    saved.insert(name);
    Ok(Some(kept))
}
