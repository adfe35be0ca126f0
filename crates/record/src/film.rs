//! Stores which text was on the screen at which time.
//!
//! A terminal is a long roll of rows; the last rows are on the screen. A film keeps every text that a row had, and how far the
//! roll had moved. So scrolling stores no row again.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU16;
use std::time::Duration;

use anyhow::Context as _;

use crate::row::Row;

/// Changes within this time count as one.
const SHORTEST: Duration = Duration::from_millis(80);
/// The longest time without a change. Longer pauses are shortened.
const LONGEST: Duration = Duration::from_millis(1_500);
/// How many rows of the roll are kept. The film ends there.
const MAX_ROWS: usize = 10_000;

pub(crate) struct Film {
    parser: vt100::Parser,
    /// The time of the last output, and its time in the film.
    clock: (Duration, Duration),
    /// Every text that a row ever had.
    texts: Vec<Row>,
    known: HashMap<Row, usize>,
    /// For every row of the roll, its texts and their start times.
    roll: BTreeMap<usize, Vec<(Duration, usize)>>,
    /// The first row on the screen, with the time from which it is first.
    moves: Vec<(Duration, usize)>,
}

/// A text in a row of the roll.
pub(crate) struct RowText<'f> {
    pub(crate) row: usize,
    /// Equal texts have equal numbers.
    pub(crate) number: usize,
    pub(crate) text: &'f Row,
    pub(crate) from: Duration,
    /// `None` if the text stays.
    pub(crate) until: Option<Duration>,
}

impl Film {
    pub(crate) fn new(columns: u16, rows: u16) -> anyhow::Result<Self> {
        let size = |size| NonZeroU16::new(size).context("a screen has columns and rows");
        Ok(Self {
            parser: vt100::Parser::new(size(rows)?, size(columns)?, MAX_ROWS),
            clock: (Duration::ZERO, Duration::ZERO),
            texts: Vec::new(),
            known: HashMap::new(),
            roll: BTreeMap::new(),
            moves: vec![(Duration::ZERO, 0)],
        })
    }

    /// Adds output of the terminal.
    pub(crate) fn write(&mut self, now: Duration, bytes: &[u8]) {
        self.parser.process(bytes);
        let (last, at) = self.clock;
        let passed = now.saturating_sub(last);
        if passed >= SHORTEST {
            self.clock = (now, at + passed.min(LONGEST));
        }
        let at = self.clock.1;
        let top = self.parser.screen().scrollback_len();
        if top >= MAX_ROWS {
            return;
        }
        record_change(&mut self.moves, at, top);
        let (rows, columns) = self.parser.screen().size();
        for row in 0..rows.get() {
            let text = Row::of(self.parser.screen(), row, columns.get());
            let place = top + usize::from(row);
            if text.is_empty() && !self.roll.contains_key(&place) {
                continue;
            }
            let next = self.texts.len();
            let number = *self.known.entry(text).or_insert_with_key(|text| {
                self.texts.push(text.clone());
                next
            });
            record_change(self.roll.entry(place).or_default(), at, number);
        }
    }

    /// All texts, row by row.
    pub(crate) fn row_texts(&self) -> impl Iterator<Item = RowText<'_>> {
        self.roll.iter().flat_map(move |(row, versions)| {
            versions.iter().enumerate().filter_map(move |(at, (from, number))| {
                let until = versions.get(at + 1).map(|(until, _)| *until);
                let text = &self.texts[*number];
                (!text.is_empty()).then_some(RowText { row: *row, number: *number, text, from: *from, until })
            })
        })
    }

    pub(crate) fn moves(&self) -> &[(Duration, usize)] {
        &self.moves
    }

    /// The first row on the last screen.
    pub(crate) fn top(&self) -> usize {
        self.moves.last().map_or(0, |(_, top)| *top)
    }

    /// The time of the last change.
    pub(crate) fn length(&self) -> Duration {
        self.clock.1
    }
}

/// Adds a value that holds from now on, unless it is the same as before.
fn record_change<T: PartialEq>(changes: &mut Vec<(Duration, T)>, at: Duration, now: T) {
    if changes.last().is_some_and(|(since, _)| *since == at) {
        changes.pop();
    }
    if changes.last().is_none_or(|(_, last)| *last != now) {
        changes.push((at, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn film(written: &[(u64, &str)]) -> Vec<String> {
        let mut film = Film::new(20, 3).unwrap();
        for (at, text) in written {
            film.write(Duration::from_millis(*at), text.as_bytes());
        }
        let texts = film.row_texts().map(|text| {
            let until = text.until.map_or(String::new(), |until| until.as_millis().to_string());
            format!("{} {:?} {}..{until}", text.row, text.text.plain(), text.from.as_millis())
        });
        let moves = film.moves().iter().map(|(at, top)| format!("{top} at {}", at.as_millis()));
        texts.chain(moves).collect()
    }

    #[test]
    fn a_row_is_kept_once_for_each_of_its_texts() {
        let written = [(0, "one\r\n"), (100, "wait"), (300, "\rdone\r\n"), (500, "three\r\nfour\r\n")];
        assert_eq!(
            film(&written),
            [
                "0 \"one\" 0..",
                "1 \"wait\" 100..300",
                "1 \"done\" 300..",
                "2 \"three\" 500..",
                "3 \"four\" 500..",
                "0 at 0",
                "2 at 500",
            ]
        );
    }

    #[test]
    fn what_changes_at_once_is_one_change() {
        let written = [(0, "a"), (100, "\r\u{1b}[J"), (110, "a"), (120, "\r\nb"), (130, "c")];
        assert_eq!(film(&written), ["0 \"a\" 0..", "1 \"bc\" 100..", "0 at 0"]);
    }

    #[test]
    fn long_waits_are_shortened() {
        assert_eq!(
            film(&[(0, "a"), (60_000, "b"), (60_100, "c")]),
            ["0 \"a\" 0..1500", "0 \"ab\" 1500..1600", "0 \"abc\" 1600..", "0 at 0"]
        );
    }
}
