//! Layer 3: commands that a model types into while they run: `skill_exec` and its companions.

use std::time::Duration;

use prowess_permission::action::Channel;
use prowess_permission::{Action, Kind, Question, owned_subject};
use prowess_workspace::limits::MAX_TIMEOUT;
use prowess_workspace::live::LiveError;
use prowess_workspace::{LiveOutput, RunRequest};
use serde_json::{Value, json};

use super::RunDriver;
use super::report::shorten_report;
use crate::answer::SkillAnswer;
use crate::error::SkillError;
use crate::operation::Halt;
use crate::run_summary::RunSummary;

/// How long an answer waits for output, unless the call says otherwise.
pub(crate) const DEFAULT_WAIT: Duration = Duration::from_secs(2);

/// Starts a command that the model can type into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StartRequest {
    /// The command. Its default time limit is the maximum.
    pub(crate) run: RunRequest,
    /// Whether the command gets a terminal. Some programs ask nothing without one.
    pub(crate) tty: bool,
    /// How long to wait for the first question or the end.
    pub(crate) wait: Duration,
}

/// Types into a running command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TypeRequest {
    /// The id from `skill_exec`.
    pub(crate) run_id: String,
    /// The text to type.
    pub(crate) chars: String,
    /// Whether to press Enter after the text. The default is yes, unless the call only closes the input.
    pub(crate) submit: Option<bool>,
    /// Whether to close the input after this.
    pub(crate) close: bool,
    /// How long to wait for the next question or the end.
    pub(crate) wait: Duration,
}

/// Reads the output of a running command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PollRequest {
    /// The id from `skill_exec`.
    pub(crate) run_id: String,
    /// The first byte to show; by default the byte after the last answer.
    pub(crate) offset: Option<u64>,
    /// How long to wait for the next question or the end.
    pub(crate) wait: Duration,
}

impl RunDriver<'_> {
    /// Starts a command, and waits for its first question or its end.
    pub(super) async fn start(self, request: StartRequest) -> Result<SkillAnswer, Halt> {
        let StartRequest { mut run, tty, wait } = request;
        // People take their time to reply.
        run.timeout.get_or_insert(MAX_TIMEOUT.as_secs());
        let channel = if tty { Channel::Terminal } else { Channel::Pipe };
        // Do not ask about a command that cannot start.
        if let Some(runner) = self.runner {
            runner.check_room().map_err(SkillError::Live)?;
        }
        let approved = self.pass_gates(&run, Some(channel)).await?;
        let find = approved.skills();
        let input_gate = approved.input_gate(self, &run);
        let context = approved.context(&find, &input_gate);
        let started = approved.runner.start(approved.request.clone(), &context, tty).await;
        let run_id = started.map_err(SkillError::Live)?;
        self.view.engine().note_use(&run.skill);
        let deltas = self.deltas_of_run(&run.skill);
        // The command runs, even if this read fails: from now on the model has its text.
        let answer = match self.read_output(&run_id, None, wait).await {
            Ok(answer) => SkillAnswer { deltas, ..answer },
            Err(error) => SkillAnswer { text: error.for_model(), deltas, ..SkillAnswer::default() },
        };
        Ok(SkillAnswer { preapproved_by: approved.preapproved_by.clone(), ..answer })
    }

    /// Types into a running command, and waits for its next question or its end.
    pub(super) async fn type_into(self, request: TypeRequest) -> Result<SkillAnswer, Halt> {
        let TypeRequest { run_id, mut chars, submit, close, wait } = request;
        // A call that only closes the input does not press Enter.
        if submit.unwrap_or(!(close && chars.is_empty())) && !chars.ends_with('\n') {
            chars.push('\n');
        }
        self.pass_typing_gate(&run_id, &chars).await?;
        self.live(&run_id)?.write(&run_id, chars.as_bytes(), close).await.map_err(SkillError::Live)?;
        Ok(self.read_output(&run_id, None, wait).await?)
    }

    /// Asks before a model types into a command, while the model has text of a server's skill.
    async fn pass_typing_gate(self, run_id: &str, chars: &str) -> Result<(), Halt> {
        let because_of = self.view.server_skills_in_context();
        if because_of.is_empty() || chars.is_empty() {
            return Ok(());
        }
        let action = Action::TypeIntoRun { run_id: run_id.to_owned(), typed: chars.to_owned(), because_of };
        let subject = owned_subject(run_id, &format!("type {chars}"));
        self.pass(run_id, Question::new(Kind::RUN, subject).action(action).each_time()).await
    }

    /// Waits for the next question or the end of a running command, and reads its output.
    pub(super) async fn poll(self, request: PollRequest) -> Result<SkillAnswer, Halt> {
        Ok(self.read_output(&request.run_id, request.offset, request.wait).await?)
    }

    /// Ends a running command, with all of its processes.
    pub(super) async fn kill(self, run_id: &str) -> Result<SkillAnswer, Halt> {
        Ok(answer(&self.live(run_id)?.kill(run_id).await.map_err(SkillError::Live)?))
    }

    async fn read_output(
        self,
        run_id: &str,
        from: Option<u64>,
        wait: Duration,
    ) -> Result<SkillAnswer, SkillError> {
        let live = self.live(run_id)?;
        let output: Result<LiveOutput, LiveError> = live.read_watched(run_id, from, wait, self.output).await;
        Ok(answer(&output.map_err(SkillError::Live)?))
    }
}

fn answer(output: &LiveOutput) -> SkillAnswer {
    let data = json!(output);
    let mut text = data.clone();
    if let Some(mut report) = text.get_mut("report").map(Value::take) {
        // The answer already has the output.
        if let Some(report) = report.as_object_mut() {
            report.retain(|key, _| !matches!(key.as_str(), "stdout" | "stderr"));
        }
        text["report"] = shorten_report(report);
    }
    let ran = output.report.as_ref().map(|report| Box::new(RunSummary::from(report)));
    SkillAnswer { text: text.to_string(), data: Some(data), ran, ..SkillAnswer::default() }
}
