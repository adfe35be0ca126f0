//! The person's side of a session: lines, replies and output.

use std::future::Future;
use std::io::{self, IsTerminal as _, Write};
use std::pin::pin;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use prowess_permission::broker::{PermissionEvent, Subscription};
use prowess_permission::{Broker, PendingQuestion};
use serde_json::{Value, json};

use super::input::{Input, InputLine};
use super::manual_session::{CommandResult, ManualSession};
use super::output::{self, OutputPart};
use super::question;
use crate::terminal::{Style, Terminal, count, printable_lines, printable_start, styled};

/// How many characters of a script's line are repeated before its answer.
const MAX_ECHO: usize = 500;

/// Reads lines, and prints answers.
pub(crate) struct Console<'a> {
    input: Input,
    broker: Arc<Broker>,
    /// While there is one, questions wait for a reply.
    questions: Option<Subscription>,
    /// Questions and replies since the last command.
    asked: Vec<Value>,
    json: bool,
    /// Whether something was printed since the last line was repeated.
    has_told: bool,
    terminal: &'a mut Terminal,
}

impl<'a> Console<'a> {
    pub(crate) fn new(input: Input, broker: &Arc<Broker>, json: bool, terminal: &'a mut Terminal) -> Self {
        let questions = input.can_reply().then(|| broker.subscribe());
        Self {
            input,
            broker: Arc::clone(broker),
            questions,
            asked: Vec::new(),
            json,
            has_told: false,
            terminal,
        }
    }

    /// Prints the greeting, if a person types.
    pub(crate) fn greet(&mut self, text: &str) -> Result<()> {
        if self.input.is_keyboard() {
            self.aside(&format!("{text}\n"))?;
        }
        Ok(())
    }

    /// The next line.
    pub(crate) fn next_line(&mut self) -> Result<Option<InputLine>> {
        let line = self.read("> ")?;
        let text = match &line {
            Some(InputLine::Text(text)) => text.trim(),
            Some(InputLine::TooLong) => "…",
            None => "",
        };
        // Blank lines of a script stay.
        self.has_told |= text.is_empty();
        if !text.is_empty() && self.is_echoing() {
            if std::mem::take(&mut self.has_told) {
                writeln!(self.terminal)?;
            }
            self.echo("> ", text)?;
        }
        Ok(line)
    }

    /// Waits for `operation`, and replies to its questions.
    pub(crate) async fn attend<T>(&mut self, operation: impl Future<Output = T>) -> Result<T> {
        let mut operation = pin!(operation);
        loop {
            let Some(questions) = &mut self.questions else { return Ok(operation.await) };
            let event = tokio::select! {
                biased;
                done = &mut operation => return Ok(done),
                event = questions.next() => event,
            };
            match event {
                // The operation waits for this reply, so reading it here holds nothing up.
                Some(PermissionEvent::Asked(asked)) => self.ask(&asked).await?,
                Some(_) => {}
                None => self.questions = None,
            }
        }
    }

    async fn ask(&mut self, asked: &PendingQuestion) -> Result<()> {
        let text = question::text(&asked.question);
        if !self.json {
            self.heading("question", Style::Faint)?;
            writeln!(self.terminal, "{text}")?;
        } else if self.input.is_keyboard() {
            self.aside(&format!("{text}\n"))?;
        }
        let reply = loop {
            let line = match self.read("? ")? {
                // At a keyboard, the end of input cancels the question, and more lines can follow.
                None if self.input.is_keyboard() => {
                    self.broker.cancel(asked.id);
                    return Ok(());
                }
                // Nobody can reply any more, and the gate is told so.
                None => {
                    self.questions = None;
                    return Ok(());
                }
                // A comment in a script is not a reply.
                Some(InputLine::Text(line)) if !self.input.is_keyboard() && is_aside(&line) => continue,
                Some(InputLine::Text(line)) => line,
                Some(InputLine::TooLong) => String::new(),
            };
            self.echo("? ", &line)?;
            match question::parse(&line) {
                Some(reply) => break reply,
                None if self.input.is_keyboard() => self.aside(&format!("{}\n", question::REPLIES))?,
                None => break question::not_a_reply(&line),
            }
        };
        self.asked.push(json!({
            "title": asked.question.wording().title,
            "always": asked.question.always,
            "reply": json!(reply)["reply"],
        }));
        if let Err(error) = self.broker.reply(asked.id, reply).await {
            self.terminal.flush()?;
            writeln!(anstream::stderr(), "{}", printable_start(&error.to_string(), MAX_ECHO))?;
        }
        Ok(())
    }

