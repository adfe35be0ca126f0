//! The context of a run: what it may use, and who sees its output.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::command::{Mount, Network};
use crate::executor::{NoSink, OutputSink};
use crate::input::{InputGate, InputPaths};
use crate::limits::Limits;
use crate::report::RunReport;
use crate::stage::StageSource;
use crate::warning::RunWarning;
use crate::writable::WritableProject;

/// Finds the files of skills by name.
///
/// ```
/// use prowess_workspace::stage::StageSource;
/// use prowess_workspace::SkillSources;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Any function of a name will do.
/// let skills = |name: &str| (name == "greet").then(|| StageSource::Directory("/srv/skills/greet".into()));
/// assert!(skills.source("greet").await.is_some());
/// assert!(skills.source("dance").await.is_none());
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait SkillSources: Send + Sync {
    /// Where the files of a skill are; `None` if the caller may not use a skill of this name.
    async fn source(&self, name: &str) -> Option<StageSource>;
}

#[async_trait]
impl<F: Fn(&str) -> Option<StageSource> + Send + Sync> SkillSources for F {
    async fn source(&self, name: &str) -> Option<StageSource> {
        self(name)
    }
}

/// Looks at the report of a command that failed, and adds warnings.
///
/// ```
/// use std::path::Path;
/// use std::sync::Arc;
/// use prowess_workspace::stage::StageSource;
/// use prowess_workspace::{RunContext, RunReport, RunReview, RunWarning};
///
/// #[derive(Debug)]
/// struct Tips;
///
/// impl RunReview for Tips {
///     fn warnings(&self, report: &RunReport, _: &Path) -> Vec<RunWarning> {
///         let tip = || RunWarning::Other("install it with the skill `setup`".to_owned());
///         report.stderr.contains("command not found").then(tip).into_iter().collect()
///     }
/// }
///
/// let skills = |_: &str| None::<StageSource>;
/// let mut context = RunContext::new(&skills);
/// context.review = Some(Arc::new(Tips));
/// ```
pub trait RunReview: fmt::Debug + Send + Sync {
    /// Warnings about a report. `directory` is the directory that the command ran in: a local one of the workspace, or one
    /// of its mounts, as the command saw it. May block.
    fn warnings(&self, report: &RunReport, directory: &Path) -> Vec<RunWarning>;
}

/// The context of a run: what it may use, and who sees its output.
///
/// ```
/// use prowess_workspace::input::InputPaths;
/// use prowess_workspace::stage::StageSource;
/// use prowess_workspace::{Network, RunContext};
///
/// let skills = |name: &str| (name == "greet").then(|| StageSource::Directory("/srv/skills/greet".into()));
/// let gate = InputPaths(vec!["/srv/invoices".into()]);
/// let mut context = RunContext::new(&skills);
/// context.input_gate = &gate;
/// context.network = Network::Hosts(vec!["pypi.org".parse()?]);
/// # Ok::<(), prowess_workspace::host_rule::HostRuleError>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct RunContext<'a> {
    /// Finds the skills.
    pub skills: &'a dyn SkillSources,
    /// Decides which local files may become inputs.
    pub input_gate: &'a dyn InputGate,
    /// Receives output while the command writes it.
    pub output: &'a dyn OutputSink,
    /// How much the command may use. A request's `timeout` replaces the one here.
    pub limits: Limits,
    /// The hosts that a request may ask for. A request for any other host is an error.
    pub network: Network,
    /// The shell, as an absolute path in the sandbox; bash by default.
    pub shell: Option<String>,
    /// Standard input, if it is not the request's: any bytes.
    pub stdin: Option<Bytes>,
    /// Further skills that the command sees, besides its own and those that inputs name.
    pub other_skills: Vec<String>,
    /// What the command sees besides the workspace and its skills. A local file that cannot be mounted safely is copied
    /// first.
    pub mounts: Vec<Mount>,
    /// Warnings about what the caller prepared, for the report.
    pub warnings: Vec<RunWarning>,
    /// Looks at the report of the command.
    pub review: Option<Arc<dyn RunReview>>,
    /// Links that the command sees, and their targets.
    pub aliases: Vec<(String, String)>,
    /// The directories of the project that the command may write.
    pub writable: Option<WritableProject>,
    /// The digests of the skills that a person approved, by name: [`StagedSkill::digest`](crate::stage::StagedSkill).
    pub expected: BTreeMap<String, String>,
}

impl<'a> RunContext<'a> {
    /// A context without local files, network or output, and with default limits.
    pub fn new(skills: &'a dyn SkillSources) -> Self {
        static NOTHING: InputPaths = InputPaths(Vec::new());
        Self {
            skills,
            input_gate: &NOTHING,
            output: &NoSink,
            limits: Limits::default(),
            network: Network::default(),
            shell: None,
            stdin: None,
            other_skills: Vec::new(),
            mounts: Vec::new(),
            warnings: Vec::new(),
            review: None,
            aliases: Vec::new(),
            writable: None,
            expected: BTreeMap::new(),
        }
    }
}

impl fmt::Debug for RunContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunContext")
            .field("limits", &self.limits)
            .field("network", &self.network)
            .field("shell", &self.shell)
            .field("expected", &self.expected)
            .finish_non_exhaustive()
    }
}
