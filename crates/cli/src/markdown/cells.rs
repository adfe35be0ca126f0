//! Characters with their look: made harmless, broken into rows, painted for a terminal.

use std::ops::BitOr;

use prowess_catalog::untrusted::is_unprintable;
use unicode_width::UnicodeWidthChar as _;

/// How a character looks. Looks add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TextStyle(u8);

impl TextStyle {
    pub(super) const PLAIN: Self = Self(0);
    pub(super) const STRONG: Self = Self(1);
    pub(super) const FAINT: Self = Self(2);
    pub(super) const EMPHASIS: Self = Self(4);
    pub(super) const UNDERLINED: Self = Self(8);
    pub(super) const STRUCK: Self = Self(16);
    pub(super) const CODE: Self = Self(32);
    pub(super) const LINK: Self = Self(64);

    /// The parameters of the sequence that makes text look so.
    fn codes(self) -> String {
        let codes = ["1", "2", "3", "4", "9", "36", "34"];
        let set = codes.iter().enumerate().filter(|(bit, _)| self.0 & (1 << bit) != 0);
        set.map(|(_, code)| *code).collect::<Vec<_>>().join(";")
    }
}

impl BitOr for TextStyle {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A character on the screen, or a line break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    c: char,
    look: TextStyle,
    /// Zero for what joins the character before it.
    columns: usize,
}

impl TextStyle {
    /// This look on cells that have others.
    pub(super) fn on(self, cells: &mut [Cell]) {
        cells.iter_mut().filter(|cell| **cell != Cell::BREAK).for_each(|cell| cell.look = cell.look | self);
    }
}

impl Cell {
    pub(super) const BREAK: Self = Self { c: '\n', look: TextStyle::PLAIN, columns: 0 };
    pub(super) const BLANK: Self = Self { c: ' ', look: TextStyle::PLAIN, columns: 1 };

    fn new(c: char, look: TextStyle) -> Self {
        Self { c, look, columns: c.width().unwrap_or(0) }
    }

    /// Whether a row may end before this character though there is no blank: where wide letters are, words
    /// have none between them. What closes a sentence or a bracket does not begin a row.
    fn may_begin_row(self, before: Self) -> bool {
        (self.columns == 2 && !is_closing(self.c)) || (before.columns == 2 && self.c.is_alphanumeric())
    }
}

fn is_closing(c: char) -> bool {
    matches!(
        c,
        '、' | '。'
            | '，'
            | '．'
            | '！'
            | '？'
            | '：'
            | '；'
            | '）'
            | '」'
            | '』'
            | '】'
            | '》'
            | '〉'
            | '］'
            | '｝'
    )
}

/// Adds text that a stranger wrote. What joins or separates letters without being seen is left out; what
/// would act on the terminal or change the direction of text is spelled out.
pub(super) fn add(cells: &mut Vec<Cell>, text: &str, look: TextStyle) {
    for c in text.chars() {
        match c {
            '\n' | '\t' => cells.push(Cell { look, ..Cell::BLANK }),
            // Whether these change the width of what they follow depends on the terminal.
            '\u{AD}' | '\u{200B}'..='\u{200F}' | '\u{2060}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' => {}
            c if is_unprintable(c) => cells.extend(c.escape_unicode().map(|c| Cell::new(c, look))),
            c => cells.push(Cell::new(c, look)),
        }
    }
}

/// The cells of a text.
pub(super) fn cells(text: &str, look: TextStyle) -> Vec<Cell> {
    let mut cells = Vec::with_capacity(text.len());
    add(&mut cells, text, look);
    cells
}

/// A line of code: tabs reach to the next fourth column.
pub(super) fn code(line: &str, look: TextStyle) -> Vec<Cell> {
    let mut row = Vec::with_capacity(line.len());
    for (at, piece) in line.split('\t').enumerate() {
        if at > 0 {
            let used = columns(&row) % 4;
            row.extend(std::iter::repeat_n(Cell { look, ..Cell::BLANK }, 4 - used));
        }
        add(&mut row, piece, look);
    }
    row
}

/// The columns that cells take.
pub(super) fn columns(cells: &[Cell]) -> usize {
    cells.iter().map(|cell| cell.columns).sum()
}

/// Whether two texts say the same, however they look.
pub(super) fn is_same_text(one: &[Cell], other: &[Cell]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.c == other.c)
}

