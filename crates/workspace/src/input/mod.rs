//! Inputs: files that are copied or linked into a workspace before a run.

mod copy;
mod gate;
mod given;
mod local_file;
mod placeholder;
mod source;

use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;
use tracing::field::Empty;

use crate::artifact::ArtifactStore;
use crate::blocking::blocking;
use crate::dir::{NoFile, special};
use crate::error::WorkspaceError;
use crate::path::{InnerPath, escaped_name, expand};
use crate::request::{InputMode, RunInput};
use crate::span::{count, step};
use crate::warning::RunWarning;
use crate::workspace::Workspace;
use copy::{InputBudget, InputFailure};
use local_file::{LocalFile, OpenedInput, SafeDirectories};
use placeholder::Placeholder;

pub use gate::{InputGate, InputPaths};
pub(crate) use given::{ReadyMounts, sweep_copies};
pub(crate) use placeholder::sweep;
pub(crate) use source::InputSource;

/// The most inputs of one request.
pub const MAX_INPUTS: usize = 100;
/// The most files of all inputs of one request.
pub const MAX_INPUT_FILES: usize = 10_000;
/// The most bytes of all inputs of one request.
pub const MAX_INPUT_BYTES: u64 = 256 << 20;

/// The staged inputs of a run.
///
/// Linked local files have placeholders in the workspace. They are removed with the last clone of this value, so keep it
/// until the run has ended.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StagedInputs {
    /// Linked local files, and where commands see them in the workspace, read-only:
    /// [`Command::read_only`](crate::Command::read_only).
    pub read_only: Vec<(PathBuf, String)>,
    /// Warnings about inputs that were left out or staged differently.
    pub warnings: Vec<RunWarning>,
    /// The last one first, because one can lie in another.
    placeholders: Vec<Arc<Placeholder>>,
}

/// A checked input.
#[derive(Clone, Debug)]
struct Input {
    from: String,
    source: InputSource,
    to: InnerPath,
    mode: InputMode,
}

impl Input {
    fn parse(input: &RunInput) -> Result<Self, WorkspaceError> {
        let from = escaped_name(input.from.as_ref());
        let refused = |reason| WorkspaceError::Input { from: from.clone(), reason };
        let source = InputSource::parse(&input.from).map_err(refused)?;
        let given = input.to.as_deref().filter(|to| !to.is_empty());
        let to = given.map_or("work/inputs/".into(), expand);
        // As with `cp`, a trailing slash means a directory to put the file into.
        let to = if to.ends_with('/') { format!("{to}{}", source.base()) } else { to.into_owned() };
        // `inputs/` in a skill is a link to `work/inputs/`.
        let to = if to.starts_with("inputs/") { format!("work/{to}") } else { to };
        let to = InnerPath::parse(&to).map_err(|problem| {
            refused(format!("`to` cannot be `{}`: {problem}", escaped_name(to.as_ref())))
        })?;
        if to.top() == "skills" {
            return Err(refused(format!("`to` cannot be `{to}`: skills are read-only; use `work/…`")));
        }
        if let Some(path) = source.inner()
            && (to == *path || to.as_str().starts_with(&format!("{path}/")))
        {
            return Err(refused(format!("`{to}` lies inside the input")));
        }
        Ok(Self { from, source, to, mode: input.mode })
    }

    fn refused(&self, reason: impl Into<String>) -> WorkspaceError {
        WorkspaceError::Input { from: self.from.clone(), reason: reason.into() }
    }

    fn failed(&self, failure: InputFailure) -> WorkspaceError {
        match failure {
            InputFailure::Refused(reason) => self.refused(reason),
            InputFailure::Io(error) => self.refused(format!("`{}` cannot be written: {error}", self.to)),
        }
    }
}

/// Checks inputs without touching any file.
pub(crate) fn check(inputs: &[RunInput]) -> Result<(), WorkspaceError> {
    inputs.iter().try_for_each(|input| Input::parse(input).map(drop))
}

impl Workspace {
    /// Stages inputs in the workspace, one after the other.
    ///
    /// All inputs are checked before the first is staged. Nothing is written through a link, over a directory or below
    /// `skills/`, and a refusal deletes nothing. Local files need the permission of `gate`. A linked local file becomes
    /// an entry of [`StagedInputs::read_only`], not a link in the workspace. It is refused if another user could
    /// replace it. Copies keep only the executable bit.
    ///
    /// # Errors
    ///
    /// An input is refused. Inputs before it are staged.
    pub async fn stage_inputs(
        &self,
        inputs: &[RunInput],
        artifacts: Option<&dyn ArtifactStore>,
        gate: &dyn InputGate,
    ) -> Result<StagedInputs, WorkspaceError> {
        let span = tracing::info_span!(
            "workspace.stage.inputs",
            inputs = count(inputs.len()),
            otel.status_code = Empty
        );
        let staged = async {
            if let Some(first) = inputs.get(MAX_INPUTS) {
                let reason = format!("there are more than {MAX_INPUTS} inputs");
                return Err(WorkspaceError::Input { from: escaped_name(first.from.as_ref()), reason });
            }
            let inputs: Vec<Input> = inputs.iter().map(Input::parse).collect::<Result<_, _>>()?;
            let mut staged = StagedInputs::default();
            let mut left = InputBudget { files: MAX_INPUT_FILES, bytes: MAX_INPUT_BYTES };
            for input in inputs {
                let outcome = match &input.source {
                    InputSource::Artifact { .. } => {
                        self.stage_artifact(input, artifacts, &mut staged, &mut left).await
                    }
                    InputSource::Local(_) => self.stage_local(input, gate, &mut staged, &mut left).await,
                    InputSource::Workspace(_) | InputSource::Skill { .. } => {
                        self.stage_from_workspace(input, &mut staged, &mut left).await
                    }
                };
                outcome?;
            }
            Ok(staged)
        };
        step(&span, staged).await
    }

