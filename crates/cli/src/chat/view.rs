//! What a conversation looks like: on a screen, in a pipe, to a script.

use std::io::{self, Write};

use prowess_agent::id::CallId;
use prowess_skills::{Dialect, SkillToolKind};

use super::happening::Happening;
use super::typing::{self, Display, Typing};
use super::words;
use crate::markdown::Markdown;
use crate::rows::folded;
use crate::screen::{Cursor, Screen};
use crate::terminal::{Style, columns, count, escaped, shown, styled};

/// Shows what happens.
pub(crate) trait View: Send {
    /// Something happened.
    fn show(&mut self, happening: &Happening) -> io::Result<()>;

    /// Lines that a person asked for, made and safe.
    fn lines(&mut self, lines: &[String]) -> io::Result<()>;

    /// What a person types, where somebody can.
    fn display(&mut self, _: &Display) -> io::Result<()> {
        Ok(())
    }

    /// The columns that there are, on a screen.
    fn width(&self) -> Option<usize> {
        None
    }

    /// Time has passed.
    fn tick(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// A turn begins, or goes on.
    fn begin(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Nothing more happens until a person has typed something.
    fn rest(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A screen: text as it is said, calls with their time, and what a person should know beneath.
pub(crate) struct OnScreen<W: Write + Send> {
    screen: Screen<W>,
    size: (usize, usize),
    markdown: Option<Markdown>,
    /// The calls that are under way.
    calls: Vec<(CallId, String, std::time::Instant)>,
    typing: Typing,
    ticks: usize,
    is_thinking: bool,
    /// Who is expected to answer.
    model: Option<String>,
    /// Whether a skill was loaded by what ends next.
    has_just_loaded: bool,
    /// Lines that are final, and not drawn yet.
    done: Vec<String>,
    is_styled: bool,
}

/// What a spinner looks like, tick for tick.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

impl<W: Write + Send> OnScreen<W> {
    pub(crate) fn new(out: W, is_styled: bool) -> Self {
        let size = screen_size();
        Self {
            screen: Screen::new(out, size),
            size,
            markdown: None,
            calls: Vec::new(),
            typing: Typing::default(),
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

    /// Looks whether the screen has another size now.
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

    /// What was said is final.
    fn end_text(&mut self) {
        if let Some(mut markdown) = self.markdown.take() {
            self.done.extend(markdown.finish());
        }
    }

    /// Draws what is final now, and what can still change.
    fn draw(&mut self) -> io::Result<()> {
        let mut lines = self.markdown.as_ref().map(Markdown::live).unwrap_or_default();
        let turning = SPINNER[self.ticks % SPINNER.len()];
        for (_, label, begun) in &self.calls {
            let seconds = begun.elapsed().as_secs_f64();
            let time = styled(format!("{seconds:.1} s"), Style::Faint);
            lines.push(format!("{} {label}  {time}", styled(turning, Style::Name)));
        }
        if self.is_thinking && self.calls.is_empty() && self.markdown.is_none() {
            lines.push(styled(format!("{turning} thinking"), Style::Faint));
        }
        let (typed, cursor) = self.typing.rows(self.size);
        let cursor = cursor.map(|cursor| Cursor { line: lines.len() + cursor.line, ..cursor });
        lines.extend(typed);
        let mut done = std::mem::take(&mut self.done);
        if !self.is_styled {
            // The stream would take what moves the cursor, too.
            for line in done.iter_mut().chain(&mut lines) {
                *line = anstream::adapter::strip_str(line).to_string();
            }
        }
        self.screen.update(&done, lines, cursor)
    }
}

impl<W: Write + Send> View for OnScreen<W> {
    fn show(&mut self, happening: &Happening) -> io::Result<()> {
        match happening {
            Happening::Text { text } => {
                let width = self.size.0;
                let markdown = self.markdown.get_or_insert_with(|| Markdown::new(width));
                self.done.extend(markdown.push(text));
            }
            Happening::Reasoning { .. } | Happening::Progress { .. } | Happening::Replied { .. } => {}
            Happening::Said { model, .. } => {
                self.end_text();
                // A skill may choose who answers, and a person should know.
                if self.model.as_ref().is_some_and(|known| known != model) {
                    self.line("·", Style::Faint, &format!("{} answered", shown(model)), "");
                }
            }
            Happening::Call { call, tool, arguments } => {
                self.end_text();
                // One that was held up by a question begins again.
                self.calls.retain(|(known, ..)| known != call);
                self.calls.push((call.clone(), words::call(tool, arguments), std::time::Instant::now()));
            }
            Happening::Result { call, tool, text, is_error, milliseconds, data } => {
                let at = self.calls.iter().position(|(known, ..)| known == call);
                let label = at.map_or_else(|| shown(tool), |at| self.calls.remove(at).1);
                let mut note = words::result(text, *is_error, data.as_ref()).unwrap_or_default();
                if let Some(time) = milliseconds.filter(|_| words::refusal(data.as_ref()).is_none()) {
                    let comma = if note.is_empty() { "" } else { ", " };
                    note.push_str(&format!("{comma}{:.1} s", time as f64 / 1_000.0));
                }
                if self.has_just_loaded && !is_error && Dialect::tool_kind(tool) == Some(SkillToolKind::Load) {
                    self.has_just_loaded = false;
                    return self.draw();
                }
                let is_bad = *is_error || words::has_failed(data.as_ref());
                let (mark, style) = if is_bad { ("✗", Style::Bad) } else { ("✓", Style::Good) };
                self.line(mark, style, &label, &note);
            }
            Happening::File { .. } => {
                if let Some((text, note)) = words::file(happening) {
                    self.end_text();
                    // Not folded: a path or a command that the terminal wraps is copied whole.
                    let (mark, note) = (styled("→", Style::Name), styled(note, Style::Faint));
                    self.done.push(format!("{mark} {text}  {note}"));
                }
            }
            Happening::Loaded { skill, tokens } => {
                let tokens = format!("{} tokens", words::tokens(*tokens as u64));
                self.line("+", Style::Good, &format!("{} is loaded", shown(skill)), &tokens);
            }
            Happening::Unloaded { skill, .. } => {
                self.line("-", Style::Faint, &format!("{} is unloaded", shown(skill)), "");
            }
            Happening::Compacted { messages } => {
                let text = format!("{} summarised", count(*messages, "message"));
                self.line("≈", Style::Name, &text, "loaded skills stay");
            }
            Happening::Ended { outcome, .. } => {
                self.end_text();
                for (_, label, begun) in std::mem::take(&mut self.calls) {
                    let note = format!("stopped after {:.1} s", begun.elapsed().as_secs_f64());
                    self.line("✗", Style::Bad, &label, &note);
                }
                if let Some(told) = words::outcome(outcome) {
                    self.line("!", Style::Bad, &told, "");
                }
            }
            Happening::Context { .. } => {
                self.end_text();
                self.done.extend(folded(&styled(context(happening), Style::Faint), self.size.0));
            }
            Happening::Note { text } => self.line("·", Style::Faint, &shown(text), ""),
            Happening::Thread { model, .. } => self.model = Some(model.clone()),
            // It is not under way before somebody has answered.
            Happening::Question { call, .. } => self.calls.retain(|(known, ..)| known != call),
        }
        self.has_just_loaded = matches!(happening, Happening::Loaded { .. });
        self.draw()
    }

    fn lines(&mut self, lines: &[String]) -> io::Result<()> {
        self.measure()?;
        self.end_text();
        self.done.extend(lines.iter().flat_map(|line| folded(line, self.size.0)));
        self.draw()
    }

    fn display(&mut self, display: &Display) -> io::Result<()> {
        match display {
            Display::Typing(typing) => self.typing = typing.clone(),
            Display::Finished { prompt, text } => {
                self.end_text();
                self.done.extend(typing::finished(prompt, text));
                self.typing = Typing::default();
            }
            Display::Clear => self.screen.wipe()?,
            Display::Resized => self.measure()?,
            Display::Resumed => self.screen.forget(),
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

/// Text to a pipe, as it is said; all else to the error stream, a line each.
pub(crate) struct InPipe<O, E> {
    out: O,
    err: E,
    is_within_line: bool,
}

impl<O: Write + Send, E: Write + Send> InPipe<O, E> {
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

impl<O: Write + Send, E: Write + Send> View for InPipe<O, E> {
    fn show(&mut self, happening: &Happening) -> io::Result<()> {
        match happening {
            Happening::Text { text } => {
                if let Some(last) = text.chars().last() {
                    self.is_within_line = last != '\n';
                }
                write!(self.out, "{text}")?;
                return self.out.flush();
            }
            Happening::Said { .. } => return self.end_line(),
            Happening::Result { tool, text, is_error, data, .. } => {
                if let Some(told) = words::result(text, *is_error, data.as_ref()) {
                    writeln!(self.err, "{}: {told}", shown(tool))?;
                }
            }
            Happening::File { .. } => {
                if let Some((text, note)) = words::file(happening) {
                    writeln!(self.err, "{text}  {note}")?;
                }
            }
            Happening::Loaded { skill, .. } => writeln!(self.err, "{} is loaded", shown(skill))?,
            Happening::Unloaded { skill, .. } => writeln!(self.err, "{} is unloaded", shown(skill))?,
            Happening::Compacted { messages } => {
                writeln!(self.err, "{} summarised", count(*messages, "message"))?;
            }
            Happening::Note { text } => writeln!(self.err, "{}", shown(text))?,
            Happening::Ended { outcome, .. } => {
                self.end_line()?;
                if let Some(told) = words::outcome(outcome) {
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

/// A JSON object a line, to a script.
pub(crate) struct AsJson<O>(pub(crate) O);

impl<O: Write + Send> View for AsJson<O> {
    fn show(&mut self, happening: &Happening) -> io::Result<()> {
        let line = serde_json::to_string(happening).map_err(io::Error::other)?;
        writeln!(self.0, "{}", escaped(&line))?;
        self.0.flush()
    }

    fn lines(&mut self, lines: &[String]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let text = anstream::adapter::strip_str(&lines.join("\n")).to_string();
        self.show(&Happening::Note { text })
    }
}

/// A mark, a text and a note about it: in one row if they fit, else each in rows of its own.
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

/// What the next call of the model takes.
fn context(happening: &Happening) -> String {
    let Happening::Context { tokens, window, skills, skill_tokens, cost } = happening else {
        return String::new();
    };
    let mut told = format!("  {}", words::tokens(*tokens));
    if let Some(window) = window {
        let percent = tokens * 100 / (*window).max(1);
        told.push_str(&format!(" of {} tokens ({percent} %)", words::tokens(*window)));
    } else {
        told.push_str(" tokens");
    }
    if *skills > 0 {
        let tokens = words::tokens(*skill_tokens as u64);
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