/// Breaks text into rows of at most `width` columns: between words, inside a word that is longer than a row.
/// Blanks at the edges of rows go.
pub(super) fn wrapped(cells: &[Cell], width: usize) -> Vec<&[Cell]> {
    let mut rows = Vec::new();
    for line in cells.split(|cell| *cell == Cell::BREAK) {
        wrap_line(line, width.max(2), &mut rows);
    }
    rows
}

fn wrap_line<'c>(line: &'c [Cell], width: usize, rows: &mut Vec<&'c [Cell]>) {
    let (mut start, mut used) = (0, 0);
    // Where the row may end, and what it has taken until there.
    let (mut chance, mut until) = (0, 0);
    for (at, cell) in line.iter().enumerate() {
        let is_chance = at > start && (line[at - 1].c == ' ' || cell.may_begin_row(line[at - 1]));
        if is_chance {
            (chance, until) = (at, used);
        }
        if cell.c != ' ' && used + cell.columns > width {
            if chance <= start {
                (chance, until) = (at, used);
            }
            rows.push(trimmed(&line[start..chance]));
            (start, used) = (chance, used - until);
        }
        used += cell.columns;
    }
    rows.push(trimmed(&line[start..]));
}

fn trimmed(row: &[Cell]) -> &[Cell] {
    let start = row.iter().position(|cell| cell.c != ' ').unwrap_or(row.len());
    trimmed_end(&row[start..])
}

/// A row without the blanks at its end.
pub(super) fn trimmed_end(row: &[Cell]) -> &[Cell] {
    &row[..row.iter().rposition(|cell| cell.c != ' ').map_or(0, |at| at + 1)]
}

/// Cuts a line into rows of at most `width` columns, wherever that is.
pub(super) fn chopped(line: &[Cell], width: usize) -> Vec<&[Cell]> {
    let (mut rows, mut start, mut used) = (Vec::new(), 0, 0);
    for (at, cell) in line.iter().enumerate() {
        if used + cell.columns > width.max(2) {
            rows.push(&line[start..at]);
            (start, used) = (at, 0);
        }
        used += cell.columns;
    }
    rows.push(&line[start..]);
    rows
}

/// A row as it is written to a terminal. No style outlives it.
pub(super) fn painted(row: &[Cell]) -> String {
    let mut text = String::with_capacity(row.len() + 8);
    let mut look = TextStyle::PLAIN;
    for cell in row {
        if cell.look != look {
            if look != TextStyle::PLAIN {
                text.push_str("\u{1b}[0m");
            }
            if cell.look != TextStyle::PLAIN {
                text.push_str(&format!("\u{1b}[{}m", cell.look.codes()));
            }
            look = cell.look;
        }
        text.push(cell.c);
    }
    if look != TextStyle::PLAIN {
        text.push_str("\u{1b}[0m");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str, width: usize) -> Vec<String> {
        wrapped(&cells(text, TextStyle::PLAIN), width).into_iter().map(painted).collect()
    }

    #[test]
    fn rows_break_between_words_and_wide_letters() {
        assert_eq!(rows("one two  three four", 9), ["one two", "three", "four"]);
        assert_eq!(rows("unbreakable x", 4), ["unbr", "eaka", "ble", "x"]);
        assert_eq!(rows("潮汐日志 is 记录。", 6), ["潮汐日", "志 is", "记录。"]);
        assert_eq!(rows("潮汐日。", 6), ["潮汐", "日。"]);
        assert_eq!(rows("", 6), [""]);
    }

    #[test]
    fn nothing_acts_on_the_terminal() {
        assert_eq!(
            painted(&cells("a\u{1b}[2J\u{202e}\u{200d}b\u{9b}", TextStyle::PLAIN)),
            "a\\u{1b}[2J\\u{202e}b\\u{9b}"
        );
        assert_eq!(painted(&code("\ta\tb", TextStyle::PLAIN)), "    a   b");
    }

    #[test]
    fn no_style_outlives_its_row() {
        let mut row = cells("a", TextStyle::STRONG | TextStyle::CODE);
        add(&mut row, "b", TextStyle::PLAIN);
        add(&mut row, "c", TextStyle::FAINT);
        assert_eq!(painted(&row), "\u{1b}[1;36ma\u{1b}[0mb\u{1b}[2mc\u{1b}[0m");
    }
}
