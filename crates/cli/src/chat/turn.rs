//! One turn of a conversation: a message or a reply, the agent's work, and the questions in between.

use anyhow::{Result, anyhow};
use prowess_agent::middleware::{SkillsState, WindowPartKind};
use prowess_agent::thread::ThreadError;
use prowess_agent::thread_state::NextStep;
use prowess_agent::{AgentError, CallReply, Thread, TurnOutcome, TurnStatus, WaitingCall};

use super::conversation::{Conversation, Precision};
use super::events::ChatEvent;
use super::input_display::InputDisplay;
use super::questions::{self, QuestionReply};
use super::watch::{stopped, watched};
use super::{describe, model, window_notice};
use crate::config::ModelName;
use crate::terminal::printable;

/// Who approves calls that need approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Approver {
    /// The person at the keyboard.
    Person,
    /// `--yes`: everything is approved, once.
    Yes,
    /// Nobody: the question waits in the thread.
    Nobody,
}

/// How a turn ended or paused.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TurnEnd {
    Ended(TurnOutcome),
    /// Questions wait in the thread, and nobody is here to reply.
    Waiting,
    /// The person left.
    Left,
}

/// What a turn starts with.
enum Begin<'a> {
    Say(String),
    Reply(&'a WaitingCall, CallReply),
    GoOn,
}

impl Conversation {
    /// Lets the agent have its turn, with the approver that it needs.
    pub(super) async fn say(&mut self, text: String) -> Result<TurnEnd> {
        // An earlier turn may still be open, if its end could not be stored.
        self.stop().await?;
        self.turn(Begin::Say(text)).await
    }

    /// Continues a turn that was cut off or waits for a reply; `None` if there is none.
    pub(super) async fn go_on(&mut self) -> Result<Option<TurnEnd>> {
        if self.thread.state().next() == NextStep::Wait {
            return Ok(None);
        }
        self.turn(Begin::GoOn).await.map(Some)
    }

    /// Runs a turn. If it pauses, says what it made so far.
    async fn turn(&mut self, begin: Begin<'_>) -> Result<TurnEnd> {
        let end = self.turn_until_end(begin).await?;
        self.show_made()?;
        for text in self.agents.take_search_notes() {
            self.show(&ChatEvent::Note { text })?;
        }
        Ok(end)
    }

    /// Shows what the turn made, once.
    fn show_made(&mut self) -> Result<()> {
        let made = self.watch.lock().translator.take_made();
        made.map_or(Ok(()), |made| self.show(&made))
    }

    /// Asks about each call that needs approval.
    async fn turn_until_end(&mut self, begin: Begin<'_>) -> Result<TurnEnd> {
        let mut messages = self.thread.state().messages().iter().rev();
        let last = messages.find(|message| message.tool_calls().next().is_some());
        self.watch
            .lock()
            .translator
            .add_calls(last.into_iter().flat_map(|message| message.tool_calls().cloned()));
        let mut turn = self.drive(begin).await?;
        loop {
            let questions = match turn {
                Some(TurnStatus::Waiting(questions)) => questions,
                Some(TurnStatus::Ended(outcome)) => return self.ended(outcome).await,
                Some(_) => {
                    return self
                        .ended(self.thread.state().outcome().cloned().unwrap_or(TurnOutcome::Silent))
                        .await;
                }
                None => return self.ended(TurnOutcome::Cancelled).await,
            };
            let Some(waiting) = questions.first() else { return Ok(TurnEnd::Waiting) };
            self.show(&ChatEvent::question(waiting))?;
            let reply = match self.approver {
                Approver::Yes => {
                    let title = waiting.question.wording().title;
                    self.show(&ChatEvent::Note { text: format!("approved by --yes: {title}") })?;
                    CallReply::Approve
                }
                Approver::Nobody => return Ok(TurnEnd::Waiting),
                Approver::Person => match self.ask(waiting).await? {
                    QuestionReply::Reply(CallReply::Always) => {
                        let file = self.agents.state.join("approvals.json").display().to_string();
                        let ends = waiting.question.wording().always_ends;
                        let ends = ends.map(|ends| format!(" {ends}")).unwrap_or_default();
                        let text =
                            format!("you won't be asked again in this directory{ends} (saved in {file})");
                        self.show(&ChatEvent::Note { text })?;
                        CallReply::Always
                    }
                    QuestionReply::Reply(reply) => reply,
                    QuestionReply::Leave | QuestionReply::ViewAll => return Ok(TurnEnd::Left),
                    QuestionReply::Stop => {
                        self.thread.cancel(&self.watch).await.map_err(explain)?;
                        return self.ended(TurnOutcome::Cancelled).await;
                    }
                },
            };
            turn = self.drive(Begin::Reply(waiting, reply)).await?;
        }
    }

