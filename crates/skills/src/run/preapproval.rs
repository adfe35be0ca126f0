//! Preapproved runs: the `allowed-tools` of the skill itself can settle the questions about its commands and hosts.

use prowess_permission::{Granted, Question, Stopped};
use prowess_workspace::Level;

use super::RunDriver;
use super::binding::PlannedRun;
use super::gates::no_permission;
use crate::allowed_tools::{CheckedCall, CommandForm, ToolVerdict};
use crate::load::Caller;
use crate::operation::Halt;

/// Whether the skill of a run lists what the run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    Yes,
    No,
}

impl From<bool> for Listed {
    fn from(is_listed: bool) -> Self {
        if is_listed { Self::Yes } else { Self::No }
    }
}

impl RunDriver<'_> {
    /// Passes a gate of a run, and says why.
    pub(super) async fn pass_listed(
        self,
        name: &str,
        question: Question,
        listed: Listed,
    ) -> Result<Granted, Halt> {
        let permissions = self.view.engine().permissions();
        let passed = match listed {
            Listed::Yes => permissions.pass_preapproved(question, self.asker).await,
            Listed::No => permissions.pass(question, self.asker).await,
        };
        match passed {
            Ok(grant) => Ok(grant.how()),
            Err(Stopped::Asks(question)) => Err(Halt::Asks(question)),
            Err(Stopped::Refused(refusal)) => Err(no_permission(name, refusal).into()),
        }
    }

    /// Whether the skill lists the command of its run. A list counts only for a model's commands, and only in a sandbox that
    /// keeps them away from the rest of the machine.
    pub(super) async fn lists_command(self, planned: &PlannedRun<'_>) -> Listed {
        let request = planned.request;
        let tool = if planned.channel.is_some() { "skill_exec" } else { "skill_run" };
        let form = match &request.cwd {
            _ if planned.channel.is_some() || !request.env.is_empty() => CommandForm::Changed,
            Some(_) => CommandForm::Elsewhere,
            None => CommandForm::Plain,
        };
        let call = CheckedCall::new(tool).argument(request.command.as_str()).form(form);
        let verdict = self.view.check_run(&request.skill, call);
        // A list is about commands. It does not let them change the project.
        let may_write = !planned.runner.setup.writable_directories().is_empty();
        let is_listed =
            self.caller == Caller::Model && !may_write && matches!(verdict, ToolVerdict::Preapproved { .. });
        (is_listed && self.is_isolated(planned).await).into()
    }

    /// Whether the skill lists a host that its run reaches. A `*.` domain stands for hosts that nobody has named.
    pub(super) async fn lists_host(self, planned: &PlannedRun<'_>, host: &str) -> Listed {
        let is_listed = self.caller == Caller::Model
            && !host.contains('*')
            && self.view.preapproves_host(&planned.request.skill, host);
        (is_listed && self.is_isolated(planned).await).into()
    }

    /// Whether commands run in a sandbox with its own view of files and network.
    async fn is_isolated(self, planned: &PlannedRun<'_>) -> bool {
        let Some(executor) = planned.runner.setup.runner.executor.as_ref() else { return false };
        let is_isolated = |level| matches!(level, Level::Container | Level::Bwrap | Level::BwrapNoproc);
        executor.probe().await.is_ok_and(|sandbox| is_isolated(sandbox.level))
    }
}
