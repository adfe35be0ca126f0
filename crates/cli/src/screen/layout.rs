//! How many rows of the terminal a line takes.

use unicode_width::UnicodeWidthChar as _;

/// Each character of a line with the row it stands in; an escape sequence has no row.
fn rows_of(line: &str, columns: usize) -> impl Iterator<Item = (char, Option<usize>)> {
    let (mut row, mut used) = (0, 0);
    let mut sequence = Sequence::None;
    line.chars().map(move |c| {
        sequence = match (sequence, c) {
            (Sequence::None | Sequence::Last, '\u{1b}') => Sequence::Begun,
            (Sequence::Begun, '[') => Sequence::Inside,
            (Sequence::Inside, '\u{40}'..='\u{7e}') | (Sequence::Begun, _) => Sequence::Last,
            (Sequence::Inside, _) => Sequence::Inside,
            (Sequence::None | Sequence::Last, _) => Sequence::None,
        };
        if sequence != Sequence::None {
            return (c, None);
        }
        let width = c.width().unwrap_or(0).min(columns);
        if used + width > columns {
            (row, used) = (row + 1, 0);
        }
        used += width;
        (c, Some(row))
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sequence {
    None,
    Begun,
    Inside,
    Last,
}

/// The number of rows that a line takes.
pub(super) fn height(line: &str, columns: usize) -> usize {
    1 + rows_of(line, columns).filter_map(|(_, row)| row).last().unwrap_or(0)
}

/// A line without its first rows, in the style that it has after them.
pub(super) fn without_start(line: &str, columns: usize, rows: usize) -> String {
    let kept = rows_of(line, columns).filter(|(_, row)| row.is_none_or(|row| row >= rows));
    kept.map(|(c, _)| c).collect()
}
