//! One row of the screen, as runs of characters with the same style.

use crate::paint::{BACKGROUND, FOREGROUND, rgb};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    pub(crate) runs: Vec<Run>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Run {
    pub(crate) column: u16,
    /// Its width in columns.
    pub(crate) width: u16,
    pub(crate) text: String,
    pub(crate) style: TextStyle,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct TextStyle {
    /// `None` for the colours of the window.
    pub(crate) ink: Option<u32>,
    pub(crate) paper: Option<u32>,
    pub(crate) is_bold: bool,
    pub(crate) is_dim: bool,
    pub(crate) is_italic: bool,
    pub(crate) is_underlined: bool,
    /// Whether characters take two columns. Fonts differ in their width.
    pub(crate) is_wide: bool,
}

impl TextStyle {
    fn of(cell: &vt100::Cell) -> Self {
        let (ink, paper) = (rgb(cell.fgcolor(), cell.bold()), rgb(cell.bgcolor(), false));
        let (ink, paper) = if cell.inverse() {
            (Some(paper.unwrap_or(BACKGROUND)), Some(ink.unwrap_or(FOREGROUND)))
        } else {
            (ink, paper)
        };
        Self {
            ink,
            paper,
            is_bold: cell.bold(),
            is_dim: cell.dim(),
            is_italic: cell.italic(),
            is_underlined: cell.underline(),
            is_wide: cell.is_wide(),
        }
    }

    /// Whether a blank is visible.
    fn shows_blanks(self) -> bool {
        self.paper.is_some() || self.is_underlined
    }
}

impl Row {
    pub(crate) fn of(screen: &vt100::Screen, row: u16, columns: u16) -> Self {
        let mut runs: Vec<Run> = Vec::new();
        for column in 0..columns {
            let Some(cell) = screen.cell(row, column).filter(|cell| !cell.is_wide_continuation()) else {
                continue;
            };
            let (style, text) = (TextStyle::of(cell), cell.contents());
            let text = if text.is_empty() { " " } else { text };
            let width = if cell.is_wide() { 2 } else { 1 };
            match runs.last_mut() {
                Some(run) if run.style == style && run.column + run.width == column => {
                    run.text.push_str(text);
                    run.width += width;
                }
                _ => runs.push(Run { column, width, text: text.to_owned(), style }),
            }
        }
        runs.iter_mut().for_each(Run::trim);
        runs.retain(|run| !run.text.is_empty());
        Self { runs }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The text alone.
    #[cfg(test)]
    pub(crate) fn plain(&self) -> String {
        self.runs.iter().map(|run| run.text.as_str()).collect()
    }
}

impl Run {
    /// Removes invisible blanks at both ends.
    fn trim(&mut self) {
        if self.style.shows_blanks() {
            return;
        }
        let before = self.text.len() - self.text.trim_start_matches(' ').len();
        let after = self.text.len() - self.text.trim_end_matches(' ').len();
        let text = self.text.trim_matches(' ').to_owned();
        let blanks = if text.is_empty() { self.text.len() } else { before + after };
        self.column += u16::try_from(before).unwrap_or(0);
        self.width = self.width.saturating_sub(u16::try_from(blanks).unwrap_or(0));
        self.text = text;
    }
}
