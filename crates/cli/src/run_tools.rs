//! The options of `session` and `mcp` that give a model the tools that run commands.

use std::io::Write as _;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use prowess_skills::RunSetup;
use prowess_workspace::{Artifacts, HostRule, Network, Runner, Scope};

use crate::config::Config;
use crate::executor::ExecutorArgs;
use crate::terminal::printable;
use crate::workspace_dir::WorkspaceDir;

/// Whether and where the model's commands run.
#[derive(Args, Debug)]
#[command(next_help_heading = "Running commands")]
pub(crate) struct RunToolArgs {
    /// Give the model the tools that run skill commands; each run needs approval unless a rule allows it
    #[arg(long)]
    run: bool,
    /// A host that commands may ask to reach; can be repeated
    #[arg(long, value_name = "HOST", requires = "run")]
    allow_host: Vec<HostRule>,
    #[command(flatten)]
    choice: ExecutorArgs,
    #[command(flatten)]
    workspace_dir: WorkspaceDir,
}

impl RunToolArgs {
    /// Whether models get the tools that run commands.
    pub(crate) fn is_wanted(&self) -> bool {
        self.run
    }

    /// The artifacts of this scope.
    pub(crate) fn artifacts(&self, scope: Scope) -> Result<Artifacts> {
        Ok(self.workspace_dir.artifacts()?.in_scope(scope))
    }

    /// The option `--workspace`.
    pub(crate) fn workspace_dir(&self) -> &WorkspaceDir {
        &self.workspace_dir
    }

    /// The setup of runs in this workspace, with the artifacts of this scope; `None` without `--run`.
    pub(crate) fn runs(&self, workspace: String, config: &Config, scope: Scope) -> Result<Option<RunSetup>> {
        if !self.run {
            return Ok(None);
        }
        let place = self.workspace_dir.workspaces()?;
        if let Some(moved) = &place.moved {
            writeln!(
                anstream::stderr(),
                "{}; workspaces are in {} instead",
                printable(moved),
                place.path.display()
            )?;
        }
        let runner = Runner {
            workspaces: place.workspaces,
            artifacts: Some(Arc::new(self.artifacts(scope)?)),
            executor: Some(self.choice.or_configured(&config.settings.sandbox).build(None, Vec::new())?),
        };
        let mut runs = RunSetup::new(runner, workspace);
        let hosts: Vec<HostRule> =
            self.allow_host.iter().cloned().chain(config.settings.sandbox.host_rules()).collect();
        if !hosts.is_empty() {
            runs.network = Network::Hosts(hosts);
        }
        Ok(Some(runs))
    }
}
