//! Markdown on a terminal, while it is still arriving.
//!
//! A document is cut into its outermost blocks, line by line. Each block is rendered once, when it is complete. The
//! cuts depend only on lines, so that the result does not depend on how the text arrived.

mod block;
mod cells;
mod render;
mod table;
#[cfg(test)]
mod tests;

use self::block::{Begins, Fence, Marker, indent, is_delimiter_row, is_underline};

/// The longest line that is handled in one piece, in bytes.
const LONGEST_LINE: usize = 4 * 1024;
/// The longest block. A longer one is split here.
const LONGEST_BLOCK: usize = 8 * 1024;
/// The narrowest width. Narrower screens wrap rows themselves.
const NARROWEST: usize = 20;

/// A document that arrives in pieces, and is printed in rows.
#[derive(Clone)]
pub(crate) struct Markdown {
    width: usize,
    /// The start of a line whose end has not come yet.
    line: String,
    /// Whether the start of that line was handled already.
    is_within_line: bool,
    open: Open,
    /// The text of the open block. Fenced code is not kept here, because it is printed line by line.
    source: String,
    /// The kind of the last block.
    last: Option<Shape>,
    /// Whether a blank line followed it.
    is_apart: bool,
    /// Whether the last line of the open item is blank.
    is_blank: bool,
    /// Whether the open block continues one that was too long.
    is_rest: bool,
    /// The list of the last item, and its number.
    list: Option<(char, u64)>,
}

#[derive(Clone)]
enum Open {
    Nothing,
    Text,
    /// A heading or a rule, which ends with its line.
    Line,
    Quote,
    /// The first two lines, which are repeated above each piece of a long table.
    Table(String),
    Item(Marker, Option<u64>),
    Fence(Fence),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Text,
    Item,
    Other,
}

impl Markdown {
    pub(crate) fn new(width: usize) -> Self {
        Self {
            width: width.max(NARROWEST),
            line: String::new(),
            is_within_line: false,
            open: Open::Nothing,
            source: String::new(),
            last: None,
            is_apart: false,
            is_blank: false,
            is_rest: false,
            list: None,
        }
    }

    /// Takes a piece of text, and returns the rows that later text cannot change, styled for a terminal.
    pub(crate) fn push(&mut self, piece: &str) -> Vec<String> {
        let mut rows = Vec::new();
        for part in piece.split_inclusive('\n') {
            let (text, is_end) = part.strip_suffix('\n').map_or((part, false), |text| (text, true));
            self.line.push_str(text);
            while self.line.len() > LONGEST_LINE {
                let rest = self.line.split_off(break_of(&self.line));
                let taken = std::mem::replace(&mut self.line, rest);
                self.take(&taken, false, &mut rows);
            }
            if is_end {
                let line = std::mem::take(&mut self.line);
                self.take(line.strip_suffix('\r').unwrap_or(&line), true, &mut rows);
            }
        }
        rows
    }

    /// The rows of the unfinished block as it looks now. The cost grows with the block, which has a few KiB at most.
    pub(crate) fn live(&self) -> Vec<String> {
        self.clone().finish()
    }

