//! Fits lines with styles into the rows of a screen.

use unicode_width::UnicodeWidthChar as _;

/// How far continuation rows are indented.
const HANGING: usize = 2;

/// The characters of a line with their widths. Style sequences have no width.
fn measured(line: &str) -> impl Iterator<Item = (char, usize)> {
    let mut is_style = false;
    line.chars().map(move |c| {
        let was_style = is_style;
        is_style = c == '\u{1b}' || (is_style && !c.is_ascii_alphabetic());
        (c, if was_style || is_style { 0 } else { c.width().unwrap_or(0) })
    })
}

/// The columns of a line.
pub(crate) fn columns(line: &str) -> usize {
    measured(line).map(|(_, columns)| columns).sum()
}

/// Cuts a line to `width` columns, with an ellipsis at the end.
pub(crate) fn cut(line: &str, width: usize) -> String {
    if columns(line) <= width {
        return line.to_owned();
    }
    let (mut kept, mut used) = (String::new(), 1);
    for (c, columns) in measured(line) {
        used += columns;
        if used > width {
            break;
        }
        kept.push(c);
    }
    let reset = if kept.contains('\u{1b}') { "\u{1b}[0m" } else { "" };
    kept + "…" + reset
}

/// Folds a line into rows of at most `width` columns, between words if possible. Only the space at a break is
/// dropped.
pub(crate) fn folded(line: &str, width: usize) -> Vec<String> {
    let leading = line.chars().take_while(|c| *c == ' ').count();
    let indent = (leading + HANGING).min(width / 2);
    let (mut rows, mut row, mut used) = (Vec::new(), String::new(), 0);
    // The last space in this row, and the columns before it.
    let mut blank = None;
    for (c, columns) in measured(line) {
        if used + columns > width && used > indent {
            let (end, begun) = match (c, blank) {
                (' ', _) => (row.len(), used),
                (_, Some((at, columns))) => (at, columns),
                (_, None) => (row.len(), used),
            };
            let rest = row.split_off(end);
            let rest = rest.strip_prefix(' ').unwrap_or(&rest);
            let next = " ".repeat(indent) + rest;
            used = indent + used.saturating_sub(begun + usize::from(blank.is_some() && c != ' '));
            rows.push(std::mem::replace(&mut row, next));
            blank = None;
            if c == ' ' {
                continue;
            }
        }
        if c == ' ' && used > indent {
            blank = Some((row.len(), used));
        }
        row.push(c);
        used += columns;
    }
    rows.push(row);
    rows
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::terminal::{Style, styled};

    fn wide(row: &str) -> usize {
        measured(row).map(|(_, columns)| columns).sum()
    }

    #[test]
    fn a_line_is_cut_at_the_edge_of_the_screen() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
        assert_eq!(cut("日本語", 5), "日本…");
        let name = styled("name", Style::Name);
        assert_eq!(cut(&name, 4), name);
        assert_eq!(cut(&name, 3), "\u{1b}[1;36mna…\u{1b}[0m");
    }

    #[test]
    fn a_line_goes_on_below_itself() {
        assert_eq!(folded("one two three", 20), ["one two three"]);
        assert_eq!(folded("one two three", 9), ["one two", "  three"]);
        assert_eq!(folded("  one two", 6), ["  one", "   two"]);
        assert_eq!(folded("onetwothree", 6), ["onetwo", "  thre", "  e"]);
        assert_eq!(folded("one two", 3), ["one", " tw", " o"]);
        assert_eq!(folded("", 3), [""]);
        let name = styled("one two", Style::Name);
        assert_eq!(folded(&name, 4), ["\u{1b}[1;36mone", "  tw", "  o\u{1b}[0m"]);
    }

    proptest! {
        #[test]
        fn no_row_is_too_wide_and_nothing_is_lost(line in "[ a-c日\u{301}]{0,40}", width in 2_usize..12) {
            let rows = folded(&line, width);
            for row in &rows {
                prop_assert!(wide(row) <= width.max(3), "{rows:?}");
            }
            let dense = |text: &str| text.replace(' ', "");
            prop_assert_eq!(dense(&rows.concat()), dense(&line));
            prop_assert!(wide(&cut(&line, width)) <= width);
        }
    }
}
