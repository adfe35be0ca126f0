//! Characters with styles: made safe, broken into rows, and painted for a terminal.

use std::ops::BitOr;

use prowess_catalog::untrusted::is_unprintable;
use unicode_width::UnicodeWidthChar as _;

/// The style of a character. Styles add up.
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

    /// The parameters of the escape sequence for this style.
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
    style: TextStyle,
    /// Zero for a character that joins the one before it.
    columns: usize,
}

impl TextStyle {
    /// Adds this style to cells.
    pub(super) fn on(self, cells: &mut [Cell]) {
        cells.iter_mut().filter(|cell| **cell != Cell::BREAK).for_each(|cell| cell.style = cell.style | self);
    }
}

impl Cell {
    pub(super) const BREAK: Self = Self { c: '\n', style: TextStyle::PLAIN, columns: 0 };
    pub(super) const BLANK: Self = Self { c: ' ', style: TextStyle::PLAIN, columns: 1 };

    fn new(c: char, style: TextStyle) -> Self {
        Self { c, style, columns: c.width().unwrap_or(0) }
    }

    /// Whether a row may end before this character without a space, as in scripts with wide letters. Closing
    /// punctuation never starts a row.
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

/// Adds untrusted text. Invisible joiners are left out. Characters that control the terminal or the text direction
/// are spelled out.
pub(super) fn add(cells: &mut Vec<Cell>, text: &str, style: TextStyle) {
    for c in text.chars() {
        match c {
            '\n' | '\t' => cells.push(Cell { style, ..Cell::BLANK }),
            // Whether these change the width of other characters depends on the terminal.
            '\u{AD}' | '\u{200B}'..='\u{200F}' | '\u{2060}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' => {}
            c if is_unprintable(c) => cells.extend(c.escape_unicode().map(|c| Cell::new(c, style))),
            c => cells.push(Cell::new(c, style)),
        }
    }
}

/// The cells of a text.
pub(super) fn cells(text: &str, style: TextStyle) -> Vec<Cell> {
    let mut cells = Vec::with_capacity(text.len());
    add(&mut cells, text, style);
    cells
}

/// A line of code. Tabs reach to the next fourth column.
pub(super) fn code(line: &str, style: TextStyle) -> Vec<Cell> {
    let mut row = Vec::with_capacity(line.len());
    for (at, piece) in line.split('\t').enumerate() {
        if at > 0 {
            let used = columns(&row) % 4;
            row.extend(std::iter::repeat_n(Cell { style, ..Cell::BLANK }, 4 - used));
        }
        add(&mut row, piece, style);
    }
    row
}

/// The width of cells, in columns.
pub(super) fn columns(cells: &[Cell]) -> usize {
    cells.iter().map(|cell| cell.columns).sum()
}

/// Whether two texts are the same, apart from their styles.
pub(super) fn is_same_text(one: &[Cell], other: &[Cell]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.c == other.c)
}

/// Breaks text into rows of at most `width` columns, between words if possible. Spaces at the edges of rows are
/// dropped.
pub(super) fn wrapped(cells: &[Cell], width: usize) -> Vec<&[Cell]> {
    let mut rows = Vec::new();
    for line in cells.split(|cell| *cell == Cell::BREAK) {
        wrap_line(line, width.max(2), &mut rows);
    }
    rows
}

fn wrap_line<'c>(line: &'c [Cell], width: usize, rows: &mut Vec<&'c [Cell]>) {
    let (mut start, mut used) = (0, 0);
    // Where the row may end, and its width up to there.
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

/// A row without the spaces at its end.
pub(super) fn trimmed_end(row: &[Cell]) -> &[Cell] {
    &row[..row.iter().rposition(|cell| cell.c != ' ').map_or(0, |at| at + 1)]
}

/// Cuts a line into rows of at most `width` columns, at any character.
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

/// A row as it is written to a terminal. Its styles end with it.
pub(super) fn painted(row: &[Cell]) -> String {
    let mut text = String::with_capacity(row.len() + 8);
    let mut style = TextStyle::PLAIN;
    for cell in row {
        if cell.style != style {
            if style != TextStyle::PLAIN {
                text.push_str("\u{1b}[0m");
            }
            if cell.style != TextStyle::PLAIN {
                text.push_str(&format!("\u{1b}[{}m", cell.style.codes()));
            }
            style = cell.style;
        }
        text.push(cell.c);
    }
    if style != TextStyle::PLAIN {
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
