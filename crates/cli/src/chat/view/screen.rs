//! A conversation on a screen.

use std::io::{self, Write};

use prowess_agent::TurnOutcome;
use prowess_agent::id::CallId;
use prowess_skills::{Dialect, SkillToolKind};

use super::View;
use crate::chat::describe;
use crate::chat::events::ChatEvent;
use crate::chat::input_display::{self, InputDisplay, InputRows};
use crate::markdown::Markdown;
use crate::rows::{cut, folded};
use crate::screen::{Cursor, Screen};
use crate::terminal::{Style, columns, count, printable, printable_start, styled};

/// Shows a conversation on a screen: text as it arrives, calls with their times, and the input below.
pub(crate) struct ScreenView<W: Write + Send> {
    screen: Screen<W>,
    size: (usize, usize),
    markdown: Option<Markdown>,
    /// The calls that run now.
    calls: Vec<RunningCall>,
    typing: InputRows,
    ticks: usize,
    is_thinking: bool,
    /// The model that should respond.
    model: Option<String>,
    /// Whether the last event was the load of a skill.
    has_just_loaded: bool,
    /// Final lines that are not drawn yet.
    done: Vec<String>,
    is_styled: bool,
}

/// How much of the last line of a call's output is kept, in characters.
const MAX_OUTPUT_LINE: usize = 500;

/// A call that runs now.
struct RunningCall {
    id: CallId,
    label: String,
    begun: std::time::Instant,
    /// The last line of its output.
    output: Option<String>,
}

/// The frames of the spinner.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

impl<W: Write + Send> ScreenView<W> {
    pub(crate) fn new(out: W, is_styled: bool) -> Self {
        let size = screen_size();
        Self {
            screen: Screen::new(out, size),
            size,
            markdown: None,
            calls: Vec::new(),
            typing: InputRows::default(),
            ticks: 0,
            is_thinking: false,
            model: None,
            has_just_loaded: false,
            done: Vec::new(),
            is_styled,
        }
    }

    fn line(&mut self, mark: &str, style: Style, text: &str, note: &str) {
        self.end_text();
        self.done.extend(fitted((mark, style), text, note, self.size.0));
    }

    /// Adapts to a new size of the screen.
    fn measure(&mut self) -> io::Result<()> {
        let size = screen_size();
        if size == self.size {
            return Ok(());
        }
        self.size = size;
        if let Some(markdown) = &mut self.markdown {
            markdown.resize(size.0);
        }
        self.screen.resize(size.0, size.1)
    }

    /// Makes the text so far final.
    fn end_text(&mut self) {
        if let Some(mut markdown) = self.markdown.take() {
            self.done.extend(markdown.finish());
        }
    }

    /// Draws the new final lines, and the rows that can still change.
    fn draw(&mut self) -> io::Result<()> {
        let mut lines = self.markdown.as_ref().map(Markdown::live).unwrap_or_default();
        let turning = SPINNER[self.ticks % SPINNER.len()];
        for RunningCall { label, begun, output, .. } in &self.calls {
            let seconds = begun.elapsed().as_secs_f64();
            let time = styled(format!("{seconds:.1} s"), Style::Faint);
            lines.push(format!("{} {label}  {time}", styled(turning, Style::Name)));
            // A command may write much, so one row must do.
            let row = output.as_ref().map(|output| cut(&format!("  {output}"), self.size.0));
            lines.extend(row.map(|row| styled(row, Style::Faint)));
        }
        if self.is_thinking && self.calls.is_empty() && self.markdown.is_none() {
            lines.push(styled(format!("{turning} thinking"), Style::Faint));
        }
        let (typed, cursor) = self.typing.rows(self.size);
        let cursor = cursor.map(|cursor| Cursor { line: lines.len() + cursor.line, ..cursor });
        lines.extend(typed);
        let mut done = std::mem::take(&mut self.done);
        if !self.is_styled {
            // Styles are removed here: the stream would also remove cursor movements.
            for line in done.iter_mut().chain(&mut lines) {
                *line = anstream::adapter::strip_str(line).to_string();
            }
        }
        self.screen.update(&done, lines, cursor)
    }