    /// The document is complete. Returns the remaining rows.
    pub(crate) fn finish(&mut self) -> Vec<String> {
        let mut rows = Vec::new();
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take(&line, true, &mut rows);
        }
        self.close(&mut rows);
        *self = Self::new(self.width);
        rows
    }

    /// Sets the width for unfinished and later blocks.
    pub(crate) fn resize(&mut self, width: usize) {
        self.width = width.max(NARROWEST);
    }

    /// Takes a line, or a piece of a long one.
    fn take(&mut self, line: &str, is_end: bool, rows: &mut Vec<String>) {
        let is_start = !std::mem::replace(&mut self.is_within_line, !is_end);
        if let Open::Fence(fence) = &self.open {
            if is_start && is_end && fence.is_closed_by(line) {
                self.open = Open::Nothing;
            } else {
                let content = if is_start { fence.content(line) } else { line };
                rows.extend(render::code_rows(content, self.width));
            }
            return;
        }
        if is_start {
            self.begin_line(line, rows);
        } else if matches!(self.open, Open::Nothing) && !line.trim().is_empty() {
            self.open = Open::Text;
        }
        if matches!(self.open, Open::Nothing | Open::Fence(_)) {
            return;
        }
        self.source.push_str(line);
        if is_end {
            self.source.push('\n');
        }
        let is_last = match &self.open {
            Open::Line => is_end,
            // Text above it makes it a heading.
            Open::Text => is_start && is_end && is_underline(line) && self.source.len() > line.len() + 1,
            _ => false,
        };
        if is_last {
            self.close(rows);
        } else if self.source.len() > LONGEST_BLOCK {
            self.close_part(rows);
        }
    }

    /// Ends the open block if the line does not belong to it, and opens the one that the line starts.
    fn begin_line(&mut self, line: &str, rows: &mut Vec<String>) {
        let begins = Begins::of(line);
        let belongs = match &self.open {
            Open::Nothing | Open::Line | Open::Fence(_) => false,
            Open::Text if is_underline(line) => true,
            Open::Text | Open::Table(_) => !begins.interrupts(),
            Open::Quote => begins == Begins::Quote || !begins.interrupts(),
            Open::Item(marker, _) => {
                begins == Begins::Blank
                    || indent(line) >= marker.content
                    || (!self.is_blank && !matches!(begins, Begins::Item(_)) && !begins.interrupts())
            }
        };
        let is_blank = begins == Begins::Blank;
        if belongs {
            if let Open::Text = self.open
                && is_delimiter_row(line)
                && self.source.lines().count() == 1
                && self.source.len() + line.len() < LONGEST_BLOCK / 4
            {
                self.open = Open::Table(format!("{}{line}\n", self.source));
            }
            self.is_blank = is_blank;
            return;
        }
        self.close(rows);
        self.is_apart |= is_blank || std::mem::take(&mut self.is_blank);
        self.is_rest &= !self.is_apart;
        if !matches!(begins, Begins::Item(_)) && !is_blank {
            self.list = None;
        }
        self.open = match begins {
            Begins::Blank => Open::Nothing,
            Begins::Heading | Begins::Rule => Open::Line,
            Begins::Quote => Open::Quote,
            Begins::Text => Open::Text,
            Begins::Item(marker) => Open::Item(marker, self.number_of(marker)),
            Begins::Fence(fence) => {
                self.put(Shape::Other, rows, render::label_row(&fence.info, self.width));
                Open::Fence(fence)
            }
        };
    }

    /// The number of an item: the next of its list, or the first of a new list.
    fn number_of(&mut self, marker: Marker) -> Option<u64> {
        let given = marker.number.unwrap_or(0);
        let number = match self.list {
            Some((kind, last)) if kind == marker.kind => last.saturating_add(1),
            _ => given,
        };
        self.list = Some((marker.kind, number));
        marker.number.map(|_| number)
    }

    /// Renders the open block.
    fn close(&mut self, rows: &mut Vec<String>) {
        let open = std::mem::replace(&mut self.open, Open::Nothing);
        let source = std::mem::take(&mut self.source);
        let (shape, number) = match open {
            Open::Nothing | Open::Fence(_) => return,
            Open::Text => (Shape::Text, None),
            Open::Item(_, number) => (Shape::Item, number),
            Open::Line | Open::Quote | Open::Table(_) => (Shape::Other, None),
        };
        let block = render::rows(&source, self.width, number);
        if !block.is_empty() {
            self.put(shape, rows, block);
        }
    }

    /// Renders a block that is too long, as far as it came.
    fn close_part(&mut self, rows: &mut Vec<String>) {
        let head = if let Open::Table(head) = &self.open { Some(head.clone()) } else { None };
        self.close(rows);
        self.is_rest = true;
        if let Some(head) = head {
            self.source.clone_from(&head);
            self.open = Open::Table(head);
        }
    }

    /// The rows of a block, after an empty row unless it belongs to the block above.
    fn put(&mut self, shape: Shape, rows: &mut Vec<String>, block: impl IntoIterator<Item = String>) {
        let is_close =
            self.is_rest || (shape == Shape::Item && !self.is_apart && self.last != Some(Shape::Other));
        if self.last.is_some() && !is_close {
            rows.push(String::new());
        }
        rows.extend(block);
        (self.last, self.is_apart, self.is_rest) = (Some(shape), false, false);
    }
}

/// Where a long line is broken: at the last space, or inside a word.
fn break_of(line: &str) -> usize {
    let most = line.floor_char_boundary(LONGEST_LINE);
    line[..most].rfind(' ').filter(|at| *at > 0).map_or(most, |at| at + 1)
}