    async fn stage_artifact(
        &self,
        input: Input,
        artifacts: Option<&dyn ArtifactStore>,
        staged: &mut StagedInputs,
        left: &mut InputBudget,
    ) -> Result<(), WorkspaceError> {
        let InputSource::Artifact { name, version } = &input.source else { return Ok(()) };
        let store = artifacts.ok_or_else(|| input.refused("artifacts are not configured"))?;
        let loaded = store.load(name, *version).await.map_err(|error| input.refused(error.to_string()))?;
        if input.mode == InputMode::Link {
            staged.warnings.push(RunWarning::ArtifactCopied { from: input.from.clone() });
        }
        let (workspace, mut own) = (self.clone(), *left);
        let (input, written) = blocking(move || {
            let written = copy::write(&workspace, &loaded.bytes, &input.to, &mut own).map(|()| own);
            (input, written)
        })
        .await
        .map_err(|error| WorkspaceError::io("staging inputs in", self.path(), error))?;
        *left = written.map_err(|failure| input.failed(failure))?;
        Ok(())
    }

    async fn stage_local(
        &self,
        input: Input,
        gate: &dyn InputGate,
        staged: &mut StagedInputs,
        left: &mut InputBudget,
    ) -> Result<(), WorkspaceError> {
        let InputSource::Local(path) = input.source.clone() else { return Ok(()) };
        let denied = |path: &std::path::Path| {
            let reason = format!("reading the local file {} is not allowed", escaped_name(path.as_os_str()));
            input.refused(reason)
        };
        if !gate.allows(&path).await {
            return Err(denied(&path));
        }
        let wanted = path.clone();
        let found = blocking(move || LocalFile::find(&wanted)).await.flatten();
        let found = found.map_err(|error| input.refused(format!("it cannot be opened: {error}")))?;
        if found.path != path && !gate.allows(&found.path).await {
            return Err(denied(&found.path));
        }
        let kind = found.kind();
        if !matches!(kind, FileType::RegularFile | FileType::Directory) {
            return Err(input.refused(format!("it is a {}", special(kind))));
        }
        let (workspace, mut own) = (self.clone(), *left);
        let (input, done) = blocking(move || {
            let mut warnings = Vec::new();
            let done = match input.mode {
                InputMode::Link => found
                    .check_irreplaceable(&mut SafeDirectories::default())
                    .map_err(InputFailure::Refused)
                    .and_then(|()| Placeholder::make(&workspace, &input.to, found.is_directory()))
                    .map(|placeholder| Some((found.path.clone(), placeholder))),
                InputMode::Copy => found
                    .open()
                    .map_err(|error| InputFailure::Refused(format!("it cannot be opened: {error}")))
                    .and_then(|source| copy::copy(&workspace, source, &input.to, &mut own, &mut warnings))
                    .map(|()| None),
            };
            (input, done.map(|bound| (bound, own, warnings)))
        })
        .await
        .map_err(|error| WorkspaceError::io("staging inputs in", self.path(), error))?;
        let (bound, after, warnings) = done.map_err(|failure| input.failed(failure))?;
        *left = after;
        staged.warnings.extend(warnings);
        if let Some((path, placeholder)) = bound {
            staged.read_only.push((path, input.to.to_string()));
            staged.placeholders.insert(0, Arc::new(placeholder));
        }
        Ok(())
    }

    async fn stage_from_workspace(
        &self,
        input: Input,
        staged: &mut StagedInputs,
        left: &mut InputBudget,
    ) -> Result<(), WorkspaceError> {
        let (workspace, mut own) = (self.clone(), *left);
        let (input, done) = blocking(move || {
            let mut warnings = Vec::new();
            let Some(path) = input.source.inner() else { return (input, Ok((own, warnings))) };
            let done = open_in_workspace(&workspace, path).and_then(|source| match input.mode {
                InputMode::Copy => copy::copy(&workspace, source, &input.to, &mut own, &mut warnings),
                InputMode::Link => copy::link(&workspace, path, &input.to),
            });
            (input, done.map(|()| (own, warnings)))
        })
        .await
        .map_err(|error| WorkspaceError::io("staging inputs in", self.path(), error))?;
        let (after, warnings) = done.map_err(|failure| input.failed(failure))?;
        *left = after;
        staged.warnings.extend(warnings);
        Ok(())
    }
}

/// Opens a file or directory of the workspace. No link on the way is followed.
fn open_in_workspace(workspace: &Workspace, path: &InnerPath) -> Result<OpenedInput, InputFailure> {
    match workspace.dir().file(path.as_str()) {
        Ok((file, stat)) => Ok(OpenedInput::File(file, stat)),
        Err(NoFile::Directory) => match workspace.dir().dir(path.as_str()) {
            Ok(directory) => Ok(OpenedInput::Directory(directory)),
            Err(Errno::LOOP) => Err(InputFailure::Refused("a link leads to it".to_owned())),
            Err(error) => Err(InputFailure::Refused(format!("it cannot be opened: {error}"))),
        },
        Err(refused) => Err(InputFailure::Refused(format!("it {}", refused.reason()))),
    }
}
