//! Standard output: styles and tables on a terminal, plain lines in a pipe.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal as _, Write};

use anstream::{AutoStream, ColorChoice};
use prowess_catalog::untrusted::{is_unprintable, one_line};
use unicode_width::UnicodeWidthChar as _;

use crate::options::Color;

/// Standard output.
pub(crate) struct Terminal {
    out: BufWriter<AutoStream<io::Stdout>>,
    choice: ColorChoice,
    /// The width of the screen, if there is one.
    width: Option<usize>,
}

impl Terminal {
    pub(crate) fn new(color: Color) -> Self {
        let choice = match color {
            Color::Auto => AutoStream::choice(&io::stdout()),
            Color::Always => ColorChoice::AlwaysAnsi,
            Color::Never => ColorChoice::Never,
        };
        let width = io::stdout().is_terminal().then(|| {
            terminal_size::terminal_size()
                .map_or(80, |(terminal_size::Width(columns), _)| usize::from(columns))
        });
        Self { out: BufWriter::new(AutoStream::new(io::stdout(), choice)), choice, width }
    }

    /// Whether the output is a terminal, where a person reads it.
    pub(crate) fn is_screen(&self) -> bool {
        self.width.is_some()
    }

    /// Whether output has styles.
    pub(crate) fn is_styled(&self) -> bool {
        self.choice != ColorChoice::Never
    }

    /// Whether the error stream may have styles.
    pub(crate) fn errors_are_styled(&self) -> bool {
        self.is_styled() && io::stderr().is_terminal()
    }

    /// The error stream, with styles if it may have them.
    pub(crate) fn errors(&self) -> AutoStream<io::Stderr> {
        let choice = if self.errors_are_styled() { ColorChoice::AlwaysAnsi } else { ColorChoice::Never };
        AutoStream::new(io::stderr(), choice)
    }

    /// The width for output, in columns.
    pub(crate) fn width(&self) -> usize {
        self.width.unwrap_or(120)
    }

    /// Prints a value as indented JSON.
    pub(crate) fn json(&mut self, value: &impl serde::Serialize) -> anyhow::Result<()> {
        writeln!(self.out, "{}", escape_json(&serde_json::to_string_pretty(value)?))?;
        Ok(())
    }

    /// Prints a value as JSON on one line.
    pub(crate) fn json_line(&mut self, value: &impl serde::Serialize) -> anyhow::Result<()> {
        writeln!(self.out, "{}", escape_json(&serde_json::to_string(value)?))?;
        Ok(())
    }

    /// Prints rows. On a screen they are aligned under a heading, and the last column is cut to fit. In a pipe each
    /// row is one complete line, with tabs between the columns.
    pub(crate) fn table(&mut self, heading: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
        match self.width {
            Some(width) => write!(self.out, "{}", aligned(heading, rows, width)),
            None => rows.iter().try_for_each(|row| writeln!(self.out, "{}", row.join("\t"))),
        }
    }

    /// Prints rows as [`Self::table`] does, in a pipe below a line with the heading.
    pub(crate) fn headed_table(&mut self, heading: &[&str], mut rows: Vec<Vec<String>>) -> io::Result<()> {
        if self.width.is_none() {
            rows.insert(0, heading.iter().map(|&title| title.to_owned()).collect());
        }
        self.table(heading, &rows)
    }
}

/// The rows below their heading, in columns that fit into `width`.
fn aligned(heading: &[&str], rows: &[Vec<String>], width: usize) -> String {
    let last = heading.len() - 1;
    let mut widths: Vec<usize> = heading.iter().map(|title| columns(title)).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(columns(cell));
        }
    }
    // The widest columns shrink first. No column gets less than an equal share.
    let room = width.saturating_sub(2 * last);
    let share = room / heading.len();
    let needed: usize = widths[..last].iter().sum();
    let spare = room.saturating_sub(share.max(room / 3));
    if needed > spare {
        let equal = (spare / last.max(1)).max(1);
        let narrow: usize = widths[..last].iter().filter(|width| **width <= equal).sum();
        let wide = widths[..last].iter().filter(|width| **width > equal).count().max(1);
        let cap = (spare.saturating_sub(narrow) / wide).max(1);
        widths[..last]
            .iter_mut()
            .filter(|width| **width > equal)
            .for_each(|width| *width = (*width).min(cap));
    }
    widths[last] = room.saturating_sub(widths[..last].iter().sum()).max(1);

    let mut text = String::new();
    let titles: Vec<String> = heading.iter().map(|title| (*title).to_owned()).collect();
    let styles = std::iter::once(Style::Heading).chain(std::iter::repeat(Style::Name));
    for (row, first) in std::iter::once(&titles).chain(rows).zip(styles) {
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let cut = cut(cell, *width);
            let style = if at == 0 || first == Style::Heading { first } else { Style::Plain };
            text.push_str(&styled(&cut, style));
            if at < last {
                text.extend(std::iter::repeat_n(' ', width.saturating_sub(columns(&cut)) + 2));
            }
        }
        text.push('\n');
    }
    text
}

impl Write for Terminal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// How a piece of text looks on a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Heading,
    Name,
    Faint,
    Good,
    Bad,
}

