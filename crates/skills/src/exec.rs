//! Layer 3: commands that go on, for programs that ask.

use std::time::Duration;

use prowess_catalog::one_line;
use prowess_permission::{Kind, Request, joined, quoted};
use prowess_workspace::{LiveError, Look, MAX_TIMEOUT, RunRequest};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::SkillError;
use crate::run::{Talk, shown};
use crate::session::{Answer, SkillSession};

/// How long an answer is waited for when nobody says how long.
pub(crate) const WAIT: Duration = Duration::from_secs(2);

/// Starts a command that can be written to.
///
/// ```
/// use prowess_skills::ExecRequest;
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
/// use prowess_skills::WriteRequest;
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
/// use prowess_skills::PollRequest;
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

impl SkillSession {
    /// Starts a command of a skill that can be written to, once the gates of [`SkillSession::run`] have let it
    /// pass, and waits for its first question or its end. What is typed later is not asked about, unless the model
    /// has words of a server's skill: the question says so, and an approval of a plain run is none of this.
    ///
    /// The command ends with the session, or when nobody asks for it for a while (`Runs::live`).
    ///
    /// # Errors
    ///
    /// Why nothing ran.
    pub async fn exec(&self, request: ExecRequest) -> Result<Answer, SkillError> {
        let ExecRequest { mut run, tty, yield_ms } = request;
        // People take their time.
        run.timeout.get_or_insert(MAX_TIMEOUT.as_secs());
        let terminal = tty == Some(true);
        let talk = if terminal { Talk::Terminal } else { Talk::Pipe };
        // Nobody is asked about what cannot be.
        self.0.live.check_room().map_err(SkillError::Live)?;
        let passed = self.pass_gates(&run, Some(talk)).await?;
        let find = passed.skills();
        let host = passed.host(self, &run);
        let context = passed.context(&find, &host);
        let (runner, workspace) = (&passed.runs.runner, &passed.runs.workspace);
        let started = self.0.live.start(runner, workspace, passed.request.clone(), &context, terminal).await;
        let id = started.map_err(SkillError::Live)?;
        let deltas = self.led_by_run(&run.skill);
        Ok(Answer { deltas, ..self.look(&id, None, yield_ms).await? })
    }

    /// Writes to a command that goes on, and waits for its next question or its end.
    ///
    /// # Errors
    ///
    /// There is no such command, it has ended, it does not read, or a person said no.
    pub async fn write_stdin(&self, request: WriteRequest) -> Result<Answer, SkillError> {
        let WriteRequest { session_id, mut chars, submit, close, yield_ms } = request;
        let close = close == Some(true);
        // Closing alone is no empty line.
        if submit.unwrap_or(!(close && chars.is_empty())) && !chars.ends_with('\n') {
            chars.push('\n');
        }
        self.pass_typing_gate(&session_id, &chars).await?;
        self.0.live.write(&session_id, chars.as_bytes(), close).await.map_err(SkillError::Live)?;
        self.look(&session_id, None, yield_ms).await
    }

    /// Asks about what is typed into a command while the model has words of a server's skill.
    async fn pass_typing_gate(&self, id: &str, chars: &str) -> Result<(), SkillError> {
        let at_work = self.servers_at_work();
        if at_work.is_empty() || chars.is_empty() {
            return Ok(());
        }
        let request = Request::new(Kind::RUN, joined(id, &format!("type {chars}")))
            .titled(format!("type into {}: {}", quoted(id), one_line(chars)))
            .with_details(json!({"session": id, "typed": chars, "asked_each_time_because_of": at_work}))
            .each_time();
        let refused = |refusal| SkillError::RunRefused { name: id.to_owned(), refusal };
        self.permissions().request(request).await.map(drop).map_err(refused)
    }

    /// Looks at a command that goes on, once it asks a question or ends, or when its time to wait is over.
    ///
    /// # Errors
    ///
    /// There is no such command.
    pub async fn poll(&self, request: PollRequest) -> Result<Answer, SkillError> {
        self.look(&request.session_id, request.offset, request.yield_ms).await
    }

    /// Ends a command that goes on, with all of its processes.
    ///
    /// # Errors
    ///
    /// There is no such command.
    pub async fn kill(&self, id: &str) -> Result<Answer, SkillError> {
        Ok(answer(&self.0.live.kill(id).await.map_err(SkillError::Live)?))
    }

    async fn look(&self, id: &str, from: Option<u64>, yield_ms: Option<u64>) -> Result<Answer, SkillError> {
        let wait = yield_ms.map_or(WAIT, Duration::from_millis);
        let look: Result<Look, LiveError> = self.0.live.look(id, from, wait).await;
        Ok(answer(&look.map_err(SkillError::Live)?))
    }
}

fn answer(look: &Look) -> Answer {
    let data = json!(look);
    let mut text = data.clone();
    if let Some(mut report) = text.get_mut("report").map(Value::take) {
        // The output is there already, as it came.
        if let Some(report) = report.as_object_mut() {
            report.retain(|key, _| !matches!(key.as_str(), "stdout" | "stderr"));
        }
        text["report"] = shown(report);
    }
    Answer { text: text.to_string(), deltas: Vec::new(), data: Some(data) }
}