    /// A response is complete. Says which model responded, if a skill chose another one.
    fn said(&mut self, model: &String) {
        self.end_text();
        if self.model.as_ref().is_some_and(|known| known != model) {
            self.line("·", Style::Faint, &format!("{} responded", printable(model)), "");
        }
    }

    /// A tool answered. A load has its own line already.
    fn result(&mut self, event: &ChatEvent) {
        let ChatEvent::Result { call, tool, text, is_error, milliseconds, data, preapproved_by } = event
        else {
            return;
        };
        let at = self.calls.iter().position(|running| running.id == *call);
        let label = at.map_or_else(|| printable(tool), |at| self.calls.remove(at).label);
        if self.has_just_loaded && !is_error && Dialect::tool_kind(tool) == Some(SkillToolKind::Load) {
            return;
        }
        let told = describe::result(text, *is_error, data.as_ref(), preapproved_by.as_deref());
        let told = told.unwrap_or_default();
        let time = milliseconds.filter(|_| describe::refusal(data.as_ref()).is_none());
        let time = time.map(|time| format!("{:.1} s", time as f64 / 1_000.0)).unwrap_or_default();
        let is_bad = *is_error || describe::has_failed(data.as_ref());
        let (mark, style) = if is_bad { ("✗", Style::Bad) } else { ("✓", Style::Good) };
        if *is_error && !time.is_empty() {
            // An error is a sentence, and has its own rows.
            self.line(mark, style, &label, &time);
            self.done.extend(folded(&styled(format!("  {told}"), Style::Faint), self.size.0));
        } else {
            let parts = [told, time];
            let facts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
            self.line(mark, style, &label, &facts.join(", "));
            // A command may write much, so one row must do.
            let why = describe::failure(data.as_ref()).map(|why| cut(&format!("  {why}"), self.size.0));
            self.done.extend(why.map(|why| styled(why, Style::Faint)));
        }
    }

    /// Lists what the turn made. The lines are not folded: a path or command that the terminal wraps is copied as one line.
    fn made(&mut self, event: &ChatEvent) {
        self.end_text();
        for (text, note) in describe::made(event) {
            let (mark, note) = (styled("→", Style::Name), styled(note, Style::Faint));
            self.done.push(format!("{mark} {text}  {note}"));
        }
    }

    /// The turn is over: calls that still run were stopped.
    fn ended(&mut self, outcome: &TurnOutcome) {
        self.end_text();
        for RunningCall { label, begun, .. } in std::mem::take(&mut self.calls) {
            let note = format!("stopped after {:.1} s", begun.elapsed().as_secs_f64());
            self.line("✗", Style::Bad, &label, &note);
        }
        if let Some(told) = describe::outcome(outcome) {
            self.line("!", Style::Bad, &told, "");
        }
    }
}

impl<W: Write + Send> View for ScreenView<W> {
    fn show(&mut self, event: &ChatEvent) -> io::Result<()> {
        match event {
            ChatEvent::Text { text } => {
                let width = self.size.0;
                let markdown = self.markdown.get_or_insert_with(|| Markdown::new(width));
                self.done.extend(markdown.push(text));
            }
            ChatEvent::Reasoning { .. }
            | ChatEvent::Replied { .. }
            // The end of the turn lists it.
            | ChatEvent::File { .. } => {}
            ChatEvent::Progress { call, text } => {
                let line = text.lines().rfind(|line| !line.trim().is_empty());
                let running = self.calls.iter_mut().find(|running| running.id == *call);
                if let (Some(line), Some(running)) = (line, running) {
                    let line = anstream::adapter::strip_str(line).to_string();
                    running.output = Some(printable_start(&line, MAX_OUTPUT_LINE));
                }
            }
            ChatEvent::Said { model, .. } => self.said(model),
            ChatEvent::Call { call, tool, for_person, .. } => {
                self.end_text();
                // A call that waited for a reply starts again.
                self.calls.retain(|running| running.id != *call);
                let (label, begun) = (describe::call(tool, for_person), std::time::Instant::now());
                self.calls.push(RunningCall { id: call.clone(), label, begun, output: None });
            }
            ChatEvent::Result { .. } => self.result(event),
            ChatEvent::Made { .. } => self.made(event),
            ChatEvent::Loaded { skill, tokens } => {
                let tokens = format!("{} tokens", describe::tokens(*tokens as u64));
                self.line("+", Style::Good, &format!("{} is loaded", printable(skill)), &tokens);
            }
            ChatEvent::Unloaded { skill, reason } => {
                let why = describe::unload_reason(reason).unwrap_or_default();
                self.line("-", Style::Faint, &format!("{} is unloaded", printable(skill)), why);
            }
            ChatEvent::Compacted { messages } => {
                let text = format!("{} summarised", count(*messages, "message"));
                self.line("≈", Style::Name, &text, "loaded skills stay");
            }
            ChatEvent::Ended { outcome, .. } => self.ended(outcome),
            ChatEvent::Context { .. } => {
                self.end_text();
                self.done.extend(folded(&styled(context(event), Style::Faint), self.size.0));
            }
            // The rows of `/context` say the same.
            ChatEvent::Window { .. } => {}
            ChatEvent::Note { text } => self.line("·", Style::Faint, &printable(text), ""),
            ChatEvent::Thread { model, .. } => self.model = Some(model.clone()),
            // The call waits until the person replies.
            ChatEvent::Question { call, .. } => self.calls.retain(|running| running.id != *call),
        }
        self.has_just_loaded = matches!(event, ChatEvent::Loaded { .. });
        self.draw()
    }

