//! Fits a table to the screen. Cells are wrapped; a table with too many columns becomes a list.

use pulldown_cmark::Alignment;

use super::cells::{Cell, TextStyle, cells, columns, wrapped};

/// If columns would be narrower than this, the table becomes a list.
const NARROWEST: usize = 8;

pub(super) struct Table {
    alignments: Vec<Alignment>,
    /// The first row is the head.
    rows: Vec<Vec<Vec<Cell>>>,
}

impl Table {
    pub(super) fn new(alignments: Vec<Alignment>) -> Self {
        Self { alignments, rows: Vec::new() }
    }

    pub(super) fn begin_row(&mut self) {
        self.rows.push(Vec::new());
    }

    pub(super) fn cell(&mut self, cell: Vec<Cell>) {
        if let Some(row) = self.rows.last_mut() {
            row.push(cell);
        }
    }

    /// The table in at most `width` columns.
    pub(super) fn rows(mut self, width: usize) -> Vec<Vec<Cell>> {
        if let Some(head) = self.rows.first_mut() {
            head.iter_mut().for_each(|cell| TextStyle::STRONG.on(cell));
        }
        match self.fitted(width) {
            Some(widths) => self.grid(&widths),
            None => self.records(width),
        }
    }

    /// The width of each column: as wide as needed, or its share of what the narrower ones leave.
    fn fitted(&self, width: usize) -> Option<Vec<usize>> {
        let count = self.alignments.len();
        let mut wanted = vec![1; count];
        for row in &self.rows {
            for (wanted, cell) in wanted.iter_mut().zip(row) {
                let lines = cell.split(|cell| *cell == Cell::BREAK);
                *wanted = lines.map(columns).max().unwrap_or(0).max(*wanted);
            }
        }
        let room = width.saturating_sub(3 * count.saturating_sub(1));
        if wanted.iter().sum::<usize>() <= room {
            return Some(wanted);
        }
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by_key(|column| wanted[*column]);
        let (mut left, mut widths) = (room, vec![0; count]);
        for (done, column) in order.into_iter().enumerate() {
            widths[column] = wanted[column].min(left / (count - done));
            left -= widths[column];
        }
        let is_readable =
            widths.iter().zip(&wanted).all(|(width, wanted)| width == wanted || *width >= NARROWEST);
        is_readable.then_some(widths)
    }

    fn grid(&self, widths: &[usize]) -> Vec<Vec<Cell>> {
        let mut rows = Vec::new();
        for (at, row) in self.rows.iter().enumerate() {
            let empty = Vec::new();
            let columns = widths.iter().enumerate();
            let wrapped: Vec<Vec<&[Cell]>> =
                columns.map(|(at, width)| wrapped(row.get(at).unwrap_or(&empty), *width)).collect();
            let height = wrapped.iter().map(Vec::len).max().unwrap_or(0);
            for line in 0..height {
                let parts = wrapped.iter().zip(widths).zip(&self.alignments);
                let parts: Vec<Vec<Cell>> = parts
                    .map(|((lines, width), alignment)| {
                        aligned(lines.get(line).copied().unwrap_or_default(), *width, *alignment)
                    })
                    .collect();
                rows.push(parts.join(&cells(" │ ", TextStyle::FAINT)[..]));
            }
            if at == 0 {
                let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                rows.push(cells(&rules.join("─┼─"), TextStyle::FAINT));
            }
        }
        rows
    }

    /// Each cell on a separate line, after the head of its column.
    fn records(&self, width: usize) -> Vec<Vec<Cell>> {
        let mut rows = Vec::new();
        let Some((head, body)) = self.rows.split_first() else { return rows };
        // A table without rows shows its head.
        let body = if body.is_empty() { std::slice::from_ref(head) } else { body };
        for (at, row) in body.iter().enumerate() {
            if at > 0 {
                rows.push(Vec::new());
            }
            for (cell, title) in row.iter().zip(head).filter(|(cell, _)| !cell.is_empty()) {
                let mut line = title.clone();
                if cell != title {
                    line.extend(cells(": ", TextStyle::PLAIN));
                    line.extend_from_slice(cell);
                }
                rows.extend(wrapped(&line, width).into_iter().map(<[Cell]>::to_vec));
            }
        }
        rows
    }
}

fn aligned(line: &[Cell], width: usize, alignment: Alignment) -> Vec<Cell> {
    let spare = width.saturating_sub(columns(line));
    let before = match alignment {
        Alignment::None | Alignment::Left => 0,
        Alignment::Center => spare / 2,
        Alignment::Right => spare,
    };
    let blanks = |count| vec![Cell::BLANK; count];
    [&blanks(before), line, &blanks(spare - before)].concat()
}
