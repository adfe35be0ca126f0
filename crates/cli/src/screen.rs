//! A region at the bottom of the terminal that changes, below lines that are final.

mod layout;

use std::io::{self, Write};

use self::layout::{height, without_start};

/// Starts an update that the terminal shows at once, or at least without a jumping cursor.
const BEGIN: &str = "\u{1b}[?2026h\u{1b}[?25l";
const END: &str = "\u{1b}[?25h\u{1b}[?2026l";

/// The position of the cursor: a line of the region, and a column in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// A terminal whose last rows change.
///
/// Lines may have styles, and no other escape sequences. They are written as they are: remove styles before, because the
/// stream would also remove cursor movements.
pub(crate) struct Screen<W> {
    out: W,
    columns: usize,
    rows: usize,
    live: Vec<String>,
    /// The cursor in the region; without one, it stands at the start of the row below.
    cursor: Option<Cursor>,
}

impl<W: Write> Screen<W> {
    /// A screen of this size, whose cursor stands at the start of a row.
    pub(crate) fn new(out: W, (columns, rows): (usize, usize)) -> Self {
        Self { out, columns: columns.max(1), rows: rows.max(2), live: Vec::new(), cursor: None }
    }

    /// Puts final lines above the region.
    #[cfg(test)]
    pub(crate) fn commit(&mut self, lines: &[String]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        self.redraw(lines, self.live.clone(), self.cursor)
    }

    /// Replaces the region and the cursor. If the screen has too few rows, the last lines are shown.
    pub(crate) fn live(&mut self, lines: Vec<String>, cursor: Option<Cursor>) -> io::Result<()> {
        let (lines, cursor) = self.fitting(lines, cursor);
        if (&lines, cursor) == (&self.live, self.cursor) {
            return Ok(());
        }
        self.redraw(&[], lines, cursor)
    }

    /// Adds final lines and replaces the region, in one update.
    pub(crate) fn update(
        &mut self,
        commit: &[String],
        live: Vec<String>,
        cursor: Option<Cursor>,
    ) -> io::Result<()> {
        if commit.is_empty() {
            return self.live(live, cursor);
        }
        let (live, cursor) = self.fitting(live, cursor);
        self.redraw(commit, live, cursor)
    }

    /// Forgets the region: another program wrote to the screen, and the cursor stands at the start of a row.
    pub(crate) fn forget(&mut self) {
        (self.live, self.cursor) = (Vec::new(), None);
    }

    /// Clears the whole screen. Earlier lines stay in the scrollback.
    pub(crate) fn wipe(&mut self) -> io::Result<()> {
        self.forget();
        self.out.write_all(b"\x1b[H\x1b[J")
    }

    /// Removes the region.
    #[cfg(test)]
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        self.live(Vec::new(), None)
    }

    /// Adapts to a new size; the terminal has wrapped its lines again.
    pub(crate) fn resize(&mut self, columns: usize, rows: usize) -> io::Result<()> {
        (self.columns, self.rows) = (columns.max(1), rows.max(2));
        let (live, cursor) = self.fitting(self.live.clone(), self.cursor);
        self.redraw(&[], live, cursor)
    }

    fn redraw(&mut self, commit: &[String], live: Vec<String>, cursor: Option<Cursor>) -> io::Result<()> {
        let mut text = String::from(BEGIN);
        let up = match self.cursor {
            Some(cursor) => self.row_of(&self.live, cursor),
            None => self.height_of(&self.live),
        };
        if up > 0 {
            text.push_str(&format!("\u{1b}[{up}A"));
        }
        if !self.live.is_empty() {
            text.push_str(&erased(self.height_of(&self.live)));
        }
        for line in commit.iter().chain(&live) {
            text.push_str(line);
            text.push_str("\r\n");
        }
        if let Some(cursor) = cursor {
            // No extra row is added below for the cursor.
            text.truncate(text.len() - "\r\n".len());
            let up = self.height_of(&live).saturating_sub(1 + self.row_of(&live, cursor));
            if up > 0 {
                text.push_str(&format!("\u{1b}[{up}A"));
            }
            text.push('\r');
            if cursor.column % self.columns > 0 {
                text.push_str(&format!("\u{1b}[{}C", cursor.column % self.columns));
            }
        }
        text.push_str(END);
        (self.live, self.cursor) = (live, cursor);
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    fn height_of(&self, lines: &[String]) -> usize {
        lines.iter().map(|line| height(line, self.columns)).sum()
    }

    /// The row of the cursor in the region. A line may have been wrapped again since the cursor was placed.
    fn row_of(&self, lines: &[String], cursor: Cursor) -> usize {
        let before = lines.iter().take(cursor.line).map(|line| height(line, self.columns));
        let within = lines.get(cursor.line).map_or(0, |line| height(line, self.columns) - 1);
        before.sum::<usize>() + (cursor.column / self.columns).min(within)
    }

    /// The last lines, as many as fit.
    fn fitting(&self, lines: Vec<String>, cursor: Option<Cursor>) -> (Vec<String>, Option<Cursor>) {
        let total = lines.len();
        let (mut room, mut kept) = (self.rows - 1, Vec::new());
        for line in lines.into_iter().rev() {
            let height = height(&line, self.columns);
            if height > room {
                if kept.is_empty() {
                    kept.push(without_start(&line, self.columns, height - room));
                }
                break;
            }
            room -= height;
            kept.push(line);
        }
        kept.reverse();
        let gone = total - kept.len();
        let moved = |cursor: Cursor| Cursor { line: cursor.line.saturating_sub(gone), ..cursor };
        // Without lines there is no place for the cursor.
        let cursor = cursor.filter(|_| !kept.is_empty()).map(moved);
        (kept, cursor)
    }
}