    /// Asks the person at the keyboard.
    async fn ask(&mut self, waiting: &WaitingCall) -> Result<QuestionReply> {
        if self.input.is_none() {
            return Ok(QuestionReply::Leave);
        }
        self.rest()?;
        let mut is_whole = false;
        loop {
            self.lines(&questions::question_lines(waiting, is_whole))?;
            let Self { thread, input, watch, .. } = &mut *self;
            let Some(input) = input else { return Ok(QuestionReply::Leave) };
            if input.set_aside() {
                return Ok(QuestionReply::Stop);
            }
            let mut show = |display: InputDisplay| watch.display(&display);
            match at_keyboard(thread, questions::ask(input, waiting, &mut show)).await {
                QuestionReply::ViewAll => is_whole = true,
                reply => {
                    self.agents.unseen.note(waiting, is_whole);
                    return Ok(reply);
                }
            }
        }
    }

    /// Runs the turn until it ends or asks; `None` if the person interrupts.
    async fn drive(&mut self, begin: Begin<'_>) -> Result<Option<TurnStatus>> {
        let (thread, watch) = (&mut self.thread, &self.watch);
        let turn = async {
            match begin {
                Begin::Say(text) => thread.say(text, watch).await,
                Begin::Reply(waiting, reply) => thread.reply(waiting, reply, watch).await,
                Begin::GoOn => thread.go_on(watch).await,
            }
        };
        let done = match watched(turn, watch, &mut self.interrupts, self.input.as_mut()).await? {
            Some(done) => Some(done.map_err(explain)?),
            None => {
                self.stop().await?;
                None
            }
        };
        self.check()?;
        Ok(done)
    }

    /// Cancels the turn. A second interrupt does not wait for that.
    async fn stop(&mut self) -> Result<()> {
        if self.thread.state().next() == NextStep::Wait {
            return Ok(());
        }
        let Self { thread, input, watch, interrupts, .. } = self;
        tokio::select! {
            biased;
            () = stopped(interrupts, input.as_mut(), watch) => Ok(()),
            ended = thread.cancel(&*watch) => match ended {
                // The turn ended by itself meanwhile.
                Ok(()) | Err(AgentError::Misplaced(_)) => Ok(()),
                Err(error) => Err(explain(error)),
            },
        }
    }

    /// Shows how the turn ended, and how full the context window is.
    async fn ended(&mut self, outcome: TurnOutcome) -> Result<TurnEnd> {
        if outcome != TurnOutcome::Responded {
            self.give_back();
        }
        self.show_made()?;
        let response = self.thread.last_response();
        self.show(&ChatEvent::Ended { outcome: outcome.clone(), response })?;
        let advice = match &outcome {
            TurnOutcome::Failed { error } => model::advice(error, &self.agents.config.settings),
            outcome => describe::advice(outcome),
        };
        let used = self.window_use(Precision::Estimate).await?;
        let rejected = match &outcome {
            TurnOutcome::Failed { error } => window_notice::rejected(error, &used),
            _ => None,
        };
        if let Some(text) = advice.or(rejected) {
            self.show(&ChatEvent::Note { text })?;
        }
        if outcome == TurnOutcome::Responded && self.thread.state().spent().total().total() == 0 {
            self.tell_uncounted()?;
        }
        let loaded = SkillsState::of(self.thread.states()).map_or(0, |state| state.loaded().len());
        let cost = self.agents.config.settings.prices()?.cost(self.thread.state().spent());
        let has_prices = !self.agents.config.settings.price.is_empty();
        self.show(&ChatEvent::Context {
            tokens: used.total(),
            window: used.window,
            skills: loaded,
            skill_tokens: used.of_kind(WindowPartKind::Skill),
            cost: has_prices.then(|| cost.to_string()),
        })?;
        self.watch.lock().view.rest()?;
        Ok(TurnEnd::Ended(outcome))
    }
}

impl Conversation {
    /// Says that limits cannot be kept, because the provider does not report tokens.
    fn tell_uncounted(&mut self) -> Result<()> {
        let settings = &self.agents.config.settings;
        let limits = &settings.limits;
        let set = [("limits.tokens", limits.tokens.is_some()), ("limits.cost", limits.cost.is_some())];
        let set: Vec<&str> = set.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| *name).collect();
        if set.is_empty() || settings.model.name == ModelName::Offline {
            return Ok(());
        }
        let model = printable(&settings.model.name.to_string());
        let text = format!("{model} does not report tokens, so prowess cannot keep {}", set.join(" and "));
        self.show(&ChatEvent::Note { text })
    }
}

/// Waits for the person to type, and keeps the lease of the thread meanwhile.
pub(super) async fn at_keyboard<T>(thread: &Thread, typing: impl Future<Output = T>) -> T {
    let mut typing = std::pin::pin!(typing);
    // A lost lease is reported when the message is sent, so that the typed text is not lost.
    match thread.keep_while(&mut typing).await {
        Ok(typed) => typed,
        Err(_) => typing.await,
    }
}

/// An error of a thread, with what to do about it.
pub(super) fn explain(error: AgentError) -> anyhow::Error {
    match error {
        AgentError::Thread(ThreadError::LeaseLost(thread)) => {
            anyhow!("another process continued {thread}; /resume {thread} reads it again")
        }
        error => anyhow!("{error}"),
    }
}
