//! Why a run was not started.

use crate::artifact::ArtifactNameProblem;
use crate::collect::GlobError;
use crate::error::WorkspaceError;
use crate::executor::ExecuteError;
use crate::host_rule::HostRuleError;
use crate::request::MAX_HOSTS;

/// Why a run was not started: there is no report, and nothing ran.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// No skill has this name.
    #[error("unknown skill: {0}")]
    UnknownSkill(String),
    /// The skill is not the one that was approved.
    #[error("the skill `{skill}` changed after it was approved; ask again")]
    Changed {
        /// The skill.
        skill: String,
    },
    /// The command could not be started.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// The workspace, the skill or an input is not usable.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// A requested host is not a host rule.
    #[error(transparent)]
    Host(#[from] HostRuleError),
    /// The run may not reach a requested host.
    #[error("the host {host} is not allowed{}", allowed_hosts(allowed))]
    HostNotAllowed {
        /// The host.
        host: String,
        /// The hosts that are allowed.
        allowed: Vec<String>,
    },
    /// The request names too many hosts.
    #[error("a run can ask for at most {MAX_HOSTS} hosts")]
    TooManyHosts,
    /// A glob is refused.
    #[error(transparent)]
    Glob(#[from] GlobError),
    /// `name_template` or `artifact_prefix` would make names that artifacts cannot have.
    #[error(transparent)]
    ArtifactName(#[from] ArtifactNameProblem),
}

fn allowed_hosts(allowed: &[String]) -> String {
    if allowed.is_empty() {
        return ": the configuration allows no network".to_owned();
    }
    format!("; allowed hosts: {}", allowed.join(", "))
}