    /// Prints the result of a command.
    pub(crate) fn tell(
        &mut self,
        line: &str,
        said: &CommandResult,
        context: &[OutputPart],
        manual_session: &ManualSession<'_>,
    ) -> Result<()> {
        if self.json {
            self.tell_json(line, said, context, manual_session)?;
        } else {
            for part in said.parts.iter().chain(context) {
                self.part(part, said.is_error)?;
            }
        }
        self.has_told = true;
        self.terminal.flush()?;
        Ok(())
    }

    fn tell_json(
        &mut self,
        line: &str,
        said: &CommandResult,
        context: &[OutputPart],
        manual_session: &ManualSession<'_>,
    ) -> Result<()> {
        let joined =
            |parts: &[OutputPart]| parts.iter().filter_map(OutputPart::text).collect::<Vec<_>>().join("\n\n");
        let mut object = json!({
            "command": line,
            "text": joined(&said.parts),
            "is_error": said.is_error,
            "deltas": said.deltas,
            "data": said.data,
        });
        if !context.is_empty() {
            object["prompt"] = joined(context).into();
        }
        if !self.asked.is_empty() {
            object["asked"] = std::mem::take(&mut self.asked).into();
        }
        object["loaded"] = output::loaded(manual_session.session());
        self.terminal.json_line(&object)
    }

    fn part(&mut self, part: &OutputPart, is_error: bool) -> Result<()> {
        match part {
            OutputPart::Seen { heading, text, tokens } => {
                let style = if is_error { Style::Bad } else { Style::Faint };
                self.heading(&format!("{heading} ({})", count(*tokens, "token")), style)?;
                writeln!(self.terminal, "{}", printable_lines(text).trim_end_matches('\n'))?;
            }
            OutputPart::Note(text) => {
                let style = if is_error { Style::Bad } else { Style::Plain };
                writeln!(self.terminal, "{}", styled(text, style))?;
            }
            OutputPart::Table { heading, rows } => self.terminal.table(heading, rows)?,
            OutputPart::Json(value) => self.terminal.json(value)?,
        }
        Ok(())
    }

    fn heading(&mut self, text: &str, style: Style) -> io::Result<()> {
        writeln!(self.terminal, "{}", styled(format!("── {text}"), style))
    }

    fn read(&mut self, sign: &str) -> Result<Option<InputLine>> {
        if self.input.is_keyboard() {
            self.aside(sign)?;
        }
        let line = self.input.next().context("standard input cannot be read")?;
        if line.is_none() && self.input.is_keyboard() {
            self.aside("\n")?;
        }
        Ok(line)
    }

    /// Whether lines must be repeated, because the screen does not show them.
    fn is_echoing(&self) -> bool {
        let is_seen = self.input.is_keyboard() && self.terminal.is_screen();
        !self.json && !is_seen
    }

    /// Repeats a line.
    fn echo(&mut self, sign: &str, line: &str) -> Result<()> {
        if !self.is_echoing() {
            return Ok(());
        }
        let start: String = line.chars().take(MAX_ECHO).collect();
        let cut = if start.len() < line.len() { "…" } else { "" };
        let line = printable_lines(&start).replace('\n', " ") + cut;
        if line.starts_with('#') {
            writeln!(self.terminal, "{}", styled(line, Style::Faint))?;
        } else {
            writeln!(self.terminal, "{}", styled(format!("{sign}{line}"), Style::Name))?;
        }
        Ok(())
    }

    /// Prints something that is not output, but belongs in the same place on a screen.
    fn aside(&mut self, text: &str) -> Result<()> {
        if self.terminal.is_screen() && !self.json {
            write!(self.terminal, "{text}")?;
            self.terminal.flush()?;
        } else if io::stderr().is_terminal() {
            let mut errors = anstream::stderr();
            write!(errors, "{text}")?;
            errors.flush()?;
        }
        Ok(())
    }
}

/// Whether a line of a script is blank or a comment.
fn is_aside(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}
