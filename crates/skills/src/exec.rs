//! Layer 3: commands that go on, for programs that ask.

use std::time::Duration;

use prowess_permission::action::Channel;
use prowess_permission::{Action, Kind, Question, owned_subject};
use prowess_workspace::limits::MAX_TIMEOUT;
use prowess_workspace::live::LiveError;
use prowess_workspace::{LiveOutput, RunRequest};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::SkillError;
use crate::run::{Running, shown};
use crate::run_summary::RunSummary;
use crate::session::SkillAnswer;
use crate::step::Halt;

/// How long an answer is waited for when nobody says how long.
pub(crate) const WAIT: Duration = Duration::from_secs(2);

/// Starts a command that can be written to.
///
/// ```
/// use prowess_skills::exec::ExecRequest;
/// use prowess_workspace::RunRequest;
///
/// let request = ExecRequest {
///     run: RunRequest::new("greet", "python3 scripts/ask.py"),
///     tty: Some(true),
///     yield_ms: None,
/// };
/// assert_eq!(serde_json::to_value(&request)?["command"], "python3 scripts/ask.py");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecRequest {
    /// What to run. Its time is 600 seconds unless it says otherwise.
    #[serde(flatten)]
    pub run: RunRequest,
    /// Whether the command gets a terminal: for programs that ask nothing, or show nothing, without one.
    #[serde(default)]
    pub tty: Option<bool>,
    /// Milliseconds to wait for its end or its first question; 2000 by default, 60000 at most.
    #[serde(default)]
    pub yield_ms: Option<u64>,
}

/// Writes to a command that goes on.
///
/// ```
/// use prowess_skills::exec::WriteRequest;
///
/// let yes = WriteRequest {
///     session_id: "greet-0a1b2c3d".into(),
///     chars: "yes".into(), // and the Enter key, unless `submit` is false
///     ..WriteRequest::default()
/// };
/// # assert_eq!(serde_json::to_value(&yes).unwrap()["chars"], "yes");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteRequest {
    /// The session, as `skill_exec` named it.
    pub session_id: String,
    /// What to write.
    #[serde(default)]
    pub chars: String,
    /// Whether a newline follows, as the Enter key would give, unless there is one; true by default.
    #[serde(default)]
    pub submit: Option<bool>,
    /// Whether no more input comes after this.
    #[serde(default)]
    pub close: Option<bool>,
    /// Milliseconds to wait for the end or the next question; 2000 by default, 60000 at most.
    #[serde(default)]
    pub yield_ms: Option<u64>,
}

/// Looks at a command that goes on.
///
/// ```
/// use prowess_skills::exec::PollRequest;
///
/// // All of its output, from the first byte on, without waiting for more.
/// let look = PollRequest { session_id: "greet-0a1b2c3d".into(), offset: Some(0), yield_ms: Some(0) };
/// # assert_eq!(serde_json::to_value(&look).unwrap()["offset"], 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PollRequest {
    /// The session, as `skill_exec` named it.
    pub session_id: String,
    /// The place to show its output from; where the last answer ended by default.
    #[serde(default)]
    pub offset: Option<u64>,
    /// Milliseconds to wait for its end or its next question; 2000 by default, 60000 at most.
    #[serde(default)]
    pub yield_ms: Option<u64>,
}

impl Running<'_> {
    /// Starts a command that can be written to, and waits for its first question or its end.
    pub(crate) async fn exec(self, request: ExecRequest) -> Result<SkillAnswer, Halt> {
        let ExecRequest { mut run, tty, yield_ms } = request;
        // People take their time.
        run.timeout.get_or_insert(MAX_TIMEOUT.as_secs());
        let terminal = tty == Some(true);
        let channel = if terminal { Channel::Terminal } else { Channel::Pipe };
        // Nobody is asked about what cannot be.
        if let Some(runs) = self.runs {
            runs.check_room().map_err(SkillError::Live)?;
        }
        let passed = self.pass_gates(&run, Some(channel)).await?;
        let find = passed.skills();
        let host = passed.host(self, &run);
        let context = passed.context(&find, &host);
        let started = passed.runs.start(passed.request.clone(), &context, terminal).await;
        let id = started.map_err(SkillError::Live)?;
        let deltas = self.led_by_run(&run.skill);
        // It runs, whatever the first look says: the model has words of it from now on.
        Ok(match self.look(&id, None, yield_ms).await {
            Ok(answer) => SkillAnswer { deltas, ..answer },
            Err(error) => SkillAnswer { text: error.for_model(), deltas, ..SkillAnswer::default() },
        })
    }

    /// Writes to a command that goes on, and waits for its next question or its end.
    pub(crate) async fn write_stdin(self, request: WriteRequest) -> Result<SkillAnswer, Halt> {
        let WriteRequest { session_id, mut chars, submit, close, yield_ms } = request;
        let close = close == Some(true);
        // Closing alone is no empty line.
        if submit.unwrap_or(!(close && chars.is_empty())) && !chars.ends_with('\n') {
            chars.push('\n');
        }
        self.pass_typing_gate(&session_id, &chars).await?;
        self.live(&session_id)?
            .write(&session_id, chars.as_bytes(), close)
            .await
            .map_err(SkillError::Live)?;
        Ok(self.look(&session_id, None, yield_ms).await?)
    }

    /// Asks about what is typed into a command while the model has words of a server's skill.
    async fn pass_typing_gate(self, id: &str, chars: &str) -> Result<(), Halt> {
        let because_of = self.view.servers_at_work();
        if because_of.is_empty() || chars.is_empty() {
            return Ok(());
        }
        let action = Action::TypeIntoRun { run_id: id.to_owned(), typed: chars.to_owned(), because_of };
        let question =
            Question::new(Kind::RUN, owned_subject(id, &format!("type {chars}"))).to(action).each_time();
        self.pass(id, question).await
    }

    /// Looks at a command that goes on, once it asks a question or ends, or when its time to wait is over.
    pub(crate) async fn poll(self, request: PollRequest) -> Result<SkillAnswer, Halt> {
        Ok(self.look(&request.session_id, request.offset, request.yield_ms).await?)
    }

    /// Ends a command that goes on, with all of its processes.
    pub(crate) async fn kill(self, id: &str) -> Result<SkillAnswer, Halt> {
        Ok(answer(&self.live(id)?.kill(id).await.map_err(SkillError::Live)?))
    }

    async fn look(
        self,
        id: &str,
        from: Option<u64>,
        yield_ms: Option<u64>,
    ) -> Result<SkillAnswer, SkillError> {
        let wait = yield_ms.map_or(WAIT, Duration::from_millis);
        let look: Result<LiveOutput, LiveError> = self.live(id)?.read(id, from, wait).await;
        Ok(answer(&look.map_err(SkillError::Live)?))
    }
}

fn answer(look: &LiveOutput) -> SkillAnswer {
    let data = json!(look);
    let mut text = data.clone();
    if let Some(mut report) = text.get_mut("report").map(Value::take) {
        // The output is there already, as it came.
        if let Some(report) = report.as_object_mut() {
            report.retain(|key, _| !matches!(key.as_str(), "stdout" | "stderr"));
        }
        text["report"] = shown(report);
    }
    let ran = look.report.as_ref().map(|report| Box::new(RunSummary::from(report)));
    SkillAnswer { text: text.to_string(), data: Some(data), ran, ..SkillAnswer::default() }
}