/// `text` in a style. The stream removes the style if styles are not wanted.
pub(crate) fn styled(text: impl Display, style: Style) -> String {
    let code = match style {
        Style::Plain => return text.to_string(),
        Style::Heading => "1;4",
        Style::Name => "1;36",
        Style::Faint => "2",
        Style::Good => "32",
        Style::Bad => "1;31",
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

/// Makes untrusted text safe to print: one line, without control characters.
pub(crate) fn printable(text: &str) -> String {
    one_line(text).into_owned()
}

/// The first `most` characters of untrusted text, made safe by [`printable`].
pub(crate) fn printable_start(text: &str, most: usize) -> String {
    let start: String = text.chars().take(most + 1).collect();
    let line = printable(&start);
    if text.chars().nth(most).is_none() {
        return line;
    }
    let kept: String = line.chars().take(most).collect();
    format!("{kept}…")
}

/// Makes untrusted text safe to print, line by line. Invisible characters and those that control the terminal are
/// spelled out, so that a person sees them.
pub(crate) fn printable_lines(text: &str) -> String {
    let mut lines = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\n' | '\t' => lines.push(c),
            '\r' if characters.peek() == Some(&'\n') => {}
            c if is_unprintable(c) => lines.extend(c.escape_unicode()),
            c => lines.push(c),
        }
    }
    lines
}

/// The width of the screen in columns; endless if there is no screen.
pub(crate) fn screen_width() -> usize {
    terminal_size::terminal_size().map_or(usize::MAX, |(width, _)| usize::from(width.0))
}

/// Discards what was typed but not read yet. Text typed before a question is not taken as its reply.
pub(crate) fn discard_typed_input() {
    let input = io::stdin();
    if input.is_terminal() {
        // There is nothing to discard if standard input is not a terminal.
        let _ = rustix::termios::tcflush(&input, rustix::termios::QueueSelector::IFlush);
    }
}

/// The width of `text` in columns, one character at a time. Combined characters count separately, so that a cut text
/// is never too wide.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// Cuts `text` to `width` columns, with an ellipsis at the end.
fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept
}

/// Escapes characters in JSON that a terminal or a reader of lines would act on. They occur only in strings, where an
/// escape means the same.
pub(crate) fn escape_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c == '\n' || !is_unprintable(c) {
            text.push(c);
        } else {
            let mut units = [0; 2];
            text.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    text
}

/// Breaks `text` between words into lines of at most `width` columns.
pub(crate) fn wrapped(text: &str, width: usize) -> String {
    let mut lines = String::new();
    let mut used = 0;
    for word in text.split(' ') {
        let long = columns(word);
        if used > 0 && used + 1 + long > width {
            lines.push('\n');
            used = 0;
        } else if used > 0 {
            lines.push(' ');
            used += 1;
        }
        lines.push_str(word);
        used += long;
    }
    lines
}

/// A number of bytes in a readable unit.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

/// A number with its noun: `1 skill`, `2 skills`.
pub(crate) fn count(number: usize, word: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_by_columns_not_characters() {
        assert_eq!(cut("plain", 5), "plain");
        assert_eq!(cut("a longer text", 6), "a lon…");
        assert_eq!(cut("潮汐日志", 5), "潮汐…");
        let hearts = "❤\u{FE0F}".repeat(30);
        assert!(aligned(&["NAME", "DESCRIPTION"], &[vec![hearts, "x".into()]], 40).contains('…'));
    }

    #[test]
    fn tables_fit_the_screen() {
        let rows = vec![
            vec![
                "csv-report".to_owned(),
                "project".to_owned(),
                "Profiles a table and writes a report.".to_owned(),
            ],
            vec![
                "潮汐".to_owned(),
                "user".to_owned(),
                "记录每天的潮汐时间。当用户计划赶海时使用。".to_owned(),
            ],
        ];
        let table =
            anstream::adapter::strip_str(&aligned(&["NAME", "SOURCE", "DESCRIPTION"], &rows, 44)).to_string();
        assert_eq!(
            table,
            "NAME        SOURCE   DESCRIPTION\n\
             csv-report  project  Profiles a table and w…\n\
             潮汐        user     记录每天的潮汐时间。当…\n"
        );
        assert!(table.lines().all(|line| columns(line) <= 44));
        for width in [0, 1, 7, 20, 30, 80] {
            let table =
                anstream::adapter::strip_str(&aligned(&["NAME", "SOURCE", "DESCRIPTION"], &rows, width))
                    .to_string();
            assert!(table.lines().all(|line| columns(line) <= width.max(9)), "{width}: {table}");
        }
    }

    #[test]
    fn hidden_characters_are_spelled_out() {
        assert_eq!(printable_lines("a\r\n\tb\u{1b}[2J\u{202E}é\r"), "a\n\tb\\u{1b}[2J\\u{202e}é\\u{d}");
        assert_eq!([printable_start("a\nb", 3), printable_start("潮汐日志", 2)], ["a b", "潮汐…"]);
    }

    #[test]
    fn json_keeps_its_meaning_without_controls() {
        let value = serde_json::json!({ "a\u{9b}2J": "b\u{2028}\u{202E}\u{e0041}é\n" });
        let text = escape_json(&value.to_string());
        assert!(!text.contains(['\u{9b}', '\u{2028}', '\u{202E}', '\u{e0041}']));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrapped("one two three four", 9), "one two\nthree\nfour");
        assert_eq!(wrapped("unbreakable x", 4), "unbreakable\nx");
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(
            [size(5), size(2048), size(3_500_000), size(1 << 30)],
            ["5 B", "2.0 KiB", "3.3 MiB", "1.0 GiB"]
        );
    }
}