/// Erases rows from the one with the cursor on, and leaves the cursor at its start. The rows are erased one by one: some
/// terminals, such as tmux, keep a copy above if everything from the first row is erased at once.
fn erased(rows: usize) -> String {
    match rows {
        0 | 1 => "\r\u{1b}[K".to_owned(),
        _ => format!("\r{}\u{1b}[J\u{1b}[{}A", "\u{1b}[K\u{1b}[B".repeat(rows - 1), rows - 1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FAINT: &str = "\u{1b}[2m";

    fn terminal(columns: usize, rows: usize) -> vt100::Parser {
        let size = |size: usize| u16::try_from(size).unwrap().try_into().unwrap();
        vt100::Parser::new(size(rows), size(columns), 10_000)
    }

    /// All that a person finds who scrolls up.
    fn seen(terminal: &mut vt100::Parser) -> Vec<String> {
        let columns = terminal.screen().size().1.get();
        terminal.screen_mut().set_scrollback(usize::MAX);
        let mut rows = Vec::new();
        for back in (1..=terminal.screen().scrollback()).rev() {
            terminal.screen_mut().set_scrollback(back);
            rows.extend(terminal.screen().rows(0, columns).next());
        }
        terminal.screen_mut().set_scrollback(0);
        rows.extend(terminal.screen().rows(0, columns));
        while rows.last().is_some_and(String::is_empty) {
            rows.pop();
        }
        rows
    }

    /// A terminal on which these lines were printed, and nothing else ever.
    fn printed<'l>(
        lines: impl IntoIterator<Item = &'l String>,
        columns: usize,
        rows: usize,
    ) -> vt100::Parser {
        let mut terminal = terminal(columns, rows);
        for line in lines {
            write!(terminal, "{line}\r\n").unwrap();
        }
        terminal
    }

    fn lines(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn what_is_above_stays() {
        let mut screen = Screen::new(terminal(20, 5), (20, 5));
        screen.live(lines(&["working", "1 s"]), None).unwrap();
        screen.commit(&lines(&["first", "second"])).unwrap();
        screen.live(lines(&["working", "2 s"]), None).unwrap();
        assert_eq!(seen(&mut screen.out), ["first", "second", "working", "2 s"]);
        screen.update(&lines(&["third"]), lines(&["resting"]), None).unwrap();
        assert_eq!(seen(&mut screen.out), ["first", "second", "third", "resting"]);
        screen.clear().unwrap();
        assert_eq!(seen(&mut screen.out), ["first", "second", "third"]);
        assert_eq!(screen.out.screen().cursor_position(), (3, 0));
    }

    #[test]
    fn the_last_rows_of_a_long_region_are_kept() {
        let mut screen = Screen::new(terminal(10, 4), (10, 4));
        screen.commit(&lines(&["above"])).unwrap();
        screen.live(lines(&["1", "2", "3", "4"]), None).unwrap();
        assert_eq!(seen(&mut screen.out), ["above", "2", "3", "4"]);
        screen
            .live(lines(&["x", &format!("{FAINT}{}the end\u{1b}[0m", "0123456789".repeat(9))]), None)
            .unwrap();
        assert_eq!(seen(&mut screen.out), ["above", "0123456789", "0123456789", "the end"]);
        screen.live(lines(&["潮汐日志潮汐日志", "x"]), None).unwrap();
        assert_eq!(seen(&mut screen.out), ["above", "潮汐日志潮", "汐日志", "x"]);
        screen.clear().unwrap();
        assert_eq!(seen(&mut screen.out), ["above"]);
    }

    #[test]
    fn an_update_is_one_write_and_none_where_nothing_changes() {
        struct Writes(Vec<String>);
        impl Write for Writes {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.push(String::from_utf8(bytes.to_vec()).unwrap());
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut screen = Screen::new(Writes(Vec::new()), (20, 5));
        screen.live(lines(&["a", "b"]), None).unwrap();
        screen.live(lines(&["a", "b"]), None).unwrap();
        screen.commit(&[]).unwrap();
        screen.commit(&lines(&["c"])).unwrap();
        assert_eq!(
            screen.out.0,
            [format!("{BEGIN}a\r\nb\r\n{END}"), format!("{BEGIN}\u{1b}[2A{}c\r\na\r\nb\r\n{END}", erased(2))]
        );
    }

    #[test]
    fn the_cursor_stands_in_the_region_without_a_row_below() {
        let mut screen = Screen::new(terminal(10, 4), (10, 4));
        screen.live(lines(&["working", "> one two", "three"]), Some(Cursor { line: 1, column: 5 })).unwrap();
        assert_eq!(screen.out.screen().cursor_position(), (1, 5));
        screen.live(lines(&["> one two", "three"]), Some(Cursor { line: 1, column: 5 })).unwrap();
        assert_eq!(seen(&mut screen.out), ["> one two", "three"]);
        assert_eq!(screen.out.screen().cursor_position(), (1, 5));
        // All rows of the screen but one, and the first of them is gone.
        screen.live(lines(&["1", "2", "3", "4"]), Some(Cursor { line: 1, column: 1 })).unwrap();
        assert_eq!(seen(&mut screen.out), ["2", "3", "4"]);
        assert_eq!(screen.out.screen().cursor_position(), (0, 1));
        screen.update(&lines(&["said"]), Vec::new(), None).unwrap();
        assert_eq!(seen(&mut screen.out), ["said"]);
        assert_eq!(screen.out.screen().cursor_position(), (1, 0));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Commit(Vec<String>),
        Live(Vec<String>),
        Update(Vec<String>, Vec<String>),
        Type(Vec<String>, usize),
        Clear,
        Resize(usize, usize),
    }

    fn some_lines() -> impl Strategy<Value = Vec<String>> {
        let line = prop::collection::vec(
            prop::sample::select(vec!["a", "word ", "潮汐", "\u{1b}[1;31mred\u{1b}[0m", "é", "e\u{301}"]),
            0..8,
        );
        prop::collection::vec(line.prop_map(|pieces| pieces.concat()), 0..4)
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            some_lines().prop_map(Step::Commit),
            some_lines().prop_map(Step::Live),
            (some_lines(), some_lines()).prop_map(|(commit, live)| Step::Update(commit, live)),
            (some_lines(), 0_usize..4).prop_map(|(lines, line)| Step::Type(lines, line)),
            Just(Step::Clear),
            (12_usize..40, 14_usize..30).prop_map(|(columns, rows)| Step::Resize(columns, rows)),
        ]
    }

    proptest! {
        #[test]
        fn a_screen_looks_as_if_only_what_is_there_was_ever_printed(steps in prop::collection::vec(step(), 0..30)) {
            let (mut columns, mut rows) = (20, 14);
            let mut screen = Screen::new(terminal(columns, rows), (columns, rows));
            let (mut committed, mut live) = (Vec::new(), Vec::new());
            let mut column = 0;
            for step in steps {
                match step {
                    Step::Commit(lines) => {
                        screen.commit(&lines).unwrap();
                        committed.extend(lines);
                    }
                    Step::Live(lines) => {
                        screen.live(lines.clone(), None).unwrap();
                        (live, column) = (lines, 0);
                    }
                    Step::Update(lines, region) => {
                        screen.update(&lines, region.clone(), None).unwrap();
                        committed.extend(lines);
                        (live, column) = (region, 0);
                    }
                    Step::Type(lines, line) => {
                        let cursor = (line < lines.len()).then_some(Cursor { line, column: 3 });
                        screen.live(lines.clone(), cursor).unwrap();
                        (live, column) = (lines, cursor.map_or(0, |_| 3));
                    }
                    Step::Clear => {
                        screen.clear().unwrap();
                        (live, column) = (Vec::new(), 0);
                    }
                    Step::Resize(wide, high) => {
                        screen.live(live.clone(), None).unwrap();
                        column = 0;
                        (columns, rows) = (wide, high);
                        // The terminal has wrapped what was there by itself.
                        screen.out = printed(committed.iter().chain(&live), columns, rows);
                        screen.resize(columns, rows).unwrap();
                    }
                }
                let mut expected = printed(committed.iter().chain(&live), columns, rows);
                prop_assert_eq!(seen(&mut screen.out), seen(&mut expected));
                prop_assert_eq!(screen.out.screen().cursor_position().1, column);
            }
        }
    }
}