    fn lines(&mut self, lines: &[String]) -> io::Result<()> {
        self.measure()?;
        self.end_text();
        self.done.extend(lines.iter().flat_map(|line| folded(line, self.size.0)));
        self.draw()
    }

    fn display(&mut self, display: &InputDisplay) -> io::Result<()> {
        match display {
            InputDisplay::Typing(typing) => self.typing = typing.clone(),
            InputDisplay::Finished { prompt, text } => {
                self.end_text();
                self.done.extend(input_display::finished(prompt, text));
                self.typing = InputRows::default();
            }
            InputDisplay::Clear => self.screen.wipe()?,
            InputDisplay::Resized => self.measure()?,
            InputDisplay::Resumed => self.screen.forget(),
        }
        self.draw()
    }

    fn width(&self) -> Option<usize> {
        Some(screen_size().0)
    }

    fn tick(&mut self) -> io::Result<()> {
        self.ticks += 1;
        self.measure()?;
        self.draw()
    }

    fn begin(&mut self) -> io::Result<()> {
        self.measure()?;
        self.is_thinking = true;
        self.draw()
    }

    fn rest(&mut self) -> io::Result<()> {
        self.end_text();
        (self.is_thinking, self.ticks) = (false, 0);
        self.calls.clear();
        self.draw()
    }
}

/// A mark, a text and a note, in one row if they fit, else on separate rows.
fn fitted((mark, style): (&str, Style), text: &str, note: &str, width: usize) -> Vec<String> {
    let mark = styled(mark, style);
    if columns(text) + columns(note) + 4 <= width {
        let note = if note.is_empty() { String::new() } else { format!("  {}", styled(note, Style::Faint)) };
        return vec![format!("{mark} {text}{note}")];
    }
    let mut lines = folded(&format!("{mark} {text}"), width);
    if !note.is_empty() {
        lines.extend(folded(&styled(format!("  {note}"), Style::Faint), width));
    }
    lines
}

/// How full the context window is.
fn context(event: &ChatEvent) -> String {
    let ChatEvent::Context { tokens, window, skills, skill_tokens, cost } = event else {
        return String::new();
    };
    let mut told = format!("  {}", describe::tokens(*tokens));
    if let Some(window) = window {
        let percent = tokens * 100 / (*window).max(1);
        told.push_str(&format!(" of {} tokens ({percent} %)", describe::tokens(*window)));
    } else {
        told.push_str(" tokens");
    }
    if *skills > 0 {
        let tokens = describe::tokens(*skill_tokens);
        told.push_str(&format!(" · {} ({tokens})", count(*skills, "skill")));
    }
    if let Some(cost) = cost {
        told.push_str(&format!(" · {cost}"));
    }
    told
}

/// The columns and rows of the screen.
fn screen_size() -> (usize, usize) {
    let found = terminal_size::terminal_size();
    found.map_or((80, 24), |(width, height)| (usize::from(width.0), usize::from(height.0)))
}
