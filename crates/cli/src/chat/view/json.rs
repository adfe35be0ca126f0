//! A conversation for a script: one JSON object on each line.

use std::io::{self, Write};

use super::View;
use crate::chat::events::ChatEvent;
use crate::terminal::escape_json;

/// Writes events as JSON, one object per line.
pub(crate) struct JsonView<O>(pub(crate) O);

impl<O: Write + Send> View for JsonView<O> {
    fn show(&mut self, event: &ChatEvent) -> io::Result<()> {
        let line = serde_json::to_string(event).map_err(io::Error::other)?;
        writeln!(self.0, "{}", escape_json(&line))?;
        self.0.flush()
    }

    fn lines(&mut self, lines: &[String]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let text = anstream::adapter::strip_str(&lines.join("\n")).to_string();
        self.show(&ChatEvent::Note { text })
    }
}
