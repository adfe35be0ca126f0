//! A conversation in a pipe: the model's text on standard output, everything else on standard error.

use std::io::{self, Write};

use super::View;
use crate::chat::describe;
use crate::chat::events::ChatEvent;
use crate::terminal::{count, printable};

/// Writes text to a pipe as it arrives, and everything else to the error stream, one line each.
pub(crate) struct PipeView<O, E> {
    out: O,
    err: E,
    is_within_line: bool,
}

impl<O: Write + Send, E: Write + Send> PipeView<O, E> {
    pub(crate) fn new(out: O, err: E) -> Self {
        Self { out, err, is_within_line: false }
    }

    fn end_line(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_within_line) {
            writeln!(self.out)?;
        }
        self.out.flush()
    }
}

impl<O: Write + Send, E: Write + Send> View for PipeView<O, E> {
    fn show(&mut self, event: &ChatEvent) -> io::Result<()> {
        match event {
            ChatEvent::Text { text } => {
                if let Some(last) = text.chars().last() {
                    self.is_within_line = last != '\n';
                }
                write!(self.out, "{text}")?;
                return self.out.flush();
            }
            ChatEvent::Said { .. } => return self.end_line(),
            ChatEvent::Result { tool, text, is_error, data, preapproved_by, .. } => {
                let told = describe::result(text, *is_error, data.as_ref(), preapproved_by.as_deref());
                if let Some(told) = told {
                    let why = describe::failure(data.as_ref()).map(|why| format!(": {why}"));
                    writeln!(self.err, "{}: {told}{}", printable(tool), why.unwrap_or_default())?;
                }
            }
            ChatEvent::Made { .. } => {
                self.end_line()?;
                for (text, note) in describe::made(event) {
                    writeln!(self.err, "{text}  {note}")?;
                }
            }
            ChatEvent::Loaded { skill, .. } => writeln!(self.err, "{} is loaded", printable(skill))?,
            ChatEvent::Unloaded { skill, reason } => {
                let why = describe::unload_reason(reason).map(|why| format!(": {why}")).unwrap_or_default();
                writeln!(self.err, "{} is unloaded{why}", printable(skill))?;
            }
            ChatEvent::Compacted { messages } => {
                writeln!(self.err, "{} summarised", count(*messages, "message"))?;
            }
            ChatEvent::Note { text } => writeln!(self.err, "{}", printable(text))?,
            ChatEvent::Ended { outcome, .. } => {
                self.end_line()?;
                if let Some(told) = describe::outcome(outcome) {
                    writeln!(self.err, "prowess: {told}")?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn lines(&mut self, lines: &[String]) -> io::Result<()> {
        self.end_line()?;
        let plain = lines.iter().map(|line| anstream::adapter::strip_str(line).to_string());
        for line in plain {
            writeln!(self.out, "{}", line.trim_end())?;
        }
        self.out.flush()
    }
}
